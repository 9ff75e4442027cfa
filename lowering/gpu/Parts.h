/// The parts of a kernel function for schedules: what a unit of work stores,
/// and the products that it is computed from.
#pragma once

#include "lowering/gpu/Evaluator.h"

namespace cria::simt {

/// A part, and what its elements are computed from. A unit is one place of all
/// loops except the row's. Its stores and products belong to that place and a
/// row.
struct Work {
  Part part;
  /// The products that the part's stores read, in order, and their definitions.
  llvm::SmallVector<Element> sums;
  llvm::SmallVector<Dot> dots;
  /// The loop over rows of the products' input; none if the input has one row.
  std::optional<unsigned> row;
  /// All other loops.
  llvm::SmallVector<unsigned> unitLoops;
  int64_t units = 1;

  Size rows() const { return row ? part.box[*row] : Size{1}; }
  /// The values of all loops.
  llvm::SmallVector<mlir::Value> loops(KernelBuilder &b, mlir::Value row,
                                       mlir::Value unit) const;
  /// The number of neighbouring units that can be computed and stored as
  /// vectors, from a multiple of that number on: at most `most`.
  int64_t width(Launch &launch, int64_t most) const;
  /// Computes the stored values of `width` units from `unit` on. `sums` are
  /// their products: vectors unless `width` is 1.
  llvm::SmallVector<mlir::Value> compute(Launch &launch, mlir::Value row,
                                         mlir::Value unit,
                                         mlir::ValueRange sums,
                                         int64_t width = 1) const;
  void store(Launch &launch, mlir::Value row, mlir::Value unit,
             mlir::ValueRange values, int64_t width = 1) const;
  /// The loops of a unit and, last, `k`.
  llvm::SmallVector<Size> longBox() const;
};

/// Divides `unit` into the numbers of some loops of a box, the last loop
/// fastest.
void split(KernelBuilder &b, llvm::ArrayRef<Size> box,
           llvm::ArrayRef<unsigned> loops, mlir::Value unit,
           llvm::MutableArrayRef<mlir::Value> values);

/// Works lie one after another; work i has `sizes[i]` places. Builds `body` for
/// each work; it runs if `place` is one of the work's places, with the place's
/// number in the work.
void branch(KernelBuilder &b, llvm::ArrayRef<int64_t> sizes, mlir::Value place,
            llvm::function_ref<void(size_t work, mlir::Value place)> body,
            size_t first = 0);

/// An operand of products: element (row, k) of some rows.
struct Operand {
  Rows rows;
  /// Over the part's loops: the row, and the column for k = 0.
  mlir::AffineExpr row, column;
  /// Elements of an aligned access along k.
  int64_t width = 1;

  static Operand of(Launch &launch, const Work &work, const Element &element,
                    int64_t terms);
};

/// Statistics of rows, in an order in which they can be computed.
struct Statistics {
  llvm::SmallVector<Element> leaves;
  llvm::SmallVector<Reduction> reductions;
};

/// Products of few rows (decode), bound by the bytes of the weights: a warp
/// takes some rows of weights, and its lanes run along them (Gemv.h). `input`
/// is null if the products' input is in memory; else the block computes it.
void emitGemv(KernelFunction &function, const llvm::Twine &suffix,
              llvm::ArrayRef<Work> works, const Part *input,
              const Statistics &statistics);

/// Bytes of shared memory that emitGemv takes for rows of `numbers` numbers
/// with weights in blocks (cuda/GemvBlocks.cpp).
int64_t blockGemvBytes(int64_t numbers, int64_t bits);

/// Products of many rows (prefill), bound by operations (Gemm.cpp). The works'
/// sums are of the same products.
void emitGemm(KernelFunction &function, const llvm::Twine &suffix,
              llvm::ArrayRef<Work> works);
/// Whether emitGemm takes weights in blocks with so many terms: rows must begin
/// at words.
bool takesBlockGemm(int64_t terms);

/// Calls `sink` with the elements of a part's stores at one place of its first
/// loops, `rows`. The block computes the statistics of these rows; then each
/// thread computes some places of the other loops. Elements are vectors of
/// `lanes` along the last loop (Rows.cpp).
using Sink = llvm::function_ref<void(mlir::ValueRange loops, int64_t lanes,
                                     llvm::ArrayRef<mlir::Value> values)>;
void computeRow(Launch &launch, const Part &part, const Statistics &statistics,
                mlir::ValueRange rows, Sink sink);

/// The number of a part's first loops that count rows with statistics.
unsigned rowLoops(const Part &part, const Statistics &statistics);

/// A part that reads statistics of its rows, one block for each row (Rows.cpp).
/// False if more than one size is dynamic.
bool emitRows(KernelFunction &function, const llvm::Twine &suffix,
              const Part &part, const Statistics &statistics);

/// A part that reads only memory, one thread for each vector (Rows.cpp). False
/// if more than one size is dynamic.
bool emitPointwise(KernelFunction &function, const llvm::Twine &suffix,
                   const Part &part);

/// The most rows of products that emitGemv takes, and the most bytes of
/// normalized input it holds in shared memory.
inline constexpr int64_t kGemvRows = 8, kGemvShared = 40 << 10;

} // namespace cria::simt
