#include "lowering/gpu/schedules/Gemm.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

void simt::emitGemm(KernelFunction &function, ArrayRef<GemmKernel> kernels) {
  // The kernels share one memory of splits: one of them runs.
  int64_t sums = 0, arrivals = 0;
  for (const GemmKernel &kernel : kernels) {
    int64_t tiles = kernel.tile->splitTiles();
    arrivals = std::max(arrivals, tiles);
    sums = std::max(sums, tiles * kernel.tile->sumsOfTile());
  }
  GemmTile::Splits memory;
  if (sums)
    memory = {function.allocate(function.host.getF32Type(), sums),
              function.zeroed(arrivals)};
  for (const GemmKernel &kernel : kernels)
    kernel.tile->emit(memory);
}
