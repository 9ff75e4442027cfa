// A struct by value, constant and global variables, local arrays, pointers
// whose space is not known, 64-bit and double arithmetic.
struct Settings {
  char tag;
  short offsets[3];
  double scale;
};

__constant__ int kPowers[8] = {1, 3, 9, 27, 81, 243, 729, 2187};
__device__ long long table[4] = {1LL << 40, -5, 7, 1LL << 33};
__device__ long long *tablePointer = &table[2];

extern "C" __global__ void spaces(Settings settings, double *out) {
  __shared__ int shared[32];
  int local[16], t = threadIdx.x;
  for (int i = 0; i < 16; ++i)
    local[(i * 5 + t) % 16] = kPowers[(i + t) % 8] + i;
  shared[t] = local[t % 16];
  __syncthreads();
  int *either = t % 2 ? &shared[31 - t] : &local[t % 16];
  long long big = table[t % 4] * *either + tablePointer[t % 2];
  out[t] = double(big / (t + 3) % 1000003) * settings.scale +
           settings.offsets[t % 3] + settings.tag;
}
