// Softmax of each row, a warp a row.
extern "C" __global__ void softmax(const float *in, float *out, int columns) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  in += row * columns;
  out += row * columns;
  float most = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < columns; i += 32)
    most = fmaxf(most, in[i]);
  for (int by = 16; by > 0; by /= 2)
    most = fmaxf(most, __shfl_xor_sync(~0u, most, by));
  for (int i = threadIdx.x; i < columns; i += 32)
    sum += expf(in[i] - most);
  for (int by = 16; by > 0; by /= 2)
    sum += __shfl_xor_sync(~0u, sum, by);
  for (int i = threadIdx.x; i < columns; i += 32)
    out[i] = expf(in[i] - most) / sum;
}
