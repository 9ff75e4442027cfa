/// The common parts of tiled products: the elements of a tile, and the use of
/// its sums. A tile has rows of the input and rows of weights. A unit has one
/// or two sums, and each sum has a row of weights: a gated unit has the two
/// products, a rotated pair its two columns. A thread holds all sums of
/// neighbouring units, and computes and stores these units as vectors.
///
/// If there are too few tiles for the machine, several blocks share a tile, and
/// each takes a part of k. All write their sums to memory. The block that
/// arrives last adds the sums, always in the order of the parts, and finishes
/// the tile. If the blocks of a tile are a cluster, which runs at the same
/// time, they wait for each other, and each finishes a part of the tile.
///
/// If rows choose their weights, a tile has rows that chose the same matrix
/// (Groups.h): row r of the tile is the choice `order[first + r]`.
#pragma once

#include "lowering/gpu/schedules/Groups.h"
#include "lowering/gpu/schedules/Tuning.h"

namespace cria::simt {

/// Threads of a block, unless its shape says otherwise.
inline constexpr int64_t kGemmThreads = 128;

/// A kernel is for inputs of more than `above` rows and at most `most`. How
/// many rows there are may be known at run time only.
struct GemmRows {
  llvm::StringLiteral suffix; // of the kernel's name
  int64_t above, most;
};

/// How products are cut into blocks: tiles of m rows of the input and n of
/// weights, that take `step` terms of k at once. If tiles are too few, k is
/// split into parts until there are `blocks` blocks, or nearly.
struct GemmShape {
  int64_t m, n, step, blocks;
  SplitSizes splits;
  /// The block's first threads, which hold the sums.
  int64_t threads = kGemmThreads;
  /// Tiles down that there are at least, so that splits are fewer.
  int64_t leastDown = 1;
  /// Whether the grid is persistent: `blocks` blocks in pairs, and a pair of
  /// blocks takes one pair of tiles after the other.
  bool persistent = false;
  /// Whether the blocks of a tile are a cluster. Their number is then the same
  /// for all numbers of rows.
  bool clusters = false;
  /// The tiles, if rows choose their weights.
  Groups groups = {};
};

class GemmTile {
public:
  GemmTile(Launch &launch, llvm::ArrayRef<Work> works, const GemmShape &shape,
           const GemmRows &rows);
  virtual ~GemmTile() = default;

  /// Memory of blocks that share a tile: their sums, and how many have arrived.
  struct Splits {
    mlir::Value sums, arrivals;
  };
  /// Tiles whose sums such memory has room for; zeros count as many arrivals.
  int64_t splitTiles() const { return splits == 1 ? 0 : tiles() * room; }
  int64_t tileSplits() const { return splits; }
  int64_t sumsOfTile() const { return m * n; }
  /// Builds the kernel and its launch. Each work begins with a tile of its own.
  /// `memory` is for the splits of tiles, if there are any.
  void emit(const Splits &memory);

protected:
  /// An element's address, and whether it exists: else it counts as zero, and
  /// the address is that of some other. Null where all of them exist.
  struct Guarded {
    Address address;
    mlir::Value exists;
  };
  /// The sums of neighbouring units at a row of the tile: `values[s][i]` is sum
  /// s of unit `unit + i` of the tile. `unit` is a multiple of their number.
  struct Sums {
    mlir::Value row, unit;
    llvm::SmallVector<llvm::SmallVector<mlir::Value>> values;
  };
  /// What a row of the weights' tile belongs to: a unit, and one of its sums.
  struct UnitSum {
    mlir::Value unit, sum;
  };
  /// Where a tile begins: its first unit and row. A work has `units` of them,
  /// the input `rows`. The block's steps of k are [first, end).
  struct Corner {
    mlir::Value unit, units, row, rows, first, end;
    /// For each work but the first, whether the tile belongs to it or to a
    /// later work.
    llvm::SmallVector<mlir::Value> reached;
    /// Which tile of all works, and of those down.
    mlir::Value tile, tileRow;
    /// The splits of the tile, which one is the block's, and whether the block
    /// finishes or splits a tile at all: null where that is always so.
    mlir::Value splits, split, exists;
    /// Of a pair of blocks, whether this is the first or the second (0, 1), and
    /// whether both have the same weights.
    mlir::Value ofPair, sharesWeights;
  };

  /// Of the input at (row, k) of the tile, of the weights at (row, k).
  Guarded elementX(const Corner &corner, mlir::Value row, mlir::Value column) {
    return elementOf(x, k, corner, row, column);
  }
  /// The same for an operand with `length` elements per input row, such as
  /// block scales.
  Guarded elementOf(const Operand &operand, int64_t length,
                    const Corner &corner, mlir::Value row, mlir::Value column);
  Guarded elementW(const Corner &corner, const UnitSum &row,
                   mlir::Value column);

