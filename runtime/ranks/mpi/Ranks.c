/* CriaRanks by MPI. Compiled once for each installed implementation, because
 * MPI_Comm and other types differ between implementations. */
#define _GNU_SOURCE
#include "runtime/Ranks.h"

#include <mpi.h>
#include <string.h>
#include <unistd.h>

/* MPI counts in int. */
static const int64_t mostAtOnce = 1 << 28;

static int partOf(int64_t left) {
  return (int)(left < mostAtOnce ? left : mostAtOnce);
}

static void sum(void *data, float *values, int64_t count) {
  (void)data;
  for (; count > 0; values += mostAtOnce, count -= mostAtOnce)
    MPI_Allreduce(MPI_IN_PLACE, values, partOf(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void max(void *data, uint64_t *values, int64_t count) {
  (void)data;
  for (; count > 0; values += mostAtOnce, count -= mostAtOnce)
    MPI_Allreduce(MPI_IN_PLACE, values, partOf(count), MPI_UINT64_T, MPI_MAX,
                  MPI_COMM_WORLD);
}

static void broadcast(void *data, void *bytes, int64_t count) {
  char *at = (char *)bytes;
  (void)data;
  for (; count > 0; at += mostAtOnce, count -= mostAtOnce)
    MPI_Bcast(at, partOf(count), MPI_BYTE, 0, MPI_COMM_WORLD);
}

static MPI_Win beatWindow = MPI_WIN_NULL;
static int finalizes; /* else the caller has initialized MPI, and ends it */

static void leave(void *data) {
  (void)data;
  if (beatWindow != MPI_WIN_NULL)
    MPI_Win_free(&beatWindow);
  if (finalizes)
    MPI_Finalize();
}

/* Allocates the beats of the machine's ranks in memory that they share. */
static int shareBeats(CriaRanks *ranks, MPI_Comm machine) {
  MPI_Aint bytes = 0;
  int unit = 0;
  void *own = 0;
  if (ranks->local == 0)
    bytes = (MPI_Aint)ranks->locals * (MPI_Aint)sizeof(CriaBeat);
  if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, machine, &own,
                              &beatWindow) != MPI_SUCCESS ||
      MPI_Win_shared_query(beatWindow, 0, &bytes, &unit, &ranks->beats) !=
          MPI_SUCCESS)
    return 1;
  CriaBeat *beat = &ranks->beats[ranks->local];
  memset(beat, 0, sizeof(*beat));
  beat->rank = ranks->rank;
  beat->process = getpid();
  return MPI_Barrier(machine) != MPI_SUCCESS;
}

__attribute__((visibility("default"))) int cria_ranks_join_mpi(CriaRanks *ranks,
                                                               uint64_t size) {
  int provided = 0, started = 0;
  MPI_Comm machine;
  if (size != sizeof(CriaRanks))
    return 1;
  memset(ranks, 0, sizeof(*ranks));
  /* Only one thread of a rank calls MPI: the thread that joins. */
  if (MPI_Initialized(&started) != MPI_SUCCESS)
    return 1;
  finalizes = !started;
  if ((started ? MPI_Query_thread(&provided)
               : MPI_Init_thread(0, 0, MPI_THREAD_FUNNELED, &provided)) !=
          MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED ||
      MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank) != MPI_SUCCESS ||
      MPI_Comm_size(MPI_COMM_WORLD, &ranks->size) != MPI_SUCCESS ||
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0,
                          MPI_INFO_NULL, &machine) != MPI_SUCCESS ||
      MPI_Comm_rank(machine, &ranks->local) != MPI_SUCCESS ||
      MPI_Comm_size(machine, &ranks->locals) != MPI_SUCCESS ||
      shareBeats(ranks, machine))
    return 1;
  ranks->sum = sum;
  ranks->max = max;
  ranks->broadcast = broadcast;
  ranks->leave = leave;
  return 0;
}
