// CUB's collectives, put together as its algorithms for a device are.
#include <cub/agent/single_pass_scan_operators.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

constexpr int kThreads = 128, kItems = 4;

/// Each block adds the sum of its part of `in` to `out`.
extern "C" __global__ void sum(const int *in, int *out, int n) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  __shared__ Reduce::TempStorage storage;
  int mine = 0, i = blockIdx.x * kThreads + threadIdx.x;
  for (; i < n; i += gridDim.x * kThreads)
    mine += in[i];
  int all = Reduce(storage).Sum(mine);
  if (threadIdx.x == 0)
    atomicAdd(out, all);
}

/// Inclusive sums over all blocks. A block publishes its sum and the state of
/// that together: 8 bytes for an int, 16 for a double. It waits for those with
/// lower tickets alone, which have begun.
template <typename T>
__device__ void begin(void *states, size_t bytes, int blocks) {
  cub::ScanTileState<T> state;
  state.Init(blocks, states, bytes);
  state.InitializeStatus(blocks);
}

template <typename T>
__device__ void scan(T *values, void *states, size_t bytes, int *ticket) {
  using State = cub::ScanTileState<T>;
  using Scan = cub::BlockScan<T, kThreads>;
  using Prefix = cub::TilePrefixCallbackOp<T, cuda::std::plus<>, State>;
  __shared__ typename Scan::TempStorage storage;
  __shared__ typename Prefix::TempStorage prefixStorage;
  __shared__ int block;
  State state;
  state.Init(gridDim.x, states, bytes);
  if (threadIdx.x == 0)
    block = atomicAdd(ticket, 1);
  __syncthreads();
  values += (block * kThreads + threadIdx.x) * kItems;
  T mine[kItems];
  for (int i = 0; i < kItems; ++i)
    mine[i] = values[i];
  if (block == 0) {
    T all;
    Scan(storage).InclusiveSum(mine, mine, all);
    if (threadIdx.x == 0)
      state.SetInclusive(0, all);
  } else {
    Prefix prefix(state, prefixStorage, cuda::std::plus<>{}, block);
    Scan(storage).InclusiveSum(mine, mine, prefix);
  }
  for (int i = 0; i < kItems; ++i)
    values[i] = mine[i];
}

extern "C" __global__ void beginInt(void *states, size_t bytes, int blocks) {
  begin<int>(states, bytes, blocks);
}
extern "C" __global__ void scanInt(int *values, void *states, size_t bytes,
                                   int *ticket) {
  scan(values, states, bytes, ticket);
}
extern "C" __global__ void beginDouble(void *states, size_t bytes, int blocks) {
  begin<double>(states, bytes, blocks);
}
extern "C" __global__ void scanDouble(double *values, void *states,
                                      size_t bytes, int *ticket) {
  scan(values, states, bytes, ticket);
}

/// Each block sorts its part.
extern "C" __global__ void sort(unsigned *keys, int *values) {
  using Sort = cub::BlockRadixSort<unsigned, kThreads, kItems, int>;
  __shared__ Sort::TempStorage storage;
  int first = (blockIdx.x * kThreads + threadIdx.x) * kItems;
  unsigned key[kItems];
  int value[kItems];
  for (int i = 0; i < kItems; ++i)
    key[i] = keys[first + i], value[i] = values[first + i];
  Sort(storage).Sort(key, value);
  for (int i = 0; i < kItems; ++i)
    keys[first + i] = key[i], values[first + i] = value[i];
}
