/* The processes that share a model are its ranks. A small library for each
 * implementation of MPI joins them, so that neither compiled code nor libcria
 * depends on MPI's types. A caller may also join its processes itself.
 *
 * All ranks call the functions in the same order, each rank from one thread.
 * The functions return no errors: if MPI fails, MPI ends all ranks. */
#ifndef CRIA_RUNTIME_RANKS_H
#define CRIA_RUNTIME_RANKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The progress of a rank, in memory that the ranks of a machine share. Each
 * rank writes its own beat; reads and writes of a field are atomic. */
typedef struct CriaBeat {
  int64_t rank;
  int64_t process;   /* the rank's process id */
  int64_t waits;     /* the number of times that it has waited for the others */
  int64_t alive;     /* its last sign of life, in ms of CLOCK_MONOTONIC */
  int64_t unused[4]; /* fills a cache line */
} CriaBeat;

typedef struct CriaRanks {
  int32_t rank;    /* of this process, from 0 */
  int32_t size;    /* ranks in all */
  int32_t local;   /* this rank's number among the ranks of its machine */
  int32_t locals;  /* ranks on this machine */
  CriaBeat *beats; /* (locals); null: the progress of ranks is not known */
  void *data;      /* for the functions */
  /* Replaces each value by its sum over all ranks. All ranks get the same bits
   * for certain only if at most one rank has a value other than 0. */
  void (*sum)(void *data, float *values, int64_t count);
  /* Replaces each value by its maximum over all ranks. */
  void (*max)(void *data, uint64_t *values, int64_t count);
  /* Gives all ranks the bytes of rank 0. */
  void (*broadcast)(void *data, void *bytes, int64_t count);
  /* Leaves the other ranks, after the last call of the other functions. The
   * beats are gone after it. Null: there is nothing to leave. */
  void (*leave)(void *data);
} CriaRanks;

/* The function that a library for an implementation of MPI exports. It joins
 * the processes that mpirun started, and fills `ranks`. `size` is
 * sizeof(CriaRanks); a library of another version refuses another size. Returns
 * 0 on success. */
int cria_ranks_join_mpi(CriaRanks *ranks, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
