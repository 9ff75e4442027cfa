#include "runtime/cpu/Session.h"

#include "runtime/Sampler.h"

namespace cria::cpu {

Result<std::unique_ptr<Backend>>
Session::create(const Artifact &code, const void *const *slots, int threads) {
  std::unique_ptr<Session> session(new Session(code, slots, threads));
  Status status = session->allocate();
  if (!status.ok())
    return status;
  return std::unique_ptr<Backend>(std::move(session));
}

Status Session::allocate() {
  const Manifest &manifest = code.manifest();
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

Status Session::step(const Step &step) {
  // The decode entry always computes its row of logits.
  bool decodes = step.tokens == 1 && step.firstLogit == 0;
  CriaEntry entry = decodes ? code.decode() : code.prefill();
  entry(step.ids, step.tokens, step.position, step.firstLogit, step.logits,
        cacheTable.data(), arena.data(), slots, pool.host());
  return Status();
}

Result<int32_t> Session::draw(const Step &step, Sampler &sampler) {
  lastLogits.resize(static_cast<size_t>(code.manifest().vocabSize));
  Step whole = step;
  whole.logits = lastLogits.data();
  Status status = this->step(whole);
  if (!status.ok())
    return status;
  return sampler.sample(lastLogits.data());
}

} // namespace cria::cpu
