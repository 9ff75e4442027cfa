/// A session of an artifact whose KV caches are in pages: a batch of one
/// sequence, which has the pages 0, 1, 2, ... of a pool of its own. So its
/// caches lie as they would without pages, page after page.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/artifact/Manifest.h"
#include "runtime/device/Backend.h"

#include <memory>
#include <vector>

namespace cria {

/// Computes the steps of a session by a PagedBackend.
class PagedSession : public Backend {
public:
  /// `pages` has at least the pages of a context. `manifest` and `ranks`, null
  /// for this process alone, must outlive it.
  PagedSession(const Manifest &manifest, std::unique_ptr<PagedBackend> pages,
               const CriaRanks *ranks);

  Status step(const Step &step) override;
  Result<int32_t> draw(const Step &step, Sampler &sampler) override;
  Status encode(const int32_t *ids, int64_t count) override;
  Status use(const BoundLoras *loras) override { return pages->use(loras); }
  Status trace(std::vector<KernelTime> *into) override {
    return pages->trace(into);
  }
  Status readCache(size_t cache, uint64_t begin, std::byte *to,
                   uint64_t bytes) override;
  Status writeCache(size_t cache, uint64_t begin, const std::byte *from,
                    uint64_t bytes) override;
  int threads() const override { return pages->threads(); }

private:
  Status stepPart(const Step &step);
  Status computePart(const Step &step);

  const Manifest &manifest;
  std::unique_ptr<PagedBackend> pages;
  std::vector<int32_t> table;    // 0, 1, 2, ...
  std::vector<float> lastLogits; // (vocab), of draws
  const CriaRanks *ranks;
  std::vector<float> part; // a rank's logits of a step, (rows, columns)
};

} // namespace cria
