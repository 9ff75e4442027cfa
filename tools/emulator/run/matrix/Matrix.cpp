// ldmatrix and stmatrix.
//
// Of a matrix of 8x8 elements of 16 bits, lane l holds two elements in one
// word: (l / 4, l % 4 * 2) and the next one in the row.
#include "tools/emulator/run/Block.h"

#include <cstring>

namespace cria::emulator {
namespace {

using Matrix8 = uint16_t[8][8];

/// The address of row `row` of matrix `matrix`, from the lane that has it.
uint64_t rowAddress(const Warp &warp, unsigned matrix, unsigned row) {
  return warp.lanes[matrix * 8 + row].in[0];
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

} // namespace cria::emulator
