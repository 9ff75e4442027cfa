/// Sums over ranks on CUDA devices, by NCCL. Its library is opened at run time,
/// and only for a model that ranks share: libnccl.so.2, or the file that
/// CRIA_NCCL names.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/NcclApi.h"

#include <memory>
#include <string>

namespace cria::cuda {

/// A device's end of what joins the ranks. The context is the device's primary
/// one, as NCCL makes that the current one before each of its calls.
class Communicator {
public:
  /// Joins the other ranks, all of which call this; in the current context.
  /// UNAVAILABLE where there is no NCCL.
  static Result<std::unique_ptr<Communicator>>
  create(std::shared_ptr<Context> context, const CriaRanks &ranks);

  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  ~Communicator();

  /// Enqueues the sum of `count` floats over all ranks, in their place. A
  /// stream that is captured records it.
  Status sum(CUdeviceptr values, uint64_t count, CUstream stream) const;

  /// An error of what was enqueued, such as a rank that is gone.
  Status status() const;

private:
  struct Functions;

  explicit Communicator(std::shared_ptr<Context> context);
  Status load();
  Status check(ncclResult_t result, const char *call,
               std::string_view doing) const;

  std::shared_ptr<Context> context;
  std::unique_ptr<Functions> calls;
  ncclComm_t comm = nullptr;
};

} // namespace cria::cuda
