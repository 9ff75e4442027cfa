/// Makes small versions of configs, for debugging.
#pragma once

#include "lowering/import/Config.h"

namespace cria {

/// The config.json of a model like `config` with the listed sizes, as in
/// "layers=2,hidden=64,vocab=512". Dependent sizes change, too: heads, the MLP,
/// lists with an entry for each layer or frequency, special ids. The family,
/// types, rope, biases, windows and factors stay, and so does whether heads
/// share keys; if there are enough layers, each kind keeps one. Unknown keys
/// are refused, except those in `allowed`. Errors are one line, such as
/// "layers=40: expected 1 to 32, the config's number".
llvm::Expected<std::string>
shrinkConfig(const ModelConfig &config, llvm::StringRef sizes,
             llvm::ArrayRef<std::string> allowed = {});

} // namespace cria
