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

/// Rows of the input of a tile, in schedules with one tile for all rows.
inline constexpr int64_t kOneTileRows = 64;

struct GemmProblem;
/// By fma, any types (GemmFma.cpp).
GemmKernel makeFmaGemm(const GemmProblem &problem, const llvm::Twine &name);

} // namespace cria::simt
