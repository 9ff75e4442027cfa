// A kernel for each function of the list. Three arguments a thread: x, y, and u
// in (-1, 1).
#define KERNEL(name, call)                                                     \
  extern "C" __global__ void k_##name(const double *in, double *out) {         \
    const double *mine = in + 3 * threadIdx.x;                                 \
    out[threadIdx.x] = call;                                                   \
  }
#define UNARY(name, reference) KERNEL(name, name(mine[0]))
#define BINARY(name, reference) KERNEL(name, name(mine[0], mine[1]))
#define NARROW(name, reference) KERNEL(name, name(mine[2]))
#define INVERSE(name, argument, back)                                          \
  __device__ double argument_##name(double x) { return argument; }             \
  KERNEL(name, name(argument_##name(mine[2])))
#include "math64.inc"
