// Matrix fragments of a warp, as the PTX manual lays them out.
//
// In a fragment of 8x8 elements of 16 bits lane l holds, in one word, elements
// (l / 4, l % 4 * 2) and the one right of it. For mma.sync an operand's word w
// holds E = 32 / bits elements of row l / 4, +8 for odd words of A, from column
// (l % 4) * E + (w / 2) * 4 E on (A), w * 4 E (B, which is stored by columns).
#include "tools/emulator/run/Block.h"

#include <cstring>

namespace cria::emulator {
namespace {

using Matrix8 = uint16_t[8][8];

/// Row `row` of matrix `matrix` is at the address that this lane brought.
uint64_t rowAddress(const Warp &warp, unsigned matrix, unsigned row) {
  return warp.lanes[matrix * 8 + row].in[0];
}

float bfloatOf(uint32_t bits) {
  bits <<= 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

float halfOf(uint32_t bits) {
  auto low = uint16_t(bits);
  _Float16 value;
  std::memcpy(&value, &low, 2);
  return float(value);
}

uint32_t bitsOfHalf(float value) {
  auto half = _Float16(value);
  uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}

float floatElement(MmaConfig::Element type, uint32_t word, unsigned i) {
  uint32_t bits = word >> (16 * i) & 0xffff;
  return type == MmaConfig::BFloat16 ? bfloatOf(bits) : halfOf(bits);
}

int32_t integerElement(MmaConfig::Element type, uint32_t word, unsigned i) {
  uint32_t bits = word >> (8 * i) & 0xff;
  return type == MmaConfig::Signed8 ? int8_t(bits) : int32_t(bits);
}

/// A (16 x k), B (k x 8) and C (16 x 8) of one mma.sync.
template <typename T> struct Product {
  T a[16][32], b[32][8], c[16][8];

  void run(unsigned k) {
    for (unsigned row = 0; row < 16; ++row)
      for (unsigned i = 0; i < k; ++i)
        for (unsigned column = 0; column < 8; ++column)
          c[row][column] += a[row][i] * b[i][column];
  }
};

template <typename T, typename Element>
void gather(Product<T> &product, const Warp &warp, MmaConfig config,
            Element element) {
  unsigned each = config.elementsPerWord();
  for (unsigned lane = 0; lane < 32; ++lane) {
    const uint32_t *words = warp.lanes[lane].inWords;
    unsigned group = lane / 4, member = lane % 4;
    for (unsigned w = 0; w < config.wordsA(); ++w)
      for (unsigned i = 0; i < each; ++i)
        product.a[group + 8 * (w & 1)][w / 2 * 4 * each + member * each + i] =
            element(config.a, words[w], i);
    words += config.wordsA();
    for (unsigned w = 0; w < config.wordsB(); ++w)
      for (unsigned i = 0; i < each; ++i)
        product.b[w * 4 * each + member * each + i][group] =
            element(config.b, words[w], i);
  }
}

const uint32_t *accumulator(const Thread &thread, MmaConfig config) {
  return thread.inWords + config.wordsA() + config.wordsB();
}

/// C in words of one element, or in halves of words.
template <typename T>
void gatherC(Product<T> &p, const Warp &warp, MmaConfig config) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const uint32_t *words = accumulator(warp.lanes[lane], config);
    for (unsigned i = 0; i < 4; ++i) {
      T &to = p.c[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
      if (config.halfResult)
        to = T(halfOf(words[i / 2] >> (16 * (i % 2))));
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
        words[i / 2] |= bitsOfHalf(float(from)) << 16;
    }
  }
}

template <typename T, typename Element>
void multiply(Warp &warp, MmaConfig config, Element element) {
  Product<T> product;
  gather(product, warp, config, element);
  gatherC(product, warp, config);
  product.run(config.k);
  scatterC(product, warp, config);
}

} // namespace

void loadMatrices(Block &block, Warp &warp, int line) {
  auto config = MatrixConfig::unpacked(warp.lanes[0].config);
  for (unsigned m = 0; m < config.count; ++m) {
    Matrix8 matrix;
    for (unsigned row = 0; row < 8; ++row) {
      uint64_t address = rowAddress(warp, m, row);
      block.checkShared(warp.lanes[m * 8 + row], address, 16, 16,
                        Shadow::Kind::Read, line, "ldmatrix");
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
      block.checkShared(warp.lanes[m * 8 + row], address, 16, 16,
                        Shadow::Kind::Write, line, "stmatrix");
      std::memcpy(reinterpret_cast<void *>(address), matrix[row], 16);
    }
  }
}

void multiplyMatrices(Warp &warp) {
  auto config = MmaConfig::unpacked(warp.lanes[0].config);
  if (config.isInteger())
    multiply<int32_t>(warp, config, integerElement);
  else
    multiply<float>(warp, config, floatElement);
}

} // namespace cria::emulator
