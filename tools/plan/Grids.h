/// The number of blocks in the launches of a plan.
#pragma once

#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace cria {

/// Blocks of a launch of the plan, for a call of `tokens` tokens that asks for
/// one row of logits and no hidden states.
int64_t blocksOf(const llvm::json::Array &grid, int64_t tokens);

/// Blocks of each launch that `plan` (CudaImage) has for a kernel function of
/// an entry, in a call of `tokens` tokens. Launches without blocks are left
/// out.
std::vector<int64_t> blocksOfKernel(const llvm::json::Object &plan,
                                    llvm::StringRef entry,
                                    llvm::StringRef function, int64_t tokens);

} // namespace cria
