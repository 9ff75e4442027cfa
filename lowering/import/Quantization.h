/// Checks quantization_config, which says how a checkpoint stores weights. The
/// runtime reads it again with the tensors; see
/// runtime/weights/packed/PackedConfig.h. Here every key is understood or
/// refused.
#pragma once

#include "lowering/import/Ledger.h"

namespace cria {

/// Checks the value of `key`: an object with the keys of one of the methods
/// that the runtime reads.
void checkQuantization(ObjectReader &reader, llvm::StringRef key,
                       ConfigDraft &draft);

} // namespace cria
