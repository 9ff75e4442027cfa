/// The whole compilation: the passes between the phases.
#pragma once

#include "lowering/Options.h"
#include "lowering/cpu/Target.h"
#include "lowering/entry/Phase.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>

namespace cria {

struct PipelineOptions {
  Device device = Device::Cpu;
  CpuTarget cpu;
  /// NVIDIA architectures that PTX is generated for, the oldest first. Later
  /// architectures also run the PTX.
  std::vector<std::string> chips = {"sm_80"};
  ProgramOptions program;
  /// Whether each op becomes plain loops on CPUs, without our schedules.
  bool plain = false;
  /// Whether code says which lines of a text it comes from.
  bool lines = false;
  /// Adds passes over the program at Linalg, before the first pass to Tile;
  /// null for none. For tools that look into programs.
  std::function<void(mlir::OpPassManager &)> beforeTile;
};

/// Adds the passes that take a program from the phase before to `phase`, one of
/// Fuse to Llvm.
void buildPhase(mlir::OpPassManager &pm, Phase phase,
                const PipelineOptions &options);

/// `cria-fuse`, `cria-linalg`, `cria-tile` and `cria-llvm` for the opt tool:
/// the same functions, one phase each.
void registerPhasePipelines();

} // namespace cria
