/// Files that the compiler writes.
#pragma once

#include "runtime/base/files/OutputFile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Writes `bytes` to the file `name`, or to standard output for "-"; see
/// runtime/base/files/OutputFile.h. If a signal ends the process, no partial
/// file is left.
llvm::Error writeFile(llvm::StringRef name, llvm::ArrayRef<char> bytes,
                      OutputFile::Named named = OutputFile::Named::ByUser);

} // namespace cria
