/// The ranks of a tool: the processes that mpirun has started for an artifact
/// that is compiled for several.
#pragma once

#include "runtime/Ranks.h"
#include "runtime/artifact/Artifact.h"
#include "runtime/base/Status.h"

namespace cria {

/// Joins the other ranks of the artifact; null if it is for one. `threads`, if
/// 0, becomes this rank's part of the machine's cores. Rank 0 prints for all:
/// what the others write to stdout is lost. FAILED_PRECONDITION: mpirun has not
/// started `tool`.
Result<const CriaRanks *> openRanks(const char *tool, const Artifact &artifact,
                                    int &threads);

/// Leaves the ranks if the exit status `code` is 0, or else ends the process,
/// whereupon mpirun ends the other ranks. Without ranks it does nothing.
/// Returns `code`.
int closeRanks(const CriaRanks *ranks, int code);

} // namespace cria
