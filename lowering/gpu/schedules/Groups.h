/// Rows that chose the same weights, together: what tiled products of a mixture
/// of experts begin with.
#pragma once

#include "lowering/gpu/schedules/Work.h"

namespace cria::simt {

/// The choices of all tokens, sorted by the matrix that they choose. Choice i
/// of a token t has the number t * choices + i. A tile is at most `m` choices
/// of one matrix.
struct Groups {
  mlir::Value order; ///< i32: the numbers of the choices, sorted
  /// Two i32 for each tile: where its choices begin in `order`, and where the
  /// choices of its matrix end. Both are 0 for tiles beyond the last.
  mlir::Value tiles;
  int64_t mostTiles = 0;
};

/// Whether a work's rows can be grouped: its products have one choice, of the
/// row and the loop over choices.
bool canGroup(const KernelFunction &function, const Work &work);

/// The work with a row for each choice: its loop over choices is none of a
/// unit.
Work withChoices(const Work &work);

/// Choices of a call, at most, for each matrix, on average.
int64_t choicesOfMatrix(const KernelFunction &function, const Work &work);

/// Builds the launch `name` that groups the choices of a work in tiles of `m`.
Groups emitGroups(KernelFunction &function, const llvm::Twine &name,
                  const Work &work, int64_t m);

} // namespace cria::simt
