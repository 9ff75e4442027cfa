/// The artifact, a shared object with the footer of runtime/Abi.h, and files.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Appends the footer: where the section ".cria.manifest" lies, sizes and the
/// checksum.
llvm::Error appendFooter(llvm::SmallVectorImpl<char> &sharedObject);

/// Writes `bytes` as the file `name`, or to standard output for "-"; see
/// runtime/OutputFile.h. Where a signal ends the process, nothing of it is
/// left.
llvm::Error writeFile(llvm::StringRef name, llvm::ArrayRef<char> bytes);

} // namespace cria
