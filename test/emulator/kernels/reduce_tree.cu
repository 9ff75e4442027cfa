#include <climits>

// The maximum of an array, by a tree in shared memory.
extern "C" __global__ void reduce(const int *in, int *out, int n) {
  __shared__ int tree[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  tree[threadIdx.x] = i < n ? in[i] : INT_MIN;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half)
      tree[threadIdx.x] = max(tree[threadIdx.x], tree[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0)
    atomicMax(out, tree[0]);
}
