/// The footer of an artifact, a shared object; see runtime/Abi.h.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Appends the footer: the place of the section ".cria.manifest", sizes, and
/// the checksum.
llvm::Error appendFooter(llvm::SmallVectorImpl<char> &sharedObject);

} // namespace cria
