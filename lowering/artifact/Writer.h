/// The artifact: a shared object with the footer of runtime/Abi.h.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Appends the footer: where the section ".cria.manifest" lies, sizes and the
/// checksum.
llvm::Error appendFooter(llvm::SmallVectorImpl<char> &sharedObject);

/// Replaces `path` by `bytes`, all or nothing: written to an unnamed file of
/// the same folder, synced, then renamed. Where the file system has no unnamed
/// files the temporary one is removed on failure and on signals.
llvm::Error writeAtomically(llvm::StringRef path, llvm::ArrayRef<char> bytes);

} // namespace cria
