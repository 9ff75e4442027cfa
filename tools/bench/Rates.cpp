#include "tools/bench/Rates.h"

#include "runtime/base/Clones.h"
#include "runtime/base/Features.h"
#include "runtime/base/threads/Pool.h"
#include "tools/bench/Probe.h"
#include "tools/bench/Units.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>

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

/// The places of the weights of `model`, in the order of their slots.
static std::vector<Span> weightSpans(const Model &model) {
  std::vector<Span> spans;
  for (const WeightSpec &weight : model.manifest().weights)
    for (uint64_t i = 0;
         i < weight.tensors() && !model.manifest().isShared(weight); ++i)
      spans.push_back(
          {static_cast<const std::byte *>(model.slots()[weight.slot + i]),
           weight.bytes()});
  return spans;
}

/// Reads every byte; the sum keeps the loads alive. Weights are aligned only to
/// their element, so words are copied.
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

// Loops that read several places in turns, as products of a matrix and a vector
// may do. Which one is fastest differs between CPUs.

static constexpr uint64_t rowBytes = 4096;
static constexpr uint64_t turnBytes = 256;
static constexpr uint64_t bytesAhead = 1024;

/// Reads `count` parts of `bytes` bytes, a multiple of turnBytes, that follow
/// one another: a turn of each part, then the next turn.
template <int count, bool fetches>
__attribute__((always_inline)) static inline uint64_t
sumParts(const std::byte *data, uint64_t bytes) {
  using Line = uint64_t __attribute__((vector_size(64)));
  Line sums[count] = {};
  for (uint64_t i = 0; i < bytes; i += turnBytes)
    for (int part = 0; part < count; ++part) {
      const std::byte *turn = data + static_cast<uint64_t>(part) * bytes + i;
      for (uint64_t at = 0; at < turnBytes; at += sizeof(Line)) {
        if (fetches)
          __builtin_prefetch(turn + bytesAhead + at);
        Line line;
        std::memcpy(&line, turn + at, sizeof(line));
        sums[part] += line;
      }
    }
  uint64_t sum = 0;
  for (const Line &line : sums)
    for (int word = 0; word < 8; ++word)
      sum += line[word];
  return sum;
}

/// Reads blocks of `count` adjacent rows.
template <int count>
__attribute__((always_inline)) static inline uint64_t
sumRows(const std::byte *data, uint64_t bytes) {
  uint64_t sum = 0, done = 0;
  for (; done + count * rowBytes <= bytes; done += count * rowBytes)
    sum += sumParts<count, false>(data + done, rowBytes);
  return sum + sumBytes(data + done, bytes - done);
}

/// Reads everything in `count` streams.
template <int count>
__attribute__((always_inline)) static inline uint64_t
sumStreams(const std::byte *data, uint64_t bytes) {
  uint64_t part = bytes / count / turnBytes * turnBytes;
  return sumParts<count, true>(data, part) +
         sumBytes(data + count * part, bytes - count * part);
}

CRIA_VECTOR_CLONES static uint64_t sumFourRows(const std::byte *data,
                                               uint64_t bytes) {
  return sumRows<4>(data, bytes);
}
CRIA_VECTOR_CLONES static uint64_t sumEightRows(const std::byte *data,
                                                uint64_t bytes) {
  return sumRows<8>(data, bytes);
}
CRIA_VECTOR_CLONES static uint64_t sumFourStreams(const std::byte *data,
                                                  uint64_t bytes) {
  return sumStreams<4>(data, bytes);
}
CRIA_VECTOR_CLONES static uint64_t sumEightStreams(const std::byte *data,
                                                   uint64_t bytes) {
  return sumStreams<8>(data, bytes);
}

namespace {
struct ReadLoop {
  const char *name;
  uint64_t (*sum)(const std::byte *data, uint64_t bytes);
  const char *streams; // their number, if decode may read like this
};
} // namespace

