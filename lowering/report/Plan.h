/// --report=plan: what a compiled model runs, kernel by kernel, and how long
/// that takes a machine at least.
#pragma once

#include "lowering/Compilation.h"
#include "lowering/gpu/cuda/MachineCode.h"

#include "llvm/Support/JSON.h"

namespace cria {

/// What a machine reaches. A floor is the time below which no schedule gets on
/// it.
struct Machine {
  std::string name;
  /// 0: a CPU.
  int64_t multiprocessors = 0;
  /// What a read loop reaches.
  double bytesPerSecond = 0;
  /// Of products: what the fastest unit reaches, and those of f32 numbers. On
  /// GPUs what the fastest kernels for tensor cores reach, and the peak without
  /// them.
  double flops = 0, f32Flops = 0;

  /// Seconds, at least, to read so many bytes and do so many operations.
  double floor(int64_t bytes, int64_t operations, bool f32) const;
};

struct PlanKernel : KernelCost {
  /// Of one run.
  int64_t runBytes = 0, runFlops = 0;
  /// Of each launch on GPUs, in a call of the most tokens.
  std::vector<int64_t> blocks;
};

struct Plan {
  Costs costs;
  /// Tokens before those of a call, and the most tokens of a call of prefill.
  int64_t depth = 0, chunk = 0;
  /// The CPUs that are compiled for.
  std::vector<CpuTarget> cpus;
  /// Those whose floors are known: the CPU, by its measured rates, and GPUs.
  std::vector<Machine> machines;
  /// In the order of the entries.
  std::vector<PlanKernel> kernels;
  /// What the toolkit makes of kernels for GPUs.
  std::vector<ChipCode> code;
};

/// Compiles a copy of a program at phase Import as far as it needs to: for
/// CPUs, GPUs or both. Calls are after `depth` tokens.
llvm::Expected<Plan> planOf(Compilation &compilation, bool cpu, bool cuda,
                            int64_t depth);

/// Tables for people.
void printPlan(const Plan &plan, llvm::raw_ostream &os);

/// The same for scripts.
llvm::json::Object planJson(const Plan &plan);

} // namespace cria
