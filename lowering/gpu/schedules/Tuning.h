/// The sizes that schedules are built with: tiles, stages, splits. A schedule
/// has no sizes of its own, except those that an instruction dictates.
///
/// Each row below is one schedule, or what several share, and each number has a
/// name. docs/performance/nvidia.md ("Sizes of schedules") says why a number is
/// as it is, and what the model predicts for it. A user can change the numbers
/// by a file: cria-compile --schedules.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <array>
#include <limits>

namespace cria::simt {

/// Multiprocessors of an H200. Grids are cut for it; an A100 has 108.
inline constexpr int64_t kMultiprocessors = 132;

/// Shared memory of a block that a kernel declares, and that a launch gives on
/// Hopper, at most, in bytes.
inline constexpr int64_t kDeclaredMemory = 48 << 10,
                         kLaunchedMemory = 227 << 10;

/// Products of few rows (Gemv.h, GemvRing.h).
struct GemvSizes {
  int64_t threads;  ///< of a block
  int64_t warpRows; ///< rows of weights that a warp multiplies side by side
  int64_t warps;    ///< with fewer than these, a warp takes fewer rows
  // The ring of a warp.
  int64_t ahead; ///< pieces of 16 bytes that a lane copies ahead, of all rows
  int64_t turns; ///< turns that are copied ahead of each row, at least
  int64_t grain; ///< turns of a stage
  int64_t resident; ///< blocks that a multiprocessor shall have
};

/// How the terms of a tiled product are split over blocks, if its tiles are too
/// few (GemmTile.h).
struct SplitSizes {
  int64_t wholeTiles; ///< tiles side by side from which on k is not split
  int64_t most;       ///< splits of a tile
  int64_t leastTerms; ///< of a split
  int64_t blocks;     ///< until which k is split, if the tile does not say
};

/// A tile of products of many rows, by mma.sync.
struct TileSizes {
  int64_t rows;          ///< of the inputs that it is for, at most
  int64_t m, n;          ///< rows of the input, rows of weights
  int64_t splitBlocks;   ///< blocks until which k is split
  int64_t clusterBlocks; ///< the same if the splits of a tile are a cluster
  int64_t stages;        ///< of the ring
  int64_t terms;         ///< of a stage
  int64_t warpsDown;     ///< of four
  int64_t resident;      ///< blocks that a multiprocessor shall have
};

/// Products of many rows by warpgroups: tiles of 128 rows of the input.
struct WarpgroupSizes {
  int64_t blocks;       ///< of the grid, which is persistent
  int64_t stages;       ///< of the ring, 64 terms each
  int64_t wide, narrow; ///< rows of weights of a tile
  int64_t wideTerms;    ///< of a split of a wide tile, at least
  int64_t wideSplits;   ///< that count for the choice of wide tiles, at most
};

/// Attention of one token at a time (AttentionSplits.h).
struct DecodeSizes {
  int64_t keysPerSplit; ///< where the cache is full, at least
  int64_t batchTokens;  ///< of a batch, up to which each has all splits
};
struct ScanSizes {
  int64_t blocks; ///< of a decode whose cache is long enough
  int64_t ahead;  ///< turns of keys that are copied ahead
};
struct ScanTileSizes {
  int64_t blocks;     ///< of a decode whose cache is long enough
  int64_t deepBlocks; ///< of one whose cache is deep, for heads 64 wide
  int64_t deepKeys;   ///< of a split, from which on there are as many blocks
  int64_t heads;      ///< of a block, at most
  int64_t resident;   ///< blocks that a multiprocessor shall have
};

/// Attention of many tokens.
struct PromptSizes {
  int64_t rows; ///< of a block: tokens and query heads
};
struct PromptWarpgroupSizes {
  int64_t keys;   ///< of a turn
  int64_t stages; ///< of the ring
};

/// A matrix that each token updates.
struct RecurrenceSizes {
  int64_t tokens; ///< of half of the buffer, at most
};
/// The same of a prompt by chunks of tokens (RecurrenceMma.cpp).
struct RecurrenceChunkSizes {
  int64_t columns; ///< of a block, at most
  int64_t warps;   ///< that bring the next chunk
};

/// No limit on the rows of an input.
inline constexpr int64_t kAnyRows = std::numeric_limits<int64_t>::max();

struct Tuning {
  /// Rows of the inputs that count as few. More are tiled products.
  int64_t gemvRows = 8;
  // threads, warpRows, warps, ahead, turns, grain, resident
  GemvSizes gemvFloats = {128, 4, 16 * kMultiprocessors, 7, 3, 1, 8};
  GemvSizes gemvFloatsBulk = {128, 4, 16 * kMultiprocessors, 8, 4, 2, 8};
  GemvSizes gemvBlocks = {256, 4, 16 * kMultiprocessors, 4, 1, 1, 2};

  // wholeTiles, most, leastTerms, blocks
  SplitSizes splits = {kMultiprocessors * 7 / 8, 8, 256, 3 * kMultiprocessors};
  /// For few, some and many rows.
  // rows, m, n, splitBlocks, clusterBlocks, stages, terms, warpsDown, resident
  std::array<TileSizes, 3> tiles = {
      {{32, 32, 64, 4 * kMultiprocessors, 4 * kMultiprocessors, 4, 64, 1, 4},
       {64, 64, 64, 2 * kMultiprocessors, 2 * kMultiprocessors, 5, 64, 2, 3},
       {kAnyRows, 128, 128, 3 * kMultiprocessors / 2, 0, 3, 32, 2, 2}}};
  /// For rows that choose their weights, up to 32 for each matrix on average.
  TileSizes grouped = {0, 64, 128, 1, 1, 3, 64, 2, 3};
  // blocks, stages, wide, narrow, wideTerms, wideSplits
  WarpgroupSizes warpgroups = {kMultiprocessors, 4, 256, 128, 1024, 2};

  DecodeSizes decode = {/*keysPerSplit=*/64, /*batchTokens=*/8};
  ScanSizes scan = {/*blocks=*/4 * kMultiprocessors, /*ahead=*/2};
  ScanTileSizes scanTile = {/*blocks=*/kMultiprocessors,
                            /*deepBlocks=*/2 * kMultiprocessors,
                            /*deepKeys=*/256, /*heads=*/16, /*resident=*/4};
  PromptSizes prompt = {/*rows=*/64};
  PromptWarpgroupSizes promptWarpgroups = {/*keys=*/128, /*stages=*/2};
  RecurrenceSizes recurrence = {/*tokens=*/16};
  RecurrenceChunkSizes recurrenceChunks = {/*columns=*/32, /*warps=*/4};

  /// Reads a file, a JSON object of rows and their numbers. Numbers that it
  /// does not have keep their values. An error names the file, the number, and
  /// what was expected.
  static llvm::Expected<Tuning> readFile(llvm::StringRef path);
  /// All numbers as such a file.
  std::string json() const;

  /// The numbers that differ from the defaults, as "gemm_few.m=64,...", in the
  /// order of `json`; and such a text read back.
  std::string changes() const;
  static llvm::Expected<Tuning> readChanges(llvm::StringRef text);

private:
  struct Column;
  llvm::SmallVector<Column, 0> columns();
  llvm::Error set(llvm::StringRef name, int64_t value);
  llvm::Error check() const;
};

} // namespace cria::simt
