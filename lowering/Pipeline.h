/// The whole compilation: the phases in order, and the passes between them.
#pragma once

#include "lowering/cpu/Target.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>

namespace cria {

/// The forms that a program has during compilation, in order. Each can be
/// printed (--emit).
enum class Phase { Import, Fuse, Linalg, Tile, Llvm, LlvmIr, Ptx, Asm, Obj };

/// The kind of device that runs the compiled code.
enum class Device { Cpu, Cuda };

struct PhaseInfo {
  Phase phase;
  /// The name, as in --emit and in file names.
  const char *name;
  const char *summary;
};

llvm::ArrayRef<PhaseInfo> phases();
/// The name of the file that --dump-phases writes, such as "2-linalg.mlir".
std::string dumpName(Device device, Phase phase);
/// The phases that programs for a device go through, in order.
llvm::ArrayRef<Phase> phasesOf(Device device);
/// Whether a phase is the same for all devices.
inline bool isShared(Phase phase) { return phase <= Phase::Linalg; }
std::optional<Phase> phaseByName(llvm::StringRef name);

struct PipelineOptions {
  Device device = Device::Cpu;
  CpuTarget cpu;
  /// NVIDIA architectures that PTX is generated for, the oldest first. Later
  /// architectures also run the PTX.
  std::vector<std::string> chips = {"sm_80"};
  /// The most tokens of one call of the prefill entry.
  int64_t chunk = 512;
  /// The most sequences that the batch entry runs together, over paged caches;
  /// 0: there is a decode entry instead.
  int64_t batch = 0;
  /// Whether each op becomes plain loops on CPUs, without our schedules.
  bool plain = false;
  /// Whether the results of kernels are visible, and the kernels that this
  /// applies to; empty means all.
  bool taps = false;
  std::vector<std::string> tapped;
  /// For tests: the schedule for AMX in plain loops, on any CPU.
  bool emulateAmx = false;
};

/// Adds the passes that take a program from the phase before to `phase`, one of
/// Fuse to Llvm.
void buildPhase(mlir::OpPassManager &pm, Phase phase,
                const PipelineOptions &options);

/// `cria-fuse`, `cria-linalg`, `cria-tile` and `cria-llvm` for the opt tool:
/// the same functions, one phase each.
void registerPhasePipelines();

} // namespace cria
