// Each block sums its part; the last to end sums the parts.
__device__ unsigned finished;

extern "C" __global__ void sum(const int *in, int *parts, long long *out) {
  __shared__ bool isLast;
  __shared__ long long total;
  int value = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int by = 16; by > 0; by /= 2)
    value += __shfl_xor_sync(~0u, value, by);
  if (threadIdx.x == 0)
    total = 0;
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    atomicAdd(reinterpret_cast<unsigned long long *>(&total),
              (unsigned long long)(long long)value);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = int(total);
    __threadfence();
    isLast = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (isLast && threadIdx.x == 0) {
    long long all = 0;
    for (int i = 0; i < gridDim.x; ++i)
      all += ((volatile int *)parts)[i];
    *out = all;
  }
}
