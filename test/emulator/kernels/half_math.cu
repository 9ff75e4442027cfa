// The mathematics of cuda_fp16.h, which is written in PTX.
#include <cuda_fp16.h>

extern "C" __global__ void halfMath(const float *in, float *out) {
  int t = threadIdx.x;
  __half x = __float2half(in[t]);
  float *mine = out + t * 10;
  mine[0] = __half2float(hexp(x));
  mine[1] = __half2float(hexp2(x));
  mine[2] = __half2float(hexp10(x));
  mine[3] = __half2float(hlog(x));
  mine[4] = __half2float(hlog2(x));
  mine[5] = __half2float(hlog10(x));
  mine[6] = __half2float(hsqrt(x));
  mine[7] = __half2float(hrcp(x));
  mine[8] = __half2float(hsin(x));
  mine[9] = __half2float(hcos(x));
}

extern "C" __global__ void roundings(const float *in, unsigned short *out) {
  int t = threadIdx.x;
  float x = in[t];
  unsigned short *mine = out + t * 8;
  mine[0] = __half_as_ushort(__float2half_rn(x));
  mine[1] = __half_as_ushort(__float2half_rz(x));
  mine[2] = __half_as_ushort(__float2half_rd(x));
  mine[3] = __half_as_ushort(__float2half_ru(x));
  mine[4] = __half_as_ushort(__double2half(double(x) * 1.0000001));
  mine[5] = __half_as_ushort(__ll2half_rd((long long)(x * 1000)));
  mine[6] = __half_as_ushort(__ll2half_ru((long long)(x * 1000)));
  mine[7] = __half_as_ushort(__uint2half_rz(unsigned(fabsf(x) * 1000)));
}
