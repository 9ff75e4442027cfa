/// Converts numbers to float formats in every rounding mode, exactly.
#pragma once

#include <cstdint>

namespace cria::emulator {

enum class FloatFormat : uint8_t { F16, BF16, TF32, F32, F64, E4M3, E5M2 };

enum class RoundingMode : uint8_t {
  Nearest,     ///< ties to even: .rn
  NearestAway, ///< ties away from zero: .rna
  Zero,        ///< .rz
  Down,        ///< .rm
  Up           ///< .rp
};

/// How to round, packed into an argument of the functions that translated code
/// calls.
struct Rounding {
  FloatFormat to = FloatFormat::F32;
  RoundingMode mode = RoundingMode::Nearest;
  bool finite = false; ///< .satfinite: the greatest number instead of infinity

  constexpr uint32_t packed() const {
    return uint32_t(to) | uint32_t(mode) << 8 | uint32_t(finite) << 16;
  }
  static constexpr Rounding unpacked(uint32_t bits) {
    return {FloatFormat(bits & 255), RoundingMode(bits >> 8 & 255),
            (bits >> 16 & 1) != 0};
  }
};

/// The bits of `value` in the format. NaN becomes the format's canonical NaN.
uint64_t roundFloat(double value, Rounding how);

/// The bits of an integer in the format.
uint64_t roundInteger(uint64_t magnitude, bool isNegative, Rounding how);

} // namespace cria::emulator
