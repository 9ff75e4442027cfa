#include "runtime/weights/Elements.h"

#include "runtime/weights/Floats.h"

#include <cstring>

namespace cria {

/// Converts elements that are stored plus 1 and subtracts the 1; computes in
/// f32.
static void convertLessOne(const std::byte *from, DType fromType, std::byte *to,
                           DType type, uint64_t count) {
  static constexpr uint64_t most = mostBlockElements;
  float values[most];
  auto *bytes = reinterpret_cast<std::byte *>(values);
  while (count > 0) {
    uint64_t part = std::min(count, most);
    convertElements(from, fromType, bytes, DType::F32, part);
    for (uint64_t i = 0; i < part; ++i)
      values[i] -= 1;
    convertElements(bytes, DType::F32, to, type, part);
    from += bytesOf(fromType, part);
    to += bytesOf(type, part);
    count -= part;
  }
}

void convertStretch(const TensorEntry &tensor, const std::byte *from,
                    uint64_t first, uint64_t count, const LoraUpdate *update,
                    std::byte *to, DType type) {
  if (tensor.plusOne) // weights of norms, which adapters do not change
    convertLessOne(from, *tensor.type, to, type, count);
  else if (update)
    update->merge(from, *tensor.type, to, type, first, count);
  else if (*tensor.type == type) // converting blocks would round them again
    memcpy(to, from, bytesOf(type, count));
  else
    convertElements(from, *tensor.type, to, type, count);
}

Result<std::vector<float>> readFloats(const File &file,
                                      const TensorEntry &tensor) {
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  Status status = file.read(tensor.begin, bytes.data(), bytes.size());
  if (!status.ok())
    return status;
  std::vector<float> values(elementsOf(*tensor.type, bytes.size()));
  convertElements(bytes.data(), *tensor.type,
                  reinterpret_cast<std::byte *>(values.data()), DType::F32,
                  values.size());
  return values;
}

} // namespace cria
