/// The ranks of a program that mpirun has started, and a watch over them.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/Status.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace cria {

/// Whether an mpirun that is known has started this process.
bool isRank();

/// Joins the other processes of the mpirun that has started this one, by the
/// library for its implementation of MPI, or the one that CRIA_MPI names. Once
/// joined they stay so: what is returned lives as long as the process.
/// FAILED_PRECONDITION where no mpirun has started it.
///
/// From then on a thread watches how long this rank waits for the others, and
/// ends the process, and so mpirun the others, after a minute, or the seconds
/// of CRIA_MPI_TIMEOUT; 0: never. It says which rank does not go on, if that is
/// on this machine.
Result<const CriaRanks *> joinRanks();

/// Leaves ranks that were joined, if any.
void leaveRanks();

/// While one lives, this rank waits for the others; inside another it does
/// nothing. They may be `longer` times as late as in a step.
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

/// What all ranks must have the same of, by a hash: "artifact", "weights".
using RankFacts = std::vector<std::pair<const char *, uint64_t>>;

/// Waits for all ranks, which may still be loading, and compares their facts,
/// as many on each: FAILED_PRECONDITION on all of them, naming those that
/// differ.
Status agreeRanks(const CriaRanks &ranks, const RankFacts &facts);

} // namespace cria
