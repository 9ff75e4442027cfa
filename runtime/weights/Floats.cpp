#include "runtime/weights/Floats.h"

#include "runtime/base/Clones.h"
#include "runtime/weights/Blocks.h"

#include <algorithm>

namespace cria {

static double load(const std::byte *from, DType type, uint64_t index) {
  uint16_t half;
  float single;
  double value;
  switch (type) {
  case DType::F64:
    std::memcpy(&value, from + index * 8, sizeof(value));
    return value;
  case DType::F32:
    std::memcpy(&single, from + index * 4, sizeof(single));
    return static_cast<double>(single);
  case DType::F16:
    std::memcpy(&half, from + index * 2, sizeof(half));
    return static_cast<double>(widenF16(half));
  case DType::BF16:
    std::memcpy(&half, from + index * 2, sizeof(half));
    return static_cast<double>(widenBf16(half));
  case DType::F8_E4M3:
    return static_cast<double>(widenF8(static_cast<uint8_t>(from[index])));
  default:
    return 0;
  }
}

static void store(std::byte *to, DType type, uint64_t index, double value) {
  uint16_t half = 0;
  float single = static_cast<float>(value);
  switch (type) {
  case DType::F64:
    std::memcpy(to + index * 8, &value, sizeof(value));
    return;
  case DType::F32:
    std::memcpy(to + index * 4, &single, sizeof(single));
    return;
  case DType::F16:
    half = narrowToF16(roundToOdd(value));
    break;
  case DType::BF16:
    half = narrowToBf16(roundToOdd(value));
    break;
  default:
    return;
  }
  std::memcpy(to + index * 2, &half, sizeof(half));
}

/// With the types known at compile time the loop is a few instructions.
template <DType From, DType To>
CRIA_VECTOR_CLONES static void convert(const std::byte *from, std::byte *to,
                                       uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    store(to, To, i, load(from, From, i));
}

template <DType From>
static void convertFrom(const std::byte *from, std::byte *to, DType toType,
                        uint64_t count) {
  switch (toType) {
  case DType::F32:
    return convert<From, DType::F32>(from, to, count);
  case DType::F16:
    return convert<From, DType::F16>(from, to, count);
  case DType::BF16:
    return convert<From, DType::BF16>(from, to, count);
  case DType::F64:
    return convert<From, DType::F64>(from, to, count);
  default:
    return;
  }
}

/// convertElements() for types without blocks.
static void convertPlain(const std::byte *from, DType fromType, std::byte *to,
                         DType toType, uint64_t count) {
  switch (fromType) {
  case DType::F32:
    return convertFrom<DType::F32>(from, to, toType, count);
  case DType::F16:
    return convertFrom<DType::F16>(from, to, toType, count);
  case DType::BF16:
    return convertFrom<DType::BF16>(from, to, toType, count);
  case DType::F64:
    return convertFrom<DType::F64>(from, to, toType, count);
  case DType::F8_E4M3:
    return convertFrom<DType::F8_E4M3>(from, to, toType, count);
  default:
    return;
  }
}

/// convertElements() for at most `mostBlockElements`, if one of the types is a
/// block format.
static void convertBlocks(const std::byte *from, DType fromType, std::byte *to,
                          DType toType, uint64_t count) {
  float values[mostBlockElements];
  auto *bytes = reinterpret_cast<std::byte *>(values);
  if (isBlocked(fromType))
    dequantize(from, fromType, values, count);
  else
    convertPlain(from, fromType, bytes, DType::F32, count);
  if (isBlocked(toType))
    quantize(values, to, toType, count);
  else
    convertPlain(bytes, DType::F32, to, toType, count);
}

void convertElements(const std::byte *from, DType fromType, std::byte *to,
                     DType toType, uint64_t count) {
  if (!isBlocked(fromType) && !isBlocked(toType))
    return convertPlain(from, fromType, to, toType, count);
  for (uint64_t first = 0; first < count; first += mostBlockElements)
    convertBlocks(from + bytesOf(fromType, first), fromType,
                  to + bytesOf(toType, first), toType,
                  std::min(mostBlockElements, count - first));
}

bool isExact(DType from, DType to) {
  if (from == to || to == DType::F64)
    return true;
  if (isBlocked(to))
    return false;
  if (from == DType::F8_E4M3 || (from == DType::MXFP4 && to == DType::BF16))
    return true;
  return to == DType::F32 && from != DType::F64;
}

} // namespace cria
