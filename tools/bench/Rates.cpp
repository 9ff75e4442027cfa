#include "tools/bench/Rates.h"

#include "runtime/cpu/Clones.h"
#include "runtime/cpu/Pool.h"
#include "tools/bench/Probe.h"
#include "tools/bench/Units.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>

namespace cria::bench {

using Clock = std::chrono::steady_clock;

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A range of memory that a decode step reads.
struct Span {
  const std::byte *data;
  uint64_t bytes;
};

/// Where the weights of `model` lie, in the order of their slots.
static std::vector<Span> weightSpans(const Model &model) {
  std::vector<Span> spans;
  for (const WeightSpec &weight : model.manifest().weights)
    for (uint64_t i = 0; i < weight.tensors() && !weight.tied; ++i)
      spans.push_back(
          {static_cast<const std::byte *>(model.slots()[weight.slot + i]),
           weight.bytes()});
  return spans;
}

/// Reads every byte; the sum keeps the loads alive. Weights are aligned to
/// their element alone, so words are copied out.
CRIA_VECTOR_CLONES static uint64_t sumBytes(const std::byte *data,
                                            uint64_t bytes) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, sizeof(word));
    sum += word;
  }
  return sum;
}

/// Whether the loop can read the first page of each span.
static Status tryRead(const std::vector<Span> &spans) {
  return tryInChild([&spans] {
    volatile uint64_t sum = 0; // keeps the loads
    for (const Span &span : spans)
      sum = sum + sumBytes(span.data, std::min<uint64_t>(span.bytes, 4096));
  });
}

/// Each thread streams through its part of each span.
static double readRate(Pool &pool, const std::vector<Span> &spans) {
  struct Work {
    const std::vector<Span> *spans;
    int64_t shares;
    std::atomic<uint64_t> sum;
  } work = {&spans, pool.threads(), {}};
  uint64_t total = 0;
  for (const Span &span : spans)
    total += span.bytes;
  uint64_t read = 0;
  Clock::time_point begin = Clock::now();
  do {
    pool.run(
        [](void *context, int64_t first, int64_t last) {
          Work &work = *static_cast<Work *>(context);
          auto shares = static_cast<uint64_t>(work.shares);
          uint64_t sum = 0;
          for (const Span &span : *work.spans) {
            uint64_t from = span.bytes * static_cast<uint64_t>(first) / shares;
            uint64_t to = span.bytes * static_cast<uint64_t>(last) / shares;
            sum += sumBytes(span.data + from, to - from);
          }
          work.sum.fetch_add(sum, std::memory_order_relaxed);
        },
        &work, work.shares);
    read += total;
  } while (secondsSince(begin) < 0.005);
  return static_cast<double>(read) / secondsSince(begin);
}

static double computeRate(Pool &pool, const Unit &unit) {
  struct Work {
    const Unit *unit;
    std::atomic<int64_t> operations;
  } work = {&unit, {}};
  Clock::time_point begin = Clock::now();
  do {
    pool.run(
        [](void *context, int64_t first, int64_t last) {
          Work &work = *static_cast<Work *>(context);
          for (int64_t i = first; i < last; ++i)
            work.operations.fetch_add(
                static_cast<int64_t>(work.unit->run(100'000)));
        },
        &work, pool.threads());
  } while (secondsSince(begin) < 0.02);
  return static_cast<double>(work.operations.load()) / secondsSince(begin);
}

namespace {
/// Tries each loop once in a child process before it runs in this one.
class CpuRates : public Rates {
public:
  CpuRates(const Model &model, DType type, int threads)
      : pool(threads), spans(weightSpans(model)), loops(unitsFor(type)),
        readTried(tryRead(spans)) {
    for (const Unit &unit : loops) {
      names.push_back(unit.name);
      unitsTried.push_back(tryInChild([&unit] { unit.run(100); }));
    }
  }
  Result<double> read() override {
    return readTried.ok() ? Result<double>(readRate(pool, spans)) : readTried;
  }
  Result<double> compute(size_t unit) override {
    const Status &tried = unitsTried[unit];
    return tried.ok() ? Result<double>(computeRate(pool, loops[unit])) : tried;
  }

private:
  Pool pool; // sleeps while the session runs
  std::vector<Span> spans;
  std::vector<Unit> loops;
  Status readTried;
  std::vector<Status> unitsTried; // one for each of `loops`
};
} // namespace

std::unique_ptr<Rates> ratesOf(const Model &model, DType type, int threads) {
  if (!model.onCpu())
    return cudaRates(model, type);
  return std::make_unique<CpuRates>(model, type, threads);
}

} // namespace cria::bench
