#include "runtime/cpu/Session.h"

#include "runtime/device/Sampler.h"
#include "runtime/ranks/SharedLogits.h"
#include "runtime/weights/RopeTables.h"

#include <algorithm>
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

Status Session::step(const Step &step) {
  if (!code.manifest().sharesLogits())
    return runStep(step);
  Status status = computePart(step);
  int64_t rows = step.tokens - step.firstLogit;
  if (status.ok() && rows > 0)
    gatherLogits(*ranks, code.manifest(), part.data(), rows, step.logits);
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

/// The best id of all ranks, of equal ones the lowest.
Result<int32_t> Session::drawBest(const Sampler &sampler) {
  return sampler.verdict(
      bestOfRanks(*ranks, bestBid(*ranks, code.manifest(), part.data())));
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
  return ranks ? agreeOnId(*ranks, std::move(drawn)) : drawn;
}

} // namespace cria::cpu
