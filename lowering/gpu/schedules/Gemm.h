/// Products of many rows (prefill).
#pragma once

#include "lowering/gpu/schedules/GemmTile.h"

namespace cria::simt {

/// A kernel that has begun. Both are null if there is none.
struct GemmKernel {
  std::unique_ptr<Launch> launch;
  std::unique_ptr<GemmTile> tile;
};

/// Builds the kernels. Each call launches those for its number of rows. They
/// share the memory for the splits of tiles.
void emitGemm(KernelFunction &function, llvm::ArrayRef<GemmKernel> kernels);

struct GemmProblem;
/// By fma, any types (GemmFma.cpp): rows of the input of a tile.
inline constexpr int64_t kFmaRows = 64;
GemmKernel makeFmaGemm(const GemmProblem &problem, const llvm::Twine &name);

} // namespace cria::simt
