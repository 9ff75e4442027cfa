/// Removes positions from within a text: the rows of KV caches after them move
/// down. Attention with RoPE depends only on differences of positions, so keys
/// that RoPE has rotated are rotated back by as many positions as they move.
/// llama.cpp does the same (seq_rm and seq_add, its "K-shift").
///
/// The rows that are left are not what the model would have computed for the
/// shorter text. In every layer but the first, they were computed by tokens
/// that still saw the removed ones.
#pragma once

#include "runtime/artifact/Manifest.h"
#include "runtime/session/Caches.h"

namespace cria {

/// UNIMPLEMENTED, with the reason, if positions cannot be dropped from within a
/// text of this model.
Status mayDropPositions(const Manifest &manifest);

/// Removes positions [begin, end) of the `length` that `caches` hold. After an
/// error, the positions before `begin` are unchanged.
Status dropPositions(const Manifest &manifest, Caches &caches, int64_t begin,
                     int64_t end, int64_t length);

} // namespace cria
