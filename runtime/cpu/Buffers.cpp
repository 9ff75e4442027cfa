#include "runtime/cpu/Buffers.h"

namespace cria::cpu {

Status Buffers::allocate(const PageCounts &pages) {
  for (const CacheSpec &spec : code.manifest().caches) {
    Result<Mapping> cache = Mapping::zeroed(
        spec.bytes * static_cast<uint64_t>(pages.of(spec.kind())),
        "a KV cache");
    if (!cache.ok())
      return cache.status();
    addresses.push_back(cache->data());
    caches.push_back(std::move(*cache));
  }
  Result<Mapping> scratch =
      Mapping::zeroed(code.cpuCode()->arenaBytes, "scratch");
  if (scratch.ok())
    arena = std::move(*scratch);
  return scratch.status();
}

std::vector<const void *> &Buffers::copySlots() {
  own.assign(shared, shared + code.manifest().slots);
  slots = own.data();
  return own;
}

const void *const *Buffers::slotsWith(const void *embeddings) {
  if (!embeddings)
    return slots;
  const Manifest &manifest = code.manifest();
  ofStep.assign(slots, slots + manifest.slots);
  ofStep[manifest.weights[*manifest.embedding].slot] = embeddings;
  return ofStep.data();
}

} // namespace cria::cpu
