/// Compilation that resumes from the text of a later phase, printed by --emit.
#pragma once

#include "lowering/Compilation.h"

namespace cria {

/// Sets the options to those with which a text with a manifest was made. An
/// error if the user asked for others.
llvm::Error resume(CompileOptions &options, Phase phase,
                   const Manifest &manifest);

/// Checks that the manifest of the file `input` at Tile has the target of this
/// compilation.
llvm::Error checkTarget(const PipelineOptions &options, llvm::StringRef input,
                        const Manifest &manifest);

/// Checks that a module at Fuse, Linalg or Tile agrees with its manifest: in
/// the entries with their caches and sizes, and in the types and slots of
/// weights and rope tables.
mlir::LogicalResult verifyResumed(mlir::ModuleOp module, Phase phase,
                                  const Manifest &manifest);

} // namespace cria
