/// What cuTensorMapEncodeTiled writes.
#pragma once

#include <cstdint>

namespace cria::emulator {

/// A tiled tensor in global memory, innermost dimension first.
struct TensorMap {
  static constexpr uint32_t kMagic = 0x70616d74;

  uint32_t magic = kMagic;
  uint8_t rank = 0, elementBytes = 0, swizzleBytes = 0, fillsWithNan = 0;
  uint64_t address = 0;
  uint64_t dims[5] = {};    ///< elements
  uint64_t strides[4] = {}; ///< bytes, from dimension 1 on
  uint16_t box[5] = {};     ///< elements
};
static_assert(sizeof(TensorMap) <= 128);

} // namespace cria::emulator
