#include "runtime/SharedLogits.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cria {

void gatherLogits(const CriaRanks &ranks, const Manifest &manifest,
                  const float *part, int64_t rows, float *logits) {
  int64_t vocab = manifest.vocabSize, columns = manifest.logitColumns;
  std::fill_n(logits, rows * vocab, 0.0f);
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(part + row * columns, columns,
                logits + row * vocab + ranks.rank * columns);
  ranks.sum(ranks.data, logits, rows * vocab);
}

/// A number in the order of finite logits. It is larger if the logit is not
/// finite.
static uint32_t ordered(float logit) {
  if (!std::isfinite(logit))
    return UINT32_MAX;
  logit += 0.0f; // -0 becomes 0
  uint32_t bits;
  memcpy(&bits, &logit, sizeof(bits));
  return bits >> 31 ? ~bits : bits | 1u << 31;
}

uint64_t bidOf(float logit, int64_t id) {
  return uint64_t(ordered(logit)) << 32 | ~static_cast<uint32_t>(id);
}

CriaSampled bestOfRanks(const CriaRanks &ranks, uint64_t bid) {
  ranks.max(ranks.data, &bid, 1);
  CriaSampled sampled = {};
  sampled.id = static_cast<int32_t>(~static_cast<uint32_t>(bid));
  sampled.broken = bid >> 32 == UINT32_MAX;
  sampled.logit = sampled.broken ? NAN : 0;
  return sampled;
}

Result<int32_t> agreeOnId(const CriaRanks &ranks, Result<int32_t> drawn) {
  int32_t id = drawn.ok() ? *drawn : -1;
  ranks.broadcast(ranks.data, &id, sizeof(id));
  if (!drawn.ok())
    return drawn;
  if (id < 0)
    return Status(CRIA_ABORTED, "rank 0 drew no id");
  return id;
}

} // namespace cria
