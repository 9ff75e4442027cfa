#include "runtime/cuda/Nccl.h"

#include "runtime/base/Environment.h"
#include "runtime/ranks/JoinRanks.h"

#include <dlfcn.h>

namespace cria::cuda {

#define CRIA_NCCL_REQUIRED(X)                                                  \
  X(ncclGetUniqueId)                                                           \
  X(ncclCommInitRank)                                                          \
  X(ncclCommDestroy)                                                           \
  X(ncclCommAbort)                                                             \
  X(ncclCommGetAsyncError)                                                     \
  X(ncclAllReduce)                                                             \
  X(ncclGetErrorString)

struct Communicator::Functions {
#define CRIA_NCCL_MEMBER(name) decltype(&::name) name = nullptr;
  CRIA_NCCL_REQUIRED(CRIA_NCCL_MEMBER)
  CRIA_NCCL_MEMBER(ncclGetLastError) // null before NCCL 2.13
#undef CRIA_NCCL_MEMBER
};

Communicator::Communicator(std::shared_ptr<Context> context)
    : context(std::move(context)), calls(std::make_unique<Functions>()) {}

Status Communicator::load() {
  std::string path = environment("CRIA_NCCL");
  if (path.empty())
    path = "libnccl.so.2";
  // NCCL starts threads, so it must not be unloaded.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    std::string why = dlerror();
    return Status(CRIA_UNAVAILABLE,
                  {"NCCL, which joins ranks on GPUs, is not available: ", why,
                   "; install libnccl2, or set CRIA_NCCL to its file"});
  }
  const char *missing = nullptr;
#define CRIA_NCCL_FIND(name)                                                   \
  calls->name = reinterpret_cast<decltype(calls->name)>(dlsym(library, #name));
#define CRIA_NCCL_NEED(name)                                                   \
  CRIA_NCCL_FIND(name)                                                         \
  if (!calls->name)                                                            \
    missing = #name;
  CRIA_NCCL_REQUIRED(CRIA_NCCL_NEED)
  CRIA_NCCL_FIND(ncclGetLastError)
#undef CRIA_NCCL_NEED
#undef CRIA_NCCL_FIND
  if (missing)
    return Status(
        CRIA_FAILED_PRECONDITION,
        {path, ": is no NCCL, or too old a one: it has no ", missing});
  return Status();
}

Status Communicator::check(ncclResult_t result, const char *call,
                           std::string_view doing) const {
  if (result == ncclSuccess)
    return Status();
  const char *last =
      calls->ncclGetLastError ? calls->ncclGetLastError(nullptr) : nullptr;
  return Status(result == ncclInvalidUsage ? CRIA_FAILED_PRECONDITION
                                           : CRIA_ABORTED,
                {call, ": ", calls->ncclGetErrorString(result), " while ",
                 doing, last && *last ? concat({" (", last, ")"}) : ""});
}

Result<std::unique_ptr<Communicator>>
Communicator::create(std::shared_ptr<Context> context, const CriaRanks &ranks) {
  std::unique_ptr<Communicator> made(new Communicator(std::move(context)));
  if (Status status = made->load(); !status.ok())
    return status;
  // The others may still be opening their devices.
  WaitForRanks waiting(WaitForRanks::kLoading);
  ncclUniqueId id = {};
  Status status;
  if (ranks.rank == 0)
    status = made->check(made->calls->ncclGetUniqueId(&id), "ncclGetUniqueId",
                         "naming the ranks' communicator");
  if (!status.ok())
    return status;
  ranks.broadcast(ranks.data, &id, sizeof(id));
  status = made->check(
      made->calls->ncclCommInitRank(&made->comm, ranks.size, id, ranks.rank),
      "ncclCommInitRank",
      concat(
          {"joining ", ranks.size, " ranks on ", made->context->deviceName()}));
  if (!status.ok())
    return status;
  made->context->setHealth(
      [communicator = made.get()] { return communicator->status(); });
  return made;
}

Status Communicator::status() const {
  ncclResult_t error = ncclSuccess;
  Status status = check(calls->ncclCommGetAsyncError(comm, &error),
                        "ncclCommGetAsyncError", "asking for errors");
  return status.ok() && error != ncclInProgress
             ? check(error, "ncclAllReduce", "summing over ranks")
             : status;
}

Status Communicator::sum(CUdeviceptr values, uint64_t count,
                         CUstream stream) const {
  auto *memory = reinterpret_cast<void *>(values);
  ncclResult_t result = calls->ncclAllReduce(memory, memory, count, ncclFloat32,
                                             ncclSum, comm, stream);
  if (result == ncclSuccess)
    return Status();
  return check(result, "ncclAllReduce", "enqueueing a sum over ranks");
}

Communicator::~Communicator() {
  if (!comm)
    return;
  context->setHealth(nullptr);
  // After an error the other ranks may never come, so do not wait for them.
  if (context->usable().ok())
    context->free([&] { calls->ncclCommDestroy(comm); });
  else
    context->free([&] { calls->ncclCommAbort(comm); });
}

} // namespace cria::cuda
