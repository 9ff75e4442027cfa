/// The schedules, each in a file of its own. One takes a kernel function if it
/// can compute it, and builds its launches.
#pragma once

#include "lowering/gpu/Launch.h"

namespace cria::simt {

/// Attention over the cache (cuda/AttentionSplits.cpp), for many tokens on
/// tensor cores (cuda/AttentionMma.cpp, cuda/AttentionWgmma.cpp). False,
/// without a reason, where the function has no softmax, and where it is not
/// taken: `reason` says why.
bool emitAttention(KernelFunction &function, llvm::StringRef &reason);

/// Products, statistics of rows and elementwise ops (Parts.cpp). False where a
/// result is made of something else: `reason` says of what.
bool emitParts(KernelFunction &function, llvm::StringRef &reason);

/// The entry `sample`, which draws an id from a row of logits as CriaSampling
/// says (Sampling.cpp), and its kernels.
void emitSampling(mlir::ModuleOp module, mlir::Block &kernels,
                  mlir::func::FuncOp decode);

} // namespace cria::simt