  /// Multiplies and finishes all tiles of the block. The input has `rows` rows.
  virtual void multiplyTiles(mlir::Value rows) = 0;
  /// multiplyTiles of a grid with a block for each tile and split. `prefetch`
  /// reads weights only, so that it may run before the previous launch has
  /// ended; it asks itself whether the tile exists. `multiply` returns a
  /// thread's sums over the block's steps of k.
  void
  multiplyOne(mlir::Value rows,
              llvm::function_ref<std::vector<Sums>(const Corner &)> multiply,
              llvm::function_ref<void(const Corner &)> prefetch = nullptr);
  /// For a persistent grid: how many turns all pairs of blocks need, and the
  /// tile that this block takes in a turn. If the number of tiles is odd, the
  /// second block of the last pair has no tile (`exists` is false).
  mlir::Value turns(mlir::Value rows);
  Corner cornerOf(mlir::Value turn, mlir::Value rows);
  /// Adds up the splits of a tile, if there are any, and finishes it.
  virtual void finishTile(const Corner &corner, std::vector<Sums> sums);
  /// The same where the blocks of a tile are a cluster: each finishes a part.
  /// `barrier` is a barrier of the cluster's threads, which orders what they
  /// write. `placeOf` gives the row and the unit of sums number `number`, an
  /// i32, of a thread's `sums`, which all have as many values.
  void finishCluster(const Corner &corner, llvm::ArrayRef<Sums> sums,
                     llvm::function_ref<void()> barrier,
                     llvm::function_ref<std::pair<mlir::Value, mlir::Value>(
                         mlir::Value number)>
                         placeOf);
  /// Shared memory that nobody reads any more once all threads have called
  /// `finishTile` and passed one more barrier.
  virtual Rows freeMemory() const = 0;
  /// A barrier of the threads that hold sums.
  virtual void barrier() { b.barrier(); }
  /// Parts that a thread finishes its sums in, at least: one after the other,
  /// what they read fits registers.
  virtual size_t finishedParts() const { return 1; }
  /// Bytes of shared memory that the launch says.
  virtual int64_t launchedBytes() const { return 0; }
  int64_t unitsOfTile() const { return n / sumsOfUnit(); }
  int64_t sumsOfUnit() const {
    return static_cast<int64_t>(works[0].sums.size());
  }

  /// Builds `body`, which runs if `exists`: always if that is null.
  void when(mlir::Value exists, llvm::function_ref<void()> body);

  Launch &launch;
  KernelBuilder &b;
  llvm::ArrayRef<Work> works;
  /// Terms of a product, elements of a row of weights, the tile's size, and its
  /// steps of k.
  int64_t k, weightLength, m, n, steps;
  Operand x;
  std::vector<llvm::SmallVector<Operand>> weights; // of each sum of each work
  /// Tiles that the units of each work take.
  llvm::SmallVector<int64_t> workTiles;
  /// Elements that lie side by side in all operands; in the input alone if
  /// weights are in blocks.
  int64_t width;

private:
  /// The row of the works at a place.
  mlir::Value rowAt(mlir::Value place);
  void restrict(mlir::Value &exists, mlir::Value at, mlir::Value end);
  mlir::Value orZero(mlir::Value exists, mlir::Value at);
  int64_t tiles() const;
  mlir::Value setSplits(Corner &corner);
  void setSteps(Corner &corner, mlir::Value each);
  void setUnits(Corner &corner);
  Corner cornerOf(mlir::Value x, mlir::Value y, mlir::Value rows);
  llvm::SmallVector<mlir::Value> grid();
  Address sumsOfSplit(const Corner &corner, mlir::Value split, int64_t count);
  mlir::Value isFinisher(const Corner &corner,
                         llvm::ArrayRef<mlir::Value> values);
  llvm::SmallVector<mlir::Value> merged(const Corner &corner, int64_t count);
  llvm::SmallVector<mlir::Value> mergedPart(const Corner &corner, int64_t count,
                                            mlir::Value part, int64_t size);
  void leaveSums(const Corner &corner, llvm::ArrayRef<mlir::Value> values);
  void finishSplits(const Corner &corner, std::vector<Sums> sums);
  void finishWorks(const Corner &corner, llvm::ArrayRef<Sums> sums);
  bool hasWholeTiles() const;
  void finish(const Work &work, const Corner &corner,
              llvm::ArrayRef<Sums> sums);

  /// In an invariant function, the number of rows that splits are chosen for,
  /// whatever the rows of a call.
  std::optional<int64_t> fixedRows;
  GemmRows rows;
  GemmShape shape;
  Splits memory;
  /// Whether there is one tile down.
  bool few;
  /// Whether a tile has `splits` splits for all numbers of rows.
  bool isFixed() const { return few || shape.clusters; }
  /// Splits of a tile at most, and of a tile and those below it together.
  int64_t splits, room;
  /// Whether steps end where k does.
  bool wholeSteps;
};

/// The largest number of rows of an invariant function, whose rows have the
/// same bits for any number of rows; nothing for other functions.
std::optional<int64_t> invariantRows(mlir::func::FuncOp kernel);

} // namespace cria::simt
