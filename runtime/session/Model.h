/// An artifact and its weights: everything that sessions share.
#pragma once

#include "runtime/artifact/Artifact.h"
#include "runtime/base/Status.h"
#include "runtime/device/Backend.h"
#include "runtime/device/Device.h"
#include "runtime/weights/Fingerprint.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cria {

/// A bound model. Immutable; share it between threads.
class Model {
public:
  /// Binds the weights of `source` on the device that `device` asks for. Ranks
  /// that share the model all call it, with the same artifact and weights.
  static Result<std::shared_ptr<const Model>>
  load(std::shared_ptr<const Artifact> artifact, const WeightSource &source,
       const DeviceOptions &device = {});

  /// Binds the checkpoint at `weights` (a folder or a file).
  static Result<std::shared_ptr<const Model>>
  bind(std::shared_ptr<const Artifact> artifact, const std::string &weights) {
    return load(std::move(artifact), {weights, 0});
  }

  /// Weights drawn from `seed`; see RandomWeights.h.
  static Result<std::shared_ptr<const Model>>
  random(std::shared_ptr<const Artifact> artifact, uint64_t seed) {
    return load(std::move(artifact), {std::nullopt, seed});
  }

  const Artifact &artifact() const { return *code; }
  const Manifest &manifest() const { return code->manifest(); }
  /// The weights and code on their device.
  const BoundModel &bound() const { return *weights; }
  /// A backend with `pages`, or one for a single text. If ranks share the
  /// model, all ranks must make the same calls of the backend.
  Result<std::unique_ptr<Backend>> newBackend(const Threads &threads,
                                              const PageCounts &pages) const;
  Result<std::unique_ptr<Backend>> newBackend(const Threads &threads) const;
  /// The most ids of a short feed. If the KV caches are in pages, the entry
  /// `batch` runs a short feed, an id in each row, and prefill runs all others.
  /// Depends on the artifact and the kind of device alone.
  int64_t shortFeed() const;
  /// FAILED_PRECONDITION if the artifact returns no hidden states.
  Status checkHidden() const;
  /// The device in words: "cpu", "NVIDIA H200, sm_90".
  std::string device() const { return weights->device(); }
  /// Whether the host's CPU computes.
  bool onCpu() const { return device() == "cpu"; }
  /// The pointers through which compiled code for the CPU reads its weights and
  /// tables; null on other devices.
  const void *const *slots() const { return weights->slots(); }

  /// A number that tells the model's weights from others; reads the files
  /// again.
  Result<uint64_t> fingerprint() const { return cria::fingerprint(source); }

  /// The ranks that share the model; null: this process alone.
  const CriaRanks *sharedWith() const { return ranks.size ? &ranks : nullptr; }

  /// Lines for the user, without line ends.
  const std::vector<std::string> &warnings() const { return notes; }
  /// Where the model and its sessions say what they do.
  const Log &log() const { return source.log; }
  uint64_t mappedBytes() const { return weights->mappedBytes(); }
  uint64_t copiedBytes() const { return weights->copiedBytes(); }
  double bindSeconds() const { return seconds; }

private:
  void logLoaded() const;
  Status agreeOnWeights(const CriaRanks &ranks) const;
  explicit Model(std::shared_ptr<const Artifact> artifact)
      : code(std::move(artifact)) {}

  std::shared_ptr<const Artifact> code;
  CriaRanks ranks = {}; // where there are some
  WeightSource source;
  std::unique_ptr<const BoundModel> weights;
  std::vector<std::string> notes;
  double seconds = 0;
};

} // namespace cria
