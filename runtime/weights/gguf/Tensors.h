/// The tensors of a GGUF checkpoint, by the names of Hugging Face's.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/weights/TensorFile.h"

#include <string>
#include <vector>

namespace cria::gguf {

/// Opens `path` and the parts that belong to it. Tensors have Hugging Face's
/// names, and are decorated where their elements differ. Tensors without such a
/// name keep their own. Rope's frequencies are left out, because the config has
/// them.
Result<std::vector<TensorFile>> openTensors(const std::string &path);

} // namespace cria::gguf
