/// Computes elements in a kernel: clones the payloads that make them, on
/// scalars or on vectors.
#pragma once

#include "lowering/gpu/Launch.h"

namespace cria::simt {

class Evaluator {
public:
  /// What an element is that is not read from memory, or null.
  using Leaf = std::function<mlir::Value(const Element &)>;

  /// `loops` are the values of the box's loops, i32. With `lanes` > 1 an
  /// element is a vector of those where the last loop is so much further, or,
  /// where it does not depend on that loop, a scalar.
  Evaluator(Launch &launch, llvm::ArrayRef<Size> box, mlir::ValueRange loops,
            int64_t lanes = 1, Leaf leaf = {})
      : launch(launch), b(launch.b), elements(launch.of.elements), box(box),
        loops(loops), lanes(lanes), leaf(std::move(leaf)) {}

  mlir::Value operator()(const Element &element);
  /// What the payload of an op yields at `at`, where its output is `out`.
  mlir::Value payload(mlir::linalg::LinalgOp op, unsigned result,
                      llvm::ArrayRef<mlir::AffineExpr> at,
                      mlir::Value out = {});

  /// A value of the op's payload there.
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

/// Whether a scalar is a constant, or a number that is computed from what a
/// kernel is given.
bool isNumber(mlir::Value value);
/// Whether the payloads that make an element can be cloned into a kernel.
bool canEvaluate(Elements &elements, const Element &element,
                 llvm::ArrayRef<Size> box);

/// The widest vectors of which an element can be computed along the last loop,
/// whose multiples they begin at; of `known` elements they are given.
int64_t vectorWidth(Launch &launch, const Element &element,
                    llvm::ArrayRef<Size> box, int64_t most,
                    llvm::ArrayRef<Element> known = {});

/// A reduction's result, in each thread of the block; `loops` are those of the
/// box that it is read in. The last loop may not be one of its places.
mlir::Value reduce(Launch &launch, const Reduction &reduction,
                   llvm::ArrayRef<Size> box, mlir::ValueRange loops,
                   const Evaluator::Leaf &leaf);
/// The same where the reduction's loop is the box's last one: each thread has
/// `lanes` of its terms, with the other lanes of a group of neighbours.
mlir::Value reduceGroup(Launch &launch, const Reduction &reduction,
                        llvm::ArrayRef<Size> box, mlir::ValueRange loops,
                        int64_t lanes, const Evaluator::Leaf &leaf);
/// The widest vectors of terms, whose multiples they begin at.
int64_t termsWidth(Launch &launch, const Reduction &reduction,
                   llvm::ArrayRef<Size> box, int64_t most);
/// Whether `reduce` takes it: it may be computed in any order.
bool canReduce(Elements &elements, const Reduction &reduction,
               llvm::ArrayRef<Size> box);

} // namespace cria::simt
