#include "tools/bench/Kernels.h"

#include "runtime/cuda/Model.h"
#include "runtime/cuda/Session.h"
#include "runtime/session/Caches.h"

#include <algorithm>
#include <numeric>

namespace cria::bench {

static constexpr int repetitions = 5;

/// The weight whose tensor is in `slot`; null for a RoPE table.
static const WeightSpec *weightIn(const Manifest &manifest, uint64_t slot) {
  for (const WeightSpec &weight : manifest.weights)
    if (slot >= weight.slot && slot - weight.slot < weight.tensors())
      return &weight;
  return nullptr;
}

/// Whether a launch has an argument of this kind.
static bool takes(const cuda::LaunchStep &step, cuda::Argument::Kind kind) {
  return std::any_of(step.arguments.begin(), step.arguments.end(),
                     [kind](const auto &given) { return given.kind == kind; });
}

/// Whether a launch computes only rows of logits.
static bool isOfLogits(const cuda::LaunchStep &step) {
  return std::any_of(std::begin(step.grid), std::end(step.grid),
                     [](const auto &dimension) {
                       return dimension.count == cuda::Dimension::Logits;
                     });
}

/// Adds the bytes that a launch for `tokens` tokens after `depth` others reads
/// of one argument. A launch that takes ids looks up rows of its weights. A
/// launch that takes caches and no weights reads all positions.
static void addCost(const Manifest &manifest, const cuda::LaunchStep &step,
                    const cuda::Argument &argument, int64_t tokens,
                    int64_t depth, KernelRow &row) {
  if (argument.kind == cuda::Argument::Cache &&
      !takes(step, cuda::Argument::Weight)) {
    const CacheSpec &cache = manifest.caches[argument.value];
    uint64_t layer = argument.perLayer ? argument.perLayer : cache.bytes;
    int64_t positions = depth + tokens, places = manifest.maxSeq;
    if (cache.window) {
      positions = std::min(positions, cache.window - 1 + tokens);
      places = static_cast<int64_t>(cache.shape[2]);
    }
    row.bytes += static_cast<double>(layer) * static_cast<double>(positions) /
                 static_cast<double>(places);
  }
  if (argument.kind != cuda::Argument::Weight)
    return;
  const WeightSpec *weight = weightIn(manifest, argument.value);
  if (!weight)
    return;
  auto bytes = static_cast<double>(weight->bytes());
  if (takes(step, cuda::Argument::Ids)) {
    row.bytes += bytes / static_cast<double>(weight->shape.front()) *
                 static_cast<double>(tokens);
    return;
  }
  row.bytes += bytes;
  if (weight->shape.size() == 2)
    row.operations += 2 * static_cast<double>(weight->elements()) *
                      static_cast<double>(isOfLogits(step) ? 1 : tokens);
}

double KernelTable::seconds() const {
  return std::accumulate(
      rows.begin(), rows.end(), 0.0,
      [](double sum, const KernelRow &row) { return sum + row.seconds; });
}

Result<KernelTimes> KernelTimes::create(const Model &model, int threads) {
  if (!model.onCpu() && model.manifest().batch)
    return Status(CRIA_UNIMPLEMENTED,
                  "kernels are timed on a GPU without batches alone: compile "
                  "without --batch");
  auto backend = model.onCpu() ? model.newBackend(threads)
                               : model.bound().newBackend(threads, {});
  if (!backend.ok())
    return backend.status();
  return KernelTimes(model, std::move(*backend));
}

Status KernelTimes::onceOnCpu(Step step, KernelTable &table) {
  std::vector<KernelTime> times;
  Caches caches(model->manifest(), *backend);
  Status status = caches.place(step);
  if (status.ok())
    status = backend->trace(&times);
  if (status.ok())
    status = backend->step(step);
  (void)backend->trace(nullptr);
  int64_t wanted = step.tokens - step.firstLogit;
  for (const KernelTime &time : times) {
    KernelRow &row = table.rowOf(std::string(time.kernel));
    ++row.launches;
    row.seconds += time.seconds;
    for (const KernelCost &cost : model->manifest().kernelCosts)
      if (cost.kernel == time.kernel) {
        row.bytes += cost.bytes(step.position, step.tokens, wanted);
        row.operations += cost.flops(step.position, step.tokens, wanted);
      }
  }
  return status;
}

Status KernelTimes::onceOnCuda(const Step &step, KernelTable &table) {
  auto launches = static_cast<cuda::Session &>(*backend).timed(step);
  if (!launches.ok())
    return launches.status();
  for (const cuda::LaunchTime &launch : *launches) {
    KernelRow &row = table.rowOf(launch.step->kernel);
    ++row.launches;
    row.seconds += launch.seconds;
    for (const cuda::Argument &argument : launch.step->arguments)
      addCost(model->manifest(), *launch.step, argument, step.tokens,
              step.position, row);
  }
  return Status();
}

/// Does one step, with logits if it is the `last`, and adds its kernels to
/// `table`.
Status KernelTimes::once(int64_t tokens, int64_t depth, bool last,
                         KernelTable &table) {
  int64_t vocab = model->manifest().vocabSize;
  std::vector<int32_t> ids;
  for (int64_t i = depth; i < depth + tokens; ++i)
    ids.push_back(static_cast<int32_t>(i * 7919 % vocab));
  std::vector<float> logits(model->onCpu() ? static_cast<size_t>(vocab) : 0);
  Step step = {ids.data(),    tokens,        depth, last ? tokens - 1 : tokens,
               logits.data(), depth + tokens};
  return model->onCpu() ? onceOnCpu(step, table) : onceOnCuda(step, table);
}

KernelRow &KernelTable::rowOf(const std::string &name) {
  auto at = std::find_if(rows.begin(), rows.end(), [&](const KernelRow &row) {
    return row.name == name;
  });
  if (at != rows.end())
    return *at;
  rows.push_back({name});
  return rows.back();
}

/// The medians over some repetitions, after one repetition to warm up.
Result<KernelTable> KernelTimes::measure(int64_t tokens, int64_t depth) {
  int64_t chunk = model->manifest().chunk;
  KernelTable table = {tokens, depth, {}};
  std::vector<std::vector<double>> samples;
  for (int i = 0; i <= repetitions; ++i) {
    table.rows.clear();
    for (int64_t done = 0; done < tokens; done += chunk) {
      int64_t count = std::min(chunk, tokens - done);
      Status status = once(count, depth + done, done + count == tokens, table);
      if (!status.ok())
        return status;
    }
    samples.resize(table.rows.size());
    for (size_t row = 0; i > 0 && row < samples.size(); ++row)
      samples[row].push_back(table.rows[row].seconds);
  }
  for (size_t row = 0; row < samples.size(); ++row) {
    std::sort(samples[row].begin(), samples[row].end());
    table.rows[row].seconds = samples[row][repetitions / 2];
  }
  return table;
}

void KernelTable::setFloors(double secondsPerByte, double secondsPerOperation) {
  for (KernelRow &row : rows)
    row.floorSeconds = std::max(row.bytes * secondsPerByte,
                                row.operations * secondsPerOperation);
}

} // namespace cria::bench
