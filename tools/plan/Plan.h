/// --report=plan: the kernels of a compiled model, and their floors on
/// machines.
#pragma once

#include "lowering/Compilation.h"
#include "tools/plan/MachineCode.h"

#include "llvm/Support/JSON.h"

namespace cria {

/// The rates of a machine. A floor is the least time that any schedule needs on
/// the machine.
struct Machine {
  std::string name;
  /// 0 for a CPU.
  int64_t multiprocessors = 0;
  /// The rate of the fastest read loop.
  double bytesPerSecond = 0;
  /// Operations per second of products: by the fastest instruction, and of f32
  /// numbers. On GPUs: by the fastest kernels for tensor cores, and the peak
  /// without tensor cores.
  double flops = 0, f32Flops = 0;

  /// The least seconds to read `bytes` and to do `operations`.
  double floor(int64_t bytes, int64_t operations, bool f32) const;
};

struct PlanKernel : KernelCost {
  /// Bytes and operations of one run.
  int64_t runBytes = 0, runFlops = 0;
  /// The number of blocks of each launch on GPUs, in a call of the most tokens.
  std::vector<int64_t> blocks;
};

struct Plan {
  Costs costs;
  /// Tokens before the tokens of a call, and the most tokens of a prefill call.
  int64_t depth = 0, chunk = 0;
  /// The CPUs that the program is compiled for.
  std::vector<CpuTarget> cpus;
  /// Machines with known floors: the CPU, by its measured rates, and GPUs.
  std::vector<Machine> machines;
  /// In the order of the entries.
  std::vector<PlanKernel> kernels;
  /// The machine code that the CUDA toolkit makes of kernels.
  std::vector<ChipCode> code;
};

/// Compiles a copy of a program at phase Import as far as necessary: for CPUs,
/// GPUs or both. Calls follow `depth` tokens.
llvm::Expected<Plan> planOf(Compilation &compilation, bool cpu, bool cuda,
                            int64_t depth);

/// Prints readable tables.
void printPlan(const Plan &plan, llvm::raw_ostream &os);

/// The plan as JSON, for scripts.
llvm::json::Object planJson(const Plan &plan);

} // namespace cria
