#include "runtime/cpu/Session.h"

#include "runtime/RopeTables.h"
#include "runtime/Sampler.h"

#include <cstring>

namespace cria::cpu {

Result<std::unique_ptr<Backend>> Session::create(const Artifact &code,
                                                 const void *const *slots,
                                                 const Threads &threads) {
  std::unique_ptr<Session> session(new Session(code, slots, threads));
  Status status = session->allocate();
  if (!status.ok())
    return status;
  return std::unique_ptr<Backend>(std::move(session));
}

Status Session::allocate() {
  const Manifest &manifest = code.manifest();
  for (const CacheSpec &spec : manifest.caches) {
    Result<Mapping> cache = Mapping::zeroed(spec.bytes, "a KV cache");
    if (!cache.ok())
      return cache.status();
    cacheTable.push_back(cache->data());
    caches.push_back(std::move(*cache));
  }
  Result<Mapping> scratch =
      Mapping::zeroed(code.cpuCode()->arenaBytes, "scratch");
  if (!scratch.ok())
    return scratch.status();
  arena = std::move(*scratch);
  return allocateRopes();
}

/// Tables that depend on the text take the place of the model's.
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
  const Manifest &manifest = code.manifest();
  slots = shared;
  if (ropes.empty() && !loras)
    return Status();
  ownSlots.assign(shared, shared + manifest.slots);
  auto tables = ropes.begin();
  for (const RopeSpec &rope : manifest.ropes) {
    if (!rope.isOfSession())
      continue;
    ownSlots[rope.slot] = tables->data();
    ownSlots[rope.slot + 1] = tables++->data() + rope.bytes();
  }
  for (uint64_t slot = 0; slot < manifest.slots && loras; ++slot)
    if (uint64_t address = loras->find(slot))
      ownSlots[slot] = reinterpret_cast<const void *>(address);
  slots = ownSlots.data();
  return Status();
}

/// The rows that the step reads.
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

/// The slots with the step's embeddings, if it has some, in place of the table.
const void *const *Session::slotsOf(const Step &step) {
  if (!step.embeddings)
    return slots;
  const Manifest &manifest = code.manifest();
  feedSlots.assign(slots, slots + manifest.slots);
  feedSlots[manifest.weights[*manifest.embedding].slot] = step.embeddings;
  return feedSlots.data();
}

/// Notes when kernels begin: one ends where the next begins, or the step ends.
Status Session::trace(std::vector<KernelTime> *into) {
  times = into;
  if (!into) {
    pool.onKernel({});
    return Status();
  }
  pool.onKernel([this](int64_t kernel) {
    const std::vector<std::string> &names = code.manifest().kernels;
    std::string_view name;
    if (kernel >= 0 && static_cast<size_t>(kernel) < names.size())
      name = names[static_cast<size_t>(kernel)];
    times->push_back({name, std::chrono::steady_clock::now(), 0});
  });
  return Status();
}

/// Ends each kernel of a step, which are those from `first` on, where the next
/// begins.
static void endKernels(std::vector<KernelTime> &times, size_t first) {
  auto end = std::chrono::steady_clock::now();
  for (size_t i = times.size(); i-- > first; end = times[i].begin)
    times[i].seconds =
        std::chrono::duration<double>(end - times[i].begin).count();
}

Status Session::run(CriaEntry entry, const Step &step) {
  fillRopes(step);
  size_t before = times ? times->size() : 0;
  entry(step.ids, step.tokens, step.position, step.firstLogit, step.source,
        step.logits, cacheTable.data(), arena.data(), slotsOf(step),
        pool.host());
  if (times)
    endKernels(*times, before);
  return pool.complete();
}

Status Session::step(const Step &step) {
  // The decode entry always computes its row of logits.
  bool decodes = step.tokens == 1 && step.firstLogit == 0;
  return run(decodes ? code.decode() : code.prefill(), step);
}

Status Session::encode(const int32_t *ids, int64_t count) {
  return run(code.encode(), {ids, count, 0, count, nullptr, count, count});
}

Status Session::readCache(size_t cache, uint64_t begin, std::byte *to,
                          uint64_t bytes) {
  memcpy(to, caches[cache].data() + begin, bytes);
  return Status();
}

Status Session::writeCache(size_t cache, uint64_t begin, const std::byte *from,
                           uint64_t bytes) {
  memcpy(caches[cache].data() + begin, from, bytes);
  return Status();
}

Result<int32_t> Session::draw(const Step &step, Sampler &sampler) {
  lastLogits.resize(static_cast<size_t>(code.manifest().vocabSize));
  Step whole = step;
  whole.logits = lastLogits.data();
  Status status = this->step(whole);
  if (!status.ok())
    return status;
  return sampler.sample(lastLogits.data());
}

} // namespace cria::cpu
