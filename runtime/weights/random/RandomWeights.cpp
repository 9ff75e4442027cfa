#include "runtime/weights/random/RandomWeights.h"

#include "runtime/Abi.h"
#include "runtime/base/Clones.h"
#include "runtime/weights/Floats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cria {

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static uint64_t bitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// The 16-bit float with `mantissa` bits of mantissa and the given exponent
/// bias that is nearest to `value`, ties to even. Branch-free, so that the loop
/// around it is vectorized: a model has billions of elements.
template <int mantissa, uint64_t bias> static uint16_t narrow(double value) {
  constexpr int drop = 52 - mantissa;
  constexpr uint64_t smallest = (1023 - bias + 1) << 52; // normal
  uint64_t bits = bitsOf(value);
  uint64_t sign = bits >> 48 & 0x8000;
  bits &= ~uint64_t(0) >> 1;
  uint64_t half = (uint64_t(1) << (drop - 1)) - 1;
  uint64_t normal =
      (bits - ((1023 - bias) << 52) + half + (bits >> drop & 1)) >> drop;
  // Adding 2^k rounds to units of the smallest subnormal number.
  double shift = std::ldexp(1.0, drop - static_cast<int>(bias) + 1);
  uint64_t subnormal = bitsOf(std::fabs(value) + shift) - bitsOf(shift);
  return static_cast<uint16_t>(sign | (bits < smallest ? subnormal : normal));
}

namespace {

struct F32 {
  using Bits = float;
  static float of(double value) { return static_cast<float>(value); }
};

struct F16 {
  using Bits = uint16_t;
  static uint16_t of(double value) { return narrow<10, 15>(value); }
};

struct BF16 {
  using Bits = uint16_t;
  static uint16_t of(double value) { return narrow<7, 127>(value); }
};

} // namespace

/// A number in [-1, 1): 2u - 1, where u is the top 24 bits of a hash as a
/// fraction.
static double signedUnit(uint64_t hash) {
  return 2 * (static_cast<double>(static_cast<int32_t>(hash >> 40)) * 0x1p-24) -
         1;
}

/// Draws elements [begin, end): a number from -1 to 1, times `scale`, times
/// `factor`, plus `mean`.
template <typename T>
CRIA_VECTOR_CLONES static void fill(typename T::Bits *to, uint64_t start,
                                    uint64_t begin, uint64_t end, double scale,
                                    double factor, double mean) {
  constexpr uint64_t step = 0x9e3779b97f4a7c15u;
  for (uint64_t i = begin; i < end; ++i)
    to[i - begin] =
        T::of(signedUnit(mix(start + (i + 1) * step)) * scale * factor + mean);
}

static bool isNorm(const std::string &name, const Shape &shape) {
  static constexpr char suffix[] = ".weight";
  constexpr size_t length = sizeof(suffix) - 1;
  return shape.size() == 1 && name.size() >= length &&
         name.compare(name.size() - length, length, suffix) == 0;
}

namespace {

class Random : public Elements {
public:
  Random(DType type, const std::string &name, const Shape &shape, uint64_t seed)
      : drawn(type), isNorm(cria::isNorm(name, shape)),
        start(seed + criaFnv1a64(CRIA_FNV_OFFSET, name.data(), name.size())) {}

  Status write(uint64_t first, uint64_t count, DType type,
               std::byte *to) const override;

private:
  void draw(uint64_t begin, uint64_t end, std::byte *to) const;

  const DType drawn;
  const bool isNorm;
  const uint64_t start; // of the hashes
};

} // namespace

/// Draws elements [begin, end) in the type `drawn`.
void Random::draw(uint64_t begin, uint64_t end, std::byte *to) const {
  auto by = [&](auto fill, auto *elements) {
    if (isNorm)
      fill(elements, start, begin, end, 0.1, 1, 1);
    else
      fill(elements, start, begin, end, 0.02, std::sqrt(3.0), 0);
  };
  if (drawn == DType::F32)
    by(fill<F32>, reinterpret_cast<float *>(to));
  else if (drawn == DType::F16)
    by(fill<F16>, reinterpret_cast<uint16_t *>(to));
  else
    by(fill<BF16>, reinterpret_cast<uint16_t *>(to));
}

Status Random::write(uint64_t first, uint64_t count, DType type,
                     std::byte *to) const {
  uint64_t end = first + count;
  if (type == drawn) {
    draw(first, end, to);
    return Status();
  }
  alignas(sizeof(float)) std::byte values[defaultPiece * sizeof(float)];
  for (uint64_t part; first < end; first += part) {
    part = std::min(defaultPiece, end - first);
    draw(first, first + part, values);
    convertElements(values, drawn, to, type, part);
    to += bytesOf(type, part);
  }
  return Status();
}

ElementsPtr randomElements(DType type, const std::string &name,
                           const Shape &shape, uint64_t seed) {
  return std::make_unique<Random>(type, name, shape, seed);
}

} // namespace cria
