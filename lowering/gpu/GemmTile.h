/// What all tiled products share: which elements a tile takes, and what becomes
/// of its sums. A tile has rows of the input and rows of weights, one for each
/// sum of a unit: both products of a gated unit, both columns of a rotated
/// pair; two at most. A thread ends with both, and with those of neighbouring
/// units, which it computes and stores as vectors.
#pragma once

#include "lowering/gpu/Parts.h"

namespace cria::simt {

class GemmTile {
public:
  /// A tile of m rows of the input and n of weights, that takes `step` terms of
  /// k at once.
  GemmTile(Launch &launch, llvm::ArrayRef<Work> works, int64_t m, int64_t n,
           int64_t step);
  virtual ~GemmTile() = default;

  /// Builds the kernel: block (i, j) has the units of tile i, rows from j * m
  /// on. Each work begins with a tile of its own.
  void emit();
  int64_t unitsOfTile() const { return n / sumsOfUnit(); }
  int64_t rowsOfTile() const { return m; }
  int64_t blocks() const;

protected:
  /// An element's address, and whether it exists: else it counts as zero, and
  /// the address is that of some other. Null where all of them exist.
  struct Source {
    Address address;
    mlir::Value exists;
  };
  /// The sums of neighbouring units at a row of the tile: `values[s][i]` is sum
  /// s of unit `unit + i` of the tile. `unit` is a multiple of their number.
  struct Sums {
    mlir::Value row, unit;
    llvm::SmallVector<llvm::SmallVector<mlir::Value>> values;
  };
  /// A unit of the tile, and one of its sums.
  struct UnitSum {
    mlir::Value unit, sum;
  };
  /// Where a block's tile begins: its first unit and row. A work has `units` of
  /// them, the input `rows`.
  struct Corner {
    mlir::Value unit, units, row, rows;
    /// For each work but the first, whether the tile is of it or one behind.
    llvm::SmallVector<mlir::Value> reached;
  };

  /// Of the input at (row, k) of the tile, of the weights at (row, k).
  Source elementX(const Corner &corner, mlir::Value row, mlir::Value column) {
    return elementOf(x, k, corner, row, column);
  }
  /// The same of what has `length` elements for each row of the input.
  Source elementOf(const Operand &operand, int64_t length, const Corner &corner,
                   mlir::Value row, mlir::Value column);
  Source elementW(const Corner &corner, mlir::Value row, mlir::Value column);

  /// What a row of the weights' tile is of.
  virtual UnitSum unitOf(mlir::Value row) = 0;
  /// The sums that a thread holds at the end.
  virtual std::vector<Sums> multiply(const Corner &corner) = 0;
  int64_t sumsOfUnit() const {
    return static_cast<int64_t>(works[0].sums.size());
  }

  Launch &launch;
  KernelBuilder &b;
  llvm::ArrayRef<Work> works;
  /// Terms of a product, elements of a row of weights, and the tile's size.
  int64_t k, weightLength, m, n;
  Operand x;
  std::vector<llvm::SmallVector<Operand>> weights; // of each sum of each work
  /// Elements that lie side by side in all operands.
  int64_t width;

private:
  void restrict(mlir::Value &exists, mlir::Value at, mlir::Value end);
  mlir::Value orZero(mlir::Value exists, mlir::Value at);
  Corner cornerOf();
  bool hasWholeTiles() const;
  mlir::Value isWhole(const Work &work, const Corner &corner);
  void finish(const Work &work, const Corner &corner,
              llvm::ArrayRef<Sums> sums);
  void finishWhole(const Work &work, const Corner &corner,
                   llvm::ArrayRef<Sums> sums);
  void finishAny(const Work &work, const Corner &corner,
                 llvm::ArrayRef<Sums> sums);
  using VectorBody =
      llvm::function_ref<void(mlir::Value row, mlir::Value unit,
                              mlir::ValueRange products, int64_t width)>;
  void forEachVector(const Work &work, const Corner &corner,
                     llvm::ArrayRef<Sums> sums, VectorBody body);

  /// Tiles that the units of each work take.
  llvm::SmallVector<int64_t> workTiles;
  /// Whether steps end where k does.
  bool wholeSteps;
};

/// By fma, any types (GemmFma.cpp).
std::unique_ptr<GemmTile> makeFmaGemm(Launch &launch,
                                      llvm::ArrayRef<Work> works);
/// On tensor cores (GemmMma.cpp), for what `takesMma` says.
std::unique_ptr<GemmTile> makeMmaGemm(Launch &launch,
                                      llvm::ArrayRef<Work> works);
bool takesMma(mlir::Type input, mlir::Type weight, int64_t k);
/// Weights in blocks, on tensor cores (cuda/GemmBlocks.cpp); takesBlockGemm
/// says which (Parts.h).
std::unique_ptr<GemmTile> makeBlockGemm(Launch &launch,
                                        llvm::ArrayRef<Work> works);

/// Threads of a block, of either kind.
inline constexpr int64_t kGemmThreads = 128;

} // namespace cria::simt
