/// Reads programs that are given as IR, and checks the program contract.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace cria {

/// Whether `path` names MLIR's text (`*.mlir`), or a file in MLIR's bytecode.
bool isProgram(llvm::StringRef path);

/// Reads a program in the llama dialect, as text or bytecode. Returns null
/// after emitting an error.
mlir::OwningOpRef<mlir::ModuleOp> loadProgram(llvm::StringRef path,
                                              mlir::MLIRContext *context);

/// Checks the program contract. The compiler relies on it in addition to what
/// the ops verify:
///
/// - Calls of private functions are inlined (buildInlinePipeline).
/// - There is a function `@forward`, with one block.
/// - `@forward` takes (ids: tensor<?xi32>, position: index, first: index,
///   caches...) and returns (logits: tensor<?xVxf32>, caches...). The caches
///   are static rank-4 tensors of f32, f16 or bf16, in the same order.
/// - Between logits and caches, `@forward` may return hidden states,
///   tensor<?xCxfloat>. Then it takes one more index, the last argument before
///   the caches: the first token whose hidden states are returned.
/// - There may be a function `@encode`, which runs another text that `@forward`
///   attends to. Then both take the number of that text's tokens, an index,
///   after `first`. The other arguments of `@encode` are those of `@forward`;
///   its position is 0, and it returns only the caches.
/// - Attention `ahead` uses an index after `first`, too; then there is no
///   `@encode`. Of `@prefill` over paged caches, the index follows the numbers
///   of pages and states (NumberArguments).
/// - Ropes, appends, attention and learned positions use the function's
///   position. Attention `over` another text uses that text's number of tokens.
/// - Layers exist, and are constants or induction variables of loops with
///   constant bounds; see LayerNumber.h.
/// - The functions are made of llama ops, scf.for, arith on numbers, and
///   reshapes and slices of tensors. Slices lie within their sources, and
///   numbers of rows agree (Rows.h).
/// - Only the first dimension of a tensor, the number of tokens, may be
///   dynamic. No dimension is empty, and no tensor has more than 2^44 bytes.
/// - `llama.expert_linear` multiplies with experts that `llama.route` chose. No
///   other op reads a weight with `experts`.
/// - An embedding has a row for each id for which the logits have a column.
/// - Weights and rope tables use at most 2^20 slots, and have names that the
///   compiler does not give to functions.
mlir::LogicalResult verifyProgram(mlir::ModuleOp module);

/// Checks the same contract of a program at fuse. Instead of `@forward` it has
/// `@prefill` and `@decode`, or, over paged caches, `@prefill` and `@batch`;
/// symbols have slots. `@decode` returns no hidden states. Over paged caches,
/// numbers of pages and states follow `first`; ops use these.
mlir::LogicalResult verifyFused(mlir::ModuleOp module);

/// Checks that a program may contain each op of a function. Of a tensor, only
/// the first dimension may be dynamic.
mlir::LogicalResult verifyOps(mlir::func::FuncOp function);

/// Whether attention of a function sees keys after a token's own. Then the
/// function takes their number (NumberArguments::end).
bool seesAhead(mlir::func::FuncOp function);

/// The most positions at which a program may run: as many as the smallest of
/// its caches, rope tables and tables of learned positions has; 2^24 if it has
/// none.
int64_t positionsOf(mlir::ModuleOp module);

} // namespace cria
