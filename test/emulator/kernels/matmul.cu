// C (M x N, f32) = A (M x K, bf16) * B (N x K, bf16)^T on tensor cores. A block
// of 4 warps makes a tile of 64 x 64; a warp makes 32 x 32 of it.
#include <cstdint>

constexpr int kTile = 64, kDepth = 32, kPitch = kDepth + 8;

static __device__ uint32_t sharedAddress(const void *pointer) {
  return uint32_t(__cvta_generic_to_shared(pointer));
}

static __device__ void copy(uint16_t (*to)[kPitch], const uint16_t *from,
                            int pitch) {
  for (int i = threadIdx.x; i < kTile * kDepth / 8; i += 128) {
    int row = i / (kDepth / 8), column = i % (kDepth / 8) * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     sharedAddress(&to[row][column])),
                 "l"(from + row * pitch + column));
  }
}

static __device__ void load(uint32_t (&to)[4], const uint16_t *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(sharedAddress(row)));
}

static __device__ void multiply(float (&c)[4], const uint32_t (&a)[4],
                                uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(128)
    matmul(const uint16_t *a, const uint16_t *b, float *c, int n, int k) {
  __shared__ __align__(16) uint16_t tileA[2][kTile][kPitch];
  __shared__ __align__(16) uint16_t tileB[2][kTile][kPitch];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int row = warp / 2 * 32, column = warp % 2 * 32, steps = k / kDepth;
  a += blockIdx.y * kTile * k;
  b += blockIdx.x * kTile * k;
  auto fetch = [&](int step) {
    if (step < steps) {
      copy(tileA[step % 2], a + step * kDepth, k);
      copy(tileB[step % 2], b + step * kDepth, k);
    }
    asm volatile("cp.async.commit_group;");
  };
  float sums[2][4][4] = {};
  fetch(0);
  for (int step = 0; step < steps; ++step) {
    fetch(step + 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    for (int depth = 0; depth < kDepth; depth += 16) {
      uint32_t fa[2][4], fb[2][4];
      for (int i = 0; i < 2; ++i) {
        load(fa[i], &tileA[step % 2][row + i * 16 + lane % 16]
                          [depth + lane / 16 * 8]);
        load(fb[i], &tileB[step % 2][column + i * 16 + lane % 16]
                          [depth + lane / 16 * 8]);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
          multiply(sums[i][j], fa[i], fb[j / 2][j % 2], fb[j / 2][j % 2 + 2]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int part = 0; part < 4; ++part) {
        int r = blockIdx.y * kTile + row + i * 16 + lane / 4 + part / 2 * 8;
        int s = blockIdx.x * kTile + column + j * 8 + lane % 4 * 2 + part % 2;
        c[r * n + s] = sums[i][j][part];
      }
}
