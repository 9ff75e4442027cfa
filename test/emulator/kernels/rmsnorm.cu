// out = x / rms(x) * weight in bf16, 8 values a load.
#include <cuda_bf16.h>

extern "C" __global__ void rmsnorm(const uint4 *x, const uint4 *weight,
                                   uint4 *out, int n, float eps) {
  __shared__ float partial[8];
  uint4 mine = x[blockIdx.x * blockDim.x + threadIdx.x];
  auto *pairs = reinterpret_cast<__nv_bfloat162 *>(&mine);
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    float2 pair = __bfloat1622float2(pairs[i]);
    sum += pair.x * pair.x + pair.y * pair.y;
  }
  for (int by = 16; by > 0; by /= 2)
    sum += __shfl_xor_sync(~0u, sum, by);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < blockDim.x / 32; ++i)
    sum += partial[i];
  float scale = rsqrtf(sum / n + eps);
  uint4 factors = weight[threadIdx.x];
  auto *w = reinterpret_cast<__nv_bfloat162 *>(&factors);
  for (int i = 0; i < 4; ++i) {
    float2 pair = __bfloat1622float2(pairs[i]), f = __bfloat1622float2(w[i]);
    pairs[i] = __floats2bfloat162_rn(pair.x * scale * f.x,
                                     pair.y * scale * f.y);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = mine;
}
