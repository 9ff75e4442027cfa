/// Kernels for sm_90a as PTX, written for any size of tile.
#pragma once

#include <cstdint>
#include <string>

namespace cria::emulator {

/// c = a * b^T in bf16, all row-major (or c = a * b): a block computes 128 rows
/// and `columns` columns. One warp group copies tiles of a and b to a ring in
/// shared memory, two others multiply 64 rows each and copy theirs to c:
///
///   gemm(map of a, map of b, map of c, tiles along k)
struct GemmKernel {
  static constexpr uint32_t kThreads = 384, kRows = 128, kDepth = 64;

  uint32_t columns = 128; ///< a multiple of 64 up to 256
  uint32_t stages = 3;
  bool transposesB = true; ///< b is (n x k), else (k x n)

  std::string ptx() const;
  uint32_t tileOfA() const { return kRows * kDepth * 2; }
  uint32_t stageBytes() const { return tileOfA() + columns * kDepth * 2; }
  uint32_t tileOfC() const { return kRows * columns * 2; }
  uint32_t sharedBytes() const {
    return stages * stageBytes() + tileOfC() + 16 * stages;
  }
};

} // namespace cria::emulator
