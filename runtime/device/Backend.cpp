#include "runtime/device/Backend.h"

namespace cria {

static constexpr int maxThreads = 1024;

Status checkThreads(int threads) {
  if (threads >= 0 && threads <= maxThreads)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                {"threads is ", threads, ", expected 0 to ", maxThreads});
}

Result<std::unique_ptr<PagedBackend>>
BoundModel::newPagedBackend(const Threads &, int64_t) const {
  return Status(CRIA_UNIMPLEMENTED,
                "the artifact has no batches: compile it with --batch=N");
}

} // namespace cria
