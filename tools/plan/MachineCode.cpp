#include "tools/plan/MachineCode.h"

#include "lowering/artifact/Values.h"
#include "lowering/gpu/build/Chips.h"
#include "lowering/gpu/cuda/Toolkit.h"
#include "tools/plan/Grids.h"
#include "tools/plan/Sass.h"

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
/// A generation of chips: one GPU of it, and the limits of its multiprocessors.
struct Generation {
  int chip;
  const char *gpu;
  int64_t multiprocessors, shared, warps, blocks;
  /// Where the kernel's parameters begin, in bytes of constant bank 0.
  int64_t parameters;

  int64_t resident(int64_t threads, int64_t registers, int64_t bytes) const;
};

/// A kernel as the plan launches it.
struct Launched {
  int64_t threads = 0, shared = 0;
  /// Blocks of the grid, if they are the same in each call; and blocks in the
  /// longest call.
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
    {100, "B200", 148, 228 << 10, 64, 32, 0x380},
    {120, "RTX 5090", 170, 100 << 10, 48, 24, 0x380}};

/// Blocks that fit a multiprocessor. Registers are given to a warp in units of
/// 256, from the quarter of them that belongs to its scheduler. Shared memory
/// is given to a block in units of 128 bytes, and 1 KiB more than the block
/// asks for.
int64_t Generation::resident(int64_t threads, int64_t registers,
                             int64_t bytes) const {
  int64_t own = llvm::divideCeil(threads, kWarp);
  int64_t each =
      int64_t(llvm::alignTo(std::max<int64_t>(registers, 1) * kWarp, 256));
  return std::min<int64_t>({kRegisters / 4 / each * 4 / own,
                            shared / int64_t(llvm::alignTo(bytes, 128) + 1024),
                            warps / own, blocks});
}

