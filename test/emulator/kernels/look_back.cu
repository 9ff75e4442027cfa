// A scan over all blocks (decoupled look-back): each publishes its sum, with
// its state, in one word of 64 bits, and adds up the words before it.
using Word = unsigned long long;

static __device__ unsigned sumBefore(volatile Word *words, int block) {
  unsigned sum = 0;
  for (int i = block - 1; i >= 0; --i) {
    Word word;
    do
      word = words[i];
    while ((word >> 32) == 0);
    sum += unsigned(word);
    if ((word >> 32) == 2)
      break;
  }
  return sum;
}

extern "C" __global__ void scan(const unsigned *in, unsigned *out,
                                volatile Word *words, unsigned *ticket) {
  __shared__ unsigned block, before, sums[8];
  if (threadIdx.x == 0)
    block = atomicAdd(ticket, 1u);
  __syncthreads();
  unsigned i = block * blockDim.x + threadIdx.x, value = in[i];
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (unsigned by = 1; by < 32; by *= 2) {
    unsigned left = __shfl_up_sync(~0u, value, by);
    value += lane >= by ? left : 0;
  }
  if (lane == 31)
    sums[warp] = value;
  __syncthreads();
  unsigned total = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    value += w < warp ? sums[w] : 0;
    total += sums[w];
  }
  if (threadIdx.x == 0) {
    words[block] = Word(block == 0 ? 2 : 1) << 32 | total;
    before = sumBefore(words, int(block));
    words[block] = Word(2) << 32 | (before + total);
  }
  __syncthreads();
  out[i] = before + value;
}
