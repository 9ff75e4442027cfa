#include "tools/bench/Bench.h"

#include "runtime/base/files/File.h"
#include "runtime/base/files/OutputFile.h"
#include "runtime/device/Sampler.h"
#include "runtime/session/Session.h"
#include "tools/Ranks.h"
#include "tools/bench/Batches.h"
#include "tools/bench/Rates.h"
#include "tools/bench/Timing.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <unistd.h>

namespace cria::bench {

static constexpr int repetitions = 5;
static constexpr int64_t burstTokens = 8;
static constexpr int64_t firstPrompt = 16;

namespace {

struct Floor {
  double seconds = 0;
  double bytesBind = 0; // positive if most of the time is reading
};

/// The results of all repetitions of one measurement.
struct Samples {
  std::vector<double> seconds, floors, fractions;
  int64_t bytesWon = 0; // how often the bytes were the floor

  void add(double taken, Floor floor) {
    seconds.push_back(taken);
    floors.push_back(floor.seconds);
    fractions.push_back(floor.seconds / taken);
    bytesWon += floor.bytesBind >= 0 ? 1 : -1;
  }

  Measured summary(int64_t tokens) const {
    Measured result;
    result.seconds = median(seconds);
    result.tokensPerSecond = static_cast<double>(tokens) / result.seconds;
    result.floorSeconds = median(floors);
    result.fraction = median(fractions);
    result.boundByBytes = bytesWon > 0;
    return result;
  }
};

/// The results of all repetitions for one rate of the machine.
struct RateSamples {
  std::vector<double> rates;
  Status problem; // the first; the loop does not run again

  /// Measures once more. Returns the seconds for each byte or operation, 0 if
  /// the loop cannot run.
  template <typename Measure> double add(Measure measure) {
    if (!problem.ok())
      return 0;
    Result<double> rate = measure();
    problem = rate.status();
    if (!rate.ok())
      return 0;
    rates.push_back(*rate);
    return 1 / *rate;
  }

  Rate summary(const std::string &name) const {
    return {name, problem.ok() ? median(rates) : 0, problem.message()};
  }
};

/// A session, and the loops that measure the machine while it runs.
class Bench {
public:
  Bench(const Model &model, Session &session, Rates &rates, Sampler sampler)
      : model(model), session(session), device(rates),
        units(rates.units().size()), sampler(std::move(sampler)) {}

  /// Feeds ids until the caches hold `depth` positions.
  Status fill(int64_t depth);
  Result<Measured> decode(int64_t depth, int64_t tokens);
  Result<Measured> prefill(int64_t tokens);
  void rates(Report &report) const;

private:
  double readOnce();
  double computeOnce();
  Status goBack(int64_t depth);
  Floor prefillFloor(int64_t tokens, double secondsPerByte,
                     double secondsPerOperation) const;
  Status feed(int64_t count);

  const Model &model;
  Session &session;
  Rates &device;
  RateSamples reads;
  std::vector<RateSamples> units;
  Sampler sampler;    // the best id
  uint32_t state = 1; // of the ids
};

} // namespace

/// Seconds for each byte; 0 if that cannot be measured.
double Bench::readOnce() {
  return reads.add([this] { return device.read(); });
}

/// Seconds for each operation of the fastest unit; 0 if no unit can be
/// measured.
double Bench::computeOnce() {
  double least = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    double seconds = units[i].add([this, i] { return device.compute(i); });
    if (seconds > 0 && (least == 0 || seconds < least))
      least = seconds;
  }
  return least;
}

/// Feeds `count` ids of a fixed pseudo-random text and draws the next one.
Status Bench::feed(int64_t count) {
  auto vocab = static_cast<uint32_t>(model.manifest().vocabSize);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((state >> 8) % vocab));
  }
  return session.draw(ids.data(), count, sampler).status();
}

Status Bench::fill(int64_t depth) {
  if (depth <= session.position())
    return Status();
  progress("filling the KV caches to position " + std::to_string(depth));
  return feed(depth - session.position());
}

/// Goes back to `depth`. The feed that computes a text anew is not to be timed.
Status Bench::goBack(int64_t depth) {
  bool isAnew =
      depth > 0 && session.position() - depth >= model.manifest().reach();
  Status status = session.rewind(isAnew ? depth - 1 : depth);
  return isAnew && status.ok() ? feed(1) : status;
}

Result<Measured> Bench::decode(int64_t depth, int64_t tokens) {
  progress("decoding at depth " + std::to_string(depth));
  const Costs &costs = model.manifest().costs;
  uint64_t weightBytes = costs.decodeWeightBytes
                             ? costs.decodeWeightBytes
                             : model.manifest().weightBytes();
  Samples samples;
  // The system allocates the memory of a session's caches at its first use, and
  // a rope may have other frequencies at this depth than at the one before.
  Status warm = session.rewind(depth);
  if (warm.ok())
    warm = feed(1);
  if (!warm.ok())
    return warm;
  double before = readOnce();
  for (int64_t done = 0; done < tokens; done += burstTokens) {
    int64_t burst = std::min(burstTokens, tokens - done);
    Status status = goBack(depth);
    Clock::time_point begin = Clock::now();
    for (int64_t i = 0; i < burst && status.ok(); ++i)
      status = feed(1);
    double taken = secondsSince(begin) / static_cast<double>(burst);
    if (!status.ok())
      return status;
    double after = readOnce();
    double position =
        static_cast<double>(depth) + static_cast<double>(burst - 1) / 2;
    double bytes = static_cast<double>(weightBytes) +
                   static_cast<double>(costs.cacheBytesPerPosition) * position;
    // A byte of the burst took the mean of the passes before and after it.
    double floor = bytes * meanCost(before, after);
    samples.add(taken, {floor, floor});
    before = after;
  }
  return samples.summary(1);
}

