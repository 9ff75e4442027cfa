/// The schedules, each in its own file. A schedule takes a kernel function if
/// it can compute it, and builds its launches.
#pragma once

#include "lowering/gpu/build/Launch.h"

namespace cria::simt {

class Choose;

/// Attention over the cache (Attention.cpp). False without a reason if the
/// function has no softmax. False if it is not taken: `reason` then says why.
bool emitAttention(KernelFunction &function, const Choose &choose,
                   llvm::StringRef &reason);

/// Columns of a state that each token overwrites (Columns.cpp). False without a
/// reason if the function has no such loop.
bool emitColumns(KernelFunction &function, const Choose &choose,
                 llvm::StringRef &reason);

/// A matrix whose columns each token updates (Recurrence.cpp). False without a
/// reason if the function has no parallel loop.
bool emitRecurrence(KernelFunction &function, const Choose &choose,
                    llvm::StringRef &reason);

/// Products, statistics of rows and elementwise ops (Parts.cpp). False if a
/// result is computed from something else; `reason` then names it.
bool emitParts(KernelFunction &function, const Choose &choose,
               llvm::StringRef &reason);

/// The entry `sample`, which draws an id from each row of logits of the entry
/// `of` as CriaSampling describes (Sampling.cpp), and its kernels.
void emitSampling(mlir::ModuleOp module, mlir::Block &kernels,
                  mlir::func::FuncOp of);

} // namespace cria::simt
