/// The vector unit of a CPU: the properties that schedules depend on.
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
  /// Multiplies groups of four 8-bit numbers into i32 (vpdpbusd).
  bool dotBytes = false;
  /// Multiplies tiles of bf16 (AMX-BF16).
  bool amx = false;
  /// Multiplies tiles of 8 bits (AMX-INT8).
  bool amxBytes = false;
  /// The number of distant rows of a matrix that are read together when a
  /// product with one vector is limited by memory. 1: one row after the other.
  int64_t streams = 1;
  /// How many bytes ahead of its reads a stream prefetches.
  static constexpr int64_t kBytesAhead = 1024;
  /// Products of matrices are blocked for the L2 cache, because the L3 cache
  /// cannot feed all multiplications.
  bool blockForL2 = false;
};

} // namespace cria
