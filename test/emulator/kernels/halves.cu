// Arithmetic and conversions of f16 and bf16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void halves(const float *in, float *out) {
  int t = threadIdx.x;
  float a = in[2 * t], b = in[2 * t + 1], *mine = out + t * 8;
  __half2 h = __floats2half2_rn(a, b), g = __floats2half2_rn(b, 2.0f);
  __nv_bfloat162 p = __floats2bfloat162_rn(a, b);
  mine[0] = __low2float(__hfma2(h, g, h));
  mine[1] = __high2float(__hadd2(h, g));
  mine[2] = __low2float(__hmax2(h, g));
  mine[3] = __bfloat162float(__hfma(p.x, p.y, p.x));
  mine[4] = __half2float(__float2half_rz(a));
  mine[5] = __bfloat162float(__float2bfloat16_rz(b));
  mine[6] = float(__half2int_rn(h.x));
  mine[7] = __half2float(__int2half_rn(int(a * 100)));
}
