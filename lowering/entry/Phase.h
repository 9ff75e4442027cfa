/// The forms of a program during compilation: one phase after the other.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>

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
/// Whether a phase is the same for all devices and CPUs. Linalg has the forms
/// that each of them computes fastest.
inline bool isShared(Phase phase) { return phase <= Phase::Fuse; }
std::optional<Phase> phaseByName(llvm::StringRef name);

/// The phase of a module, Import to Tile, as its ops show.
Phase phaseOf(mlir::ModuleOp module);

} // namespace cria
