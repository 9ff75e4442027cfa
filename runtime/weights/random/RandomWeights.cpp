#include "runtime/weights/random/RandomWeights.h"

#include "runtime/Abi.h"
#include "runtime/base/Clones.h"
#include "runtime/weights/Binding.h"
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
  static constexpr char suffix[] = "norm.weight";
  constexpr size_t length = sizeof(suffix) - 1;
  return shape.size() == 1 && name.size() >= length &&
         name.compare(name.size() - length, length, suffix) == 0;
}

void fillRandom(std::byte *to, DType type, const std::string &name,
                const Shape &shape, uint64_t seed, uint64_t begin,
                uint64_t end) {
  uint64_t start =
      seed + criaFnv1a64(CRIA_FNV_OFFSET, name.data(), name.size());
  auto draw = [&](auto fill, auto *elements) {
    if (isNorm(name, shape))
      fill(elements, start, begin, end, 0.1, 1, 1);
    else
      fill(elements, start, begin, end, 0.02, std::sqrt(3.0), 0);
  };
  if (type == DType::F32)
    draw(fill<F32>, reinterpret_cast<float *>(to));
  else if (type == DType::F16)
    draw(fill<F16>, reinterpret_cast<uint16_t *>(to));
  else
    draw(fill<BF16>, reinterpret_cast<uint16_t *>(to));
}

std::vector<RandomSource> randomSources(const Manifest &manifest,
                                        const Loras &loras) {
  std::vector<RandomSource> sources;
  for (const WeightSpec &weight : manifest.weights) {
    if (weight.adapter || isAlias(manifest, weight, loras))
      continue;
    const WeightSpec &origin = manifest.origin(weight);
    DType drawn = isBlocked(origin.type) ? DType::F32 : origin.type;
    for (uint64_t i = 0; i < weight.tensors(); ++i)
      sources.push_back({&weight, weight.slot + i, origin.name(i), drawn,
                         loras.find(weight.name(i))});
  }
  return sources;
}

/// Writes elements [begin, end) of the tensor.
static void fillElements(std::byte *to, const RandomSource &source,
                         uint64_t seed, uint64_t begin, uint64_t end) {
  const WeightSpec &weight = *source.weight;
  static constexpr uint64_t most = 16 * mostBlockElements;
  alignas(sizeof(float)) std::byte drawn[most * sizeof(float)];
  for (uint64_t first = begin; first < end; first += most) {
    uint64_t count = std::min(most, end - first);
    std::byte *piece = to + bytesOf(weight.type, first - begin);
    bool inPlace = source.drawn == weight.type;
    std::byte *from = inPlace ? piece : drawn;
    fillRandom(from, source.drawn, source.name, weight.shape, seed, first,
               first + count);
    if (source.update)
      source.update->merge(from, source.drawn, piece, weight.type, first,
                           count);
    else if (!inPlace)
      convertElements(from, source.drawn, piece, weight.type, count);
  }
}

void fillRandom(std::byte *to, const RandomSource &source, uint64_t seed,
                uint64_t begin, uint64_t end) {
  const WeightSpec &weight = *source.weight;
  weight.forEachStretch(begin, end, [&](uint64_t first, uint64_t count) {
    fillElements(to, source, seed, first, first + count);
    to += bytesOf(weight.type, count);
  });
}

} // namespace cria
