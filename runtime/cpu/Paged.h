/// What a batch of sequences holds on the CPU: threads, a pool of pages and
/// scratch.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/base/Pool.h"
#include "runtime/cpu/Buffers.h"
#include "runtime/cpu/Trace.h"
#include "runtime/device/Backend.h"

#include <memory>
#include <vector>

namespace cria::cpu {

/// Calls the entry functions of an artifact whose KV caches are in pages.
class Paged : public PagedBackend {
public:
  /// `code`, the pointers at `slots` and `ranks`, null for this process alone,
  /// must outlive it.
  static Result<std::unique_ptr<PagedBackend>>
  create(const Artifact &code, const void *const *slots, const Threads &threads,
         int64_t pages, const CriaRanks *ranks);

  Status prefill(const PagedStep &step) override;
  Status decode(const PagedStep &step) override;
  Status clearPage(int32_t page) override;
  Status copyPage(int32_t from, int32_t to) override;
  Status readPage(size_t cache, int32_t page, uint64_t begin, std::byte *to,
                  uint64_t bytes) override;
  Status writePage(size_t cache, int32_t page, uint64_t begin,
                   const std::byte *from, uint64_t bytes) override;
  Status use(const BoundLoras *loras) override;
  void inParallel(CriaParallelBody body, void *context,
                  int64_t count) override {
    pool.run(body, context, count);
  }
  Status trace(std::vector<KernelTime> *into) override;
  int threads() const override { return pool.threads(); }

private:
  Paged(const Artifact &code, const void *const *slots, const Threads &threads)
      : code(code), pool(threads), buffers(code, slots) {}
  Status run(CriaBatchEntry entry, const PagedStep &step);
  /// Where `page` of a cache begins.
  std::byte *at(size_t cache, int32_t page) const {
    return buffers.cache(cache) +
           code.manifest().caches[cache].bytes * static_cast<uint64_t>(page);
  }

  const Artifact &code;
  Pool pool;
  Trace times;
  Buffers buffers;
};

} // namespace cria::cpu
