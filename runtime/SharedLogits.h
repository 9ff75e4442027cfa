/// Ids drawn from logits of a vocabulary that ranks share, each of which has
/// the logits of its columns.
#pragma once

#include "runtime/Abi.h"
#include "runtime/Manifest.h"
#include "runtime/Ranks.h"
#include "runtime/Status.h"

#include <cstdint>

namespace cria {

/// Puts the parts of all ranks together, `rows` rows: those of this one are at
/// `part`. A sum with zeros, which is exact.
void gatherLogits(const CriaRanks &ranks, const Manifest &manifest,
                  const float *part, int64_t rows, float *logits);

/// A number that grows with the logit, is largest for one that is not finite,
/// and of equal logits is larger for the lower id.
uint64_t bidOf(float logit, int64_t id);

/// The id of the largest bid of all ranks, by eight bytes from each.
CriaSampled bestOfRanks(const CriaRanks &ranks, uint64_t bid);

/// What rank 0 drew, as sums may differ between ranks in their last bits. All
/// draw, so that their random numbers stay the same.
Result<int32_t> agreeOnId(const CriaRanks &ranks, Result<int32_t> drawn);

} // namespace cria
