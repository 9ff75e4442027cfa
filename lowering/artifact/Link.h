/// Linking in process: a user needs no linker.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Links one relocatable object to a shared object that needs no library.
/// Nothing touches the disk. Not reentrant, as lld is not.
llvm::Expected<llvm::SmallVector<char, 0>>
linkSharedObject(llvm::ArrayRef<char> object);

} // namespace cria
