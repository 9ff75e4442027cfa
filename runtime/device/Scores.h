/// Loops over the scores of all ids, which every drawn id takes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

/// How many ids are looked at, or passed over, together.
inline constexpr size_t kScoreBlock = 256;

/// The weight of an id; that of the best is 2^CRIA_WEIGHT_BITS. See
/// CriaSampling. Every device computes it with the same operations in the same
/// order.
uint64_t weigh(float score, float best, float scale);

/// The weights of `count` ids, at most a block: 0 if the score is below `least`
/// or the weight below `leastWeight`. Returns their sum.
uint64_t weighBlock(const float *scores, size_t count, float best, float scale,
                    float least, uint64_t leastWeight, uint64_t *weights);

bool areFinite(const float *scores, size_t count);

/// The largest of `count` scores, which are not NaN.
float bestOf(const float *scores, size_t count);

/// The sum of e^(score - best), where `best` is the largest score, in double.
double sumOfExps(const float *scores, size_t count, float best);

} // namespace cria
