/// The whole compilation: phases in order, and what runs between them.
#pragma once

#include "lowering/cpu/Target.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>
#include <optional>

namespace cria {

/// The forms a program takes, in order. Each can be printed (--emit).
enum class Phase { Import, Fuse, Linalg, Tile, Llvm, LlvmIr, Asm, Obj };

struct PhaseInfo {
  Phase phase;
  /// As --emit and file names spell it.
  const char *name;
  const char *summary;
};

llvm::ArrayRef<PhaseInfo> phases();
std::optional<Phase> phaseByName(llvm::StringRef name);

struct PipelineOptions {
  CpuTarget cpu;
  /// The most tokens one call of the prefill entry takes.
  int64_t chunk = 512;
};

/// What takes a program from the phase before `phase` to `phase`, one of Fuse
/// to Llvm.
void buildPhase(mlir::OpPassManager &pm, Phase phase,
                const PipelineOptions &options);

/// `cria-fuse`, `cria-linalg`, `cria-tile` and `cria-llvm` for the opt tool:
/// the same functions, one phase each.
void registerPhasePipelines();

} // namespace cria
