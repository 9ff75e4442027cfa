// Threads take different ways: loops of different length, a switch, calls.
static __device__ __noinline__ int collatz(unsigned n) {
  int steps = 0;
  for (; n != 1; ++steps)
    n = n % 2 ? 3 * n + 1 : n / 2;
  return steps;
}

static __device__ __noinline__ int choose(int i) {
  switch (i % 7) {
  case 0:
    return collatz(i + 1);
  case 1:
    return -i;
  case 2:
    return i * i;
  case 3:
    return i << (i % 5);
  case 4:
    return i / 3;
  case 5:
    return __popc(i);
  default:
    return i % 11;
  }
}

extern "C" __global__ void diverge(int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  int value = choose(i);
  if (i % 3 == 0)
    value += collatz(i + 5);
  out[i] = value;
}
