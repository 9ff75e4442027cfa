// Products of matrices: mma.sync and wmma.mma.
#include "tools/emulator/run/Block.h"
#include "tools/emulator/run/matrix/Fragment.h"
#include "tools/emulator/run/matrix/Narrow.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace cria::emulator {
namespace {

/// Elements from the low bits of words.
/// @{
template <MmaElement> struct Reader;

template <> struct Reader<MmaElement::BFloat16> {
  static float get(uint32_t bits) { return floatOfBFloat(uint16_t(bits)); }
};
template <> struct Reader<MmaElement::Half> {
  static float get(uint32_t bits) { return floatOfHalf(uint16_t(bits)); }
};
template <> struct Reader<MmaElement::TFloat32> {
  static float get(uint32_t bits) {
    bits &= ~0x1fffu; // the device ignores the low bits
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
};
template <> struct Reader<MmaElement::E4M3> {
  static float get(uint32_t bits) {
    float sign = bits & 0x80 ? -1.0f : 1.0f;
    unsigned exponent = bits >> 3 & 15, mantissa = bits & 7;
    if (exponent == 15 && mantissa == 7)
      return std::numeric_limits<float>::quiet_NaN();
    float magnitude = exponent
                          ? std::ldexp(float(8 + mantissa), int(exponent) - 10)
                          : std::ldexp(float(mantissa), -9);
    return sign * magnitude;
  }
};
template <> struct Reader<MmaElement::E5M2> {
  static float get(uint32_t bits) { return floatOfHalf(uint16_t(bits << 8)); }
};
template <> struct Reader<MmaElement::Signed4> {
  static int32_t get(uint32_t bits) { return int32_t(bits << 28) >> 28; }
};
template <> struct Reader<MmaElement::Unsigned4> {
  static int32_t get(uint32_t bits) { return int32_t(bits & 15); }
};
template <> struct Reader<MmaElement::Signed8> {
  static int32_t get(uint32_t bits) { return int8_t(bits); }
};
template <> struct Reader<MmaElement::Unsigned8> {
  static int32_t get(uint32_t bits) { return uint8_t(bits); }
};
/// @}

/// Calls `run` with the reader of an element type as its type.
template <typename Run> void withReader(MmaElement element, Run run) {
  switch (element) {
#define CASE(name)                                                             \
  case MmaElement::name:                                                       \
    return run(Reader<MmaElement::name>());
    CASE(BFloat16)
    CASE(Half)
    CASE(TFloat32)
    CASE(E4M3)
    CASE(E5M2)
    CASE(Signed4)
    CASE(Unsigned4)
    CASE(Signed8)
    CASE(Unsigned8)
#undef CASE
  default:
    break;
  }
}

/// A (m x k), B (k x n) and C (m x n), in rows, large enough for every shape.
template <typename T> struct Product {
  MmaShape shape;
  T a[16 * 64], b[16 * 32], c[16 * 16];

  T &sum(unsigned row, unsigned column) { return c[row * shape.n + column]; }
};

#define FOR_EACH_CPU                                                           \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

template <typename T>
[[gnu::always_inline]] inline void multiplyTiles(Product<T> &p) {
  auto [m, n, k] = p.shape;
  for (unsigned tile = 0; tile < n; tile += 8)
    for (unsigned row = 0; row < m; ++row)
      for (unsigned i = 0; i < k; ++i)
        for (unsigned column = tile; column < tile + 8; ++column)
          p.c[row * n + column] += p.a[row * k + i] * p.b[i * n + column];
}

FOR_EACH_CPU void multiply(Product<float> &p) { multiplyTiles(p); }
FOR_EACH_CPU void multiply(Product<int32_t> &p) { multiplyTiles(p); }

/// The device rounds once for each product.
void multiply(Product<double> &p) {
  auto [m, n, k] = p.shape;
  for (unsigned row = 0; row < m; ++row)
    for (unsigned column = 0; column < n; ++column)
      for (unsigned i = 0; i < k; ++i)
        p.c[row * n + column] = std::fma(p.a[row * k + i], p.b[i * n + column],
                                         p.c[row * n + column]);
}

/// The words of A, B and C follow one another in each lane.
struct Operands {
  explicit Operands(const MmaConfig &config)
      : a(FragmentRole::A, config.a, config.shape),
        b(FragmentRole::B, config.b, config.shape),
        c(FragmentRole::C, config.c, config.shape),
        d(FragmentRole::C, config.d, config.shape) {}

  FragmentLayout a, b, c, d;
};

template <typename Reader, typename T>
void gather(T *to, const Warp &warp, unsigned from,
            const FragmentLayout &layout, Reader) {
  unsigned pitch = layout.columns();
  unsigned step = layout.role == FragmentRole::B ? pitch : 1;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned slot = 0; slot < layout.slots(); ++slot) {
      MatrixPlace place = layout.place(lane, slot);
      uint32_t word = warp.lanes[lane].inWords[from + slot];
      for (unsigned i = 0; i < layout.each; ++i)
        to[place.row * pitch + place.column + i * step] =
            Reader::get(word >> (i * layout.bits % 32));
    }
}

/// A or B of f64, with one element in a slot.
void gatherDoubles(double *to, const Warp &warp, unsigned from,
                   const FragmentLayout &layout) {
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned slot = 0; slot < layout.slots(); ++slot) {
      MatrixPlace place = layout.place(lane, slot);
      std::memcpy(&to[place.row * layout.columns() + place.column],
                  &warp.lanes[lane].inWords[from + 2 * slot], 8);
    }
}

