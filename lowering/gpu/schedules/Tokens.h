/// Launches with a block for each token, which computes many small ops of that
/// token alone, such as the choice of experts:
///
///   for each op, in order:
///     each thread: some elements of the token, into shared memory
///     barrier
///
/// A thread computes an element of a reduction alone, in the order of its
/// terms. If a token has one such element, and the order does not matter, all
/// threads compute it together.
#pragma once

#include "lowering/gpu/build/Evaluator.h"

#include "llvm/ADT/SetVector.h"

namespace cria::simt {

class TokenOps {
public:
  explicit TokenOps(Elements &elements) : elements(elements) {}

  /// Adds a part and the ops that compute it. False if an op reads what is
  /// computed of other tokens, or has another form.
  bool add(const Part &part);
  bool empty() const { return parts.empty(); }
  /// The products that ops read, which other launches store.
  llvm::ArrayRef<mlir::Value> products() const { return stored.getArrayRef(); }
  /// Builds the launch. `products` are stored. False if a block cannot hold
  /// what it computes.
  bool emit(KernelFunction &function, const llvm::Twine &suffix);

private:
  bool visit(mlir::Value tensor);
  bool isOfToken(mlir::linalg::GenericOp op) const;
  bool isComputed(mlir::Value tensor) const;
  void compute(Launch &launch, mlir::linalg::GenericOp op);
  mlir::Value sum(Launch &launch, const Element &element,
                  llvm::ArrayRef<Size> box, mlir::ValueRange loops);

  Elements &elements;
  llvm::SmallVector<Part> parts;
  llvm::SetVector<mlir::Value> stored;
  llvm::SetVector<mlir::Operation *> ops;
};

} // namespace cria::simt
