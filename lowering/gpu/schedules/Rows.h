/// Launches without products: rows with their statistics, single elements.
#pragma once

#include "lowering/gpu/build/Evaluator.h"

namespace cria::simt {

/// Statistics of rows, in an order in which they can be computed.
struct Statistics {
  llvm::SmallVector<Element> leaves;
  llvm::SmallVector<Reduction> reductions;
};

/// Calls `sink` with the elements of a part's stores at one place of its first
/// loops, `rows`. The block computes the statistics of these rows; then each
/// thread computes some places of the other loops. Elements are vectors of
/// `lanes` along the last loop.
using Sink = llvm::function_ref<void(mlir::ValueRange loops, int64_t lanes,
                                     llvm::ArrayRef<mlir::Value> values)>;
void computeRow(Launch &launch, const Part &part, const Statistics &statistics,
                mlir::ValueRange rows, Sink sink);

/// The number of a part's first loops that count rows with statistics.
unsigned rowLoops(const Part &part, const Statistics &statistics);

/// A part that reads statistics of its rows, one block for each row.
/// False if more than one size is dynamic.
bool emitRows(KernelFunction &function, const llvm::Twine &suffix,
              const Part &part, const Statistics &statistics);

/// A part that reads only memory, one thread for each vector. False
/// if more than one size is dynamic.
bool emitPointwise(KernelFunction &function, const llvm::Twine &suffix,
                   const Part &part);

} // namespace cria::simt
