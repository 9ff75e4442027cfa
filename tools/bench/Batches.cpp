#include "tools/bench/Batches.h"

#include "runtime/batch/Batch.h"
#include "tools/bench/Timing.h"

#include <algorithm>
#include <map>

namespace cria::bench {

static constexpr int64_t burstTokens = 8;
static constexpr int rounds = 5;

namespace {

/// Sequences with different texts of one depth. Each burst forks them.
class Batches {
public:
  static Result<Batches> create(const std::shared_ptr<const Model> &model,
                                int threads, int64_t most, int64_t depth);

  /// Seconds of a step in which `sequences` sequences decode.
  Result<double> burst(int64_t sequences);
  /// The least bytes that such a step reads.
  double bytes(int64_t sequences) const;

private:
  Batches(std::unique_ptr<Batch> batch, int64_t depth)
      : batch(std::move(batch)), depth(depth) {}
  Status fill(int64_t most);

  std::unique_ptr<Batch> batch;
  int64_t depth;
  std::vector<int64_t> texts;
};

/// The results of all rounds for one number of sequences.
struct Samples {
  std::vector<double> seconds, floors, fractions, ratios;
};

} // namespace

Result<Batches> Batches::create(const std::shared_ptr<const Model> &model,
                                int threads, int64_t most, int64_t depth) {
  BatchOptions options;
  options.threads = threads;
  if (const auto &spec = model->manifest().batch) {
    if (most > spec->rows)
      return Status(CRIA_INVALID_ARGUMENT,
                    "--batch: " + std::to_string(most) +
                        " sequences, the artifact runs at most " +
                        std::to_string(spec->rows) + " at once");
    // Pages of the texts, and pages that bursts write.
    options.pages = most * (depth / spec->page + burstTokens / spec->page + 4);
  }
  auto batch = Batch::create(model, options);
  if (!batch.ok())
    return batch.status();
  Batches made(std::move(*batch), depth);
  if (Status status = made.fill(most); !status.ok())
    return status;
  return made;
}

/// Computes `depth` ids of a different text for each of `most` sequences.
Status Batches::fill(int64_t most) {
  uint32_t state = 1;
  auto vocab = static_cast<uint32_t>(batch->model().manifest().vocabSize);
  for (int64_t i = 0; i < most; ++i) {
    std::vector<int32_t> ids;
    for (int64_t at = 0; at < depth; ++at) {
      state = state * 1664525u + 1013904223u;
      ids.push_back(static_cast<int32_t>((state >> 8) % vocab));
    }
    Result<int64_t> text = batch->join({});
    if (!text.ok())
      return text.status();
    texts.push_back(*text);
    if (depth == 0)
      continue;
    if (Status status = batch->feed(*text, ids.data(), depth, 0); !status.ok())
      return status;
  }
  Status status;
  while (status.ok() && batch->unfinished() > 0)
    status = batch->step();
  return status;
}

Result<double> Batches::burst(int64_t sequences) {
  std::vector<int64_t> forks;
  Status status;
  for (int64_t i = 0; i < sequences && status.ok(); ++i) {
    Result<int64_t> fork = batch->fork(texts[static_cast<size_t>(i)], {});
    if (!fork.ok())
      return fork.status();
    forks.push_back(*fork);
    auto id = static_cast<int32_t>(i % batch->model().manifest().vocabSize);
    status = batch->feed(*fork, &id, 1, burstTokens + 1);
  }
  if (status.ok())
    status = batch->step(); // copies the pages that are shared
  Clock::time_point begin = Clock::now();
  for (int64_t i = 0; i < burstTokens && status.ok(); ++i)
    status = batch->step();
  double seconds = secondsSince(begin) / static_cast<double>(burstTokens);
  for (const BatchResult &result : batch->results())
    if (status.ok())
      status = result.status;
  for (int64_t fork : forks)
    if (Status left = batch->leave(fork); status.ok())
      status = left;
  if (!status.ok())
    return status;
  return seconds;
}

double Batches::bytes(int64_t sequences) const {
  const Manifest &manifest = batch->model().manifest();
  const Costs &costs = manifest.costs;
  uint64_t weights = costs.decodeWeightBytes ? costs.decodeWeightBytes
                                             : manifest.weightBytes();
  double position =
      static_cast<double>(depth) + static_cast<double>(burstTokens + 1) / 2;
  return static_cast<double>(weights) +
         static_cast<double>(costs.cacheBytesPerPosition) * position *
             static_cast<double>(sequences);
}

/// Runs one burst for each number of sequences, between passes of the read
/// loop.
static Status runRound(Batches &batches, Rates &rates,
                       const std::vector<int64_t> &numbers,
                       std::map<int64_t, Samples> &samples) {
  auto read = [&] {
    Result<double> rate = rates.read();
    return rate.ok() ? 1 / *rate : 0;
  };
  double before = read(), one = 0;
  for (int64_t sequences : numbers) {
    Result<double> taken = batches.burst(sequences);
    if (!taken.ok())
      return taken.status();
    double after = read();
    double floor = batches.bytes(sequences) * meanCost(before, after);
    before = after;
    Samples &of = samples[sequences];
    of.seconds.push_back(*taken);
    of.floors.push_back(floor);
    of.fractions.push_back(floor / *taken);
    one = sequences == 1 ? *taken : one;
    of.ratios.push_back(static_cast<double>(sequences) * one / *taken);
  }
  return Status();
}

Status measureBatches(const std::shared_ptr<const Model> &model, Rates &rates,
                      const BenchOptions &options, Report &report) {
  std::vector<int64_t> numbers = options.batches;
  std::sort(numbers.begin(), numbers.end());
  for (int64_t depth : options.depths) {
    progress("decoding batches at depth " + std::to_string(depth));
    auto batches =
        Batches::create(model, report.threads, numbers.back(), depth);
    if (!batches.ok())
      return batches.status();
    std::map<int64_t, Samples> samples;
    for (int i = 0; i <= rounds; ++i) {
      Status status = runRound(*batches, rates, numbers, samples);
      if (!status.ok())
        return status;
      if (i == 0) // the first round warms up
        samples.clear();
    }
    for (const auto &[sequences, of] : samples) {
      BatchRow row = {sequences, depth, {}, median(of.ratios)};
      row.measured.seconds = median(of.seconds);
      row.measured.tokensPerSecond =
          static_cast<double>(sequences) / row.measured.seconds;
      row.measured.floorSeconds = median(of.floors);
      row.measured.fraction = median(of.fractions);
      row.measured.boundByBytes = true;
      report.batches.push_back(row);
    }
  }
  return Status();
}

} // namespace cria::bench
