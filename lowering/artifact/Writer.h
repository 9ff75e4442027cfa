/// Writes the artifact, a shared object with the footer of runtime/Abi.h, and
/// other files.
#pragma once

#include "runtime/OutputFile.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Appends the footer: the place of the section ".cria.manifest", sizes, and
/// the checksum.
llvm::Error appendFooter(llvm::SmallVectorImpl<char> &sharedObject);

/// Writes `bytes` to the file `name`, or to standard output for "-"; see
/// runtime/OutputFile.h. If a signal ends the process, no partial file is left.
llvm::Error writeFile(llvm::StringRef name, llvm::ArrayRef<char> bytes,
                      OutputFile::Named named = OutputFile::Named::ByUser);

} // namespace cria
