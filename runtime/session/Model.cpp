#include "runtime/session/Model.h"

#include "runtime/base/Limits.h"
#include "runtime/cpu/Model.h"
#include "runtime/cuda/Cuda.h"
#include "runtime/ranks/JoinRanks.h"
#include "runtime/ranks/SharedVocabulary.h"
#include "runtime/session/Preflight.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace cria {

using Bound = Result<std::unique_ptr<const BoundModel>>;

static Bound bindCuda(std::unique_ptr<cuda::OpenModel> model,
                      const WeightSource &source) {
  Status status = model->bind(source);
  if (!status.ok())
    return status;
  return std::unique_ptr<const BoundModel>(std::move(model));
}

static Bound bindCpu(std::shared_ptr<const Artifact> artifact,
                     const WeightSource &source, const CriaRanks *ranks,
                     std::vector<std::string> &notes) {
  if (!artifact->cpuStatus().ok())
    return artifact->cpuStatus();
  // A model that is too large is not refused: it runs and reads weights again
  // and again, or ends when memory does.
  if (Status room =
          fitsMemory(*artifact, artifact->manifest().maxSeq, availableMemory());
      !room.ok())
    notes.push_back(room.message());
  return cpu::Model::bind(std::move(artifact), source, ranks);
}

/// Either all ranks compute on GPUs or none: returns `opened`, or an error if
/// another rank could open no device.
static Status openedByAll(const Status &opened, const CriaRanks *ranks) {
  uint64_t failed = !opened.ok();
  WaitForRanks waiting(WaitForRanks::kLoading);
  if (ranks)
    ranks->max(ranks->data, &failed, 1);
  return opened.ok() && failed
             ? Status(CRIA_UNAVAILABLE, "another rank can open no device")
             : opened;
}

/// The GPU if it can be had, else the CPU; `notes` says why not the GPU.
static Bound bindAuto(std::shared_ptr<const Artifact> artifact,
                      const WeightSource &source, const DeviceOptions &device,
                      std::vector<std::string> &notes) {
  if (!artifact->manifest().cuda) {
    // Loading a driver to find this out would take longer than many runs.
    if (access("/dev/nvidiactl", F_OK) == 0)
      notes.push_back("runs on the CPU: the artifact has no code for the GPU");
    return bindCpu(std::move(artifact), source, device.ranks, notes);
  }
  auto opened = cuda::open(artifact, device);
  if (Status status = openedByAll(opened.status(), device.ranks); !status.ok())
    opened = status;
  if (opened.ok())
    return bindCuda(std::move(*opened), source);
  if (!artifact->cpuStatus().ok())
    return opened.status();
  notes.push_back("runs on the CPU: " + opened.status().message());
  return bindCpu(std::move(artifact), source, device.ranks, notes);
}

static Bound bindOn(const DeviceOptions &device,
                    std::shared_ptr<const Artifact> artifact,
                    const WeightSource &source,
                    std::vector<std::string> &notes) {
  if (device.kind == DeviceKind::Cpu)
    return bindCpu(std::move(artifact), source, device.ranks, notes);
  if (device.kind == DeviceKind::Auto)
    return bindAuto(std::move(artifact), source, device, notes);
  auto opened = cuda::open(artifact, device);
  if (!opened.ok())
    return opened.status();
  return bindCuda(std::move(*opened), source);
}

Result<std::unique_ptr<Backend>>
Model::newBackend(const Threads &threads, const PageCounts &pages) const {
  auto own = weights->newBackend(threads, pages);
  if (!own.ok() || !sharedWith())
    return own;
  return shareVocabulary(std::move(*own), ranks, manifest());
}

Result<std::unique_ptr<Backend>>
Model::newBackend(const Threads &threads) const {
  return newBackend(threads, manifest().sessionPages());
}

Status Model::checkHidden() const {
  if (manifest().hiddenSize)
    return Status();
  return Status(CRIA_FAILED_PRECONDITION,
                "the artifact's program returns no hidden states");
}

// The rows take no more instructions than a prefill of as many ids, which
// copies or unpacks the weights first (docs/batches.md). A GPU's prefill has
// the tiles of a whole chunk. With fewer rows, prompts would wait for each
// other longer than as chunks. No page is full of a short feed that begins a
// text, so that pages which others find are prefill's.
int64_t Model::shortFeed() const {
  const std::optional<BatchSpec> &batch = manifest().batch;
  if (!batch)
    return 1;
  const std::vector<WeightSpec> &all = manifest().weights;
  bool hasBlocks =
      std::any_of(all.begin(), all.end(), [](const WeightSpec &weight) {
        return isBlocked(weight.type);
      });
  int64_t most = !onCpu() ? 16 : hasBlocks ? 4 : 8;
  most = std::min({most, batch->rows / 4, batch->page, manifest().chunk});
  return std::max<int64_t>(most, 1);
}

/// Logs the warnings of a loaded model, how long loading took, and its sizes.
void Model::logLoaded() const {
  for (const std::string &line : notes)
    log()(CRIA_LOG_WARNING, line);
  char text[32];
  snprintf(text, sizeof(text), "loaded in %.3f s: ", seconds);
  log()(CRIA_LOG_INFO,
        concat({text, mebibytes(mappedBytes()), " of weights in the files, ",
                mebibytes(copiedBytes()), " copied"}));
}

/// Whether all ranks have the same weights.
Status Model::agreeOnWeights(const CriaRanks &ranks) const {
  Result<uint64_t> hash = fingerprint();
  return hash.ok() ? agreeRanks(ranks, {{"weights", *hash}}) : hash.status();
}

Result<std::shared_ptr<const Model>>
Model::load(std::shared_ptr<const Artifact> artifact,
            const WeightSource &source, const DeviceOptions &device) {
  auto begin = std::chrono::steady_clock::now();
  int64_t shards = artifact->manifest().shards,
          ranks = device.ranks ? device.ranks->size : 1;
  if (shards != ranks)
    return Status(CRIA_FAILED_PRECONDITION,
                  {artifact->path(), ": is for ", shards,
                   shards == 1 ? " rank" : " ranks", ", expected ", ranks,
                   ", the processes that share it: a program under mpirun "
                   "-n ",
                   shards});
  if (device.ranks)
    if (Status same =
            agreeRanks(*device.ranks, {{"artifact", artifact->checksum()}});
        !same.ok())
      return same;
  std::shared_ptr<Model> model(new Model(std::move(artifact)));
  DeviceOptions own = device;
  if (device.ranks) {
    model->ranks = *device.ranks;
    own.ranks = &model->ranks;
  }
  Bound bound = bindOn(own, model->code, source, model->notes);
  if (!bound.ok())
    return bound.status();
  model->weights = std::move(*bound);
  model->source = source;
  model->source.progress = nullptr; // belongs to the caller
  if (device.ranks)
    if (Status same = model->agreeOnWeights(*device.ranks); !same.ok())
      return same;
  for (const std::string &line : model->weights->notes())
    model->notes.push_back(line);
  std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - begin;
  model->seconds = taken.count();
  model->logLoaded();
  return std::shared_ptr<const Model>(std::move(model));
}

} // namespace cria
