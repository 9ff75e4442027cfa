/// The blocks of one launch, spread over the cores.
#pragma once

#include "tools/emulator/run/GlobalRaces.h"
#include "tools/emulator/run/Launch.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

namespace cria::emulator {

class Block;
class Cluster;

/// One launch under way; shared by its workers.
class Grid {
public:
  explicit Grid(const Launch &launch);
  LaunchResult run();

  const Launch &launch;
  const uint64_t id;                  ///< no other grid has it
  std::unique_ptr<GlobalRaces> races; ///< null: not checked

  /// Keeps the first finding and makes all blocks stop.
  void stop(Finding finding);
  /// A block has executed griddepcontrol.wait. `first`: it did so before it let
  /// the next launch begin.
  void noteWait(bool first) {
    hasWaited = true;
    if (first)
      waitedFirst = true;
  }
  /// Keeps what block `block` prints.
  void print(uint64_t block, const std::string &text) {
    std::lock_guard<std::mutex> lock(mutex);
    printed[block] += text;
  }
  /// Since the launch began.
  double seconds() const;
  bool stopped() const { return isStopped.load(std::memory_order_relaxed); }

private:
  struct Worker {
    std::vector<std::unique_ptr<Cluster>> resident;
    bool spinning = false;
    LaunchCounts counts;
    /// When the last step began in which all blocks polled without a change; 0:
    /// the last step was not such a step.
    std::atomic<double> vainStep = 0;
  };

  void work(Worker &worker);
  bool startNext(Worker &worker);
  void step(Worker &worker);
  void checkProgress(const Worker &worker);
  Dim clusterAt(uint64_t number) const;

  double began;
  uint64_t total;                       ///< clusters
  uint64_t multiplier = 1, offset = 0;  ///< order of the clusters
  std::atomic<uint64_t> next = 0;       ///< clusters that were started
  std::atomic<double> lastProgress = 0; ///< when one last began, ended or saw a
                                        ///< change
  std::atomic<bool> isStopped = false;
  std::atomic<bool> hasWaited = false, waitedFirst = false;
  std::mutex mutex;
  std::optional<Finding> finding;
  std::map<uint64_t, std::string> printed; ///< by block
  std::vector<std::unique_ptr<Worker>> workers;
};

/// A sequence of random-looking numbers, the same for the same seed.
class Random {
public:
  explicit Random(uint64_t seed = 0) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

private:
  uint64_t state;
};

} // namespace cria::emulator
