// Cooperative groups: the grid, the block, tiles of a warp, and the lanes that
// go one way.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

/// Rounds of averaging with the neighbours. With `barriers` off nothing keeps
/// the blocks together.
extern "C" __global__ void smooth(float *a, float *b, int rounds,
                                  int barriers) {
  cg::grid_group grid = cg::this_grid();
  int n = grid.size(), i = grid.thread_rank();
  for (int round = 0; round < rounds; ++round) {
    float *from = round % 2 ? b : a, *to = round % 2 ? a : b;
    to[i] = (from[(i + n - 1) % n] + 2 * from[i] + from[(i + 1) % n]) / 4;
    if (barriers)
      grid.sync();
    else
      __syncthreads();
  }
}

/// Of each thread: the sum of its 8 lanes, the sum of those up to it, and the
/// number of odd values in the warp; then the block's sum.
extern "C" __global__ void groups(const int *in, int *out) {
  __shared__ int sums[32];
  cg::thread_block block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto tile = cg::tiled_partition<8>(warp);
  int rank = block.thread_rank(), value = in[rank], odd = 0;
  int *mine = out + rank * 4;
  mine[0] = cg::reduce(tile, value, cg::plus<int>());
  mine[1] = cg::inclusive_scan(tile, value);
  if (value % 2) {
    cg::coalesced_group odds = cg::coalesced_threads();
    odd = odds.size();
  }
  mine[2] = cg::reduce(warp, odd, cg::greater<int>());
  if (tile.thread_rank() == 0)
    sums[tile.meta_group_rank() + warp.meta_group_rank() * 4] = mine[0];
  block.sync();
  mine[3] = 0;
  for (int i = 0; i < block.size() / 8; ++i)
    mine[3] += sums[i];
}
