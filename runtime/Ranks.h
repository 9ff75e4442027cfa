/* The processes that share a model, its ranks, as the runtime sees them. What
 * joins them is a library of its own, one for each implementation of MPI, so
 * that neither compiled code nor libcria knows any of MPI's types; or a caller
 * that has ranks already.
 *
 * All ranks call the functions in the same order, each rank from one thread.
 * None returns an error: where MPI fails, it ends all ranks. */
#ifndef CRIA_RUNTIME_RANKS_H
#define CRIA_RUNTIME_RANKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far a rank has come, in memory of all ranks of a machine: a rank writes
 * its own, whole numbers at a time. */
typedef struct CriaBeat {
  int64_t rank;
  int64_t process; /* its id */
  int64_t waits;   /* how often it has waited for the others */
  int64_t alive;   /* when it was seen last, in ms of CLOCK_MONOTONIC */
  int64_t unused[4];
} CriaBeat;

typedef struct CriaRanks {
  int32_t rank;    /* of this process, from 0 */
  int32_t size;    /* ranks in all */
  int32_t local;   /* of this process, among those on its machine */
  int32_t locals;  /* of those */
  CriaBeat *beats; /* (locals); null: nothing is known of them */
  void *data;      /* for the functions */
  /* Puts in the place of each value its sum over all ranks. Equal bits on all
   * ranks are promised only where at most one rank has a value other than 0. */
  void (*sum)(void *data, float *values, int64_t count);
  /* The same with the largest. */
  void (*max)(void *data, uint64_t *values, int64_t count);
  /* Gives all ranks the bytes of rank 0. */
  void (*broadcast)(void *data, void *bytes, int64_t count);
  /* Leaves the others, once there is nothing left to say to them; the beats are
   * gone then. Null: there is nothing to leave. */
  void (*leave)(void *data);
} CriaRanks;

/* What such a library exports: joins the processes that mpirun started, and
 * fills `ranks`. `size` is sizeof(CriaRanks): another size, of another version,
 * is refused. 0 on success. */
int cria_ranks_join_mpi(CriaRanks *ranks, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
