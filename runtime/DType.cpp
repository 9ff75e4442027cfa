#include "runtime/DType.h"

namespace cria {

const char *dtypeName(DType type) {
  switch (type) {
  case DType::F32:
    return "f32";
  case DType::F16:
    return "f16";
  case DType::BF16:
    return "bf16";
  case DType::F64:
    return "f64";
  }
  return "";
}

std::optional<DType> dtypeNamed(const std::string &name) {
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    if (name == dtypeName(type))
      return type;
  return std::nullopt;
}

uint64_t dtypeSize(DType type) {
  return type == DType::F64 ? 8 : type == DType::F32 ? 4 : 2;
}

std::optional<uint64_t> tensorBytes(const Shape &shape, uint64_t bits) {
  uint64_t total = bits;
  for (uint64_t size : shape)
    if (__builtin_mul_overflow(total, size, &total))
      return std::nullopt;
  if (__builtin_add_overflow(total, uint64_t(7), &total))
    return std::nullopt;
  return total / 8;
}

std::string shapeText(const Shape &shape) {
  std::string text = "[";
  for (uint64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

} // namespace cria
