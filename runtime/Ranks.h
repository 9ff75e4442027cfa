/* The processes that share a model, its ranks, as the runtime sees them. What
 * joins them is a library of its own, one for each implementation of MPI, so
 * that neither compiled code nor libcria knows any of MPI's types.
 *
 * All ranks call the functions in the same order, each rank from one thread.
 * None returns an error: where MPI fails, it ends all ranks. */
#ifndef CRIA_RUNTIME_RANKS_H
#define CRIA_RUNTIME_RANKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CriaRanks {
  int32_t rank; /* of this process, from 0 */
  int32_t size; /* ranks in all */
  /* Puts in the place of each value its sum over all ranks. Equal bits on all
   * ranks are promised only where at most one rank has a value other than 0. */
  void (*sum)(float *values, int64_t count);
  /* The same with the largest. */
  void (*max)(uint64_t *values, int64_t count);
  /* Gives all ranks the bytes of rank 0. */
  void (*broadcast)(void *bytes, int64_t count);
  /* Leaves the others, once there is nothing left to say to them. */
  void (*leave)(void);
} CriaRanks;

/* What such a library exports: joins the processes that mpirun started, and
 * fills `ranks`. `size` is sizeof(CriaRanks): another size, of another version,
 * is refused. 0 on success. */
int cria_ranks_join(CriaRanks *ranks, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
