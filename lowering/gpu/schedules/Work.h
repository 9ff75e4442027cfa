/// The parts of a kernel function for schedules: what a unit of work stores,
/// and the products that it is computed from.
#pragma once

#include "lowering/gpu/build/Evaluator.h"

namespace cria::simt {

/// A part, and what its elements are computed from. A unit is one place of all
/// loops except the row's. Its stores and products belong to that place and a
/// row.
struct Work {
  Part part;
  /// The products that the part's stores read, in order, and their definitions.
  llvm::SmallVector<Element> sums;
  llvm::SmallVector<Dot, 1> dots;
  /// The loop over rows of the products' input; none if the input has one row.
  std::optional<unsigned> row;
  /// Whether rows choose their weights (Dot::chosen). Then different rows share
  /// no weights, and the products of a unit may have different inputs.
  bool isChosen() const { return dots[0].chosen.tensor != nullptr; }
  /// The loop over choices, if each choice of a row counts as a row (Groups.h).
  std::optional<unsigned> choice;
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

} // namespace cria::simt
