// In place of the wing, in a build without it.
#include "runtime/weights/gguf/Tensors.h"

namespace cria::gguf {

Result<std::vector<TensorFile>> openTensors(const std::string &path) {
  return Status(CRIA_UNIMPLEMENTED,
                path + ": this build of libcria reads no GGUF files");
}

} // namespace cria::gguf
