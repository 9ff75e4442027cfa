// Each block waits for the sum of the blocks before it (decoupled look-back),
// which the order of the blocks must not break.
extern "C" __global__ void chain(const int *in, volatile int *sums,
                                 volatile int *flags, unsigned *ticket) {
  __shared__ unsigned block;
  if (threadIdx.x == 0)
    block = atomicAdd(ticket, 1u);
  __syncthreads();
  if (threadIdx.x == 0) {
    int before = 0;
    if (block > 0) {
      while (!flags[block - 1])
        ;
      __threadfence();
      before = sums[block - 1];
    }
    sums[block] = before + in[block];
    __threadfence();
    flags[block] = 1;
  }
}
