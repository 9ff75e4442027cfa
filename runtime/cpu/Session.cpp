#include "runtime/cpu/Session.h"

#include "runtime/RopeTables.h"
#include "runtime/Sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cria::cpu {

Result<std::unique_ptr<Backend>> Session::create(const Artifact &code,
                                                 const void *const *slots,
                                                 const Threads &threads,
                                                 const CriaRanks *ranks) {
  std::unique_ptr<Session> session(new Session(code, slots, threads, ranks));
  Status status = session->buffers.allocate(1);
  if (status.ok())
    status = session->allocateRopes();
  if (!status.ok())
    return status;
  return std::unique_ptr<Backend>(std::move(session));
}

/// Allocates the tables that depend on the text. They replace the model's.
Status Session::allocateRopes() {
  const Manifest &manifest = code.manifest();
  for (const RopeSpec &rope : manifest.ropes) {
    if (!rope.isOfSession())
      continue;
    Result<Mapping> tables = Mapping::zeroed(2 * rope.bytes(), "rope tables");
    if (!tables.ok())
      return tables.status();
    ropes.push_back(std::move(*tables));
  }
  return use(nullptr);
}

/// Fills the session's slots: the model's, its own tables and the adapters.
Status Session::use(const BoundLoras *loras) {
  buffers.shareSlots();
  if (ropes.empty() && !loras)
    return Status();
  std::vector<const void *> &slots = buffers.copySlots();
  auto tables = ropes.begin();
  for (const RopeSpec &rope : code.manifest().ropes) {
    if (!rope.isOfSession())
      continue;
    slots[rope.slot] = tables->data();
    slots[rope.slot + 1] = tables++->data() + rope.bytes();
  }
  if (loras)
    loras->replaceIn(slots);
  return Status();
}

/// Fills the rows of the session's RoPE tables that the step reads.
void Session::fillRopes(const Step &step) {
  auto tables = ropes.begin();
  for (const RopeSpec &rope : code.manifest().ropes) {
    if (!rope.isOfSession())
      continue;
    auto first = static_cast<uint64_t>(step.position);
    uint64_t last = first + static_cast<uint64_t>(step.tokens);
    auto *cosines = reinterpret_cast<float *>(tables->data());
    uint64_t at = first * rope.inverseFrequencies.size();
    fillRopeRows(rope, static_cast<uint64_t>(step.prompt), first, last,
                 cosines + at, cosines + rope.bytes() / sizeof(float) + at);
    ++tables;
  }
}

Status Session::trace(std::vector<KernelTime> *into) {
  times.begin(pool, code.manifest(), into);
  return Status();
}

Status Session::run(CriaEntry entry, const Step &step) {
  fillRopes(step);
  times.run([&] {
    entry(step.ids, step.tokens, step.position, step.firstLogit,
          step.firstHidden(), step.source, step.logits, step.hidden,
          buffers.cacheTable(), buffers.scratch(),
          buffers.slotsWith(step.embeddings), pool.host());
  });
  return pool.complete();
}

Status Session::runStep(const Step &step) {
  return run(step.isDecode() ? code.decode() : code.prefill(), step);
}

/// Does a step whose logits are split between ranks. This rank's go to `part`.
Status Session::computePart(const Step &step) {
  part.resize(static_cast<size_t>((step.tokens - step.firstLogit) *
                                  code.manifest().logitColumns));
  Step own = step;
  own.logits = part.data();
  return runStep(own);
}

/// Joins the parts of all ranks, `rows` rows. Each rank's part lies among
/// zeros, so the sum is exact.
void Session::gather(int64_t rows, float *logits) const {
  int64_t vocab = code.manifest().vocabSize,
          columns = code.manifest().logitColumns;
  std::fill_n(logits, rows * vocab, 0.0f);
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(&part[static_cast<size_t>(row * columns)], columns,
                logits + row * vocab + ranks->rank * columns);
  ranks->sum(logits, rows * vocab);
}

Status Session::step(const Step &step) {
  if (!code.manifest().sharesLogits())
    return runStep(step);
  Status status = computePart(step);
  int64_t rows = step.tokens - step.firstLogit;
  if (status.ok() && rows > 0)
    gather(rows, step.logits);
  return status;
}

Status Session::encode(const int32_t *ids, int64_t count) {
  return run(code.encode(), {ids, count, 0, count, nullptr, count, count});
}

Status Session::readCache(size_t cache, uint64_t begin, std::byte *to,
                          uint64_t bytes) {
  memcpy(to, buffers.cache(cache) + begin, bytes);
  return Status();
}

Status Session::writeCache(size_t cache, uint64_t begin, const std::byte *from,
                           uint64_t bytes) {
  memcpy(buffers.cache(cache) + begin, from, bytes);
  return Status();
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

/// The best id of all ranks; the lowest if there are several. Each rank sends
/// eight bytes: the logit in the upper half, the complement of the id in the
/// lower half.
Result<int32_t> Session::drawBest(const Sampler &sampler) {
  auto first =
      static_cast<uint32_t>(ranks->rank * code.manifest().logitColumns);
  uint64_t best = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    uint32_t id = first + static_cast<uint32_t>(i);
    best = std::max(best, uint64_t(ordered(part[i])) << 32 | ~id);
  }
  ranks->max(&best, 1);
  CriaSampled sampled = {};
  sampled.id = static_cast<int32_t>(~static_cast<uint32_t>(best));
  sampled.broken = best >> 32 == UINT32_MAX;
  sampled.logit = sampled.broken ? NAN : 0;
  return sampler.verdict(sampled);
}

/// Rank 0 draws for all, because sums may differ between ranks in their last
/// bits. The others draw, too, so that all ranks use up the same random
/// numbers.
static Result<int32_t> agree(const CriaRanks &ranks, Result<int32_t> drawn) {
  int32_t id = drawn.ok() ? *drawn : -1;
  ranks.broadcast(&id, sizeof(id));
  if (!drawn.ok())
    return drawn;
  if (id < 0)
    return Status(CRIA_ABORTED, "rank 0 drew no id");
  return id;
}

Result<int32_t> Session::draw(const Step &step, Sampler &sampler) {
  if (code.manifest().sharesLogits() && sampler.takesBest()) {
    Status status = computePart(step);
    return status.ok() ? drawBest(sampler) : status;
  }
  lastLogits.resize(static_cast<size_t>(code.manifest().vocabSize));
  Step whole = step;
  whole.logits = lastLogits.data();
  Status status = this->step(whole);
  if (!status.ok())
    return status;
  Result<int32_t> drawn = sampler.sample(lastLogits.data());
  return ranks ? agree(*ranks, std::move(drawn)) : drawn;
}

} // namespace cria::cpu
