/// The config of a GGUF file.
#pragma once

#include "lowering/import/Config.h"

namespace cria {

/// Whether `path` names a GGUF file.
bool isGguf(llvm::StringRef path);

/// Reads the metadata of a GGUF file, or of all parts of a split one. Unknown
/// keys and tensors are refused, except those in `allowed`. Errors start with
/// the path.
llvm::Expected<ModelConfig> readGgufConfig(llvm::StringRef path,
                                           llvm::ArrayRef<std::string> allowed);

} // namespace cria
