#include "runtime/Session.h"

#include "runtime/Sampler.h"

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
  auto backend = model->bound().newBackend(threads);
  if (!backend.ok())
    return backend.status();
  return std::unique_ptr<Session>(
      new Session(std::move(model), std::move(*backend)));
}

Status Session::check(const int32_t *ids, int64_t count) const {
  const Manifest &manifest = shared->manifest();
  if (manifest.encoder && source == 0)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the model attends to a source text, and none was encoded");
  if (manifest.bidirectional && (fed > 0 || count > manifest.chunk))
    return Status(CRIA_OUT_OF_RANGE,
                  std::to_string(count) + " ids at position " +
                      std::to_string(fed) +
                      ", but the model's tokens see those behind them: a text "
                      "is one call from position 0, of at most " +
                      std::to_string(manifest.chunk) + " ids");
  if (count > manifest.maxSeq - fed)
    return Status(CRIA_OUT_OF_RANGE, std::to_string(count) +
                                         " ids at position " +
                                         std::to_string(fed) + " make " +
                                         std::to_string(fed + count) +
                                         ", the artifact's context holds " +
                                         std::to_string(manifest.maxSeq));
  return checkIds(ids, count);
}

/// INVALID_ARGUMENT unless there are ids, all of them of the vocabulary.
Status Session::checkIds(const int32_t *ids, int64_t count) const {
  const Manifest &manifest = shared->manifest();
  if (count <= 0)
    return Status(CRIA_INVALID_ARGUMENT, "no ids, expected at least one");
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < 0 || ids[i] >= manifest.vocabSize)
      return Status(CRIA_INVALID_ARGUMENT,
                    "id " + std::to_string(ids[i]) + " at index " +
                        std::to_string(i) + ", expected 0 to " +
                        std::to_string(manifest.vocabSize - 1));
  return Status();
}

Status Session::encode(const int32_t *ids, int64_t count) {
  const Manifest &manifest = shared->manifest();
  if (!manifest.encoder)
    return Status(CRIA_INVALID_ARGUMENT, "the model has no encoder");
  int64_t most = std::min(manifest.chunk, manifest.maxSeq);
  if (count > most)
    return Status(CRIA_OUT_OF_RANGE, std::to_string(count) +
                                         " ids to encode, the artifact takes " +
                                         std::to_string(most));
  Status status = checkIds(ids, count);
  if (!status.ok())
    return status;
  source = 0; // what failed leaves none
  fed = 0;
  status = backend->encode(ids, count);
  if (Status intact = shared->bound().intact(); !intact.ok())
    status = intact;
  if (status.ok())
    source = count;
  return status;
}

/// Does the steps of a feed, chunk by chunk; the last one by `last`.
Status Session::advance(const int32_t *ids, int64_t count, cria_logits which,
                        float *logits, const LastStep &last) {
  Status status = check(ids, count);
  if (!status.ok())
    return status;
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  int64_t vocab = shared->manifest().vocabSize;
  int64_t done = 0;
  if (fed == 0)
    prompt = count;
  while (done < count && !cancelled.load(std::memory_order_relaxed)) {
    int64_t tokens = std::min(count - done, shared->manifest().chunk);
    bool ends = done + tokens == count;
    int64_t firstLogit = which == CRIA_LOGITS_ALL            ? 0
                         : which == CRIA_LOGITS_LAST && ends ? tokens - 1
                                                             : tokens;
    float *rows = which == CRIA_LOGITS_ALL ? logits + done * vocab : logits;
    Step step = {ids + done, tokens, fed, firstLogit, rows, prompt, source};
    status = ends ? last(step) : backend->step(step);
    // Weights that are gone say more than what was made of them.
    if (Status intact = shared->bound().intact(); !intact.ok())
      status = intact;
    if (!status.ok())
      break;
    fed += tokens;
    done += tokens;
  }
  PhaseTime &phase = count == 1 ? decode : prefill;
  phase.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  phase.tokens += done;
  if (status.ok() && done < count) {
    cancelled.store(false);
    return Status(CRIA_CANCELLED, "cancelled after " + std::to_string(done) +
                                      " of " + std::to_string(count) + " ids");
  }
  return status;
}

Status Session::feed(const int32_t *ids, int64_t count, cria_logits which,
                     float *logits) {
  return advance(ids, count, which, logits,
                 [&](const Step &step) { return backend->step(step); });
}

Result<int32_t> Session::draw(const int32_t *ids, int64_t count,
                              Sampler &sampler) {
  int64_t vocab = shared->manifest().vocabSize;
  if (sampler.vocabSize() != vocab)
    return Status(CRIA_INVALID_ARGUMENT,
                  "the sampler's vocab_size is " +
                      std::to_string(sampler.vocabSize()) +
                      ", expected the model's " + std::to_string(vocab));
  int32_t id = 0;
  Status status =
      advance(ids, count, CRIA_LOGITS_LAST, nullptr, [&](const Step &step) {
        Result<int32_t> drawn = backend->draw(step, sampler);
        id = drawn.ok() ? *drawn : 0;
        return drawn.status();
      });
  if (!status.ok())
    return status;
  return id;
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
