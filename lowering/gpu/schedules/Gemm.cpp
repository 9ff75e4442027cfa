#include "lowering/gpu/schedules/Gemm.h"
#include "lowering/gpu/schedules/Preconditions.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

namespace {
struct GemmKernel {
  std::unique_ptr<Launch> launch;
  std::unique_ptr<GemmTile> tile;
};
} // namespace

/// Begins the kernels for inputs of the numbers of rows in kMmaRows[rows].
static void beginMma(KernelFunction &function, const Twine &suffix,
                     ArrayRef<Work> works, size_t rows,
                     SmallVectorImpl<GemmKernel> &kernels) {
  const Chips &chips = function.chips;
  std::unique_ptr<Launch> launch;
  std::unique_ptr<GemmTile> tile;
  if (chips.wgmma && kMmaRows[rows].most == kAnyRows)
    tile = makeWgmmaGemm(function, suffix + "_wgmma", works, launch);
  else if (chips.wgmma)
    tile = makeClusterGemm(function, suffix + "_cluster", works, rows, launch);
  bool hasWgmma = tile != nullptr;
  auto begun = [&](bool wgmma) {
    KernelBuilder &b = launch->b;
    if (hasWgmma)
      b.function->setAttr(kWgmmaAttribute, b.getBoolAttr(wgmma));
    kernels.push_back({std::move(launch), std::move(tile)});
  };
  if (hasWgmma)
    begun(true);
  if (hasWgmma && !chips.others)
    return;
  launch = std::make_unique<Launch>(function, suffix, kGemmThreads);
  tile = makeMmaGemm(*launch, works, rows);
  begun(false);
}

/// Begins the kernels for all numbers of rows that the works' input has.
static SmallVector<GemmKernel> beginKernels(KernelFunction &function,
                                            const Twine &suffix,
                                            ArrayRef<Work> works) {
  auto element = [](const Element &element) {
    return cast<RankedTensorType>(element.tensor.getType()).getElementType();
  };
  const Dot &dot = works[0].dots[0];
  SmallVector<GemmKernel> kernels;
  if (dot.bits ||
      !takesMma(element(dot.x), element(dot.w), dot.terms.constant) ||
      !llvm::all_of(works, [&](const Work &work) {
        return beginAtWords(function.elements, work);
      })) {
    auto launch = std::make_unique<Launch>(function, suffix, kGemmThreads);
    auto tile =
        dot.bits ? makeBlockGemm(*launch, works) : makeFmaGemm(*launch, works);
    kernels.push_back({std::move(launch), std::move(tile)});
    return kernels;
  }
  Size size = works[0].rows();
  if (auto most = invariantRows(function.kernel); most && !size.isConstant())
    size = {*most};
  for (auto [i, rows] : llvm::enumerate(kMmaRows))
    if (!size.isConstant())
      beginMma(function, suffix + rows.suffix, works, i, kernels);
    else if (size.constant > rows.above && size.constant <= rows.most)
      beginMma(function, suffix, works, i, kernels);
  return kernels;
}

void simt::emitGemm(KernelFunction &function, const Twine &suffix,
                    ArrayRef<Work> works) {
  SmallVector<GemmKernel> kernels = beginKernels(function, suffix, works);
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
