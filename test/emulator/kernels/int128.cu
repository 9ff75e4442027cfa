// Division of 128-bit integers, which nvcc makes of chains of carries.
using Signed = __int128;
using Unsigned = unsigned __int128;

extern "C" __global__ void divide(const Signed *in, Signed *out) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  Signed a = in[2 * t], b = in[2 * t + 1];
  out[4 * t] = a / b;
  out[4 * t + 1] = a % b;
  out[4 * t + 2] = Signed(Unsigned(a) / Unsigned(b));
  out[4 * t + 3] = Signed(Unsigned(a) % Unsigned(b));
}
