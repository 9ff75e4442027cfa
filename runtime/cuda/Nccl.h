/// Sums over ranks on CUDA devices, by NCCL. The library is opened at run time,
/// only for a model that ranks share. It is libnccl.so.2, or the file that
/// CRIA_NCCL names.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/cuda/Context.h"
#include "runtime/cuda/NcclApi.h"

#include <memory>
#include <string>

namespace cria::cuda {

/// This rank's NCCL communicator. Its context must be the device's primary
/// context, because NCCL makes that the current one in each call.
class Communicator {
public:
  /// Joins the other ranks, in the current context. All ranks call this.
  /// UNAVAILABLE without NCCL.
  static Result<std::unique_ptr<Communicator>>
  create(std::shared_ptr<Context> context, const CriaRanks &ranks);

  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  ~Communicator();

  /// Enqueues a sum over all ranks: it replaces `count` floats at `values`. If
  /// the stream is captured, the graph has the sum.
  Status sum(CUdeviceptr values, uint64_t count, CUstream stream) const;

  /// An error of a sum that was enqueued, such as a lost rank.
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
