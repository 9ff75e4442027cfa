#include "runtime/device/Backend.h"

#include "runtime/device/Sampler.h"

#include <new>

namespace cria {

static constexpr int maxThreads = 1024;

Status checkThreads(int threads) {
  if (threads >= 0 && threads <= maxThreads)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                {"threads is ", threads, ", expected 0 to ", maxThreads});
}

void Draw::sample() {
  try {
    id = sampler->sample(logits);
  } catch (const std::bad_alloc &) {
    id = Status(CRIA_RESOURCE_EXHAUSTED, "out of memory");
  }
}

Status Backend::doSteps(Backend &backend, const Step *steps, size_t count,
                        int64_t columns, std::vector<float> &logits) {
  int64_t rows = 0;
  for (const Step *step = steps; step != steps + count; ++step)
    rows += step->logitRows();
  logits.resize(static_cast<size_t>(rows * columns));
  float *next = logits.data();
  Status status;
  for (const Step *step = steps; step != steps + count && status.ok(); ++step) {
    Step own = *step;
    own.logits = next;
    next += own.logitRows() * columns;
    status = backend.step(own);
  }
  return status;
}

Status Backend::drawAlone(const Step *steps, size_t count, Draw *draws,
                          size_t rows) {
  if (count == 1 && rows == 1 && !draws->wantsLogits) {
    auto drawn = drawOnDevice(*steps, *draws->sampler);
    if (!drawn.ok())
      return drawn.status();
    if (*drawn) {
      draws->id = draws->sampler->take(**drawn);
      return Status();
    }
  }
  int64_t vocab = rows ? draws->sampler->vocabSize() : 0;
  Status status = doSteps(*this, steps, count, vocab, logits);
  if (!status.ok())
    return status;
  for (size_t row = 0; row < rows; ++row)
    draws[row].logits = logits.data() + row * static_cast<size_t>(vocab);
  auto body = [](void *draws, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      static_cast<Draw *>(draws)[row].sample();
  };
  inParallel(body, draws, static_cast<int64_t>(rows));
  return status;
}

} // namespace cria
