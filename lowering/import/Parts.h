/// The parts of models that read images: vision towers and projectors.
#pragma once

#include "lowering/import/Config.h"
#include "lowering/support/Json.h"

namespace cria {

/// Reads a part of the model of `config` other than its text: ImagePart::name.
llvm::Expected<ModelConfig> parsePart(const nlohmann::json &config,
                                      const Family &outer, llvm::StringRef name,
                                      llvm::ArrayRef<std::string> allowed);

} // namespace cria
