#include "tools/bisect/Difference.h"

#include <algorithm>
#include <cmath>

namespace cria {

/// Explicit bits of the mantissa.
static int mantissaBits(DType type) {
  return type == DType::BF16 ? 7 : type == DType::F16 ? 10 : 23;
}

DType coarser(DType a, DType b) {
  return mantissaBits(a) < mantissaBits(b) ? a : b;
}

/// Normalized mean squared error. Rounding a number once to bf16 gives 1.3e-6.
Tolerance toleranceOf(DType type, bool isSame, bool isBlocked) {
  double nmse = 1e-7;
  if (type == DType::F16)
    nmse = 1e-5;
  if (type == DType::BF16)
    nmse = isSame ? 1e-5 : 1e-4;
  bool hasBias = isSame && type != DType::F32;
  return {isBlocked ? std::max(nmse, 5e-4) : nmse, hasBias ? 0.25 : INFINITY,
          type};
}

bool Difference::within(const Tolerance &tolerance) const {
  return nmse <= tolerance.nmse && std::abs(bias) <= tolerance.bias;
}

/// got - want away from zero, in units of the last place of `want`. At most 2,
/// so that no single number decides.
static double ulps(double got, double want, DType type) {
  if (want == 0)
    return 0;
  double unit = std::ldexp(1.0, std::ilogb(want) - mantissaBits(type));
  double away = (got - want) / unit * (want < 0 ? -1 : 1);
  return std::isfinite(away) ? std::clamp(away, -2.0, 2.0) : 0;
}

Difference compare(const float *got, const float *want, uint64_t rows,
                   uint64_t width, DType type) {
  Difference worst;
  worst.nmse = -1;
  double bias = 0, all = 0;
  for (uint64_t i = 0; i < rows * width; ++i)
    all += static_cast<double>(want[i]) * want[i];
  // A row of nearly zeros is compared with the size of the other rows.
  double least = all / static_cast<double>(rows * width) * 1e-2 *
                 static_cast<double>(width);
  for (uint64_t row = 0; row < rows; ++row) {
    Difference here;
    double apart = 0, size = 0, most = -1;
    for (uint64_t i = 0; i < width; ++i) {
      float a = got[row * width + i], b = want[row * width + i];
      double by = std::abs(static_cast<double>(a) - b);
      // If only one side is NaN, the difference is infinite.
      if (std::isnan(by))
        by = (std::isnan(a) && std::isnan(b)) || a == b ? 0 : INFINITY;
      apart += by * by;
      size += static_cast<double>(b) * b;
      bias += ulps(a, b, type);
      if (by > most) {
        most = by;
        here.row = row;
        here.column = i;
        here.got = a;
        here.want = b;
      }
    }
    here.nmse = apart == 0 ? 0 : apart / std::max({size, least, 1e-300});
    if (here.nmse > worst.nmse)
      worst = here;
  }
  auto count = static_cast<double>(rows * width);
  worst.bias = count >= 64 ? bias / count : 0;
  return worst;
}

} // namespace cria
