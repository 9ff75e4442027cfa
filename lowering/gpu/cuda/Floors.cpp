#include "lowering/gpu/cuda/Floors.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace cria;
namespace json = llvm::json;

namespace {
struct Gpu {
  const char *name;
  int64_t multiprocessors;
  /// What a read loop reaches.
  double bytesPerSecond;
  /// Of dense products: on tensor cores what the fastest kernels reach, of f32
  /// the peak without tensor cores.
  double tensorFlops, f32Flops;

  /// Microseconds of a kernel's run.
  double floor(const KernelCost &kernel) const {
    double rate = kernel.f32 ? f32Flops : tensorFlops;
    return 1e6 * std::max(kernel.bytes / bytesPerSecond, kernel.flops / rate);
  }
};
} // namespace

static constexpr Gpu kGpus[] = {{"A100", 108, 1.75e12, 270e12, 19.5e12},
                                {"H100", 132, 3.0e12, 790e12, 67e12},
                                {"H200", 132, 4.3e12, 790e12, 67e12}};

int64_t cria::blocksOf(const json::Array &grid, int64_t tokens) {
  int64_t blocks = 1;
  for (const json::Value &size : grid) {
    if (std::optional<int64_t> number = size.getAsInteger()) {
      blocks *= *number;
      continue;
    }
    const json::Object &counted = *size.getAsObject();
    auto per = counted.getInteger("tokens");
    int64_t count = per ? tokens : 1;
    bool isIn = counted.getInteger("from").value_or(0) <= count &&
                count <= counted.getInteger("to").value_or(count);
    int64_t rounded =
        llvm::divideCeil(count, per ? *per : *counted.getInteger("logits"));
    blocks *=
        isIn ? std::max(rounded, counted.getInteger("least").value_or(0)) : 0;
  }
  return blocks;
}

/// Adds the blocks of launches that have any, whose names are `prefix`, or go
/// on behind it with "_".
static void addLaunches(const json::Array &steps, llvm::StringRef prefix,
                        int64_t tokens, std::vector<int64_t> &blocks) {
  for (const json::Value &step : steps) {
    const json::Object &launch = *step.getAsObject();
    if (const json::Array *body = launch.getArray("body")) {
      addLaunches(*body, prefix, tokens, blocks);
      continue;
    }
    llvm::StringRef name = launch.getString("launch").value_or("");
    if (!name.consume_front(prefix) || !(name.empty() || name[0] == '_'))
      continue;
    if (int64_t own = blocksOf(*launch.getArray("grid"), tokens))
      blocks.push_back(own);
  }
}

static void printRow(const KernelCost &kernel, llvm::ArrayRef<int64_t> blocks,
                     llvm::raw_ostream &os) {
  std::string name = kernel.kernel + "_" + kernel.entry;
  os << llvm::format("%-34s %5lld %11lld %14lld", name.c_str(),
                     static_cast<long long>(kernel.runs),
                     static_cast<long long>(kernel.bytes),
                     static_cast<long long>(kernel.flops));
  for (const Gpu &gpu : kGpus)
    os << llvm::format(" %8.1f", gpu.floor(kernel));
  int64_t fewest = blocks.empty() ? 0 : *llvm::min_element(blocks);
  for (const Gpu &gpu : kGpus)
    os << llvm::format(" %5.1f", double(fewest) / gpu.multiprocessors);
  os << "  "
     << llvm::join(llvm::map_range(blocks, llvm::to_string<int64_t>), "+")
     << "\n";
}

/// The sum of an entry's kernels, in microseconds.
static void printSum(llvm::StringRef entry, llvm::ArrayRef<KernelCost> kernels,
                     llvm::raw_ostream &os) {
  std::string name = "all of " + entry.str();
  os << llvm::format("%-66s", name.c_str());
  for (const Gpu &gpu : kGpus) {
    double sum = 0;
    for (const KernelCost &kernel : kernels)
      sum += kernel.entry == entry ? kernel.runs * gpu.floor(kernel) : 0;
    os << llvm::format(" %8.1f", sum);
  }
  os << "\n";
}

void cria::printFloors(llvm::ArrayRef<KernelCost> kernels,
                       const json::Object &plan, int64_t chunk,
                       llvm::raw_ostream &os) {
  os << "\nGPUs: microseconds of a run at least, and blocks for each "
        "multiprocessor in the smallest launch\n";
  for (const Gpu &gpu : kGpus)
    os << llvm::format("  %s: reads %.2f TB/s, products %.0f TFLOP/s, of f32 "
                       "%.1f, %lld multiprocessors\n",
                       gpu.name, gpu.bytesPerSecond / 1e12,
                       gpu.tensorFlops / 1e12, gpu.f32Flops / 1e12,
                       static_cast<long long>(gpu.multiprocessors));
  os << llvm::format("%-34s %5s %11s %14s", "kernel", "runs", "bytes", "flops");
  for (const Gpu &gpu : kGpus)
    os << llvm::format(" %5s us", gpu.name);
  for (const Gpu &gpu : kGpus)
    os << llvm::format(" %5s", gpu.name);
  os << "  blocks\n";
  const json::Object &entries = *plan.getObject("entries");
  llvm::StringRef last;
  for (const KernelCost &kernel : kernels) {
    if (!last.empty() && last != kernel.entry)
      printSum(last, kernels, os);
    last = kernel.entry;
    std::vector<int64_t> blocks;
    int64_t tokens = kernel.entry == "decode" ? 1 : chunk;
    if (const json::Array *steps = entries.getArray(kernel.entry))
      addLaunches(*steps, kernel.kernel + "_" + kernel.entry, tokens, blocks);
    printRow(kernel, blocks, os);
  }
  if (!last.empty())
    printSum(last, kernels, os);
}
