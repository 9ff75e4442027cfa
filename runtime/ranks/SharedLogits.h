/// Draws ids if ranks share the vocabulary: each rank has the logits of its
/// columns.
#pragma once

#include "runtime/Abi.h"
#include "runtime/Ranks.h"
#include "runtime/artifact/Manifest.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <vector>

namespace cria {

/// Joins the logits of all ranks, a row for each of `parts`, which are this
/// rank's logits. Each rank's logits lie among zeros, so their sum is exact.
void gatherLogits(const CriaRanks &ranks, const Manifest &manifest,
                  const std::vector<const float *> &parts, float *logits);

/// The same for parts that follow each other, `rows` of them.
void gatherLogits(const CriaRanks &ranks, const Manifest &manifest,
                  const float *part, int64_t rows, float *logits);

/// A number that orders ids by their logits. It is larger for a larger logit,
/// and for the lower id of two equal logits. It is largest if the logit is not
/// finite.
uint64_t bidOf(float logit, int64_t id);

/// The largest bid of this rank's logits of one row.
uint64_t bestBid(const CriaRanks &ranks, const Manifest &manifest,
                 const float *part);

/// The id of the largest bid of all ranks.
CriaSampled sampledOf(uint64_t bid);

/// The id of the largest bid of all ranks. Each rank sends its bid, eight
/// bytes.
CriaSampled bestOfRanks(const CriaRanks &ranks, uint64_t bid);

/// The id that rank 0 drew, because sums may differ between ranks in their last
/// bits. The others draw, too, so that all ranks use up the same random
/// numbers.
Result<int32_t> agreeOnId(const CriaRanks &ranks, Result<int32_t> drawn);

} // namespace cria
