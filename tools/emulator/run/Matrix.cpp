// Matrix fragments of a warp, as the PTX manual lays them out.
//
// In a fragment of 8x8 elements of 16 bits, lane l holds two elements in one
// word: (l / 4, l % 4 * 2) and the next one in the row. For mma.sync, word w of
// an operand holds E = 32 / bits elements of row l / 4 (plus 8 for odd words of
// A), from column (l % 4) * E + (w / 2) * 4 E on (A) or w * 4 E (B, which is
// stored by columns).
#include "tools/emulator/run/Block.h"
#include "tools/emulator/run/Narrow.h"

#include <cstring>

namespace cria::emulator {
namespace {

using Matrix8 = uint16_t[8][8];

/// The address of row `row` of matrix `matrix`, from the lane that has it.
uint64_t rowAddress(const Warp &warp, unsigned matrix, unsigned row) {
  return warp.lanes[matrix * 8 + row].in[0];
}

/// An element type of A and B: `kEach` of them in a word.
/// @{
struct BFloatElement {
  using Sum = float;
  static constexpr unsigned kEach = 2;
  static float get(uint32_t word, unsigned i) {
    return floatOfBFloat(uint16_t(word >> (16 * i)));
  }
};

struct HalfElement {
  using Sum = float;
  static constexpr unsigned kEach = 2;
  static float get(uint32_t word, unsigned i) {
    return floatOfHalf(uint16_t(word >> (16 * i)));
  }
};

struct Signed8Element {
  using Sum = int32_t;
  static constexpr unsigned kEach = 4;
  static int32_t get(uint32_t word, unsigned i) {
    return int8_t(word >> (8 * i));
  }
};

struct Unsigned8Element {
  using Sum = int32_t;
  static constexpr unsigned kEach = 4;
  static int32_t get(uint32_t word, unsigned i) {
    return uint8_t(word >> (8 * i));
  }
};
/// @}

/// A (16 x k), B (k x 8) and C (16 x 8) of one mma.sync.
template <typename T> struct Product { T a[16][32], b[32][8], c[16][8]; };

#define FOR_EACH_CPU                                                           \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))

FOR_EACH_CPU void multiply(Product<float> &p, unsigned k) {
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned i = 0; i < k; ++i)
      for (unsigned column = 0; column < 8; ++column)
        p.c[row][column] += p.a[row][i] * p.b[i][column];
}

FOR_EACH_CPU void multiply(Product<int32_t> &p, unsigned k) {
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned i = 0; i < k; ++i)
      for (unsigned column = 0; column < 8; ++column)
        p.c[row][column] += p.a[row][i] * p.b[i][column];
}

template <typename Element, typename T>
void gatherA(Product<T> &product, const Warp &warp, unsigned words) {
  constexpr unsigned each = Element::kEach;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned w = 0; w < words; ++w) {
      T *to =
          &product
               .a[lane / 4 + 8 * (w & 1)][w / 2 * 4 * each + lane % 4 * each];
      for (unsigned i = 0; i < each; ++i)
        to[i] = Element::get(warp.lanes[lane].inWords[w], i);
    }
}

template <typename Element, typename T>
void gatherB(Product<T> &product, const Warp &warp, unsigned from,
             unsigned words) {
  constexpr unsigned each = Element::kEach;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned w = 0; w < words; ++w)
      for (unsigned i = 0; i < each; ++i)
        product.b[w * 4 * each + lane % 4 * each + i][lane / 4] =
            Element::get(warp.lanes[lane].inWords[from + w], i);
}

/// Gathers C from words of one element, or from halves of words.
template <typename T>
void gatherC(Product<T> &p, const Warp &warp, MmaConfig config) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const uint32_t *words =
        warp.lanes[lane].inWords + config.wordsA() + config.wordsB();
    for (unsigned i = 0; i < 4; ++i) {
      T &to = p.c[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
      if (config.halfResult)
        to = T(HalfElement::get(words[i / 2], i % 2));
      else
        std::memcpy(&to, &words[i], 4);
    }
  }
}

template <typename T>
void scatterC(const Product<T> &p, Warp &warp, MmaConfig config) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    uint32_t *words = warp.lanes[lane].outWords;
    for (unsigned i = 0; i < 4; ++i) {
      const T &from = p.c[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
      if (!config.halfResult)
        std::memcpy(&words[i], &from, 4);
      else if (i % 2 == 0)
        words[i / 2] = bitsOfHalf(float(from));
      else
        words[i / 2] |= uint32_t(bitsOfHalf(float(from))) << 16;
    }
  }
}

template <typename A, typename B> void run(Warp &warp, MmaConfig config) {
  Product<typename A::Sum> product;
  gatherA<A>(product, warp, config.wordsA());
  gatherB<B>(product, warp, config.wordsA(), config.wordsB());
  gatherC(product, warp, config);
  multiply(product, config.k);
  scatterC(product, warp, config);
}

} // namespace

void loadMatrices(Block &block, Warp &warp, int line) {
  auto config = MatrixConfig::unpacked(warp.lanes[0].config);
  for (unsigned m = 0; m < config.count; ++m) {
    Matrix8 matrix;
    for (unsigned row = 0; row < 8; ++row) {
      uint64_t address = rowAddress(warp, m, row);
      block.checkShared(warp.lanes[m * 8 + row], address, 16,
                        {0, 16, Shadow::Kind::Read, line}, "ldmatrix");
      std::memcpy(matrix[row], reinterpret_cast<void *>(address), 16);
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      unsigned row = lane / 4, column = lane % 4 * 2;
      uint16_t low =
          config.transposed ? matrix[column][row] : matrix[row][column];
      uint16_t high =
          config.transposed ? matrix[column + 1][row] : matrix[row][column + 1];
      warp.lanes[lane].outWords[m] = low | uint32_t(high) << 16;
    }
  }
}

void storeMatrices(Block &block, Warp &warp, int line) {
  auto config = MatrixConfig::unpacked(warp.lanes[0].config);
  for (unsigned m = 0; m < config.count; ++m) {
    Matrix8 matrix;
    for (unsigned lane = 0; lane < 32; ++lane) {
      uint32_t word = warp.lanes[lane].inWords[m];
      unsigned row = lane / 4, column = lane % 4 * 2;
      for (unsigned i = 0; i < 2; ++i)
        (config.transposed ? matrix[column + i][row]
                           : matrix[row][column + i]) =
            uint16_t(word >> (16 * i));
    }
    for (unsigned row = 0; row < 8; ++row) {
      uint64_t address = rowAddress(warp, m, row);
      block.checkShared(warp.lanes[m * 8 + row], address, 16,
                        {0, 16, Shadow::Kind::Write, line}, "stmatrix");
      std::memcpy(reinterpret_cast<void *>(address), matrix[row], 16);
    }
  }
}

void multiplyMatrices(Warp &warp) {
  auto config = MmaConfig::unpacked(warp.lanes[0].config);
  bool signedA = config.a == MmaConfig::Signed8;
  bool signedB = config.b == MmaConfig::Signed8;
  if (config.a == MmaConfig::BFloat16)
    run<BFloatElement, BFloatElement>(warp, config);
  else if (config.a == MmaConfig::Half)
    run<HalfElement, HalfElement>(warp, config);
  else if (signedA)
    signedB ? run<Signed8Element, Signed8Element>(warp, config)
            : run<Signed8Element, Unsigned8Element>(warp, config);
  else
    signedB ? run<Unsigned8Element, Signed8Element>(warp, config)
            : run<Unsigned8Element, Unsigned8Element>(warp, config);
}

} // namespace cria::emulator
