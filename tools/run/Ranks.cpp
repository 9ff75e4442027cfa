#include "tools/run/Ranks.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <thread>
#include <unistd.h>

namespace cria {

// ---- The watch -------------------------------------------------------------

/// How much longer than in a step a rank waits for the others to load.
static constexpr int64_t loadingFactor = 10;

// The functions of a CriaRanks take no context: there is one in a process.
static CriaRanks joined;
static std::atomic<int64_t> waitingSince{0}; // milliseconds; 0: not waiting
static std::atomic<int64_t> mostWaiting{0};  // milliseconds

static int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// While it lives, this rank waits for the others.
namespace {
class Waiting {
public:
  Waiting() { waitingSince = milliseconds(); }
  ~Waiting() { waitingSince = 0; }
  Waiting(const Waiting &) = delete;
  Waiting &operator=(const Waiting &) = delete;
};
} // namespace

/// Ends the process once it has waited for too long. Not by MPI, whose
/// functions only the thread that waits may call.
static void watch() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    int64_t since = waitingSince, most = mostWaiting;
    if (since == 0 || milliseconds() - since < most)
      continue;
    fprintf(stderr,
            "cria-run: rank %d: error: waited %lld s for the other ranks, of "
            "which at least one does not go on; CRIA_MPI_TIMEOUT sets the "
            "seconds\n",
            joined.rank, static_cast<long long>(most / 1000));
    _exit(1);
  }
}

static CriaRanks watched() {
  CriaRanks ranks = joined;
  ranks.sum = [](float *values, int64_t count) {
    Waiting waiting;
    joined.sum(values, count);
  };
  ranks.max = [](uint64_t *values, int64_t count) {
    Waiting waiting;
    joined.max(values, count);
  };
  ranks.broadcast = [](void *bytes, int64_t count) {
    Waiting waiting;
    joined.broadcast(bytes, count);
  };
  ranks.leave = [] {
    Waiting waiting;
    joined.leave();
  };
  return ranks;
}

// ---- The library -----------------------------------------------------------

/// The number that an environment variable holds, or nothing.
static long numberIn(const char *name, long otherwise) {
  const char *text = getenv(name);
  char *end = nullptr;
  long number = text ? strtol(text, &end, 10) : 0;
  return text && *text && !*end && number >= 0 ? number : otherwise;
}

int localRanks() {
  long count =
      numberIn("OMPI_COMM_WORLD_LOCAL_SIZE", numberIn("MPI_LOCALNRANKS", 1));
  return count > 0 && count <= 1024 ? static_cast<int>(count) : 1;
}

/// The library for the mpirun that has started this process; "" for none.
static std::string libraryName() {
  if (const char *named = getenv("CRIA_MPI"); named && *named)
    return named;
  const char *kind = getenv("OMPI_COMM_WORLD_SIZE") ? "openmpi"
                     : getenv("PMI_SIZE")           ? "mpich"
                                                    : nullptr;
  if (!kind)
    return "";
  std::string name = std::string("libcria-mpi-") + kind + ".so";
  char buffer[4096];
  ssize_t size = readlink("/proc/self/exe", buffer, sizeof(buffer));
  std::string program(buffer, size > 0 ? static_cast<size_t>(size) : 0);
  size_t slash = program.rfind('/');
  std::string beside = program.substr(0, slash + 1) + "../lib/" + name;
  return slash != std::string::npos && access(beside.c_str(), F_OK) == 0
             ? beside
             : name;
}

Result<const CriaRanks *> joinRanks(int64_t shards) {
  std::string count = std::to_string(shards), name = libraryName();
  if (name.empty())
    return Status(CRIA_FAILED_PRECONDITION,
                  "the artifact is for " + count +
                      " ranks: start cria-run by mpirun -n " + count +
                      ", of MPICH or Open MPI");
  // For all to see: Open MPI opens plugins that look for its functions.
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  auto join = reinterpret_cast<decltype(&cria_ranks_join)>(
      library ? dlsym(library, "cria_ranks_join") : nullptr);
  if (!join)
    return Status(CRIA_UNAVAILABLE, "the library for ranks is not available: " +
                                        std::string(dlerror()));
  if (join(&joined, sizeof(joined)) != 0)
    return Status(CRIA_UNAVAILABLE,
                  name + ": cannot join the other ranks, or is of another "
                         "version");
  long seconds = numberIn("CRIA_MPI_TIMEOUT", 60);
  if (seconds > 0) {
    mostWaiting = seconds * 1000;
    std::thread(watch).detach();
  }
  static const CriaRanks ranks = watched();
  return &ranks;
}

Status agreeRanks(const CriaRanks &ranks, const RankFacts &facts) {
  int64_t usual = mostWaiting;
  mostWaiting = usual * loadingFactor;
  // The complement's largest is the complement of the smallest.
  std::vector<uint64_t> bounds;
  for (const auto &[name, hash] : facts)
    bounds.insert(bounds.end(), {hash, ~hash});
  ranks.max(bounds.data(), static_cast<int64_t>(bounds.size()));
  mostWaiting = usual;
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
