#include "runtime/ranks/SharedLogits.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cria {

void gatherLogits(const CriaRanks &ranks, const Manifest &manifest,
                  const std::vector<const float *> &parts, float *logits) {
  int64_t vocab = manifest.vocabSize, columns = manifest.logitColumns,
          count = vocab * static_cast<int64_t>(parts.size());
  std::fill_n(logits, count, 0.0f);
  float *own = logits + ranks.rank * columns;
  for (const float *part : parts) {
    std::copy_n(part, columns, own);
    own += vocab;
  }
  ranks.sum(ranks.data, logits, count);
}

void gatherLogits(const CriaRanks &ranks, const Manifest &manifest,
                  const float *part, int64_t rows, float *logits) {
  std::vector<const float *> parts;
  for (int64_t row = 0; row < rows; ++row)
    parts.push_back(part + row * manifest.logitColumns);
  gatherLogits(ranks, manifest, parts, logits);
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

uint64_t bestBid(const CriaRanks &ranks, const Manifest &manifest,
                 const float *part) {
  int64_t columns = manifest.logitColumns, first = ranks.rank * columns;
  uint64_t bid = 0;
  for (int64_t i = 0; i < columns; ++i)
    bid = std::max(bid, bidOf(part[i], first + i));
  return bid;
}

CriaSampled bestOfRanks(const CriaRanks &ranks, uint64_t bid) {
  ranks.max(ranks.data, &bid, 1);
  return sampledOf(bid);
}

CriaSampled sampledOf(uint64_t bid) {
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
