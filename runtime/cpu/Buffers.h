/// The memory that entry functions of compiled CPU code work on.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/base/Memory.h"

#include <vector>

namespace cria::cpu {

/// The KV caches, the scratch and the table of weights of a session or a batch.
class Buffers {
public:
  /// `code` and the pointers at `slots`, the model's table, must outlive it.
  Buffers(const Artifact &code, const void *const *slots)
      : code(code), shared(slots), slots(slots) {}

  /// Allocates the scratch and the caches, all zero: for each cache, as many
  /// times the bytes that the artifact says as its kind has pages.
  Status allocate(const PageCounts &pages);

  std::byte *cache(size_t index) const { return caches[index].data(); }
  void *const *cacheTable() const { return addresses.data(); }
  void *scratch() const { return arena.data(); }

  /// The table becomes the model's again.
  void shareSlots() { slots = shared; }
  /// The table becomes a copy of the model's, which the caller changes.
  std::vector<const void *> &copySlots();
  /// The table for a step. If `embeddings` is not null, it replaces the
  /// model's.
  const void *const *slotsWith(const void *embeddings);

private:
  const Artifact &code;
  const void *const *shared;
  const void *const *slots; // shared or own
  std::vector<const void *> own, ofStep;
  std::vector<Mapping> caches;
  std::vector<void *> addresses; // of the caches
  Mapping arena;
};

} // namespace cria::cpu
