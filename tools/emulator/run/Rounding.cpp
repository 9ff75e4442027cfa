#include "tools/emulator/run/Rounding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cria::emulator {
namespace {

struct Layout {
  int digits;   ///< of the mantissa after the first digit
  int exponent; ///< of the smallest normal number
  int unused;   ///< low bits of the word that are zero
  uint64_t sign, infinity, greatest, nan; ///< words; E4M3 has no infinity
};

const Layout &layoutOf(FloatFormat format) {
  static constexpr Layout kLayouts[] = {
      {10, -14, 0, 0x8000, 0x7c00, 0x7bff, 0x7fff},
      {7, -126, 0, 0x8000, 0x7f80, 0x7f7f, 0x7fff},
      {10, -126, 13, 0x80000000, 0x7f800000, 0x7f7fe000, 0x7fffffff},
      {23, -126, 0, 0x80000000, 0x7f800000, 0x7f7fffff, 0x7fffffff},
      {52, -1022, 0, uint64_t(1) << 63, 0x7ff0000000000000, 0x7fefffffffffffff,
       0x7ff8000000000000},
      {3, -6, 0, 0x80, 0x7f, 0x7e, 0x7f},
      {2, -14, 0, 0x80, 0x7c, 0x7b, 0x7f},
  };
  return kLayouts[size_t(format)];
}

/// Rounds m / 2^shift to an integer.
uint64_t divide(uint64_t m, int shift, RoundingMode mode, bool isNegative) {
  if (shift <= 0)
    return m << -shift;
  bool allGone = shift >= 64;
  uint64_t whole = allGone ? 0 : m >> shift;
  uint64_t rest = allGone ? m : m & ((uint64_t(1) << shift) - 1);
  // The remainder has `shift` bits; from 65 bits on, it is less than one half.
  uint64_t half = shift > 64 ? UINT64_MAX : uint64_t(1) << (shift - 1);
  bool up = false;
  switch (mode) {
  case RoundingMode::Nearest:
    up = rest > half || (rest == half && shift <= 64 && whole & 1);
    break;
  case RoundingMode::NearestAway:
    up = rest >= half && shift <= 64;
    break;
  case RoundingMode::Zero:
    break;
  case RoundingMode::Down:
    up = rest && isNegative;
    break;
  case RoundingMode::Up:
    up = rest && !isNegative;
    break;
  }
  return whole + up;
}

/// Whether a number that is too large becomes infinite.
bool goesToInfinity(Rounding how, bool isNegative) {
  switch (how.mode) {
  case RoundingMode::Zero:
    return false;
  case RoundingMode::Down:
    return isNegative;
  case RoundingMode::Up:
    return !isNegative;
  default:
    return true;
  }
}

/// The word of m * 2^exponent.
///
/// The words of positive numbers have the same order as the numbers. So a
/// mantissa that rounds up to 2^(digits + 1) carries into the exponent and
/// needs no special case; nor does a subnormal number that becomes a normal
/// one.
uint64_t encode(uint64_t m, int exponent, bool isNegative, Rounding how) {
  const Layout &to = layoutOf(how.to);
  uint64_t sign = isNegative ? to.sign : 0;
  if (m == 0)
    return sign;
  int highest = 63 - __builtin_clzll(m) + exponent;
  int least = to.exponent - to.digits; // of the smallest subnormal number
  int unit = std::max(highest, to.exponent) - to.digits;
  uint64_t mantissa = divide(m, unit - exponent, how.mode, isNegative);
  uint64_t field = uint64_t(unit - least);
  uint64_t word = ((field << to.digits) + mantissa) << to.unused;
  if (word <= to.greatest)
    return sign | word;
  bool infinite = !how.finite && goesToInfinity(how, isNegative);
  return sign | (infinite ? to.infinity : to.greatest);
}

} // namespace

uint64_t roundFloat(double value, Rounding how) {
  const Layout &to = layoutOf(how.to);
  if (std::isnan(value))
    return to.nan;
  bool isNegative = std::signbit(value);
  if (std::isinf(value))
    return (isNegative ? to.sign : 0) |
           (how.finite ? to.greatest : to.infinity);
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
  int field = int(bits >> 52 & 0x7ff);
  if (field)
    fraction |= uint64_t(1) << 52;
  return encode(fraction, std::max(field, 1) - 1075, isNegative, how);
}

uint64_t roundInteger(uint64_t magnitude, bool isNegative, Rounding how) {
  return encode(magnitude, 0, isNegative, how);
}

} // namespace cria::emulator
