/// Programs that come as IR, and what every program must look like.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace cria {

/// Reads a program in the llama dialect from a `.mlir` file. Returns null after
/// emitting an error.
mlir::OwningOpRef<mlir::ModuleOp> loadProgram(llvm::StringRef path,
                                              mlir::MLIRContext *context);

/// Checks the program contract, which the compiler relies on beyond what the
/// ops verify:
///
/// - there is a function `@forward`, with one block;
/// - it takes (ids: tensor<?xi32>, position: index, first: index, caches...)
///   and returns (logits: tensor<?xVxf32>, caches...), the caches being static
///   rank-4 tensors of f32, f16 or bf16 in one order;
/// - between logits and caches it may return hidden states, tensor<?xCxfloat>,
///   those of the tokens from an index on that it then takes in front of the
///   caches;
/// - beside it there may be `@encode`, for another text that `@forward` attends
///   to: then both take the number of that text's tokens, an index, behind
///   `first`; `@encode` takes what else `@forward` takes, its position being 0,
///   and returns the caches alone;
/// - ropes, appends, attention and learned positions are at the function's
///   position, and attention `over` another text at its number of tokens;
/// - layers are constants or numbers of loops between constants, and exist;
/// - they are made of llama ops, scf.for, arith and reshapes of tensors;
/// - no dimension but the first of a tensor, its token count, is dynamic, none
///   is empty, and no tensor has more than 2^44 bytes;
/// - an embedding has a row for each id that the logits have a column for.
mlir::LogicalResult verifyProgram(mlir::ModuleOp module);

/// Checks the same of a program at fuse, whose functions are `@prefill` and
/// `@decode`, which returns no hidden states, or over paged caches `@batch`, in
/// place of `@forward`, and that its symbols have slots. There pages follow
/// `first`, ops are at these, and no function returns hidden states.
mlir::LogicalResult verifyFused(mlir::ModuleOp module);

/// The most positions a program may be run at: as many as the smallest of its
/// caches, rope tables and tables of learned positions has; 2^24 where it has
/// none.
int64_t positionsOf(mlir::ModuleOp module);

} // namespace cria
