#include "runtime/ranks/SharedVocabulary.h"

#include "runtime/device/Sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace cria {

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

/// A number that orders ids by their logits. It is larger for a larger logit,
/// and for the lower id of two equal logits. It is largest if the logit is not
/// finite.
static uint64_t bidOf(float logit, int64_t id) {
  return uint64_t(ordered(logit)) << 32 | ~static_cast<uint32_t>(id);
}

/// The id of a bid.
static CriaSampled sampledOf(uint64_t bid) {
  CriaSampled sampled = {};
  sampled.id = static_cast<int32_t>(~static_cast<uint32_t>(bid));
  sampled.broken = bid >> 32 == UINT32_MAX;
  sampled.logit = sampled.broken ? NAN : 0;
  return sampled;
}

/// Whether the likeliest id of a row is all that is wanted.
static bool takesBid(const Draw &draw) {
  return draw.sampler->takesBest() && !draw.wantsLogits;
}

namespace {

class SharedVocabulary : public Backend {
public:
  SharedVocabulary(std::unique_ptr<Backend> own, const CriaRanks &ranks,
                   const Manifest &manifest)
      : own(std::move(own)), ranks(ranks), vocab(manifest.vocabSize),
        columns(manifest.logitColumns), first(ranks.rank * columns),
        isShared(manifest.sharesLogits()) {}

  Status step(const Step &step) override;
  Status draw(const Step *steps, size_t count, Draw *draws,
              size_t rows) override;

  Status encode(const Step &step) override { return own->encode(step); }
  Status trace(std::vector<KernelTime> *into) override {
    return own->trace(into);
  }
  Status clearPage(PageKind kind, int32_t page) override {
    return own->clearPage(kind, page);
  }
  Status copyPage(PageKind kind, int32_t from, int32_t to) override {
    return own->copyPage(kind, from, to);
  }
  Status readPage(size_t cache, int32_t page, uint64_t begin, std::byte *to,
                  uint64_t bytes) override {
    return own->readPage(cache, page, begin, to, bytes);
  }
  Status writePage(size_t cache, int32_t page, uint64_t begin,
                   const std::byte *from, uint64_t bytes) override {
    return own->writePage(cache, page, begin, from, bytes);
  }
  int threads() const override { return own->threads(); }

private:
  void gather(const std::vector<const float *> &parts, float *logits) const;
  void gatherDraws(Draw *draws, size_t rows);
  uint64_t bestBid(const float *part) const;
  Status drawFromParts(const Step *steps, size_t count, Draw *draws,
                       size_t rows);
  void agreeOnBids(Draw *draws, size_t rows);
  void agreeOnIds(Draw *draws, size_t rows) const;

  std::unique_ptr<Backend> own;
  const CriaRanks &ranks;
  const int64_t vocab, columns, first; // the columns of this rank
  const bool isShared;
  std::vector<float> part;    // its logits, (rows, columns)
  std::vector<float> whole;   // (rows, vocab), of draws that read whole rows
  std::vector<uint64_t> bids; // of the other draws; 0 for these
};

} // namespace

/// Writes whole rows, (parts.size(), vocab), to `logits`. `parts` has this
/// rank's columns of each row.
void SharedVocabulary::gather(const std::vector<const float *> &parts,
                              float *logits) const {
  int64_t count = vocab * static_cast<int64_t>(parts.size());
  std::fill_n(logits, count, 0.0f);
  float *to = logits + first;
  for (const float *part : parts) {
    std::copy_n(part, columns, to);
    to += vocab;
  }
  ranks.sum(ranks.data, logits, count);
}

Status SharedVocabulary::step(const Step &step) {
  if (!isShared || step.logitRows() == 0)
    return own->step(step);
  Status status = doSteps(*own, &step, 1, columns, part);
  if (!status.ok())
    return status;
  std::vector<const float *> parts;
  for (int64_t row = 0; row < step.logitRows(); ++row)
    parts.push_back(part.data() + row * columns);
  gather(parts, step.logits);
  return status;
}

