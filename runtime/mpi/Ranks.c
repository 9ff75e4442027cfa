/* CriaRanks by MPI. Compiled once for each installed implementation, because
 * MPI_Comm and other types differ between implementations. */
#include "runtime/Ranks.h"

#include <mpi.h>

/* MPI counts in int. */
static const int64_t mostAtOnce = 1 << 28;

static int partOf(int64_t left) {
  return (int)(left < mostAtOnce ? left : mostAtOnce);
}

static void sum(float *values, int64_t count) {
  for (; count > 0; values += mostAtOnce, count -= mostAtOnce)
    MPI_Allreduce(MPI_IN_PLACE, values, partOf(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
}

static void max(uint64_t *values, int64_t count) {
  for (; count > 0; values += mostAtOnce, count -= mostAtOnce)
    MPI_Allreduce(MPI_IN_PLACE, values, partOf(count), MPI_UINT64_T, MPI_MAX,
                  MPI_COMM_WORLD);
}

static void broadcast(void *bytes, int64_t count) {
  char *at = (char *)bytes;
  for (; count > 0; at += mostAtOnce, count -= mostAtOnce)
    MPI_Bcast(at, partOf(count), MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void leave(void) { MPI_Finalize(); }

__attribute__((visibility("default"))) int cria_ranks_join(CriaRanks *ranks,
                                                           uint64_t size) {
  int provided = 0, rank = 0, all = 0;
  if (size != sizeof(CriaRanks))
    return 1;
  /* Only one thread of a rank calls MPI: the thread that joins. */
  if (MPI_Init_thread(0, 0, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED ||
      MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
      MPI_Comm_size(MPI_COMM_WORLD, &all) != MPI_SUCCESS)
    return 1;
  ranks->rank = rank;
  ranks->size = all;
  ranks->sum = sum;
  ranks->max = max;
  ranks->broadcast = broadcast;
  ranks->leave = leave;
  return 0;
}
