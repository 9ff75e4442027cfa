/// What a session holds on the CPU: threads, KV caches and scratch.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/base/Pool.h"
#include "runtime/cpu/Buffers.h"
#include "runtime/cpu/Trace.h"
#include "runtime/device/Backend.h"

#include <memory>
#include <vector>

namespace cria::cpu {

/// Calls the entry functions of an artifact.
class Session : public Backend {
public:
  /// `code`, the pointers at `slots` and `ranks`, null for this process alone,
  /// must outlive the session.
  static Result<std::unique_ptr<Backend>>
  create(const Artifact &code, const void *const *slots, const Threads &threads,
         const CriaRanks *ranks = nullptr);

  Status step(const Step &step) override;
  Result<int32_t> draw(const Step &step, Sampler &sampler) override;
  Status encode(const int32_t *ids, int64_t count) override;
  Status use(const BoundLoras *loras) override;
  Status trace(std::vector<KernelTime> *into) override;
  Status readCache(size_t cache, uint64_t begin, std::byte *to,
                   uint64_t bytes) override;
  Status writeCache(size_t cache, uint64_t begin, const std::byte *from,
                    uint64_t bytes) override;
  int threads() const override { return pool.threads(); }

private:
  Session(const Artifact &code, const void *const *slots,
          const Threads &threads, const CriaRanks *ranks)
      : code(code), pool(threads), buffers(code, slots), ranks(ranks) {
    pool.setRanks(ranks);
  }
  Status allocateRopes();
  void fillRopes(const Step &step);
  Status run(CriaEntry entry, const Step &step);
  Status runStep(const Step &step);
  Status computePart(const Step &step);
  Result<int32_t> drawBest(const Sampler &sampler);

  const Artifact &code;
  Pool pool;
  Trace times;
  Buffers buffers;
  std::vector<Mapping> ropes;    // cosines and sines of tables of its own
  std::vector<float> lastLogits; // (vocab), of draws
  const CriaRanks *ranks;
  std::vector<float> part; // a rank's logits of a step, (rows, columns)
};

} // namespace cria::cpu