/// The least time of any schedule: the layers' reads and operations overlap,
/// and so do the head's. The head cannot begin before the layers end.
Floor Bench::prefillFloor(int64_t tokens, double secondsPerByte,
                          double secondsPerOperation) const {
  const Costs &costs = model.manifest().costs;
  auto head = static_cast<double>(costs.headWeightBytes);
  double read[] = {static_cast<double>(costs.decodeWeightBytes) - head, head};
  double compute[] = {costs.prefillFlopsPerToken * static_cast<double>(tokens),
                      costs.headFlops};
  Floor floor;
  for (int part = 0; part < 2; ++part) {
    double bytes = read[part] * secondsPerByte;
    double operations = compute[part] * secondsPerOperation;
    floor.seconds += std::max(bytes, operations);
    floor.bytesBind += bytes >= operations ? bytes : -operations;
  }
  return floor;
}

Result<Measured> Bench::prefill(int64_t tokens) {
  progress("prefilling " + std::to_string(tokens) + " tokens");
  Samples samples;
  for (int i = 0; i <= repetitions; ++i) {
    double readBefore = readOnce(), computeBefore = computeOnce();
    Status status = session.rewind(0);
    Clock::time_point begin = Clock::now();
    if (status.ok())
      status = feed(tokens);
    double taken = secondsSince(begin);
    if (!status.ok())
      return status;
    double readAfter = readOnce(), computeAfter = computeOnce();
    if (i > 0) // the first run warms up
      samples.add(taken, prefillFloor(tokens, meanCost(readBefore, readAfter),
                                      meanCost(computeBefore, computeAfter)));
  }
  return samples.summary(tokens);
}

void Bench::rates(Report &report) const {
  report.read = reads.summary(device.readLoopName());
  for (size_t i = 0; i < units.size(); ++i)
    report.compute.push_back(units[i].summary(device.units()[i]));
}

/// Resident bytes of this process.
static uint64_t residentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// The type of most weight bytes.
static DType mainType(const Manifest &manifest) {
  std::map<DType, uint64_t> bytes;
  for (const WeightSpec &weight : manifest.weights)
    bytes[weight.type] += weight.bytes() * weight.tensors();
  auto most = std::max_element(
      bytes.begin(), bytes.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  return most == bytes.end() ? DType::F32 : most->first;
}

/// Reports what does not fit before anything is loaded, and picks the defaults.
static Status settle(BenchOptions &options, const Manifest &manifest) {
  int64_t context = manifest.maxSeq;
  if (options.promptLengths.empty())
    options.promptLengths = {std::min<int64_t>(512, context)};
  int64_t longest = *std::max_element(options.promptLengths.begin(),
                                      options.promptLengths.end());
  longest = std::max(longest, firstPrompt);
  for (int64_t depth : options.depths)
    longest =
        std::max(longest, depth + std::min(options.genLength, burstTokens));
  if (!options.batches.empty())
    longest = std::max(longest, *std::max_element(options.depths.begin(),
                                                  options.depths.end()) +
                                    burstTokens + 2);
  if (longest <= context)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                "the lengths need " + std::to_string(longest) +
                    " positions, the artifact's context holds " +
                    std::to_string(context));
}

/// The part of the report that is known before measuring.
static Report describe(const Model &model, DType type) {
  const Manifest &manifest = model.manifest();
  Report report;
  report.artifact = model.artifact().path();
  report.compiler = manifest.compiler;
  report.target = manifest.kind + " " + manifest.arch;
  if (const CpuCode *code = model.artifact().cpuCode())
    report.target += " " + code->cpu;
  report.device = model.device();
  report.type = dtypeName(type);
  report.artifactBytes = model.artifact().fileBytes();
  report.weightBytes = manifest.weightBytes();
  report.cacheBytes = manifest.cacheBytes();
  report.bindSeconds = model.bindSeconds();
  if (!model.onCpu())
    if (Result<nlohmann::json> code = cudaCode(model); code.ok())
      report.code = std::move(*code);
  return report;
}

