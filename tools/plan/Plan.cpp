#include "tools/plan/Plan.h"

#include "tools/plan/Grids.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/ScopedPrinter.h"

using namespace cria;
namespace json = llvm::json;

static const Machine kGpus[] = {{"A100", 108, 1.75e12, 270e12, 19.5e12},
                                {"H100", 132, 3.0e12, 790e12, 67e12},
                                {"H200", 132, 4.3e12, 790e12, 67e12}};

double Machine::floor(int64_t bytes, int64_t operations, bool f32) const {
  double rate = f32 ? f32Flops : flops;
  return std::max(double(bytes) / bytesPerSecond, double(operations) / rate);
}

llvm::Expected<Plan> cria::planOf(Compilation &compilation, bool cpu, bool cuda,
                                  int64_t depth) {
  Plan plan;
  plan.costs = compilation.costs();
  plan.depth = depth;
  plan.chunk = compilation.chunk();
  if (cpu) {
    plan.cpus.push_back(compilation.cpu());
    llvm::append_range(plan.cpus, compilation.otherCpus());
    const CpuRates &rates = compilation.cpu().rates;
    if (rates.bytesPerSecond > 0 && rates.flops > 0)
      plan.machines.push_back(
          {"CPU", 0, rates.bytesPerSecond, rates.flops, rates.f32Flops});
  }
  Compilation copy = compilation.fork(cuda ? Device::Cuda : Device::Cpu);
  if (llvm::Error error = copy.advance(Phase::Fuse))
    return error;
  copy.countCaches(plan.costs);
  for (KernelCost &cost : copy.kernelCosts()) {
    // The costs of a batch are those of one row, as for decode.
    bool isOfOne = cost.entry == "decode" || cost.entry == "batch";
    int64_t tokens = isOfOne ? 1 : plan.chunk;
    PlanKernel kernel = {std::move(cost), 0, 0, {}};
    kernel.runBytes = kernel.bytes(depth, tokens);
    kernel.runFlops = kernel.flops(depth, tokens);
    plan.kernels.push_back(std::move(kernel));
  }
  if (!cuda)
    return plan;
  if (llvm::Error error = copy.advance(Phase::Ptx))
    return error;
  llvm::append_range(plan.machines, kGpus);
  llvm::Expected<json::Value> launches = toJson(copy.cudaImage().plan);
  if (!launches)
    return launches.takeError();
  for (PlanKernel &kernel : plan.kernels)
    kernel.blocks = blocksOfKernel(*launches->getAsObject(), kernel.entry,
                                   kernel.function(),
                                   kernel.entry == "decode" ? 1 : plan.chunk);
  auto code =
      readMachineCode(copy.cudaImage(), copy.weights(), compilation.chunk());
  if (!code)
    return code.takeError();
  plan.code = std::move(*code);
  return plan;
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

static void printRates(const CpuTarget &cpu, llvm::raw_ostream &os) {
  os << "\nCPU " << cpu.name << ", rates of " << cpu.rates.origin << "\n"
     << "  instruction   rate  products of\n";
  for (const MultiplyRate &row : multiplyRates(cpu))
    os << llvm::format("  %-11s %6.2f  %s\n", row.instruction.c_str(), row.rate,
                       row.products.c_str());
  os << "  products with blocks of integers by " << blockInstruction(cpu)
     << "\n"
     << "  rows of weights multiplied with one row at once: "
     << cpu.unit.streams << "\n";
}

static double floorOf(const Machine &machine, const PlanKernel &kernel) {
  return machine.floor(kernel.runBytes, kernel.runFlops, kernel.f32);
}

static void printKernel(const Plan &plan, const PlanKernel &kernel,
                        llvm::raw_ostream &os) {
  os << llvm::format("%-34s %5lld %11lld %14lld", kernel.function().c_str(),
                     static_cast<long long>(kernel.runs),
                     static_cast<long long>(kernel.runBytes),
                     static_cast<long long>(kernel.runFlops));
  for (const Machine &machine : plan.machines)
    os << llvm::format(" %8.1f", 1e6 * floorOf(machine, kernel));
  int64_t fewest =
      kernel.blocks.empty() ? 0 : *llvm::min_element(kernel.blocks);
  bool hasGpus = false;
  for (const Machine &machine : plan.machines)
    if (machine.multiprocessors) {
      hasGpus = true;
      os << llvm::format(" %5.1f", double(fewest) / machine.multiprocessors);
    }
  if (hasGpus)
    os << "  "
       << llvm::join(llvm::map_range(kernel.blocks, llvm::to_string<int64_t>),
                     "+");
  os << "\n";
}

/// Prints the sum of the floors of an entry's kernels, in microseconds.
static void printSum(const Plan &plan, llvm::StringRef entry,
                     llvm::raw_ostream &os) {
  if (plan.machines.empty())
    return;
  std::string name = "all of " + entry.str();
  os << llvm::format("%-66s", name.c_str());
  for (const Machine &machine : plan.machines) {
    double sum = 0;
    for (const PlanKernel &kernel : plan.kernels)
      sum += kernel.entry == entry
                 ? double(kernel.runs) * floorOf(machine, kernel)
                 : 0;
    os << llvm::format(" %8.1f", 1e6 * sum);
  }
  os << "\n";
}

/// Prints the rates from which floors are computed.
static void printMachine(const Machine &machine, llvm::raw_ostream &os) {
  const char *name = machine.name.c_str();
  if (machine.multiprocessors)
    os << llvm::format("  %s: reads %.2f TB/s, products %.0f TFLOP/s, of f32 "
                       "%.1f, %lld multiprocessors\n",
                       name, machine.bytesPerSecond / 1e12,
                       machine.flops / 1e12, machine.f32Flops / 1e12,
                       static_cast<long long>(machine.multiprocessors));
  else
    os << llvm::format("  %s: reads %.4g GB/s, products %.4g GFLOP/s, of f32 "
                       "%.4g\n",
                       name, machine.bytesPerSecond / 1e9, machine.flops / 1e9,
                       machine.f32Flops / 1e9);
}

static bool isGpu(const Machine &machine) {
  return machine.multiprocessors > 0;
}

static void printKernels(const Plan &plan, llvm::raw_ostream &os) {
  os << "\nkernels: bytes and operations of a run";
  if (!plan.machines.empty())
    os << ", and its microseconds at least";
  bool hasGpus = llvm::any_of(plan.machines, isGpu);
  if (hasGpus)
    os << "; blocks for each multiprocessor in the smallest launch";
  os << "\n";
  for (const Machine &machine : plan.machines)
    printMachine(machine, os);
  os << llvm::format("%-34s %5s %11s %14s", "kernel", "runs", "bytes", "flops");
  for (const Machine &machine : plan.machines)
    os << llvm::format(" %5s us", machine.name.c_str());
  for (const Machine &machine : plan.machines)
    if (machine.multiprocessors)
      os << llvm::format(" %5s", machine.name.c_str());
  os << (hasGpus ? "  blocks\n" : "\n");
  llvm::StringRef last;
  for (const PlanKernel &kernel : plan.kernels) {
    if (!last.empty() && last != kernel.entry)
      printSum(plan, last, os);
    last = kernel.entry;
    printKernel(plan, kernel, os);
  }
  if (!last.empty())
    printSum(plan, last, os);
}

void cria::printPlan(const Plan &plan, llvm::raw_ostream &os) {
  printCosts(plan.costs, plan.chunk, os);
  for (const CpuTarget &cpu : plan.cpus)
    printRates(cpu, os);
  printKernels(plan, os);
  for (const ChipCode &code : plan.code)
    printMachineCode(code, os);
}

//===----------------------------------------------------------------------===//
// For scripts
//===----------------------------------------------------------------------===//

static json::Object cpuJson(const CpuTarget &cpu) {
  json::Array rates;
  for (const MultiplyRate &row : multiplyRates(cpu))
    rates.push_back(json::Object{{"instruction", row.instruction},
                                 {"rate", row.rate},
                                 {"products", row.products}});
  return json::Object{{"name", cpu.name},
                      {"rates_from", cpu.rates.origin},
                      {"rates", std::move(rates)},
                      {"block_instruction", blockInstruction(cpu)},
                      {"streams", cpu.unit.streams}};
}

static json::Object machineJson(const Machine &machine) {
  json::Object object{{"name", machine.name},
                      {"bytes_per_second", machine.bytesPerSecond},
                      {"operations_per_second", machine.flops},
                      {"f32_operations_per_second", machine.f32Flops}};
  if (machine.multiprocessors)
    object["multiprocessors"] = machine.multiprocessors;
  return object;
}

static json::Object kernelJson(const Plan &plan, const PlanKernel &kernel) {
  json::Object floors;
  for (const Machine &machine : plan.machines)
    floors[machine.name] = floorOf(machine, kernel);
  json::Object object{
      {"kernel", kernel.function()}, {"entry", kernel.entry},
      {"path", kernel.path},         {"runs", kernel.runs},
      {"bytes", kernel.runBytes},    {"operations", kernel.runFlops},
      {"f32", kernel.f32},           {"floor_seconds", std::move(floors)}};
  if (!kernel.blocks.empty())
    object["blocks"] = json::Array(kernel.blocks);
  return object;
}

json::Object cria::planJson(const Plan &plan) {
  json::Array modules, caches, cpus, machines, kernels, code;
  for (const CostRow &row : plan.costs.rows)
    modules.push_back(json::Object{{"path", row.path},
                                   {"op", row.op},
                                   {"runs", row.runs},
                                   {"operations_per_token", row.flops},
                                   {"weight_bytes", row.weightBytes}});
  for (const CacheKind &kind : plan.costs.caches)
    caches.push_back(json::Object{{"kind", kind.kind},
                                  {"window", kind.window},
                                  {"layers", kind.layers},
                                  {"positions", kind.positions},
                                  {"bytes", kind.bytes}});
  for (const CpuTarget &cpu : plan.cpus)
    cpus.push_back(cpuJson(cpu));
  for (const Machine &machine : plan.machines)
    machines.push_back(machineJson(machine));
  for (const PlanKernel &kernel : plan.kernels)
    kernels.push_back(kernelJson(plan, kernel));
  for (const ChipCode &chip : plan.code)
    code.push_back(machineCodeJson(chip));
  return json::Object{
      {"parameters", plan.costs.parameters},
      {"active_parameters", plan.costs.parameters - plan.costs.idleParameters},
      {"kv_bytes_per_position", plan.costs.bytesOfPosition()},
      {"kv_bytes", plan.costs.cacheBytes},
      {"caches", std::move(caches)},
      {"depth", plan.depth},
      {"chunk", plan.chunk},
      {"modules", std::move(modules)},
      {"cpus", std::move(cpus)},
      {"machines", std::move(machines)},
      {"kernels", std::move(kernels)},
      {"machine_code", std::move(code)}};
}
