/// NCCL's calls for tests: processes of one machine, through memory that they
/// share, on the emulated driver or any other.
///
/// A sum is a copy from the device, a function of the host that waits for the
/// other ranks and adds up, and a copy to the device, all of them in the
/// stream: so a stream that is captured records it. All ranks add in one order,
/// and get the same bits. As NCCL does, it wants the device's primary context
/// to be the current one.
///
/// CRIA_NCCL_FAULT=RANK:WHAT[:N] breaks something in that rank: `id` and `init`
/// fail, as does the N-th call of ncclAllReduce with `sum`; with `count`, the
/// N-th sum to be computed says that it has one float less.
#include "runtime/cuda/DriverApi.h"
#include "runtime/cuda/NcclApi.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

constexpr size_t mostRanks = 16, mostBytes = size_t(64) << 20;

/// What the ranks share, in a file of zeros; after it `mostBytes` of each.
struct Board {
  std::atomic<uint32_t> arrived, turn;
  std::atomic<int> error; // an ncclResult_t
  std::atomic<uint64_t> counts[mostRanks];
};

std::string lastError;

ncclResult_t fail(ncclResult_t result, const std::string &why) {
  lastError = why;
  return result;
}

/// The functions of the driver that the process has opened.
struct Driver {
#define FUNCTION(name)                                                         \
  decltype(&::name) name =                                                     \
      reinterpret_cast<decltype(&::name)>(dlsym(library(), #name));
  FUNCTION(cuMemcpyDtoHAsync_v2)
  FUNCTION(cuMemcpyHtoDAsync_v2)
  FUNCTION(cuLaunchHostFunc)
  FUNCTION(cuCtxGetCurrent)
  FUNCTION(cuCtxGetDevice)
  FUNCTION(cuDevicePrimaryCtxRetain)
  FUNCTION(cuDevicePrimaryCtxRelease_v2)
#undef FUNCTION

  static void *library() {
    for (const char *name : {"libcria-emulator.so", "libcuda.so.1"})
      if (void *opened = dlopen(name, RTLD_LAZY | RTLD_NOLOAD))
        return opened;
    return nullptr;
  }
};

const Driver &driver() {
  static const Driver functions;
  return functions;
}

ncclResult_t checkContext() {
  CUcontext current = nullptr, primary = nullptr;
  CUdevice device = 0;
  if (driver().cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current ||
      driver().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      driver().cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
    return fail(ncclUnhandledCudaError, "there is no current context");
  driver().cuDevicePrimaryCtxRelease_v2(device);
  return current == primary
             ? ncclSuccess
             : fail(ncclInvalidUsage, "the current context is not the primary");
}

/// Whether this call is to fail.
bool isFault(int rank, const char *what, int call = 0) {
  static const char *fault = getenv("CRIA_NCCL_FAULT");
  std::string wanted = std::to_string(rank) + ":" + what;
  return fault &&
         (fault == wanted || fault == wanted + ":" + std::to_string(call));
}

} // namespace

struct ncclComm {
  int rank = 0, ranks = 0;
  int calls = 0, sums = 0;
  Board *board = nullptr;

  /// A sum in a stream; kept, for a graph may replay it.
  struct Sum {
    ncclComm *comm;
    std::vector<float> result;
  };
  std::vector<std::unique_ptr<Sum>> enqueued;

  float *part(int of) const {
    return reinterpret_cast<float *>(reinterpret_cast<char *>(board) + 4096 +
                                     static_cast<size_t>(of) * mostBytes);
  }
  size_t bytes() const { return 4096 + static_cast<size_t>(ranks) * mostBytes; }

  /// Waits for all ranks.
  void meet() {
    uint32_t turn = board->turn;
    if (++board->arrived == static_cast<uint32_t>(ranks)) {
      board->arrived = 0;
      ++board->turn;
    }
    while (board->turn == turn)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }

  void add(std::vector<float> &result) {
    size_t count = result.size();
    board->counts[rank] = count - isFault(rank, "count", ++sums);
    meet();
    for (int i = 0; i < ranks; ++i)
      if (board->counts[i] != board->counts[0])
        board->error = ncclInvalidUsage;
    std::fill(result.begin(), result.end(), 0.0f);
    for (int i = 0; i < ranks; ++i)
      for (size_t at = 0; at < count; ++at)
        result[at] += part(i)[at];
    meet(); // before a part is written again
  }
};

static ncclResult_t open(ncclComm &comm, const char *name) {
  static_assert(sizeof(Board) <= 4096);
  int file = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(comm.bytes())) != 0)
    return fail(ncclSystemError, std::string(name) + ": cannot be opened");
  void *memory =
      mmap(nullptr, comm.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    return fail(ncclSystemError, std::string(name) + ": cannot be mapped");
  comm.board = static_cast<Board *>(memory);
  comm.meet();
  shm_unlink(name);
  return ncclSuccess;
}

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  if (isFault(0, "id"))
    return fail(ncclSystemError, "no network");
  snprintf(id->internal, sizeof(id->internal), "/cria-nccl-%d", getpid());
  shm_unlink(id->internal); // of a process that had this number
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id,
                              int rank) {
  if (isFault(rank, "init"))
    return fail(ncclSystemError, "no peer access");
  if (ncclResult_t result = checkContext())
    return result;
  if (ranks < 1 || ranks > static_cast<int>(mostRanks) || rank < 0 ||
      rank >= ranks)
    return fail(ncclInvalidArgument, "no such rank");
  auto made = std::make_unique<ncclComm>();
  made->rank = rank;
  made->ranks = ranks;
  if (ncclResult_t result = open(*made, id.internal))
    return result;
  *comm = made.release();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  munmap(comm->board, comm->bytes());
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  *error = static_cast<ncclResult_t>(comm->board->error.load());
  return *error ? fail(ncclSuccess, "ranks have different counts")
                : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           CUstream stream) {
  size_t bytes = count * sizeof(float);
  if (isFault(comm->rank, "sum", ++comm->calls))
    return fail(ncclInternalError, "no channel");
  if (ncclResult_t result = checkContext())
    return result;
  if (type != ncclFloat32 || op != ncclSum || bytes > mostBytes)
    return fail(ncclInvalidArgument, "expected a sum of a few floats");
  auto made = std::make_unique<ncclComm::Sum>();
  made->comm = comm;
  made->result.resize(count);
  comm->enqueued.push_back(std::move(made));
  ncclComm::Sum *sum = comm->enqueued.back().get();
  auto add = [](void *data) {
    auto *sum = static_cast<ncclComm::Sum *>(data);
    sum->comm->add(sum->result);
  };
  bool enqueued =
      driver().cuMemcpyDtoHAsync_v2(comm->part(comm->rank),
                                    reinterpret_cast<CUdeviceptr>(send), bytes,
                                    stream) == CUDA_SUCCESS &&
      driver().cuLaunchHostFunc(stream, add, sum) == CUDA_SUCCESS &&
      driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<CUdeviceptr>(receive),
                                    sum->result.data(), bytes,
                                    stream) == CUDA_SUCCESS;
  return enqueued ? ncclSuccess
                  : fail(ncclUnhandledCudaError, "the driver enqueues nothing");
}

const char *ncclGetErrorString(ncclResult_t result) {
  static const char *names[] = {"no error",         "unhandled cuda error",
                                "system error",     "internal error",
                                "invalid argument", "invalid usage",
                                "remote error",     "in progress"};
  return names[result];
}

const char *ncclGetLastError(ncclComm_t) { return lastError.c_str(); }

} // extern "C"
