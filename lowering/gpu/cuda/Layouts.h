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
// Sums of both mma, one in a register: the first two moves. wgmma has the same
// for each 8 columns, up to 256.
inline constexpr simt::Place kSums[] = {{0, 1},  {8, 0},  {0, 8},  {0, 16},
                                        {0, 32}, {0, 64}, {0, 128}};

inline const simt::Layout kMmaX = {kPairLanes, kX16};
inline const simt::Layout kMmaW = {kPairLanes, kW16};
inline const simt::Layout kMmaBytesX = {kByteLanes, kX8};
inline const simt::Layout kMmaBytesW = {kByteLanes, kW8};
inline const simt::Layout kMmaSums = {kPairLanes,
                                      llvm::ArrayRef(kSums).take_front(2)};
/// The sums of a warp of a warpgroup, of up to 256 columns: warp i has rows 16
/// i to 16 i + 15. Products of mma that lie side by side have this layout, too.
inline const simt::Layout kWgmmaSums = {kPairLanes, kSums};

/// The row, and the chunk of eight elements in it, whose address a lane gives
/// to ldmatrix.x4. Its four matrices have 8 rows of a chunk each. For x they
/// are rows 0-7 and 8-15 of chunk 0, then of chunk 1; for w chunks 0 and 1 of
/// rows 0-7, then of rows 8-15.
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
