/// The ranks of a run that mpirun has started.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cria {

/// Joins the other processes of the mpirun that has started this one, by the
/// library for its implementation of MPI, or the one that CRIA_MPI names. What
/// is returned lives as long as the process. FAILED_PRECONDITION, with the
/// number `shards` of ranks to start, where no mpirun has.
///
/// From then on a thread watches how long this rank waits for the others, and
/// ends the process, and so mpirun the others, after a minute, or the seconds
/// of CRIA_MPI_TIMEOUT; 0: never.
Result<const CriaRanks *> joinRanks(int64_t shards);

/// What all ranks must have the same of, by a hash: "artifact", "weights".
using RankFacts = std::vector<std::pair<const char *, uint64_t>>;

/// Waits for all ranks, which may still be loading, and compares their facts,
/// as many on each: FAILED_PRECONDITION on all of them, naming those that
/// differ.
Status agreeRanks(const CriaRanks &ranks, const RankFacts &facts);

/// The ranks that mpirun has started on this machine.
int localRanks();

} // namespace cria
