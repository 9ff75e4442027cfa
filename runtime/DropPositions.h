/// Removes positions from within a text: the rows of KV caches behind them move
/// down. Attention with rope depends on differences of positions alone, so keys
/// that rope has rotated are rotated back by as many positions as they move.
/// llama.cpp does the same (seq_rm and seq_add, its "K-shift").
///
/// What is left is what attention may see of another text, not what the model
/// would have computed for that text: the rows of every layer but the first
/// were computed by tokens that still saw those that are gone.
#pragma once

#include "runtime/Backend.h"
#include "runtime/Manifest.h"

namespace cria {

/// UNIMPLEMENTED, saying why, where positions cannot be dropped from within a
/// text of this model.
Status mayDropPositions(const Manifest &manifest);

/// Removes positions [begin, end) of the `length` that the caches of `backend`
/// hold. After an error those in front of `begin` are as they were.
Status dropPositions(const Manifest &manifest, Backend &backend, int64_t begin,
                     int64_t end, int64_t length);

} // namespace cria