/// The size of a grid's dimension, if it is the same in each call where it is
/// not 0.
static std::optional<int64_t> fixedSize(const json::Value &size) {
  if (auto number = size.getAsInteger())
    return *number;
  const json::Object &counted = *size.getAsObject();
  int64_t divisor = 1;
  for (const char *what : {"tokens", "logits", "hidden"})
    divisor = counted.getInteger(what).value_or(divisor);
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

/// The slots of the weights that are matrices. Only matrices and caches are
/// streamed: vectors stay in the GPU's caches.
static std::set<int64_t> matricesOf(mlir::ArrayAttr weights) {
  std::set<int64_t> slots;
  for (auto weight : weights.getAsRange<mlir::DictionaryAttr>()) {
    int64_t slot = *getInteger(weight, "slot");
    int64_t count = std::max<int64_t>(1, *getInteger(weight, "count"));
    for (int64_t i = 0; i < count; ++i)
      if (weight.getAs<mlir::ArrayAttr>("shape").size() > 1)
        slots.insert(slot + i);
  }
  return slots;
}

/// A parameter is an address of 8 bytes or a tensor map of 128 bytes, which is
/// aligned to 64.
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
/// What the report needs besides the machine code.
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

/// The number before `unit` in a line, or 0 if the line has none.
static int64_t numberBefore(StringRef line, StringRef unit) {
  int64_t number = 0;
  StringRef text = line.split(unit).first.rtrim();
  if (line.contains(unit))
    text.substr(text.find_last_not_of("0123456789") + 1)
        .getAsInteger(10, number);
  return number;
}

/// Reads each kernel's resources from the output of `ptxas -v`.
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

/// Reads the report's rows of a chip from a cubin.
static llvm::Expected<ChipCode> readChip(const Program &program,
                                         const CudaBinary &cubin,
                                         const Generation &chip) {
  auto listing = disassemble(cubin);
  if (!listing)
    return listing.takeError();
  std::map<std::string, Launched> launches;
  for (const auto &entry : *program.plan.getObject("entries"))
    addLaunches(program, *entry.second.getAsArray(),
                StringRef(entry.first) == "decode" ? 1 : program.chunk, chip,
                launches);
  std::map<std::string, Resources> resources = readLog(cubin.log);
  ChipCode code = {cubin.chip, chip.gpu, chip.multiprocessors, {}, {}, ""};
  for (auto &[name, kernel] : sass::readListing(*listing)) {
    const Launched &launched = launches[name];
    const Resources &own = resources[name];
    if (launched.threads == 0) // no entry launches it
      continue;
    auto figures =
        sass::figuresOf(kernel, launched.threads, launched.parameters);
    if (!figures)
      return figures.takeError();
    CodeRow row;
    row.kernel = name;
    row.threads = launched.threads;
    row.registers = own.registers;
    row.local = own.local;
    row.shared = own.shared + launched.shared;
    row.blocks = chip.resident(launched.threads, own.registers, row.shared);
    row.loads = figures->loads;
    row.mma = figures->mma;
    if (launched.blocks && row.blocks)
      row.waves =
          double(launched.blocks) / double(row.blocks * chip.multiprocessors);
    if (launched.fixedBlocks && figures->loads)
      row.kib = std::min<double>(row.blocks, double(*launched.fixedBlocks) /
                                                 chip.multiprocessors) *
                launched.threads * *figures->loads * 16 / 1024;
    code.kernels.push_back(std::move(row));
  }
  // For example C7510: wgmma products are serialized.
  for (StringRef line : llvm::split(cubin.log, '\n'))
    if (line.contains("warning") || line.contains("Performance"))
      code.warnings.push_back(line.str());
  return code;
}

llvm::Expected<std::vector<ChipCode>>
cria::readMachineCode(const CudaImage &image, mlir::ArrayAttr weights,
                      int64_t chunk) {
  std::vector<ChipCode> chips;
  if (!hasTool("ptxas") || !hasTool("nvdisasm")) {
    chips.emplace_back().problem = "ptxas and nvdisasm of the CUDA toolkit are "
                                   "neither on PATH nor in CUDA_HOME";
    return chips;
  }
  bool hasCubins = llvm::any_of(image.binaries, [](const CudaBinary &binary) {
    return binary.format == "cubin";
  });
  llvm::Expected<json::Value> plan = toJson(image.plan);
  if (!plan)
    return plan.takeError();
  Program program = {*plan->getAsObject(), matricesOf(weights), chunk};
  for (const CudaBinary &binary : image.binaries) {
    int number = simt::numberOf(binary.chip);
    auto chip = llvm::find_if(kGenerations, [&](const Generation &each) {
      return each.chip == number;
    });
    if (hasCubins && binary.format != "cubin")
      continue;
    if (chip == std::end(kGenerations)) {
      chips.push_back({binary.chip, "", 0, {}, {}, ""});
      chips.back().problem = "known are sm_80, sm_90, sm_100 and sm_120";
      continue;
    }
    auto cubin = hasCubins ? llvm::Expected<CudaBinary>(binary)
                           : assemble(image, binary.chip);
    if (!cubin)
      return cubin.takeError();
    auto code = readChip(program, *cubin, *chip);
    if (!code)
      return code.takeError();
    chips.push_back(std::move(*code));
  }
  return chips;
}

static std::string figure(std::optional<double> number,
                          const char *form = "{0:F2}") {
  return number ? llvm::formatv(form, *number).str() : "-";
}

void cria::printMachineCode(const ChipCode &code, llvm::raw_ostream &os) {
  os << "\nmachine code" << (code.chip.empty() ? "" : " for ") << code.chip;
  if (!code.problem.empty()) {
    os << ": not shown, " << code.problem << "\n";
    return;
  }
  os << ", of which the " << code.gpu << " has " << code.multiprocessors
     << " multiprocessors\n";
  os << llvm::format("%-34s %7s %6s %6s %6s %9s %6s %7s %6s %6s\n", "kernel",
                     "threads", "loads", "KiB", "MMA", "registers", "local",
                     "shared", "blocks", "waves");
  for (const CodeRow &row : code.kernels)
    os << llvm::format(
        "%-34s %7lld %6s %6s %6s %9lld %6lld %7lld %6lld %6s\n",
        row.kernel.c_str(), static_cast<long long>(row.threads),
        figure(row.loads).c_str(), figure(row.kib, "{0:F1}").c_str(),
        figure(row.mma).c_str(), static_cast<long long>(row.registers),
        static_cast<long long>(row.local), static_cast<long long>(row.shared),
        static_cast<long long>(row.blocks), figure(row.waves).c_str());
  for (const std::string &line : code.warnings)
    os << line << "\n";
}

json::Object cria::machineCodeJson(const ChipCode &code) {
  if (!code.problem.empty())
    return json::Object{{"chip", code.chip}, {"problem", code.problem}};
  json::Array kernels;
  for (const CodeRow &row : code.kernels)
    kernels.push_back(json::Object{{"kernel", row.kernel},
                                   {"threads", row.threads},
                                   {"loads", row.loads},
                                   {"kib", row.kib},
                                   {"mma", row.mma},
                                   {"registers", row.registers},
                                   {"local", row.local},
                                   {"shared", row.shared},
                                   {"blocks", row.blocks},
                                   {"waves", row.waves}});
  return json::Object{{"chip", code.chip},
                      {"gpu", code.gpu},
                      {"multiprocessors", code.multiprocessors},
                      {"kernels", std::move(kernels)},
                      {"warnings", json::Array(code.warnings)}};
}
