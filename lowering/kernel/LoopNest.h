/// Loops of scalars, or of short vectors, that compute a linalg op on memrefs.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cria {

/// Builds loops around the op's payload, outermost first. Reductions that lie
/// innermost are carried in registers.
class LoopNest {
public:
  LoopNest(mlir::OpBuilder &builder, mlir::linalg::LinalgOp op);

  /// The number of iterations of a loop.
  mlir::Value size(unsigned loop);
  /// Makes no loop, but computes the elements at `index`.
  void give(unsigned loop, mlir::Value index) { ivs[loop] = index; }
  /// Emits the loops that have no index yet; the op stays. If `parallel`, the
  /// outermost loop is an scf.forall if its extent is dynamic, the tokens, and
  /// no scf.forall is around it.
  void emit(bool parallel);
  /// Whether the innermost loop can be one vector: elementwise, of a block of
  /// numbers that lie side by side. LLVM would unroll it instead.
  bool isOfBlocks();
  /// Emits the loops of an op on blocks: each iteration of the second to last
  /// loop computes a vector.
  void emitVectors();

private:
  void emit(llvm::ArrayRef<unsigned> loops, bool parallel);
  int64_t lanes();
  mlir::Value load(mlir::OpOperand &operand);
  void storeVectors();
  llvm::SmallVector<mlir::Value> emitCarried(llvm::ArrayRef<unsigned> loops,
                                             mlir::ValueRange sums);
  bool isCarried(unsigned loop);
  bool isTokens(unsigned loop);
  llvm::SmallVector<mlir::Value> initial();
  llvm::SmallVector<mlir::Value> indices(mlir::OpOperand &operand);
  llvm::SmallVector<mlir::Value> payload(mlir::ValueRange accumulators);
  void storeAll(mlir::ValueRange results);

  mlir::ImplicitLocOpBuilder b;
  mlir::linalg::LinalgOp op;
  llvm::SmallVector<mlir::Range> ranges;
  /// The index of each loop: null where there is none.
  llvm::SmallVector<mlir::Value> ivs;
  /// How many of the innermost loops carry their sums.
  size_t carried = 0;
  bool vectors = false;
};

/// Makes each memref.copy below `root` a linalg op.
void copiesToLinalg(mlir::Operation *root);

} // namespace cria
