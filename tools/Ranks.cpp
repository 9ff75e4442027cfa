#include "tools/Ranks.h"

#include "runtime/base/threads/Cores.h"
#include "runtime/ranks/JoinRanks.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace cria {

/// Makes stdout lead nowhere.
static Status silence() {
  int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  bool isQuiet = nothing >= 0 && dup2(nothing, STDOUT_FILENO) >= 0;
  if (nothing >= 0)
    close(nothing);
  return isQuiet ? Status()
                 : Status(CRIA_UNAVAILABLE, "/dev/null: cannot be opened");
}

Result<const CriaRanks *> openRanks(const char *tool, const Artifact &artifact,
                                    int &threads) {
  int64_t shards = artifact.manifest().shards;
  if (shards == 1)
    return nullptr;
  auto ranks = joinRanks();
  if (ranks.status().code() == CRIA_FAILED_PRECONDITION)
    return Status(CRIA_FAILED_PRECONDITION,
                  {"the artifact is for ", shards, " ranks: start ", tool,
                   " by mpirun -n ", shards, ", of MPICH or Open MPI"});
  if (!ranks.ok())
    return ranks;
  if (!threads)
    threads = std::max(coreCount() / (*ranks)->locals, 1);
  if ((*ranks)->rank > 0)
    if (Status status = silence(); !status.ok())
      return status;
  return ranks;
}

/// MPI_Abort is not used: after it, MPICH's mpirun may lose what was printed
/// before.
int closeRanks(const CriaRanks *ranks, int code) {
  if (ranks && code != 0) {
    fflush(nullptr);
    _exit(code);
  }
  leaveRanks();
  return code;
}

} // namespace cria
