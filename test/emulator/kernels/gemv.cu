// y = W x in bf16, a warp a row: the shape of decoding.
#include <cuda_bf16.h>

extern "C" __global__ void gemv(const uint4 *w, const uint4 *x,
                                __nv_bfloat16 *y, int columns) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32, count = columns / 8;
  float sum = 0;
  for (int i = lane; i < count; i += 32) {
    uint4 a = w[size_t(row) * count + i], b = x[i];
    auto *p = reinterpret_cast<__nv_bfloat162 *>(&a);
    auto *q = reinterpret_cast<__nv_bfloat162 *>(&b);
    for (int j = 0; j < 4; ++j) {
      float2 u = __bfloat1622float2(p[j]), v = __bfloat1622float2(q[j]);
      sum = fmaf(u.x, v.x, sum);
      sum = fmaf(u.y, v.y, sum);
    }
  }
  for (int by = 16; by > 0; by /= 2)
    sum += __shfl_xor_sync(~0u, sum, by);
  if (lane == 0)
    y[row] = __float2bfloat16(sum);
}
