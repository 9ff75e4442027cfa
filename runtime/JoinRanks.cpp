#include "runtime/JoinRanks.h"

#include "runtime/Beside.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

namespace cria {

// ---- The watch -------------------------------------------------------------

/// How often a rank says that it is alive, and the time after which it is
/// taken for stopped: milliseconds.
static constexpr int64_t beatEvery = 100, stoppedAfter = 1000;

// There is one set of ranks in a process.
static CriaRanks joined;
static std::mutex beatsMutex; // of joined.beats, which leaving takes away
static std::atomic<int64_t> waitingSince{0}; // milliseconds; 0: not waiting
static std::atomic<int64_t> longer{1};       // than `mostWaiting` it may wait
static std::atomic<int64_t> waits{0};        // so far
static int64_t mostWaiting = 0;              // milliseconds

/// As all processes of a machine count it.
static int64_t milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

WaitForRanks::WaitForRanks(int64_t times) : isOuter(waitingSince == 0) {
  if (!isOuter)
    return;
  ++waits;
  longer = times;
  waitingSince = milliseconds();
}

WaitForRanks::~WaitForRanks() {
  if (isOuter)
    waitingSince = 0;
}

static int64_t read(const int64_t &field) {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

/// Says that this rank is alive, and how far it has come.
static void beat() {
  std::lock_guard<std::mutex> lock(beatsMutex);
  if (!joined.beats)
    return;
  CriaBeat &own = joined.beats[joined.local];
  __atomic_store_n(&own.waits, waits.load(), __ATOMIC_RELAXED);
  __atomic_store_n(&own.alive, milliseconds(), __ATOMIC_RELAXED);
}

/// The ranks that this one waits for: those of its machine that have stopped,
/// or have not come as far.
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

/// Ends the process once it has waited for too long. Not by MPI, whose
/// functions only the thread that waits may call.
static void watch() {
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(beatEvery))) {
    beat();
    int64_t since = waitingSince, most = mostWaiting * longer;
    if (most == 0 || since == 0 || milliseconds() - since < most)
      continue;
    fprintf(stderr,
            "%s: rank %d: error: waited %lld s for the other ranks: %s; "
            "CRIA_MPI_TIMEOUT sets the seconds\n",
            program_invocation_short_name, joined.rank,
            static_cast<long long>(most / 1000), lateRanks().c_str());
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

/// The seconds that CRIA_MPI_TIMEOUT says, else 60.
static int64_t timeout() {
  const char *text = getenv("CRIA_MPI_TIMEOUT");
  char *end = nullptr;
  long number = text ? strtol(text, &end, 10) : 0;
  return text && *text && !*end && number >= 0 ? number : 60;
}

/// The library for the mpirun that has started this process; "" for none.
static std::string libraryName() {
  if (const char *named = getenv("CRIA_MPI"); named && *named)
    return named;
  const char *kind = getenv("OMPI_COMM_WORLD_SIZE") ? "openmpi"
                     : getenv("PMI_SIZE")           ? "mpich"
                                                    : nullptr;
  return kind ? libraryBeside(concat({"libcria-mpi-", kind, ".so"})) : "";
}

bool isRank() { return !libraryName().empty(); }

static Status join() {
  std::string name = libraryName();
  if (name.empty())
    return Status(CRIA_FAILED_PRECONDITION,
                  "no mpirun, of MPICH or Open MPI, has started this process");
  // For all to see: Open MPI opens plugins that look for its functions.
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
  mostWaiting = timeout() * 1000;
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
