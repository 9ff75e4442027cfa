#include "runtime/ranks/JoinRanks.h"

#include "runtime/base/Environment.h"
#include "runtime/base/LibraryBeside.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

namespace cria {

// ---- The watch -------------------------------------------------------------

/// Milliseconds between two signs of life of a rank, and without one until the
/// rank counts as stopped.
static constexpr int64_t beatEvery = 100, stoppedAfter = 1000;

// There is one set of ranks in a process.
static CriaRanks joined;
static std::mutex beatsMutex; // of joined.beats, which leaveRanks frees
static std::atomic<int64_t> waitingSince{0}; // milliseconds; 0: not waiting
static std::atomic<int64_t> mayWait{0};      // milliseconds; 0: for ever
static std::atomic<int64_t> waits{0};        // number of waits so far
static int64_t mostWaiting = 0;              // milliseconds

/// The time of a clock that all processes of a machine share.
static int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

WaitForRanks::WaitForRanks(int64_t times) : isOuter(waitingSince == 0) {
  if (!isOuter)
    return;
  ++waits;
  mayWait = mostWaiting * times;
  waitingSince = milliseconds();
}

WaitForRanks::~WaitForRanks() {
  if (isOuter)
    waitingSince = 0;
}

static int64_t read(const int64_t &field) {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

/// Writes this rank's beat.
static void beat() {
  std::lock_guard<std::mutex> lock(beatsMutex);
  if (!joined.beats)
    return;
  CriaBeat &own = joined.beats[joined.local];
  __atomic_store_n(&own.waits, waits.load(), __ATOMIC_RELAXED);
  __atomic_store_n(&own.alive, milliseconds(), __ATOMIC_RELAXED);
}

/// Names the ranks that this rank waits for: ranks of its machine that have
/// stopped, or that have waited less often.
static std::string lateRanks() {
  std::lock_guard<std::mutex> lock(beatsMutex);
  std::string text;
  for (int32_t i = 0; joined.beats && i < joined.locals; ++i) {
    const CriaBeat &other = joined.beats[i];
    bool stopped = milliseconds() - read(other.alive) > stoppedAfter;
    if (i == joined.local || (!stopped && read(other.waits) >= waits))
      continue;
    text += concat({text.empty() ? "" : ", ", "rank ", other.rank, " (process ",
                    other.process,
                    stopped ? ") has stopped" : ") has not come so far"});
  }
  if (!text.empty())
    return text;
  return joined.locals < joined.size
             ? "none of this machine is late, those of others cannot be seen"
             : "which one does not go on cannot be seen";
}

/// Ends the process after it has waited for too long. It does not call MPI,
/// because only the waiting thread may do that.
static void watch() {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(beatEvery))) {
    beat();
    int64_t since = waitingSince, most = mayWait;
    if (most == 0 || since == 0 || milliseconds() - since < most)
      continue;
    std::string line = concat({program_invocation_short_name, ": rank ",
                               joined.rank, ": error: waited ", most / 1000,
                               " s for the other ranks: ", lateRanks(),
                               "; CRIA_MPI_TIMEOUT sets the seconds\n"});
    [[maybe_unused]] ssize_t written =
        write(STDERR_FILENO, line.data(), line.size());
    _exit(1);
  }
}

static CriaRanks watched() {
  CriaRanks ranks = joined;
  ranks.sum = [](void *data, float *values, int64_t count) {
    WaitForRanks waiting;
    joined.sum(data, values, count);
  };
  ranks.max = [](void *data, uint64_t *values, int64_t count) {
    WaitForRanks waiting;
    joined.max(data, values, count);
  };
  ranks.broadcast = [](void *data, void *bytes, int64_t count) {
    WaitForRanks waiting;
    joined.broadcast(data, bytes, count);
  };
  return ranks;
}

// ---- The library -----------------------------------------------------------

/// The library for the mpirun that has started this process, or "" if none has.
static std::string libraryName() {
  if (std::string named = environment("CRIA_MPI"); !named.empty())
    return named;
  if (!environment("OMPI_COMM_WORLD_SIZE").empty())
    return libraryBeside("libcria-mpi-openmpi.so");
  if (!environment("PMI_SIZE").empty())
    return libraryBeside("libcria-mpi-mpich.so");
  return "";
}

static Status join() {
  std::string name = libraryName();
  if (name.empty())
    return Status(CRIA_FAILED_PRECONDITION,
                  "no mpirun, of MPICH or Open MPI, has started this process");
  // Open MPI opens plugins that use its functions, so these must be global.
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  auto join = reinterpret_cast<decltype(&cria_ranks_join_mpi)>(
      library ? dlsym(library, "cria_ranks_join_mpi") : nullptr);
  if (!join)
    return Status(CRIA_UNAVAILABLE, "the library for ranks is not available: " +
                                        std::string(dlerror()));
  if (join(&joined, sizeof(joined)) != 0)
    return Status(CRIA_UNAVAILABLE,
                  name + ": cannot join the other ranks, or is of another "
                         "version");
  mostWaiting = static_cast<int64_t>(1000 * secondsOf("CRIA_MPI_TIMEOUT", 60));
  std::thread(watch).detach();
  return Status();
}

Result<const CriaRanks *> joinRanks() {
  static const Status status = join();
  if (!status.ok())
    return status;
  static const CriaRanks ranks = watched();
  return &ranks;
}

void leaveRanks() {
  if (!joined.leave)
    return;
  WaitForRanks waiting;
  {
    std::lock_guard<std::mutex> lock(beatsMutex);
    joined.beats = nullptr;
  }
  joined.leave(joined.data);
  joined.leave = nullptr;
}

Status agreeRanks(const CriaRanks &ranks, const RankFacts &facts) {
  WaitForRanks waiting(WaitForRanks::kLoading);
  // The complement's largest is the complement of the smallest.
  std::vector<uint64_t> bounds;
  for (const auto &[name, hash] : facts)
    bounds.insert(bounds.end(), {hash, ~hash});
  ranks.max(ranks.data, bounds.data(), static_cast<int64_t>(bounds.size()));
  std::string differ;
  for (size_t i = 0; i < facts.size(); ++i)
    if (bounds[2 * i] != ~bounds[2 * i + 1])
      differ += (differ.empty() ? "" : ", ") + std::string(facts[i].first);
  if (differ.empty())
    return Status();
  return Status(CRIA_FAILED_PRECONDITION,
                "the ranks differ: not all have the same " + differ);
}

} // namespace cria
