/// How long each launch of a step takes on the device, by events in its stream.
#pragma once

#include "runtime/artifact/CudaPlan.h"
#include "runtime/cuda/Context.h"

#include <memory>
#include <utility>
#include <vector>

namespace cria::cuda {

/// The time of a launch: from the end of the stream's work before it to the
/// launch's own end.
struct LaunchTime {
  const LaunchStep *step;
  double seconds;
};

/// Marks a stream around launches.
class Timer {
public:
  explicit Timer(std::shared_ptr<Context> context)
      : context(std::move(context)) {}

  /// Marks `stream` before `next`, or, if `next` is null, after the last of
  /// several launches.
  Status mark(const LaunchStep *next, CUstream stream);

  /// The launches in their order, once the stream has ended.
  Result<std::vector<LaunchTime>> times() const;

private:
  std::shared_ptr<Context> context;
  std::vector<std::pair<const LaunchStep *, Event>> marks;
};

} // namespace cria::cuda
