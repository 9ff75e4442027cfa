/// What a session or a batch holds on the CPU: threads, KV caches and scratch.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/base/threads/Pool.h"
#include "runtime/cpu/Buffers.h"
#include "runtime/cpu/Trace.h"
#include "runtime/device/Backend.h"

#include <memory>
#include <vector>

namespace cria::cpu {

/// Calls the entry functions of an artifact.
class Backend : public cria::Backend {
public:
  /// `code`, the pointers at `slots` and `ranks`, which compute the code's sums
  /// over ranks, must outlive the backend.
  static Result<std::unique_ptr<cria::Backend>>
  create(const Artifact &code, const void *const *slots, const Threads &threads,
         const PageCounts &pages, const CriaRanks *ranks);

  Status step(const Step &step) override;
  Status encode(const Step &step) override;
  Status trace(std::vector<KernelTime> *into) override;
  Status clearPage(PageKind kind, int32_t page) override;
  Status copyPage(PageKind kind, int32_t from, int32_t to) override;
  Status readPage(size_t cache, int32_t page, uint64_t begin, std::byte *to,
                  uint64_t bytes) override;
  Status writePage(size_t cache, int32_t page, uint64_t begin,
                   const std::byte *from, uint64_t bytes) override;
  void inParallel(CriaParallelBody body, void *context,
                  int64_t count) override {
    pool.run(body, context, count);
  }
  int threads() const override { return pool.threads(); }

private:
  Backend(const Artifact &code, const void *const *slots,
          const Threads &threads, const CriaRanks *ranks)
      : code(code), pool(threads), buffers(code, slots) {
    pool.setRanks(ranks);
  }
  Status allocateRopes();
  void fillRopes(const Step &step);
  void fillSlots(const BoundLoras *chosen);
  void use(const BoundLoras *chosen);
  Status run(CriaEntry entry, const Step &step);
  Status runPaged(const Step &step);
  /// Where `page` of a cache, or a state, begins.
  std::byte *at(size_t cache, int32_t page) const {
    return buffers.cache(cache) +
           code.manifest().caches[cache].bytes * static_cast<uint64_t>(page);
  }

  const Artifact &code;
  Pool pool;
  Trace times;
  Buffers buffers;
  std::vector<Mapping> ropes; // cosines and sines of this backend's own tables
  uint64_t loras = 0; // BoundLoras::number of the adapters in the slots, or 0
};

} // namespace cria::cpu
