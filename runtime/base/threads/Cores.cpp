#include "runtime/base/threads/Cores.h"

#include "runtime/base/Limits.h"
#include "runtime/base/threads/Pool.h"

#include <algorithm>
#include <mutex>
#include <sched.h>
#include <thread>

namespace cria {

int coreCount() {
  cpu_set_t set;
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    cores = CPU_COUNT(&set);
  return std::max(1, std::min(cores, coreQuota().value_or(cores)));
}

void onAllCores(int64_t count, FunctionRef<void(int64_t, int64_t)> body) {
  Pool pool(static_cast<int>(
      std::clamp(count, int64_t(1), static_cast<int64_t>(coreCount()))));
  pool.run(
      [](void *context, int64_t begin, int64_t end) {
        (*static_cast<decltype(body) *>(context))(begin, end);
      },
      &body, count);
}

Status tryOnAllCores(int64_t count,
                     FunctionRef<Status(int64_t, int64_t)> body) {
  std::mutex mutex;
  Status failure;
  onAllCores(count, [&](int64_t begin, int64_t end) {
    Status status = body(begin, end);
    std::lock_guard<std::mutex> lock(mutex);
    if (!status.ok())
      failure = status;
  });
  return failure;
}

} // namespace cria
