/// Small siblings of configs, for debugging.
#pragma once

#include "lowering/import/Config.h"

namespace cria {

/// The config.json of a model like `config` with the sizes that are listed, as
/// in "layers=2,hidden=64,vocab=512". Sizes that go with them follow: heads,
/// the MLP, lists of an entry a layer or a frequency, special ids. The family,
/// types, rope, biases, windows and factors stay, and so does whether heads
/// share keys; as long as there are enough layers, one of each kind is left.
/// Unknown keys are refused but for those in `allowed`. Errors are one line,
/// such as "layers=40: expected 1 to 32, what the config has".
llvm::Expected<std::string>
shrinkConfig(const ModelConfig &config, llvm::StringRef sizes,
             llvm::ArrayRef<std::string> allowed = {});

} // namespace cria
