#include "tools/bench/Rates.h"

#include "runtime/cpu/Clones.h"
#include "runtime/cpu/Features.h"
#include "runtime/cpu/Pool.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/// A multiply-add instruction of this CPU.
struct Unit {
  std::string name;
  /// Does `rounds` rounds in registers and returns the operations; the caller
  /// takes the time.
  double (*run)(int64_t rounds);
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

#if defined(__x86_64__)

// Each loop keeps 24 independent accumulators in registers: more than latency
// times throughput on every CPU so far. The empty asm hides from the compiler
// that operands do not change.

__attribute__((target("avx512f"))) static double fma512(int64_t rounds) {
  __m512 sums[24] = {}, a = _mm512_set1_ps(1.0f), b = _mm512_set1_ps(0.5f);
  for (__m512 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+v"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
    for (__m512 &sum : sums)
      sum = _mm512_fmadd_ps(a, b, sum);
  }
  for (__m512 &sum : sums)
    __asm__ volatile("" ::"v"(sum));
  return static_cast<double>(rounds) * 24 * 16 * 2;
}

__attribute__((target("avx2,fma"))) static double fma256(int64_t rounds) {
  __m256 sums[12] = {}, a = _mm256_set1_ps(1.0f), b = _mm256_set1_ps(0.5f);
  for (__m256 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+x"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
    for (__m256 &sum : sums)
      sum = _mm256_fmadd_ps(a, b, sum);
  }
  for (__m256 &sum : sums)
    __asm__ volatile("" ::"x"(sum));
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

static double multiplyAdd128(int64_t rounds) {
  __m128 sums[12] = {}, a = _mm_set1_ps(1.0f), b = _mm_set1_ps(0.5f);
  for (__m128 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+x"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
    for (__m128 &sum : sums)
      sum = _mm_add_ps(_mm_mul_ps(a, b), sum);
  }
  for (__m128 &sum : sums)
    __asm__ volatile("" ::"x"(sum));
  return static_cast<double>(rounds) * 12 * 4 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) static double
dotBf16(int64_t rounds) {
  __m512 sums[24] = {};
  __m512i ones = _mm512_set1_epi32(0x3f803f80);
  __m512bh a = (__m512bh)ones, b = (__m512bh)ones;
  for (__m512 &sum : sums) // else equal sums become one
    __asm__ volatile("" : "+v"(sum));
  for (int64_t round = 0; round < rounds; ++round) {
    __asm__("" : "+v"(a), "+v"(b));
#pragma GCC unroll 24
    for (__m512 &sum : sums)
      sum = _mm512_dpbf16_ps(sum, a, b);
  }
  for (__m512 &sum : sums)
    __asm__ volatile("" ::"v"(sum));
  return static_cast<double>(rounds) * 24 * 32 * 2;
}

/// 2 x 2 tiles of 16 x 16 sums, from 2 + 2 tiles of 16 x 32 bf16.
__attribute__((target("amx-tile,amx-bf16"))) static double
tilesBf16(int64_t rounds) {
  struct alignas(64) Configuration {
    uint8_t palette, start, reserved[14];
    uint16_t rowBytes[16];
    uint8_t rows[16];
  } configuration = {};
  configuration.palette = 1;
  for (int i = 0; i < 8; ++i) {
    configuration.rowBytes[i] = 64;
    configuration.rows[i] = 16;
  }
  _tile_loadconfig(&configuration);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}

/// For f32 and f16 the f32 FMA, for bf16 also vdpbf16ps and AMX where they are.
static std::vector<Unit> unitsFor(DType type) {
  auto has = [](const char *feature) {
    return missingCpuFeatures({feature}).empty();
  };
  std::vector<Unit> units;
  if (has("avx512f"))
    units.push_back({"f32 FMA, 512 bits", fma512});
  else if (has("fma") && has("avx2"))
    units.push_back({"f32 FMA, 256 bits", fma256});
  else
    units.push_back({"f32 multiply and add, 128 bits", multiplyAdd128});
  if (type == DType::BF16 && has("avx512bf16"))
    units.push_back({"vdpbf16ps", dotBf16});
  if (type == DType::BF16 && has("amx-bf16") && permitTiles({"amx-bf16"}))
    units.push_back({"tdpbf16ps", tilesBf16});
  return units;
}

#else

static double multiplyAdd(int64_t rounds) {
  float sums[32] = {};
  for (int64_t round = 0; round < rounds; ++round)
    for (float &sum : sums)
      sum = sum * 0.5f + 1.0f;
  for (float &sum : sums)
    __asm__ volatile("" ::"m"(sum));
  return static_cast<double>(rounds) * 32 * 2;
}

static std::vector<Unit> unitsFor(DType) { return {{"f32 loop", multiplyAdd}}; }

#endif

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
class CpuRates : public Rates {
public:
  CpuRates(const Model &model, DType type, int threads)
      : pool(threads), spans(weightSpans(model)), loops(unitsFor(type)) {
    for (const Unit &unit : loops)
      names.push_back(unit.name);
  }
  Result<double> read() override { return readRate(pool, spans); }
  Result<double> compute(size_t unit) override {
    return computeRate(pool, loops[unit]);
  }

private:
  Pool pool; // sleeps while the session runs
  std::vector<Span> spans;
  std::vector<Unit> loops;
};
} // namespace

Result<std::unique_ptr<Rates>> ratesOf(const Model &model, DType type,
                                       int threads) {
  if (!model.onCpu())
    return cudaRates(model, type);
  return std::unique_ptr<Rates>(
      std::make_unique<CpuRates>(model, type, threads));
}

} // namespace cria::bench
