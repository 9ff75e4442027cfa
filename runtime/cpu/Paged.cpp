#include "runtime/cpu/Paged.h"

#include <cstring>

namespace cria::cpu {

Result<std::unique_ptr<PagedBackend>>
Paged::create(const Artifact &code, const void *const *slots,
              const Threads &threads, int64_t pages, const CriaRanks *ranks) {
  std::unique_ptr<Paged> made(new Paged(code, slots, threads));
  made->pool.setRanks(ranks);
  Status status = made->buffers.allocate(static_cast<uint64_t>(pages));
  if (!status.ok())
    return status;
  return std::unique_ptr<PagedBackend>(std::move(made));
}

Status Paged::run(CriaBatchEntry entry, const PagedStep &step) {
  times.run([&] {
    entry(step.ids, step.rows, step.positions, step.pages, step.firstLogit,
          step.logits, buffers.cacheTable(), buffers.scratch(),
          buffers.slotsWith(step.embeddings), pool.host());
  });
  return pool.complete();
}

Status Paged::use(const BoundLoras *loras) {
  buffers.shareSlots();
  if (loras)
    loras->replaceIn(buffers.copySlots());
  return Status();
}

Status Paged::prefill(const PagedStep &step) {
  return run(code.pagedPrefill(), step);
}

Status Paged::decode(const PagedStep &step) { return run(code.batch(), step); }

Status Paged::clearPage(int32_t page) {
  for (size_t i = 0; i < code.manifest().caches.size(); ++i)
    memset(at(i, page), 0, code.manifest().caches[i].bytes);
  return Status();
}

Status Paged::copyPage(int32_t from, int32_t to) {
  for (size_t i = 0; i < code.manifest().caches.size(); ++i)
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
