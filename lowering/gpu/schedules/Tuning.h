/// What schedules choose, by op, shape and chip: tiles, stages, splits. Beside
/// each choice stand its reason and what the model says of it
/// (scripts/predict_cuda.py; docs/performance/nvidia.md, "Predicted times"): us
/// of a run of Llama-3.2-1B in bf16 on an H200, if nothing else is said.
/// Emitters read these rows and have no tiles of their own; what follows from
/// layouts of an instruction stays with them.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <limits>

namespace cria::simt {

/// Multiprocessors of an H200. Grids are cut for it; an A100 has 108.
inline constexpr int64_t kMultiprocessors = 132;

//===----------------------------------------------------------------------===//
// Products of few rows (decode): Gemv.h, GemvRing.h
//===----------------------------------------------------------------------===//

/// How weights are cut: threads of a block, rows that a warp multiplies side by
/// side at most, and warps that fill the machine, for which rows become fewer.
struct GemvCut {
  int64_t threads, warpRows, warps;
};
/// Sixteen warps a multiprocessor: with rows cut for them all products but the
/// head's are one or two waves (gate_up 1.55, others 0.4 to 0.5).
inline constexpr GemvCut kFloatGemv = {128, 4, 16 * kMultiprocessors};
/// Weights in blocks: many warps share an input, whose codes take longer to
/// compute than numbers do.
inline constexpr GemvCut kBlockGemv = {256, 4, 16 * kMultiprocessors};

/// The ring of a warp: pieces of 16 bytes that a lane asks for ahead, of all of
/// its rows; turns ahead at least, of each; turns of a stage. Without turns of
/// a stage there is no such ring.
struct GemvRingSize {
  int64_t ahead, turns, grain;
};
/// Floats, by cp.async: eight stages of one row or four of more. Twelve warps
/// have 32 KiB in flight, 23 keep an H200's memory busy. KiB in flight, and us,
/// on an A100: qkv 50, 8.7 (floor 7.2); out 34, 6.3 (4.8); gate_up 94, 39.9
/// (38.4); down 64, 20.7 (19.2); head 94, 302 (300).
inline constexpr GemvRingSize kFloatRing = {7, 3, 1};
/// Floats, by cp.async.bulk (sm_90a): the same bytes, all of them ahead. KiB in
/// flight by bulk and by cp.async, us by bulk: qkv 47, 40; 3.1 (floor 2.9). out
/// 40, 27; 2.1 (2.0). gate_up 159, 117; 15.6 (15.6). down 55, 52; 7.8 (7.8).
/// head 159, 117; 122 (122). With four turns a
/// stage ptxas spills in `down`; with twice the bytes five blocks of
/// Llama-2-7B's `out` and `down` fit a multiprocessor, where eight are one
/// wave.
inline constexpr GemvRingSize kFloatBulkRing = {8, 4, 2};
/// Blocks of q8_0 and q4_0, by cp.async: sixteen warps have 32 KiB in flight.
/// KiB of q8_0: qkv 44, out 29, gate_up 116, down 61, head 92.
inline constexpr GemvRingSize kBlockRing = {4, 1, 1};
/// Blocks by cp.async.bulk (sm_90a): none. With {4, 2, 1} less is in flight:
/// qkv 27, out 14, gate_up 119, down 30, head 123.
inline constexpr GemvRingSize kBlockBulkRing = {0, 0, 0};

/// Blocks that a multiprocessor shall have for floats: eight, or as many as the
/// sums of their lanes leave registers for, and shared memory of an A100's.
/// Else ptxas spills to have more.
inline constexpr int64_t kGemvBlocks = 8, kGemvLaneSums = 16,
                         kGemvMemory = 164 << 10;
/// Blocks for weights in blocks: two of 256 threads with 128 registers.
inline constexpr int64_t kBlockGemvBlocks = 2;

//===----------------------------------------------------------------------===//
// Products of many rows (prompts): GemmTile.h
//===----------------------------------------------------------------------===//

/// The inputs that a kernel is for: those of more than `above` rows, and `most`
/// at most. Their number may be known at run time only.
struct GemmRows {
  llvm::StringLiteral suffix; // of the kernel's name
  int64_t above, most;
};
inline constexpr int64_t kAnyRows = std::numeric_limits<int64_t>::max();
inline constexpr GemmRows kAllRows = {"", 0, kAnyRows};
/// Few rows take as long as their weights; tiles for many would be half empty
/// with some.
inline constexpr GemmRows kMmaRows[] = {
    {"_few", 0, 32}, {"_some", 32, 64}, {"", 64, kAnyRows}};

/// A tile of mma.sync, m rows by n weights; the blocks until which k is split;
/// stages of the ring by cp.async, 48 KiB at most; how many of the four warps
/// are down; and blocks that a multiprocessor has at least.
struct MmaTileSize {
  int64_t m, n, splitBlocks, stages, warpsDown;
  int32_t blocks;
};
/// Terms of k in a stage.
inline constexpr int64_t kMmaTerms = 32;
/// Blocks where k is split: three on each multiprocessor. Two do not keep its
/// units busy, and each split costs as much traffic as 170 terms of k.
inline constexpr int64_t kGemmBlocks = 3 * kMultiprocessors;
/// For the inputs of kMmaRows.
inline constexpr MmaTileSize kMmaTiles[] = {
    // As long as their weights: seven stages of 4 KiB of them in flight a
    // block, twice what is needed. gate_up of 16 rows 16.5, floor 15.6.
    {32, 64, 2 * kMultiprocessors, 8, 1, 4},
    // 43 operations a byte of L2. gate_up of 64 rows 26; with the next 32.
    {64, 128, kGemmBlocks, 4, 2, 3},
    // 64 operations a byte, 32 products for eight ldmatrix, not 16 for six.
    // A prompt of 512 3699; with the one before 5008. Its 255 registers leave
    // two blocks on a multiprocessor.
    {128, 128, kGemmBlocks / 2, 3, 2, 2}};
static_assert(std::size(kMmaTiles) == std::size(kMmaRows));
/// Blocks where k is split and the blocks of a tile are a cluster (sm_90a), for
/// the inputs of kMmaRows but the last. Of some rows one on each multiprocessor
/// has 24 KiB of weights in flight, and fewer sums go to the L2 cache and back.
/// qkv of 64 rows 5.8, out 4.6, down 11.4; where the last block combines 7.7,
/// 6.5, 14.
inline constexpr int64_t kClusterBlocks[] = {2 * kMultiprocessors,
                                             kMultiprocessors};

/// Tiles side by side from which on k is not split: with one block on seven of
/// eight multiprocessors, and 24 KiB of weights on their way to each, all the
/// bandwidth is used. gate_up of 64 rows (128 tiles) 18.9, with three splits
/// 24.9.
inline constexpr int64_t kWholeTiles = kMultiprocessors * 7 / 8;

/// Splits of a tile at most, which the block that arrives last adds up, and the
/// terms of k of each at least, which fill the stages of shared memory.
inline constexpr int64_t kMostSplits = 8, kLeastTerms = 256;

/// A tile of wgmma (sm_90a): rows, terms of a step, stages by TMA; rows of
/// weights of a wide tile and a narrow one; and the terms of k of each split
/// that a wide one has at least. A block is alone on its multiprocessor.
struct WgmmaTileSize {
  int64_t m, terms, stages, wide, narrow, wideTerms;
};
/// Blocks in clusters of two share weights: a wide tile makes 128 operations of
/// a byte that L2 gives, a narrow one 85; 790 TFLOP/s want 144. A narrow one
/// leaves fewer multiprocessors idle where tiles are few. In 1024 terms a wide
/// one reads 256 KiB less than two narrow ones, as much as the sums of a split
/// move. 192 KiB. By the model, of 512 rows: gate_up 51.8, `down` 33.9 (42.8 in
/// narrow tiles); a prompt 2196, by mma.sync 3699, without clusters 3047.
inline constexpr WgmmaTileSize kWgmmaTile = {128, 64, 4, 256, 128, 1024};
/// Splits for which a tile is still wide, at most: each adds its sums, and a
/// wide tile has twice as many. `down` of Llama-3.2-1B, four splits, takes 5 us
/// less in narrow tiles on an H100, as measured; `out` and `down` of 8B, two
/// splits, are faster in wide ones.
inline constexpr int64_t kWideSplits = 2;

/// A tile of products with weights in blocks, by mma.sync in int8: 64 x 64,
/// blocks of 32 numbers in a step, stages.
struct BlockTileSize {
  int64_t m, n, blocks, stages, warpsDown;
};
/// Integers become floats in registers: one tile for all rows leaves four
/// blocks on a multiprocessor, 22 instructions an MMA.
inline constexpr BlockTileSize kBlockTile = {64, 64, 4, 2, 2};

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Decode: blocks, if the cache is long enough for them, and keys of a split
/// where it is full, at least. On CUDA cores four blocks are on each of an
/// H200's multiprocessors, 98 % of five on each of an A100's.
inline constexpr int64_t kDecodeBlocks = 4 * kMultiprocessors,
                         kKeysPerSplit = 64;
/// On tensor cores one, which has 16 KiB in flight, 32 if heads are 128 wide.
/// Each split is one more to begin and to combine: a token of Llama-3.2-1B
/// takes 961 us on an H100, 1021 after 4096 others, as measured; with four
/// blocks 990 and 1055.
inline constexpr int64_t kScanTileBlocks = kMultiprocessors;
/// Up to this number of tokens, each token of a batch has as many splits as a
/// decode. A larger batch has fewer splits for each token, so that at most
/// eight times as many blocks leave states.
inline constexpr int64_t kBatchTokens = 8;
/// On CUDA cores: turns of keys that are copied ahead, and bytes of a turn's
/// keys a lane. Three blocks have 48 KiB in flight.
inline constexpr int64_t kScanAhead = 2, kScanBytes = 32;
/// On tensor cores, where query heads share keys: keys of a tile, and query
/// heads of a block at most. 117 instructions a warp for 4 KiB of keys and
/// values, on CUDA cores 345 for 2.
inline constexpr int64_t kScanTile = 16, kScanHeads = 16;

/// A prompt by mma.sync: rows of a block. 2048 tokens: 56 (heads 64 wide), 119
/// (128). Four blocks of 128 threads fit by registers.
inline constexpr int64_t kPromptRows = 64;
/// By wgmma (sm_90a): rows of a block, keys of a turn, stages of the ring,
/// 160 KiB at most. 2048 tokens: 31, 62; 192 rows would take a third off where
/// there are tokens enough, and have 86 blocks for 132 multiprocessors at 512.
struct PromptTileSize {
  int64_t rows, keys, stages;
};
inline constexpr PromptTileSize kWgmmaPrompt = {128, 128, 2};

/// Registers of a thread that copies beside warpgroups, and of one that
/// multiplies: 128 x 40 + 256 x 232 are all that a multiprocessor has.
inline constexpr int64_t kCopyRegisters = 40, kMultiplyRegisters = 232;

} // namespace cria::simt
