/// The order of a batch's rows whose tokens read and write states.
///
/// Rows are in order: a row reads what an earlier one wrote. But only the rows
/// of one text follow one another. Row t begins a chain if no earlier row
/// writes the state that row t reads; the chain goes on with the next row that
/// reads what the chain wrote last. Blocks run chains at the same time, so no
/// row may write a state that a row of another chain reads or writes: a state
/// from which several texts go on is written by none of them (Abi.h).
#pragma once

#include "lowering/gpu/build/Launch.h"

namespace cria::simt {

/// The numbers of the states that a token reads and writes, as expressions over
/// loops. The first loop is over tokens.
struct StateNumbers {
  mlir::AffineExpr read, written;
};

/// Calls `body` for each row of the chain that begins with row `first` of
/// `count`, in order; for none if `first` begins no chain. All threads of a
/// block that ask for the same row do the same turns.
void forChain(Launch &launch, const StateNumbers &numbers, mlir::Value first,
              mlir::Value count, llvm::function_ref<void(mlir::Value)> body);

} // namespace cria::simt
