/// Reads quantization_config, which says how a checkpoint stores weights. The
/// runtime learns most of this from the checkpoint's tensors; see
/// runtime/Packed.h. Here every key is understood or refused.
#pragma once

#include "lowering/import/Reader.h"

namespace cria {

/// Checks the value of `key`: an object with the keys of one of the methods
/// that the runtime reads.
void checkQuantization(ObjectReader &reader, llvm::StringRef key);

} // namespace cria
