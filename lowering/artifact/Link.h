/// Linking in process: a user needs no linker.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

namespace cria {

/// Links relocatable objects to a shared object that needs no library. Nothing
/// is written to disk. Not reentrant, because lld is not.
llvm::Expected<llvm::SmallVector<char, 0>>
linkSharedObject(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects);

/// Links relocatable objects to one relocatable object.
llvm::Expected<llvm::SmallVector<char, 0>>
linkRelocatable(llvm::ArrayRef<llvm::SmallVector<char, 0>> objects);

} // namespace cria
