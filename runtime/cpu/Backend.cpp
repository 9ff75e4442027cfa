#include "runtime/cpu/Backend.h"

#include "runtime/weights/RopeTables.h"

#include <cstring>

namespace cria::cpu {

Result<std::unique_ptr<cria::Backend>> Backend::create(const Artifact &code,
                                                       const void *const *slots,
                                                       const Threads &threads,
                                                       const PageCounts &pages,
                                                       const CriaRanks *ranks) {
  std::unique_ptr<Backend> made(new Backend(code, slots, threads, ranks));
  Status status = made->buffers.allocate(pages);
  if (status.ok())
    status = made->allocateRopes();
  if (!status.ok())
    return status;
  return std::unique_ptr<cria::Backend>(std::move(made));
}

/// Allocates the tables that depend on the text. They replace the model's.
Status Backend::allocateRopes() {
  for (const RopeSpec &rope : code.manifest().ropes) {
    if (!rope.isOfSession())
      continue;
    Result<Mapping> tables = Mapping::zeroed(2 * rope.bytes(), "rope tables");
    if (!tables.ok())
      return tables.status();
    ropes.push_back(std::move(*tables));
  }
  fillSlots(nullptr);
  return Status();
}

/// Fills the slots: with the model's weights, with this backend's own rope
/// tables, and with adapters.
void Backend::fillSlots(const BoundLoras *chosen) {
  loras = chosen ? chosen->number() : 0;
  buffers.shareSlots();
  if (ropes.empty() && !chosen)
    return;
  std::vector<const void *> &slots = buffers.copySlots();
  auto tables = ropes.begin();
  for (const RopeSpec &rope : code.manifest().ropes) {
    if (!rope.isOfSession())
      continue;
    slots[rope.slot] = tables->data();
    slots[rope.slot + 1] = tables++->data() + rope.bytes();
  }
  if (chosen)
    chosen->replaceIn(slots);
}

/// Puts the step's adapters into the slots, unless they are there.
void Backend::use(const BoundLoras *chosen) {
  if (loras != (chosen ? chosen->number() : 0))
    fillSlots(chosen);
}

/// Fills the rows that the step reads of this backend's own rope tables.
void Backend::fillRopes(const Step &step) {
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

Status Backend::trace(std::vector<KernelTime> *into) {
  times.begin(pool, code.manifest(), into);
  return Status();
}

Status Backend::run(CriaEntry entry, const Step &step) {
  use(step.loras);
  fillRopes(step);
  times.run([&] {
    entry(step.ids, step.tokens, step.position, step.firstLogit,
          step.firstHidden(), step.source, step.logits, step.hidden,
          buffers.cacheTable(), buffers.scratch(),
          buffers.slotsWith(step.embeddings), pool.host());
  });
  return pool.complete();
}

Status Backend::runPaged(const Step &step) {
  use(step.loras);
  auto position = static_cast<int32_t>(step.position);
  CriaBatchEntry entry = step.isBatch() ? code.batch() : code.pagedPrefill();
  times.run([&] {
    entry(step.ids, step.tokens, step.positions ? step.positions : &position,
          step.pages, step.windowPages, step.states, step.firstLogit,
          step.firstHidden(), step.source, step.logits, step.hidden,
          buffers.cacheTable(), buffers.scratch(),
          buffers.slotsWith(step.embeddings), pool.host());
  });
  return pool.complete();
}

Status Backend::step(const Step &step) {
  if (code.manifest().batch)
    return runPaged(step);
  return run(step.isDecode() ? code.decode() : code.prefill(), step);
}

Status Backend::encode(const Step &step) { return run(code.encode(), step); }

Status Backend::clearPage(PageKind kind, int32_t page) {
  for (size_t i = 0; i < code.manifest().caches.size(); ++i)
    if (const CacheSpec &cache = code.manifest().caches[i];
        cache.kind() == kind)
      memset(at(i, page), 0, cache.bytes);
  return Status();
}

Status Backend::copyPage(PageKind kind, int32_t from, int32_t to) {
  for (size_t i = 0; i < code.manifest().caches.size(); ++i)
    if (const CacheSpec &cache = code.manifest().caches[i];
        cache.kind() == kind)
      memcpy(at(i, to), at(i, from), cache.bytes);
  return Status();
}

Status Backend::readPage(size_t cache, int32_t page, uint64_t begin,
                         std::byte *to, uint64_t bytes) {
  memcpy(to, at(cache, page) + begin, bytes);
  return Status();
}

Status Backend::writePage(size_t cache, int32_t page, uint64_t begin,
                          const std::byte *from, uint64_t bytes) {
  memcpy(at(cache, page) + begin, from, bytes);
  return Status();
}

} // namespace cria::cpu
