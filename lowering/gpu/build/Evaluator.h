/// Computes elements in a kernel: clones the payloads that compute them, on
/// scalars or on vectors.
#pragma once

#include "lowering/gpu/build/Launch.h"

namespace cria::simt {

class Evaluator {
public:
  /// The value of an element that is not read from memory, or null.
  using Leaf = std::function<mlir::Value(const Element &)>;

  /// `loops` are the values of the box's loops, i32. With `lanes` > 1, an
  /// element is a vector of `lanes` elements along the last loop, or a scalar
  /// if it does not depend on that loop.
  Evaluator(Launch &launch, llvm::ArrayRef<Size> box, mlir::ValueRange loops,
            int64_t lanes = 1, Leaf leaf = {})
      : launch(launch), b(launch.b), elements(launch.of.elements), box(box),
        loops(loops), lanes(lanes), leaf(std::move(leaf)) {}

  mlir::Value operator()(const Element &element);
  /// The value that the payload of an op yields at `at`, if its output is
  /// `out`.
  mlir::Value payload(mlir::linalg::LinalgOp op, unsigned result,
                      llvm::ArrayRef<mlir::AffineExpr> at,
                      mlir::Value out = {});

  /// A value inside the op's payload at `at`.
  mlir::Value inPayload(mlir::linalg::LinalgOp op, mlir::Value wanted,
                        llvm::ArrayRef<mlir::AffineExpr> at,
                        mlir::Value out = {});

private:
  mlir::Value outside(mlir::Value value);
  mlir::Value gathered(mlir::tensor::ExtractOp read,
                       const mlir::IRMapping &mapping, bool wide);
  mlir::Value clone(mlir::Operation &op, const mlir::IRMapping &mapping);
  bool isWide(mlir::AffineExpr at) const {
    return lanes > 1 && at && at.isFunctionOfDim(box.size() - 1);
  }

  Launch &launch;
  KernelBuilder &b;
  Elements &elements;
  llvm::ArrayRef<Size> box;
  mlir::ValueRange loops;
  int64_t lanes;
  Leaf leaf;
};

/// Whether a scalar is a constant, or a number that is computed from a kernel's
/// arguments.
bool isNumber(mlir::Value value);
/// Whether the payload of an op can be cloned into a kernel. It may read
/// numbers of a turn (Elements::isOfTurn).
bool canClone(mlir::linalg::LinalgOp op, const Elements &elements);
/// Whether the payloads that make an element can be cloned into a kernel.
bool canEvaluate(Elements &elements, const Element &element,
                 llvm::ArrayRef<Size> box);

/// The widest vectors in which an element can be computed along the last loop.
/// Vectors begin at multiples of their width. The elements `known` are given.
int64_t vectorWidth(Launch &launch, const Element &element,
                    llvm::ArrayRef<Size> box, int64_t most,
                    llvm::ArrayRef<Element> known = {});

/// A reduction's result, in each thread of the block. `loops` are those of the
/// box that reads the result. The last loop may not be one of its places.
mlir::Value reduce(Launch &launch, const Reduction &reduction,
                   llvm::ArrayRef<Size> box, mlir::ValueRange loops,
                   const Evaluator::Leaf &leaf);
/// A part of a row that a thread has: some neighbouring places of a loop, from
/// `at` on. They count if `exists`, or always if that is null. `leaf` knows
/// elements there.
struct RowVector {
  mlir::Value at, exists;
  Evaluator::Leaf leaf;
};
/// The same if each thread has the terms of `vectors`, `width` of each.
mlir::Value reduceVectors(Launch &launch, const Reduction &reduction,
                          llvm::ArrayRef<Size> box, mlir::ValueRange loops,
                          int64_t width, llvm::ArrayRef<RowVector> vectors);
/// The same if the reduction's loop is the box's last one: each thread has
/// `lanes` of its terms, and the other lanes of a group of neighbours have the
/// rest.
mlir::Value reduceGroup(Launch &launch, const Reduction &reduction,
                        llvm::ArrayRef<Size> box, mlir::ValueRange loops,
                        int64_t lanes, const Evaluator::Leaf &leaf);
/// The widest vectors of terms. Vectors begin at multiples of their width.
int64_t termsWidth(Launch &launch, const Reduction &reduction,
                   llvm::ArrayRef<Size> box, int64_t most);
/// Whether `reduce` takes it: the order of the terms must not matter.
bool canReduce(Elements &elements, const Reduction &reduction,
               llvm::ArrayRef<Size> box);

} // namespace cria::simt