static constexpr ReadLoop readLoops[] = {
    {"a plain loop", sumBytes, "1"},
    {"4 adjacent rows", sumFourRows, nullptr},
    {"8 adjacent rows", sumEightRows, nullptr},
    {"4 far streams", sumFourStreams, "4"},
    {"8 far streams", sumEightStreams, "8"}};

/// Whether the loops can read the first pages of each span.
static Status tryRead(const std::vector<Span> &spans) {
  return tryInChild([&spans] {
    volatile uint64_t sum = 0; // keeps the loads
    for (const Span &span : spans)
      for (const ReadLoop &loop : readLoops)
        sum = sum +
              loop.sum(span.data, std::min<uint64_t>(span.bytes, 8 * rowBytes));
  });
}

/// The rate of a loop. Each thread streams through its part of each span.
static double readRate(Pool &pool, const std::vector<Span> &spans,
                       const ReadLoop &loop) {
  struct Work {
    const std::vector<Span> *spans;
    const ReadLoop *loop;
    int64_t shares;
    std::atomic<uint64_t> sum;
  } work = {&spans, &loop, pool.threads(), {}};
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
            sum += work.loop->sum(span.data + from, to - from);
          }
          work.sum.fetch_add(sum, std::memory_order_relaxed);
        },
        &work, work.shares);
    read += total;
  } while (secondsSince(begin) < 0.005);
  return static_cast<double>(read) / secondsSince(begin);
}

/// The loop with the best median over a few rounds, in which the loops take
/// turns.
static const ReadLoop &fastestLoop(Pool &pool, const std::vector<Span> &spans) {
  constexpr size_t rounds = 3, count = std::size(readLoops);
  std::array<std::array<double, rounds>, count> rates;
  for (size_t round = 0; round < rounds; ++round)
    for (size_t i = 0; i < count; ++i)
      rates[i][round] = readRate(pool, spans, readLoops[i]);
  for (auto &ofLoop : rates)
    std::sort(ofLoop.begin(), ofLoop.end());
  auto best = std::max_element(rates.begin(), rates.end(),
                               [](const auto &a, const auto &b) {
                                 return a[rounds / 2] < b[rounds / 2];
                               });
  return readLoops[best - rates.begin()];
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
/// Tries each loop once in a child process before it runs in this process.
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
    if (!readTried.ok())
      return readTried;
    if (!loop)
      loop = &fastestLoop(pool, spans);
    return readRate(pool, spans, *loop);
  }
  std::string readLoopName() const override {
    return (loop ? loop : readLoops)->name;
  }
  Result<double> compute(size_t unit) override {
    const Status &tried = unitsTried[unit];
    return tried.ok() ? Result<double>(computeRate(pool, loops[unit])) : tried;
  }

private:
  Pool pool; // sleeps while the session runs
  std::vector<Span> spans;
  const ReadLoop *loop = nullptr; // the fastest, once that is known
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

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<nlohmann::json> measureCpu(const Model &model, int threads) {
  constexpr int rounds = 5;
  Pool pool(threads);
  std::vector<Span> spans = weightSpans(model);
  nlohmann::json json = {{"cpu", cpuName()}};
  for (const Unit &unit : unitsFor(DType::BF16)) {
    Status tried = tryInChild([&unit] { unit.run(100); });
    if (!tried.ok())
      return tried;
    std::vector<double> rates;
    for (int round = 0; round < rounds; ++round)
      rates.push_back(computeRate(pool, unit));
    // Without the width of the unit's vectors.
    std::string name = unit.name.substr(0, unit.name.find(','));
    json["operations_per_second"][name] = median(rates);
  }
  Status tried = tryRead(spans);
  if (!tried.ok())
    return tried;
  for (const ReadLoop &loop : readLoops) {
    if (!loop.streams)
      continue;
    std::vector<double> rates;
    for (int round = 0; round < rounds; ++round)
      rates.push_back(readRate(pool, spans, loop));
    json["read_bytes_per_second"][loop.streams] = median(rates);
  }
  return json;
}

} // namespace cria::bench