/// Gathers the whole rows of logits for the draws that need more than the
/// likeliest id, and sets `Draw::logits`.
void SharedVocabulary::gatherDraws(Draw *draws, size_t rows) {
  std::vector<const float *> parts;
  for (size_t row = 0; row < rows; ++row) {
    draws[row].logits = part.data() + row * static_cast<size_t>(columns);
    if (!takesBid(draws[row]))
      parts.push_back(draws[row].logits);
  }
  whole.resize(parts.size() * static_cast<size_t>(vocab));
  if (parts.empty())
    return;
  gather(parts, whole.data());
  const float *next = whole.data();
  for (size_t row = 0; row < rows; ++row)
    if (!takesBid(draws[row]))
      draws[row].logits = std::exchange(next, next + vocab);
}

/// The largest bid of this rank's logits of one row.
uint64_t SharedVocabulary::bestBid(const float *part) const {
  uint64_t bid = 0;
  for (int64_t i = 0; i < columns; ++i)
    bid = std::max(bid, bidOf(part[i], first + i));
  return bid;
}

/// Makes this rank's bids, and draws the ids that need whole rows.
Status SharedVocabulary::drawFromParts(const Step *steps, size_t count,
                                       Draw *draws, size_t rows) {
  bids.assign(rows, 0);
  if (count == 1 && rows == 1 && takesBid(*draws)) {
    auto drawn = own->drawOnDevice(*steps, *draws->sampler);
    if (!drawn.ok())
      return drawn.status();
    if (*drawn) {
      bids[0] = bidOf((*drawn)->logit, first + (*drawn)->id);
      return Status();
    }
  }
  Status status = doSteps(*own, steps, count, columns, part);
  if (!status.ok())
    return status;
  gatherDraws(draws, rows);
  struct Context {
    SharedVocabulary &self;
    Draw *draws;
  } context = {*this, draws};
  auto body = [](void *data, int64_t begin, int64_t end) {
    auto [self, draws] = *static_cast<Context *>(data);
    for (int64_t row = begin; row < end; ++row)
      if (takesBid(draws[row]))
        self.bids[static_cast<size_t>(row)] = self.bestBid(draws[row].logits);
      else
        draws[row].sample();
  };
  own->inParallel(body, &context, static_cast<int64_t>(rows));
  return status;
}

/// Finds the ids of the best bids of all ranks.
void SharedVocabulary::agreeOnBids(Draw *draws, size_t rows) {
  auto last = std::remove(bids.begin(), bids.end(), 0); // no bid is 0
  bids.erase(last, bids.end());
  if (bids.empty())
    return;
  ranks.max(ranks.data, bids.data(), static_cast<int64_t>(bids.size()));
  const uint64_t *bid = bids.data();
  for (size_t row = 0; row < rows; ++row)
    if (takesBid(draws[row]))
      draws[row].id = draws[row].sampler->take(sampledOf(*bid++));
}

/// Replaces the ids by the ids that rank 0 drew.
void SharedVocabulary::agreeOnIds(Draw *draws, size_t rows) const {
  std::vector<int32_t> ids;
  for (size_t row = 0; row < rows; ++row)
    ids.push_back(draws[row].id.ok() ? *draws[row].id : -1);
  ranks.broadcast(ranks.data, ids.data(),
                  static_cast<int64_t>(rows * sizeof(int32_t)));
  for (size_t row = 0; row < rows; ++row)
    if (ids[row] >= 0)
      draws[row].id = ids[row];
    else if (draws[row].id.ok())
      draws[row].id = Status(CRIA_ABORTED, "rank 0 drew no id");
}

Status SharedVocabulary::draw(const Step *steps, size_t count, Draw *draws,
                              size_t rows) {
  Status status = isShared ? drawFromParts(steps, count, draws, rows)
                           : own->draw(steps, count, draws, rows);
  if (!status.ok())
    return status;
  if (isShared)
    agreeOnBids(draws, rows);
  // All ranks have the same bids.
  if (rows && !(isShared && std::all_of(draws, draws + rows, takesBid)))
    agreeOnIds(draws, rows);
  return status;
}

Result<std::unique_ptr<Backend>> shareVocabulary(std::unique_ptr<Backend> own,
                                                 const CriaRanks &ranks,
                                                 const Manifest &manifest) {
  return std::unique_ptr<Backend>(
      std::make_unique<SharedVocabulary>(std::move(own), ranks, manifest));
}

} // namespace cria
