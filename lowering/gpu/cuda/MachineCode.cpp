#include "lowering/gpu/cuda/MachineCode.h"

#include "lowering/gpu/Chips.h"
#include "lowering/gpu/cuda/Floors.h"
#include "lowering/gpu/cuda/Sass.h"
#include "lowering/gpu/cuda/Toolkit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <set>

using namespace cria;
using llvm::StringRef;
namespace json = llvm::json;

namespace {
/// A generation of chips: a GPU of it, and what its multiprocessors have.
struct Generation {
  int chip;
  const char *gpu;
  int64_t multiprocessors, shared, warps, blocks;
  /// Where kernels find parameters, in bytes of bank 0 of the constants.
  int64_t parameters;

  int64_t resident(int64_t threads, int64_t registers, int64_t bytes) const;
};

/// A kernel as the plan launches it.
struct Launched {
  int64_t threads = 0, shared = 0;
  /// Of the grid, where that is always the same; and in the longest call.
  std::optional<int64_t> fixedBlocks;
  int64_t blocks = 0;
  sass::Parameters parameters;
};

/// What ptxas says of a kernel; local is a thread's stack and spills.
struct Resources {
  int64_t registers = 0, local = 0, shared = 0;
};
} // namespace

static constexpr int64_t kRegisters = 64 << 10, kWarp = 32;
static constexpr Generation kGenerations[] = {
    {80, "A100", 108, 164 << 10, 64, 32, 0x160},
    {90, "H200", 132, 228 << 10, 64, 32, 0x210},
    {100, "B200", 148, 228 << 10, 64, 32, 0x380}};

/// Blocks that fit. A warp's registers come in units of 256, from the quarter
/// of them that its scheduler has; a block's shared memory in units of 128
/// bytes, 1 KiB more than it asks for.
int64_t Generation::resident(int64_t threads, int64_t registers,
                             int64_t bytes) const {
  int64_t own = llvm::divideCeil(threads, kWarp);
  int64_t each =
      int64_t(llvm::alignTo(std::max<int64_t>(registers, 1) * kWarp, 256));
  return std::min<int64_t>({kRegisters / 4 / each * 4 / own,
                            shared / int64_t(llvm::alignTo(bytes, 128) + 1024),
                            warps / own, blocks});
}

/// A dimension of a grid, if it is the same wherever it is not 0.
static std::optional<int64_t> fixedSize(const json::Value &size) {
  if (auto number = size.getAsInteger())
    return *number;
  const json::Object &counted = *size.getAsObject();
  auto per = counted.getInteger("tokens");
  int64_t divisor = per ? *per : *counted.getInteger("logits");
  if (counted.getInteger("to").value_or(divisor + 1) <= divisor)
    return 1;
  return std::nullopt;
}

static int64_t product(const json::Array &sizes) {
  int64_t result = 1;
  for (const json::Value &size : sizes)
    result *= *size.getAsInteger();
  return result;
}

/// The slots of the weights that are matrices. These and caches are streamed:
/// vectors stay in the GPU's caches.
static std::set<int64_t> matricesOf(const json::Array &weights) {
  std::set<int64_t> slots;
  for (const json::Value &value : weights) {
    const json::Object &weight = *value.getAsObject();
    int64_t slot = *weight.getInteger("slot");
    int64_t count = std::max<int64_t>(1, *weight.getInteger("count"));
    for (int64_t i = 0; i < count; ++i)
      if (weight.getArray("shape")->size() > 1)
        slots.insert(slot + i);
  }
  return slots;
}

/// Parameters are addresses or, aligned to 64 bytes, tensor maps of 128.
static sass::Parameters parametersOf(const json::Array &arguments,
                                     const std::set<int64_t> &matrices,
                                     int64_t first) {
  sass::Parameters parameters;
  for (auto [i, value] : llvm::enumerate(arguments)) {
    const json::Object &argument = *value.getAsObject();
    bool isMap = argument.get("map") != nullptr;
    int64_t start = llvm::alignTo(first, isMap ? 64 : 8);
    first = start + (isMap ? 128 : 8);
    uint64_t bit = uint64_t(1) << std::min<size_t>(i, 63);
    for (int64_t word = start / 4; word < first / 4; ++word)
      parameters.words[word] = bit;
    auto weight = argument.getInteger("weight");
    if (argument.get("cache") || (weight && matrices.count(*weight)))
      parameters.streamed |= bit;
  }
  return parameters;
}

namespace {
/// What a report says of kernels beside their machine code.
struct Program {
  const json::Object &plan;
  std::set<int64_t> matrices;
  int64_t chunk;
};
} // namespace

static void addLaunches(const Program &program, const json::Array &steps,
                        int64_t tokens, const Generation &chip,
                        std::map<std::string, Launched> &found) {
  for (const json::Value &step : steps) {
    const json::Object &launch = *step.getAsObject();
    if (const json::Array *body = launch.getArray("body")) {
      addLaunches(program, *body, tokens, chip, found);
      continue;
    }
    const json::Array &grid = *launch.getArray("grid");
    std::optional<int64_t> fixed = 1;
    for (const json::Value &size : grid)
      if (auto own = fixedSize(size); own && fixed)
        *fixed *= *own;
      else
        fixed = std::nullopt;
    found[launch.getString("launch")->str()] = {
        product(*launch.getArray("block")), *launch.getInteger("shared"), fixed,
        blocksOf(grid, tokens),
        parametersOf(*launch.getArray("args"), program.matrices,
                     chip.parameters)};
  }
}

