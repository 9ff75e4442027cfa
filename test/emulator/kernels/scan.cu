// Inclusive sums in a block, in dynamic shared memory.
extern "C" __global__ void scan(const int *in, int *out) {
  extern __shared__ int sums[];
  int n = blockDim.x, t = threadIdx.x, from = 0, to = n;
  sums[t] = in[blockIdx.x * n + t];
  __syncthreads();
  for (int by = 1; by < n; by *= 2) {
    int sum = sums[from + t];
    if (t >= by)
      sum += sums[from + t - by];
    sums[to + t] = sum;
    __syncthreads();
    int swap = from;
    from = to;
    to = swap;
  }
  out[blockIdx.x * n + t] = sums[from + t];
}
