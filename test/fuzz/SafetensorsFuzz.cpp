/// The header of a safetensors file; its data as well, whose size must fit.
#include "runtime/weights/Safetensors.h"
#include "test/fuzz/Fuzz.h"

using namespace cria;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Folder folder;
  auto opened = openSafetensors(
      folder.write("model.safetensors", fuzz::textOf(data, size)));
  if (!opened.ok())
    return 0;
  uint64_t end = 0;
  for (const TensorEntry &tensor : opened->tensors) {
    fuzz::require(tensor.begin <= tensor.end && tensor.end <= size,
                  "a tensor lies in the file");
    fuzz::require(end == 0 || tensor.begin == end,
                  "tensors follow one another");
    end = tensor.end;
  }
  return 0;
}
