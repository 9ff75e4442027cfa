// Sums the columns of a matrix; the next tile is copied while this one is
// added.
#include <cuda_pipeline.h>

extern "C" __global__ void sumColumns(const float4 *in, float *out, int rows) {
  __shared__ float4 tile[2][4][32];
  int t = threadIdx.x, column = t % 128, steps = rows / 4;
  auto copy = [&](int step) {
    if (step < steps)
      __pipeline_memcpy_async(&tile[step % 2][t / 32][t % 32],
                              &in[(step * 4 + t / 32) * 32 + t % 32], 16);
    __pipeline_commit();
  };
  copy(0);
  float sum = 0;
  for (int step = 0; step < steps; ++step) {
    copy(step + 1);
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int row = 0; row < 4; ++row)
      sum += reinterpret_cast<float *>(tile[step % 2][row])[column];
    __syncthreads();
  }
  out[column] = sum;
}
