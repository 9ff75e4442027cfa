#include "runtime/base/DType.h"

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
  case DType::F8_E4M3:
    return "f8_e4m3";
  case DType::Q8_0:
    return "q8_0";
  case DType::Q4_0:
    return "q4_0";
  case DType::Q4_1:
    return "q4_1";
  case DType::Q5_0:
    return "q5_0";
  case DType::Q5_1:
    return "q5_1";
  case DType::Q2_K:
    return "q2_k";
  case DType::Q3_K:
    return "q3_k";
  case DType::Q4_K:
    return "q4_k";
  case DType::Q5_K:
    return "q5_k";
  case DType::Q6_K:
    return "q6_k";
  case DType::IQ4_NL:
    return "iq4_nl";
  case DType::IQ4_XS:
    return "iq4_xs";
  case DType::MXFP4:
    return "mxfp4";
  case DType::FP8:
    return "fp8";
  }
  return "";
}

std::optional<DType> dtypeNamed(const std::string &name) {
  for (DType type : {DType::F32, DType::F16, DType::BF16})
    if (name == dtypeName(type))
      return type;
  return std::nullopt;
}

std::optional<DType> weightTypeNamed(const std::string &name) {
  for (DType type : {DType::Q8_0, DType::Q4_0, DType::FP8})
    if (name == dtypeName(type))
      return type;
  return dtypeNamed(name);
}

BlockSize blockOf(DType type) {
  switch (type) {
  case DType::F32:
    return {1, 4};
  case DType::F16:
  case DType::BF16:
    return {1, 2};
  case DType::F64:
    return {1, 8};
  case DType::F8_E4M3:
    return {1, 1};
  case DType::Q8_0:
  case DType::FP8:
    return {32, 34};
  case DType::Q4_0:
    return {32, 18};
  case DType::Q4_1:
    return {32, 20};
  case DType::Q5_0:
    return {32, 22};
  case DType::Q5_1:
    return {32, 24};
  case DType::Q2_K:
    return {256, 84};
  case DType::Q3_K:
    return {256, 110};
  case DType::Q4_K:
    return {256, 144};
  case DType::Q5_K:
    return {256, 176};
  case DType::Q6_K:
    return {256, 210};
  case DType::IQ4_NL:
    return {32, 18};
  case DType::IQ4_XS:
    return {256, 136};
  case DType::MXFP4:
    return {32, 17};
  }
  return {1, 1};
}

uint64_t bytesOf(DType type, uint64_t count) {
  BlockSize block = blockOf(type);
  return count / block.elements * block.bytes;
}

uint64_t elementsOf(DType type, uint64_t bytes) {
  BlockSize block = blockOf(type);
  return bytes / block.bytes * block.elements;
}

uint64_t alignmentOf(DType type) {
  return isBlocked(type) ? 2 : blockOf(type).bytes; // scales are f16
}

/// The product of `first` and all sizes; nothing if it overflows.
static std::optional<uint64_t> product(const Shape &shape, uint64_t first) {
  uint64_t total = first;
  for (uint64_t size : shape)
    if (__builtin_mul_overflow(total, size, &total))
      return std::nullopt;
  return total;
}

std::optional<uint64_t> tensorBytes(const Shape &shape, DType type) {
  BlockSize block = blockOf(type);
  if (block.elements == 1)
    return product(shape, block.bytes);
  if (shape.empty() || shape.back() % block.elements != 0)
    return std::nullopt;
  Shape blocks = shape;
  blocks.back() /= block.elements;
  return product(blocks, block.bytes);
}

std::optional<uint64_t> packedBytes(const Shape &shape, uint64_t bits) {
  std::optional<uint64_t> total = product(shape, bits);
  if (!total || __builtin_add_overflow(*total, uint64_t(7), &*total))
    return std::nullopt;
  return *total / 8;
}

std::string shapeText(const Shape &shape) {
  std::string text = "[";
  for (uint64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

} // namespace cria
