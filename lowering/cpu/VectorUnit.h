/// The vector unit of a CPU, as far as schedules go by it.
#pragma once

#include <cstdint>

namespace cria {

struct VectorUnit {
  /// f32 values in a vector register.
  int64_t lanes = 8;
  /// Vector registers.
  int64_t registers = 16;
  /// Multiplies pairs of bf16 into f32 (AVX512-BF16 vdpbf16ps) at more than the
  /// rate of f32 FMA.
  bool dotBf16 = false;
  /// Multiplies four neighbours of 8 bits into i32 (vpdpbusd).
  bool dotBytes = false;
  /// Multiplies tiles of bf16 (AMX-BF16).
  bool amx = false;
  /// Multiplies tiles of 8 bits (AMX-INT8).
  bool amxBytes = false;
  /// Rows of a matrix that are read together, far from each other, where a
  /// product with one vector waits for memory. 1: each after the other.
  int64_t streams = 1;
  /// Bytes from what a stream reads to what it asks for meanwhile.
  static constexpr int64_t kBytesAhead = 1024;
  /// Products of matrices are blocked for the second cache, since the third
  /// feeds fewer multiplications than there could be.
  bool blockForL2 = false;
};

} // namespace cria
