/// A backend over a rank's own backend: it gathers the logits of all ranks that
/// share a model, and makes all ranks draw the same ids.
///
/// If ranks share the vocabulary, each rank computes the logits of its columns.
/// Whole rows are put together by a sum, in which each rank's logits lie among
/// zeros, so that it is exact. Where only the likeliest id is wanted, each rank
/// sends a bid for its best id, eight bytes, and the largest bid wins.
///
/// Sums over ranks in compiled code may differ between ranks in their last
/// bits, and so may the ids that they draw: all take the ids that rank 0 drew.
/// The others draw, too, so that all ranks use up the same random numbers.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/artifact/Manifest.h"
#include "runtime/device/Backend.h"

#include <memory>

namespace cria {

/// Wraps `own`, which computes the logits of this rank. The ranks and the
/// manifest must outlive the result.
Result<std::unique_ptr<Backend>> shareVocabulary(std::unique_ptr<Backend> own,
                                                 const CriaRanks &ranks,
                                                 const Manifest &manifest);

} // namespace cria
