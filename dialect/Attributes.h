/// The attributes that this compiler's passes give to functions. They have the
/// prefix `cria.`, because `func.func` does not define them.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace cria {

/// On an entry or a kernel function, an index: the most tokens of one call. At
/// fuse only @batch has it.
inline constexpr llvm::StringLiteral kChunkAttribute = "cria.chunk";

/// On an entry or a kernel function, a unit: the results for a token are the
/// same bits, whichever other tokens are computed with it.
inline constexpr llvm::StringLiteral kInvariantAttribute = "cria.invariant";

/// On an entry, from linalg on: the names of its arguments
/// (lowering/entry/Entry.h).
inline constexpr llvm::StringLiteral kArgumentsAttribute = "cria.arguments";

/// On an entry, at tile, an index: the bytes of its arena.
inline constexpr llvm::StringLiteral kArenaBytesAttribute = "cria.arena_bytes";

/// On the declaration of a weight, from linalg on: `{slot, source}`, and, if
/// each expert of a layer has a slot, `experts`, their number. On the
/// declaration of a rope table: `{slot}`.
inline constexpr llvm::StringLiteral kWeightAttribute = "cria.weight";
inline constexpr llvm::StringLiteral kRopeAttribute = "cria.rope";

/// On an op in a parallel loop of the CPU's code, a unit: the op gives the end
/// of the iteration's range (VectorBuilder::parallelRanges).
inline constexpr llvm::StringLiteral kRangeEndAttribute = "cria.range_end";

} // namespace cria
