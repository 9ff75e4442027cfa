/// What the server counts, as text that Prometheus reads. The names are vLLM's,
/// with `cria_` before them.
#pragma once

#include "runtime/cria.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace cria::serve {

using Counter = std::atomic<int64_t>;

/// How often a value was at most each of some bounds.
class Histogram {
public:
  explicit Histogram(std::vector<double> bounds)
      : bounds(std::move(bounds)), counts(this->bounds.size() + 1) {}

  void add(double value);
  /// Appends the lines of the metric `name`.
  void print(const char *name, const char *help, std::string &to) const;

private:
  mutable std::mutex mutex;
  std::vector<double> bounds;
  std::vector<int64_t> counts; // of values above the bound before
  double sum = 0;
};

/// Any thread may add; `text` may be called meanwhile.
class Metrics {
public:
  Metrics();

  // Requests by how they ended.
  Counter stopped{0}, reachedLength{0}, embedded{0}, failed{0};
  Counter refused{0}, invalid{0};                  // before they were computed
  Counter cancelledQueued{0}, cancelledRunning{0}; // their clients left
  Counter promptTokens{0}, generatedTokens{0};
  Counter connections{0};
  std::atomic<double> scheduling{0}; // see `text`
  Histogram firstToken, betweenTokens, whole, queued, step, rows;

  /// What the scheduler saw last.
  void see(const cria_batch_info &info, int64_t running, int64_t waiting);
  std::string text() const;

private:
  mutable std::mutex mutex;
  cria_batch_info info = make<cria_batch_info>();
  int64_t running = 0, waiting = 0;
};

} // namespace cria::serve
