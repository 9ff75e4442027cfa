/// The data that cuTensorMapEncodeTiled writes and cp.async.bulk.tensor reads.
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
  uint32_t box[5] = {};     ///< elements

  uint32_t rowBytes() const { return box[0] * elementBytes; }
  /// Rows of a box: its elements in all dimensions but the innermost.
  uint64_t rows() const {
    uint64_t count = 1;
    for (unsigned i = 1; i < rank; ++i)
      count *= box[i];
    return count;
  }
  uint64_t boxBytes() const { return rows() * rowBytes(); }
};
static_assert(sizeof(TensorMap) <= 128);

/// A row of a box in global memory. `skipped` bytes lie outside of the tensor;
/// the `bytes` after them, from `address` on, lie in it.
struct TensorRow {
  uint64_t address = 0;
  uint32_t skipped = 0, bytes = 0;
};

/// Row `index` of the box at `coordinates`.
TensorRow rowOf(const TensorMap &map, const int32_t *coordinates,
                uint32_t index);

/// The place of a byte of shared memory in a swizzle of `swizzleBytes` (0, 32,
/// 64 or 128): units of 16 bytes change places inside rows of 128 bytes.
constexpr uint64_t swizzled(uint64_t address, unsigned swizzleBytes) {
  uint64_t units = swizzleBytes ? swizzleBytes / 16 - 1 : 0;
  return address ^ (address >> 7 & units) << 4;
}

} // namespace cria::emulator
