/// Loops of scalars, or of short vectors, that compute a linalg op on memrefs.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cria {

/// Builds loops around the op's payload, outermost first. Innermost reductions
/// are carried in registers.
class LoopNest {
public:
  LoopNest(mlir::OpBuilder &builder, mlir::linalg::LinalgOp op);

  /// The number of iterations of a loop.
  mlir::Value size(unsigned loop);
  /// Makes no loop for this dimension, but computes the elements at `index`.
  void give(unsigned loop, mlir::Value index) { ivs[loop] = index; }
  /// Emits the loops that have no index yet. The op is not erased. If
  /// `parallel`, the outermost loop is an scf.forall if its extent is dynamic
  /// (the number of tokens) and it is not inside of an scf.forall.
  void emit(bool parallel);
  /// Whether the innermost loop can be one vector: the op is elementwise, and
  /// the loop runs over adjacent numbers of a block. LLVM would unroll this
  /// loop instead.
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
  /// The index of each loop; null if it has none yet.
  llvm::SmallVector<mlir::Value> ivs;
  /// How many of the innermost loops carry their sums.
  size_t carried = 0;
  bool vectors = false;
};

/// Makes each memref.copy below `root` a linalg op.
void copiesToLinalg(mlir::Operation *root);

} // namespace cria
