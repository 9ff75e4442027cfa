/// Where tensor cores want elements: the layouts of fragments and addresses
/// that the PTX ISA draws for mma, ldmatrix and wgmma, and the order of 16-byte
/// chunks that keeps the rows of an ldmatrix apart.
///
/// x is the left operand (m x k), w the right one as its rows lie in memory
/// (n x k), the sums are m x n. With g = lane / 4 and t = lane % 4, lane 4g + t
/// is at row g of all three.
#pragma once

#include "lowering/gpu/build/Layout.h"

namespace cria::cuda {

/// Lanes of fragments: row g, column 2t (pairs of 16 bits and sums) or 4t (four
/// bytes).
inline constexpr simt::Place kPairLanes[] = {
    {0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}};
inline constexpr simt::Place kByteLanes[] = {
    {0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}};

// mma.m16n8k16 of bf16 and f16: elements of a lane, two in a register.
inline constexpr simt::Place kX16[] = {{0, 1}, {8, 0}, {0, 8}};
inline constexpr simt::Place kW16[] = {{0, 1}, {0, 8}};
// mma.m16n8k32 of bytes: elements of a lane, four in a register.
inline constexpr simt::Place kX8[] = {{0, 1}, {0, 2}, {8, 0}, {0, 16}};
inline constexpr simt::Place kW8[] = {{0, 1}, {0, 2}, {0, 16}};
// Sums of both, one in a register; those of wgmma go on for 256 columns.
inline constexpr simt::Place kSums[] = {{0, 1},  {8, 0},  {0, 8},  {0, 16},
                                        {0, 32}, {0, 64}, {0, 128}};

inline const simt::Layout kMmaX = {kPairLanes, kX16};
inline const simt::Layout kMmaW = {kPairLanes, kW16};
inline const simt::Layout kMmaBytesX = {kByteLanes, kX8};
inline const simt::Layout kMmaBytesW = {kByteLanes, kW8};
inline const simt::Layout kMmaSums = {kPairLanes,
                                      llvm::ArrayRef(kSums).take_front(2)};
/// The sums of a warpgroup's product with up to 256 columns. Each warp has the
/// 16 rows below those of the warp before. mma's products side by side have the
/// same.
inline const simt::Layout kWgmmaSums = {kPairLanes, kSums};

/// The row whose address a lane gives to ldmatrix.x4, and the chunk of
/// eight elements: matrices for x are two rows of matrices, then the next chunk
/// of both; for w they are two chunks, then those of the next eight rows.
inline constexpr simt::Place kMatricesOfX[] = {
    {1, 0}, {2, 0}, {4, 0}, {8, 0}, {0, 1}};
inline constexpr simt::Place kMatricesOfW[] = {
    {1, 0}, {2, 0}, {4, 0}, {0, 1}, {8, 0}};
inline const simt::Layout kLoadX = {kMatricesOfX, {}};
inline const simt::Layout kLoadW = {kMatricesOfW, {}};

/// What chunk c of row r is stored as: c ^ (the values of r's bits, added up).
/// Rows of 128 bytes as TMA stores them, and rows of 64 bytes.
inline constexpr int64_t kSwizzle128[] = {1, 2, 4}, kSwizzle64[] = {0, 1, 2};
inline mlir::Value swizzle(simt::KernelBuilder &b, mlir::Value row,
                           mlir::Value chunk, llvm::ArrayRef<int64_t> order) {
  return b.exclusiveOr(chunk,
                       simt::spreadBits(b, row, order, /*hasMore=*/true));
}

} // namespace cria::cuda
