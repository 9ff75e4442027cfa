#include "runtime/Session.h"

#include "runtime/cpu/Cores.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace cria {

static constexpr int maxThreads = 1024;

Result<std::unique_ptr<Session>>
Session::create(std::shared_ptr<const Model> model, int threads) {
  if (threads < 0 || threads > maxThreads)
    return Status(CRIA_INVALID_ARGUMENT,
                  "threads is " + std::to_string(threads) + ", expected 0 to " +
                      std::to_string(maxThreads));
  std::unique_ptr<Session> session(
      new Session(std::move(model), threads ? threads : coreCount()));
  Status status = session->allocate();
  if (!status.ok())
    return status;
  return session;
}

Session::Session(std::shared_ptr<const Model> model, int threads)
    : shared(std::move(model)), pool(threads) {}

Status Session::allocate() {
  const Manifest &manifest = shared->manifest();
  for (const CacheSpec &spec : manifest.caches) {
    Result<Mapping> cache = Mapping::zeroed(spec.bytes, "a KV cache");
    if (!cache.ok())
      return cache.status();
    cacheTable.push_back(cache->data());
    caches.push_back(std::move(*cache));
  }
  Result<Mapping> scratch = Mapping::zeroed(manifest.arenaBytes, "scratch");
  if (!scratch.ok())
    return scratch.status();
  arena = std::move(*scratch);
  return Status();
}

Status Session::check(const int32_t *ids, int64_t count) const {
  const Manifest &manifest = shared->manifest();
  if (count <= 0)
    return Status(CRIA_INVALID_ARGUMENT, "no ids, expected at least one");
  if (count > manifest.maxSeq - fed)
    return Status(CRIA_OUT_OF_RANGE, std::to_string(count) +
                                         " ids at position " +
                                         std::to_string(fed) + " make " +
                                         std::to_string(fed + count) +
                                         ", the artifact's context holds " +
                                         std::to_string(manifest.maxSeq));
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= manifest.vocabSize)
      return Status(CRIA_INVALID_ARGUMENT,
                    "id " + std::to_string(ids[i]) + " at index " +
                        std::to_string(i) + ", expected 0 to " +
                        std::to_string(manifest.vocabSize - 1));
  return Status();
}

void Session::step(const int32_t *ids, int64_t count, int64_t firstLogit,
                   float *logits) {
  const Artifact &code = shared->artifact();
  // The decode entry always computes its row of logits.
  CriaEntry entry =
      count == 1 && firstLogit == 0 ? code.decode() : code.prefill();
  entry(ids, count, fed, firstLogit, logits, cacheTable.data(), arena.data(),
        shared->slots(), pool.host());
  fed += count;
}

Status Session::feed(const int32_t *ids, int64_t count, cria_logits which,
                     float *logits) {
  Status status = check(ids, count);
  if (!status.ok())
    return status;
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  int64_t vocab = shared->manifest().vocabSize;
  int64_t done = 0;
  while (done < count && !cancelled.load(std::memory_order_relaxed)) {
    int64_t tokens = std::min(count - done, shared->manifest().chunk);
    bool last = done + tokens == count;
    int64_t firstLogit = which == CRIA_LOGITS_ALL            ? 0
                         : which == CRIA_LOGITS_LAST && last ? tokens - 1
                                                             : tokens;
    float *rows = which == CRIA_LOGITS_ALL ? logits + done * vocab : logits;
    step(ids + done, tokens, firstLogit, rows);
    done += tokens;
  }
  PhaseTime &phase = count == 1 ? decode : prefill;
  phase.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  phase.tokens += done;
  if (done < count) {
    cancelled.store(false);
    return Status(CRIA_CANCELLED, "cancelled after " + std::to_string(done) +
                                      " of " + std::to_string(count) + " ids");
  }
  return Status();
}

Status Session::rewind(int64_t position) {
  if (position < 0 || position > fed)
    return Status(CRIA_OUT_OF_RANGE, "position " + std::to_string(position) +
                                         ", expected 0 to " +
                                         std::to_string(fed));
  fed = position;
  return Status();
}

} // namespace cria
