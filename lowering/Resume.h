/// Programs that come as the text of a later phase, as --emit prints it.
#pragma once

#include "lowering/Compilation.h"

namespace cria {

/// The phase of a module, Import to Tile, told from its ops.
Phase phaseOf(mlir::ModuleOp module);

/// Sets the options that a text with a manifest is made with. An error where
/// the user asked for others.
llvm::Error resume(CompileOptions &options, Phase phase,
                   const Manifest &manifest);

/// Checks that what the user asked for is what a program has, where it says so:
/// the type of its caches and their positions.
llvm::Error checkModel(const CompileOptions &options, const Manifest &manifest);

/// Checks that the manifest's target, of the file `input` at Tile, is what is
/// compiled for.
llvm::Error checkTarget(const PipelineOptions &options, llvm::StringRef input,
                        const Manifest &manifest);

/// Checks that a module at Fuse, Linalg or Tile has what the manifest says:
/// entries with their caches and sizes, weights and rope tables of one type in
/// one slot.
mlir::LogicalResult verifyResumed(mlir::ModuleOp module, Phase phase,
                                  const Manifest &manifest);

} // namespace cria
