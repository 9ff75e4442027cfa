/// How long kernels take NVIDIA GPUs at least, by what they read and compute.
#pragma once

#include "lowering/Costs.h"

#include "llvm/Support/JSON.h"

namespace cria {

/// Blocks of a launch of the plan, for a call with so many tokens that wants
/// one row of logits.
int64_t blocksOf(const llvm::json::Array &grid, int64_t tokens);

/// A table for people: each kernel's bytes and operations, the time below which
/// no schedule gets on each GPU, and the blocks of the launches that `plan`
/// (CudaImage) has for it where a call has `chunk` tokens; of the smallest
/// launch, how many a multiprocessor gets.
void printFloors(llvm::ArrayRef<KernelCost> kernels,
                 const llvm::json::Object &plan, int64_t chunk,
                 llvm::raw_ostream &os);

} // namespace cria
