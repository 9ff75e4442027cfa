// Votes, matches, reductions and groups of the lanes that are active.
#include <cooperative_groups.h>

extern "C" __global__ void warpOps(const unsigned *in, unsigned *out) {
  int t = threadIdx.x, lane = t % 32;
  unsigned value = in[t], *mine = out + t * 8;
  mine[0] = __ballot_sync(~0u, value & 1);
  mine[1] = __any_sync(~0u, value == 7) * 2 + __all_sync(~0u, value < 1000);
  mine[2] = __match_any_sync(~0u, value % 5);
  mine[3] = __reduce_add_sync(~0u, value);
  mine[4] = __reduce_max_sync(~0u, int(value) - 500);
  mine[5] = __shfl_sync(~0u, value, lane ^ 5, 8);
  mine[6] = __syncthreads_count(value & 2);
  mine[7] = 0;
  if (value % 3 == 0) {
    auto group = cooperative_groups::coalesced_threads();
    mine[7] = group.size() * 100 + group.thread_rank();
  }
}
