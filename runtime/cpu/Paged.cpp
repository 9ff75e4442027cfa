#include "runtime/cpu/Paged.h"

#include <cstring>

namespace cria::cpu {

Result<std::unique_ptr<PagedBackend>> Paged::create(const Artifact &code,
                                                    const void *const *slots,
                                                    const Threads &threads,
                                                    int64_t pages) {
  std::unique_ptr<Paged> made(new Paged(code, slots, threads));
  Status status = made->allocate(static_cast<uint64_t>(pages));
  if (!status.ok())
    return status;
  return std::unique_ptr<PagedBackend>(std::move(made));
}

Status Paged::allocate(uint64_t pages) {
  for (const CacheSpec &spec : code.manifest().caches) {
    Result<Mapping> cache = Mapping::zeroed(spec.bytes * pages, "a KV cache");
    if (!cache.ok())
      return cache.status();
    cacheTable.push_back(cache->data());
    caches.push_back(std::move(*cache));
  }
  Result<Mapping> scratch =
      Mapping::zeroed(code.cpuCode()->arenaBytes, "scratch");
  if (scratch.ok())
    arena = std::move(*scratch);
  return scratch.status();
}

Status Paged::run(CriaBatchEntry entry, const PagedStep &step) {
  const void *const *read = slots;
  if (step.embeddings) {
    const Manifest &manifest = code.manifest();
    feedSlots.assign(slots, slots + manifest.slots);
    feedSlots[manifest.weights[*manifest.embedding].slot] = step.embeddings;
    read = feedSlots.data();
  }
  times.run([&] {
    entry(step.ids, step.rows, step.positions, step.pages, step.firstLogit,
          step.logits, cacheTable.data(), arena.data(), read, pool.host());
  });
  return pool.complete();
}

Status Paged::use(const BoundLoras *loras) {
  slots = shared;
  if (!loras)
    return Status();
  ownSlots.assign(shared, shared + code.manifest().slots);
  loras->replaceIn(ownSlots);
  slots = ownSlots.data();
  return Status();
}

Status Paged::prefill(const PagedStep &step) {
  return run(code.pagedPrefill(), step);
}

Status Paged::decode(const PagedStep &step) { return run(code.batch(), step); }

Status Paged::clearPage(int32_t page) {
  for (size_t i = 0; i < caches.size(); ++i)
    memset(at(i, page), 0, code.manifest().caches[i].bytes);
  return Status();
}

Status Paged::copyPage(int32_t from, int32_t to) {
  for (size_t i = 0; i < caches.size(); ++i)
    memcpy(at(i, to), at(i, from), code.manifest().caches[i].bytes);
  return Status();
}

Status Paged::readPage(size_t cache, int32_t page, uint64_t begin,
                       std::byte *to, uint64_t bytes) {
  memcpy(to, at(cache, page) + begin, bytes);
  return Status();
}

Status Paged::writePage(size_t cache, int32_t page, uint64_t begin,
                        const std::byte *from, uint64_t bytes) {
  memcpy(at(cache, page) + begin, from, bytes);
  return Status();
}

Status Paged::trace(std::vector<KernelTime> *into) {
  times.begin(pool, code.manifest(), into);
  return Status();
}

} // namespace cria::cpu