static Status measure(Bench &bench, const BenchOptions &options,
                      Report &report) {
  // The deepest first: a session can rewind, but to go forward it needs ids.
  std::vector<int64_t> depths = options.depths;
  std::sort(depths.rbegin(), depths.rend());
  Status status = bench.fill(depths.front());
  if (!status.ok())
    return status;
  for (int64_t depth : depths) {
    Result<Measured> row = bench.decode(depth, options.genLength);
    if (!row.ok())
      return row.status();
    report.decode.emplace(report.decode.begin(), depth, *row);
  }
  for (int64_t tokens : options.promptLengths) {
    Result<Measured> row = bench.prefill(tokens);
    if (!row.ok())
      return row.status();
    report.prefill.emplace_back(tokens, *row);
  }
  Result<Measured> first = bench.prefill(firstPrompt);
  if (first.ok())
    report.firstToken = *first;
  return first.status();
}

/// Times the kernels of a decode step at each depth and of each prompt;
/// `report` already has the rates.
static Status measureKernels(const Model &model, const BenchOptions &options,
                             Report &report) {
  auto times = KernelTimes::create(model, report.threads);
  if (!times.ok())
    return times.status();
  double fastest = 0;
  for (const Rate &rate : report.compute)
    fastest = std::max(fastest, rate.perSecond);
  auto cost = [](double rate) { return rate > 0 ? 1 / rate : 0; };
  std::vector<std::pair<int64_t, int64_t>> calls; // tokens, depth
  for (int64_t tokens : options.promptLengths)
    calls.emplace_back(tokens, 0);
  for (int64_t depth : options.depths)
    calls.emplace_back(1, depth);
  for (auto [tokens, depth] : calls) {
    progress("timing the kernels of " + std::to_string(tokens) +
             " tokens at depth " + std::to_string(depth));
    auto table = times->measure(tokens, depth);
    if (!table.ok())
      return table.status();
    table->setFloors(cost(report.read.perSecond), cost(fastest));
    report.kernels.push_back(std::move(*table));
  }
  return Status();
}

/// Writes the file that cria-compile --machine reads.
static Status saveMachine(const Model &model, int threads,
                          const std::string &path) {
  if (!model.onCpu())
    return Status(CRIA_INVALID_ARGUMENT,
                  "--save-machine: expected the model on the CPU");
  progress("measuring the CPU");
  Result<nlohmann::json> machine = measureCpu(model, threads);
  if (!machine.ok())
    return machine.status();
  std::string text = machine->dump(2) + "\n";
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
  return statusOf(file);
}

static Result<Sampler> greedySampler(int64_t vocabSize) {
  SamplerOptions greedy;
  greedy.temperature = 0;
  return Sampler::create(greedy, vocabSize);
}

/// UNIMPLEMENTED: an option that takes one process.
static Status checkAlone(const BenchOptions &options) {
  if (!options.kernels && options.saveMachine.empty())
    return Status();
  return Status(CRIA_UNIMPLEMENTED,
                std::string(options.kernels ? "--kernels" : "--save-machine") +
                    ": expected an artifact for one rank");
}

/// The largest number of any rank.
static uint64_t mostOf(const CriaRanks *ranks, uint64_t number) {
  if (ranks)
    ranks->max(ranks->data, &number, 1);
  return number;
}

Result<Report> runBench(const BenchOptions &given, const CriaRanks *&ranks) {
  BenchOptions options = given;
  Clock::time_point begin = Clock::now();
  auto artifact = Artifact::open(options.artifact);
  if (!artifact.ok())
    return artifact.status();
  double openSeconds = secondsSince(begin);
  Status status = settle(options, (*artifact)->manifest());
  if (status.ok() && (*artifact)->manifest().shards > 1)
    status = checkAlone(options);
  if (!status.ok())
    return status;
  auto joined = openRanks("cria-bench", **artifact, options.threads);
  if (!joined.ok())
    return joined.status();
  options.device.ranks = ranks = *joined;
  progress(options.weights.empty() ? "drawing weights" : "binding weights");
  WeightSource source =
      weightSource(options.weights, options.seed, options.binding);
  auto model = Model::load(*artifact, source, options.device);
  if (!model.ok())
    return model.status();
  auto session = Session::create(*model, options.threads);
  if (!session.ok())
    return session.status();
  auto sampler = greedySampler((*model)->manifest().vocabSize);
  if (!sampler.ok())
    return sampler.status();
  for (const std::string &line : (*model)->warnings())
    progress("warning: " + line);
  if (!options.saveMachine.empty()) {
    status = saveMachine(**model, (*session)->threads(), options.saveMachine);
    if (!status.ok())
      return status;
  }
  DType type = mainType((*model)->manifest());
  Report report = describe(**model, type);
  report.openSeconds = openSeconds;
  report.threads = (*session)->threads();
  report.firstLength = firstPrompt;
  report.ranks = ranks ? ranks->size : 1;
  auto rates = ratesOf(**model, type, (*session)->threads());
  if (ranks)
    rates = slowestRates(std::move(rates), *ranks);
  Bench bench(**model, **session, *rates, std::move(*sampler));
  status = measure(bench, options, report);
  if (!status.ok())
    return status;
  bench.rates(report);
  if (!options.batches.empty())
    status = measureBatches(*model, *rates, options, report);
  if (status.ok() && options.kernels)
    status = measureKernels(**model, options, report);
  if (!status.ok())
    return status;
  report.residentBytes = mostOf(ranks, residentBytes());
  return report;
}

} // namespace cria::bench
