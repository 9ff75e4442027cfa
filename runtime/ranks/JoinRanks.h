/// The ranks of a program that mpirun has started, and a watch over them.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace cria {

/// Joins the processes that mpirun has started together with this one. It uses
/// the library for that implementation of MPI, or the library that CRIA_MPI
/// names. The result lives as long as the process. FAILED_PRECONDITION if
/// mpirun has not started this process.
///
/// A thread then watches how long this rank waits for the others. After a
/// minute (or the seconds of CRIA_MPI_TIMEOUT; 0: never) it names the rank that
/// does not go on, if that rank is on this machine, and ends the process;
/// mpirun then ends the other ranks.
Result<const CriaRanks *> joinRanks();

/// Leaves the ranks if they were joined.
void leaveRanks();

/// While it lives, this rank waits for the others. An object inside another one
/// does nothing. The other ranks may be `longer` times as late as in a step.
class WaitForRanks {
public:
  static constexpr int64_t kLoading = 10;

  explicit WaitForRanks(int64_t longer = 1);
  ~WaitForRanks();
  WaitForRanks(const WaitForRanks &) = delete;
  WaitForRanks &operator=(const WaitForRanks &) = delete;

private:
  bool isOuter;
};

/// Things that must be the same on all ranks, and their hashes: "artifact",
/// "weights".
using RankFacts = std::vector<std::pair<const char *, uint64_t>>;

/// Waits for all ranks, which may still be loading, and compares their facts.
/// Each rank has the same number of facts. FAILED_PRECONDITION on all ranks,
/// with the names of the facts that differ.
Status agreeRanks(const CriaRanks &ranks, const RankFacts &facts);

} // namespace cria