/// The number before `unit` in a line, 0 where there is none.
static int64_t numberBefore(StringRef line, StringRef unit) {
  int64_t number = 0;
  StringRef text = line.split(unit).first.rtrim();
  if (line.contains(unit))
    text.substr(text.find_last_not_of("0123456789") + 1)
        .getAsInteger(10, number);
  return number;
}

/// What `ptxas -v` says of each kernel.
static std::map<std::string, Resources> readLog(StringRef log) {
  std::map<std::string, Resources> kernels;
  Resources *kernel = nullptr;
  for (StringRef line : llvm::split(log, '\n')) {
    auto [before, name] = line.split("Compiling entry function '");
    if (!name.empty())
      kernel = &kernels[name.split('\'').first.str()];
    if (!kernel)
      continue;
    for (StringRef unit :
         {" bytes stack frame", " bytes spill stores", " bytes spill loads"})
      kernel->local += numberBefore(line, unit);
    kernel->registers += numberBefore(line, " registers");
    kernel->shared += numberBefore(line, " bytes smem");
  }
  return kernels;
}

static std::string figure(std::optional<double> number,
                          const char *form = "{0:F2}") {
  return number ? llvm::formatv(form, *number).str() : "-";
}

/// The table of a cubin.
static llvm::Error printChip(const Program &program, const CudaBinary &cubin,
                             const Generation &chip, llvm::raw_ostream &os) {
  auto listing = disassemble(cubin);
  if (!listing)
    return listing.takeError();
  std::map<std::string, Launched> launches;
  for (const auto &entry : *program.plan.getObject("entries"))
    addLaunches(program, *entry.second.getAsArray(),
                StringRef(entry.first) == "decode" ? 1 : program.chunk, chip,
                launches);
  std::map<std::string, Resources> resources = readLog(cubin.log);
  os << "\nmachine code for " << cubin.chip << ", of which the " << chip.gpu
     << " has " << chip.multiprocessors << " multiprocessors\n";
  os << llvm::format("%-34s %7s %6s %6s %6s %9s %6s %7s %6s %6s\n", "kernel",
                     "threads", "loads", "KiB", "MMA", "registers", "local",
                     "shared", "blocks", "waves");
  for (auto &[name, kernel] : sass::readListing(*listing)) {
    const Launched &launched = launches[name];
    const Resources &own = resources[name];
    if (launched.threads == 0) // no entry launches it
      continue;
    auto figures =
        sass::figuresOf(kernel, launched.threads, launched.parameters);
    if (!figures)
      return figures.takeError();
    int64_t shared = own.shared + launched.shared;
    int64_t blocks = chip.resident(launched.threads, own.registers, shared);
    std::optional<double> kib, waves;
    if (launched.blocks && blocks)
      waves = double(launched.blocks) / double(blocks * chip.multiprocessors);
    if (launched.fixedBlocks && figures->loads)
      kib = std::min<double>(blocks, double(*launched.fixedBlocks) /
                                         chip.multiprocessors) *
            launched.threads * *figures->loads * 16 / 1024;
    os << llvm::format(
        "%-34s %7lld %6s %6s %6s %9lld %6lld %7lld %6lld %6s\n", name.c_str(),
        static_cast<long long>(launched.threads),
        figure(figures->loads).c_str(), figure(kib, "{0:F1}").c_str(),
        figure(figures->mma).c_str(), static_cast<long long>(own.registers),
        static_cast<long long>(own.local), static_cast<long long>(shared),
        static_cast<long long>(blocks), figure(waves).c_str());
  }
  // Such as C7510: products of warpgroups that wait for each other.
  for (StringRef line : llvm::split(cubin.log, '\n'))
    if (line.contains("warning") || line.contains("Performance"))
      os << line << "\n";
  return llvm::Error::success();
}

llvm::Error cria::printMachineCode(const CudaImage &image,
                                   const json::Array &weights, int64_t chunk,
                                   llvm::raw_ostream &os) {
  if (!hasTool("ptxas") || !hasTool("nvdisasm")) {
    os << "\nmachine code: not shown, ptxas and nvdisasm of the CUDA toolkit "
          "are neither on PATH nor in CUDA_HOME\n";
    return llvm::Error::success();
  }
  bool hasCubins = llvm::any_of(image.binaries, [](const CudaBinary &binary) {
    return binary.format == "cubin";
  });
  Program program = {image.plan, matricesOf(weights), chunk};
  for (const CudaBinary &binary : image.binaries) {
    int number = simt::numberOf(binary.chip);
    auto chip = llvm::find_if(kGenerations, [&](const Generation &each) {
      return each.chip == number;
    });
    if (hasCubins && binary.format != "cubin")
      continue;
    if (chip == std::end(kGenerations)) {
      os << "\nmachine code for " << binary.chip << ": not shown, known are "
         << "sm_80, sm_90 and sm_100\n";
      continue;
    }
    auto cubin = hasCubins ? llvm::Expected<CudaBinary>(binary)
                           : assemble(image, binary.chip);
    if (!cubin)
      return cubin.takeError();
    if (llvm::Error error = printChip(program, *cubin, *chip, os))
      return error;
  }
  return llvm::Error::success();
}