template <typename T>
void gatherOperands(Product<T> &p, const Warp &warp, const MmaConfig &config,
                    const Operands &operands) {
  withReader(config.a,
             [&](auto reader) { gather(p.a, warp, 0, operands.a, reader); });
  withReader(config.b, [&](auto reader) {
    gather(p.b, warp, operands.a.words(), operands.b, reader);
  });
}

void gatherOperands(Product<double> &p, const Warp &warp, const MmaConfig &,
                    const Operands &operands) {
  gatherDoubles(p.a, warp, 0, operands.a);
  gatherDoubles(p.b, warp, operands.a.words(), operands.b);
}

/// Calls `run` with each lane, the number of an element of C in the lane, and
/// its place.
template <typename Run>
void forEachElement(const FragmentLayout &layout, Run run) {
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned slot = 0; slot < layout.slots(); ++slot) {
      MatrixPlace place = layout.place(lane, slot);
      for (unsigned i = 0; i < 2; ++i)
        run(lane, slot * 2 + i, place.row, place.column + i);
    }
}

template <typename T>
T elementOfC(const uint32_t *words, unsigned i, bool half) {
  if (half)
    return T(floatOfHalf(uint16_t(words[i / 2] >> (i % 2 * 16))));
  T value;
  std::memcpy(&value, words + i * sizeof(T) / 4, sizeof value);
  return value;
}

/// A sum of floats begins with C. Integers are exact in any order, so C is
/// added last.
template <typename T>
void gatherC(Product<T> &p, const Warp &warp, const MmaConfig &config,
             const Operands &operands) {
  unsigned from = operands.a.words() + operands.b.words();
  forEachElement(operands.c, [&](unsigned lane, unsigned i, unsigned row,
                                 unsigned column) {
    p.sum(row, column) = elementOfC<T>(warp.lanes[lane].inWords + from, i,
                                       config.c == MmaElement::Half);
  });
}

template <typename T>
void scatterD(Product<T> &p, Warp &warp, const MmaConfig &config,
              const Operands &operands) {
  bool half = config.d == MmaElement::Half;
  forEachElement(operands.d, [&](unsigned lane, unsigned i, unsigned row,
                                 unsigned column) {
    uint32_t *words = warp.lanes[lane].outWords;
    T value = p.sum(row, column);
    if (!half)
      std::memcpy(words + i * sizeof(T) / 4, &value, sizeof value);
    else
      words[i / 2] = (i % 2 ? words[i / 2] : 0) |
                     uint32_t(bitsOfHalf(float(value))) << (i % 2 * 16);
  });
}

/// Adds C to the products in p.c.
void addIntegers(Product<int32_t> &p, const Warp &warp, const MmaConfig &config,
                 const Operands &operands) {
  unsigned from = operands.a.words() + operands.b.words();
  forEachElement(operands.c, [&](unsigned lane, unsigned i, unsigned row,
                                 unsigned column) {
    int32_t &to = p.sum(row, column);
    int64_t sum = int64_t(to) + elementOfC<int32_t>(
                                    warp.lanes[lane].inWords + from, i, false);
    if (config.saturates)
      sum = std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
    to = int32_t(sum);
  });
}

template <typename T> void runFloats(Warp &warp, const MmaConfig &config) {
  Operands operands(config);
  Product<T> product;
  product.shape = config.shape;
  gatherOperands(product, warp, config, operands);
  gatherC(product, warp, config, operands);
  multiply(product);
  scatterD(product, warp, config, operands);
}

void runIntegers(Warp &warp, const MmaConfig &config) {
  Operands operands(config);
  Product<int32_t> product;
  product.shape = config.shape;
  std::memset(product.c, 0, sizeof product.c);
  gatherOperands(product, warp, config, operands);
  multiply(product);
  addIntegers(product, warp, config, operands);
  scatterD(product, warp, config, operands);
}

/// The product of two bits is their conjunction or their difference. A register
/// has 32 of them.
void runBits(Warp &warp, const MmaConfig &config) {
  Operands operands(config);
  Product<int32_t> product;
  product.shape = config.shape;
  uint32_t a[16][8], b[8][8]; // rows of A and columns of B
  for (unsigned lane = 0; lane < 32; ++lane) {
    const uint32_t *words = warp.lanes[lane].inWords;
    for (unsigned slot = 0; slot < operands.a.slots(); ++slot) {
      MatrixPlace place = operands.a.place(lane, slot);
      a[place.row][place.column / 32] = words[slot];
    }
    for (unsigned slot = 0; slot < operands.b.slots(); ++slot) {
      MatrixPlace place = operands.b.place(lane, slot);
      b[place.column][place.row / 32] = words[operands.a.words() + slot];
    }
  }
  for (unsigned row = 0; row < config.shape.m; ++row)
    for (unsigned column = 0; column < 8; ++column) {
      int32_t sum = 0;
      for (unsigned i = 0; i < config.shape.k / 32; ++i)
        sum += __builtin_popcount(config.isXor ? a[row][i] ^ b[column][i]
                                               : a[row][i] & b[column][i]);
      product.sum(row, column) = sum;
    }
  addIntegers(product, warp, config, operands);
  scatterD(product, warp, config, operands);
}

} // namespace

void multiplyMatrices(Warp &warp) {
  auto config = MmaConfig::unpacked(warp.lanes[0].config);
  if (config.a == MmaElement::Bit)
    runBits(warp, config);
  else if (config.d == MmaElement::Int32)
    runIntegers(warp, config);
  else if (config.d == MmaElement::Float64)
    runFloats<double>(warp, config);
  else
    runFloats<float>(warp, config);
}

} // namespace cria::emulator
