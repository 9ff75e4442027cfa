/* What nvcc makes of a program with kernels, a constant, a texture and a launch
 * by <<<>>>, written by hand. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
  unsigned x, y, z;
} dim3;

typedef struct {
  int x, y, z, w, kind;
} format;

typedef struct {
  int type;
  union {
    void *array;
    int reserved[32];
  };
  unsigned flags;
} resource;

typedef struct {
  int addressMode[3], filterMode, readMode, rest[16];
} sampling;

extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *,
                                   int, void *, void *, void *, void *, int *);
extern void __cudaRegisterVar(void **, char *, char *, const char *, int,
                              size_t, int, int);
extern unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *);
extern int __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
extern int __cudaGetKernel(void **, const void *);
extern int __cudaLaunchKernel(void *, dim3, dim3, void **, size_t, void *);
extern int cudaMalloc(void **, size_t);
extern int cudaFree(void *);
extern int cudaMemcpy(void *, const void *, size_t, int);
extern int cudaMallocArray(void **, const format *, size_t, size_t, unsigned);
extern int cudaFreeArray(void *);
extern int cudaMemcpy2DToArray(void *, size_t, size_t, const void *, size_t,
                               size_t, size_t, int);
extern int cudaMemcpyFromArray(void *, const void *, size_t, size_t, size_t,
                               int);
extern int cudaCreateTextureObject(unsigned long long *, const resource *,
                                   const sampling *, const void *);
extern int cudaDestroyTextureObject(unsigned long long);
extern int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
extern int cudaDeviceSynchronize(void);
extern int cudaGetLastError(void);
extern int cudaPeekAtLastError(void);
extern int cudaStreamCreate(void **);
extern int cudaStreamBeginCapture(void *, int);
extern int cudaStreamEndCapture(void *, void **);
extern const char *cudaGetErrorString(int);

enum { HostToDevice = 1, DeviceToHost = 2 };

static const char ptx[] =
    ".version 8.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .const .align 4 .u32 bias;\n"
    ".visible .entry add(.param .u64 x)\n"
    "{\n"
    ".reg .b32 %t, %v, %c;\n"
    ".reg .b64 %p;\n"
    "ld.param.u64 %p, [x];\n"
    "mov.u32 %t, %tid.x;\n"
    "mad.wide.u32 %p, %t, 4, %p;\n"
    "ld.global.u32 %v, [%p];\n"
    "ld.const.u32 %c, [bias];\n"
    "add.u32 %v, %v, %c;\n"
    "st.global.u32 [%p], %v;\n"
    "ret;\n"
    "}\n"
    ".visible .entry texel(.param .u64 x, .param .u64 o)\n"
    "{\n"
    ".reg .b32 %r<4>;\n"
    ".reg .b64 %p, %o;\n"
    "ld.param.u64 %p, [x];\n"
    "ld.param.u64 %o, [o];\n"
    "tex.2d.v4.s32.f32 {%r0, %r1, %r2, %r3},"
    " [%o, {0f3fc00000, 0f3f000000}];\n"
    "st.global.u32 [%p], %r0;\n"
    "ret;\n"
    "}\n";

/* A fat binary with one entry: PTX for sm_80. */
static struct {
  uint32_t magic;
  uint16_t version, headerBytes;
  uint64_t bytes;
  struct {
    uint16_t kind, version;
    uint32_t headerBytes;
    uint64_t bytes;
    uint32_t compressedBytes, unknown;
    uint16_t minor, major;
    uint32_t capability;
    uint64_t unknown2, flags, unknown3, unpackedBytes;
  } entry;
  char text[(sizeof ptx + 7) / 8 * 8];
} fatbin = {0xBA55ED50,
            1,
            16,
            64 + sizeof fatbin.text,
            {1, 0x101, 64, sizeof fatbin.text, 0, 0, 0, 8, 80, 0, 0, 0, 0},
            {0}};

static struct {
  uint32_t magic, version;
  void *data, *others;
} wrapper = {0x466243B1, 1, &fatbin, NULL};

static char bias;         /* stands for the constant */
static void add(int *x) { /* stands for the kernel */
  dim3 grid, block;
  size_t shared;
  void *stream, *kernel, *arguments[] = {&x};
  __cudaGetKernel(&kernel, (const void *)add);
  __cudaPopCallConfiguration(&grid, &block, &shared, &stream);
  __cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

static void launch(int *x, unsigned threads) {
  dim3 one = {1, 1, 1}, block = {threads, 1, 1};
  __cudaPushCallConfiguration(one, block, 0, NULL);
  add(x);
}

static char texel; /* stands for the kernel */

/* Prints the two numbers around the middle of a 2 x 2 array, and its second
 * number as a texture has it. */
static int readArray(int *x, const int *numbers) {
  format one = {32, 0, 0, 0, 0};
  resource image = {0};
  sampling how = {{0}, 0, 0, {0}};
  dim3 single = {1, 1, 1};
  unsigned long long object;
  void *array, *kernel, *arguments[] = {&x, &object};
  int middle[2], second;
  if (cudaMallocArray(&array, &one, 2, 2, 0) ||
      cudaMemcpy2DToArray(array, 0, 0, numbers, 8, 8, 2, HostToDevice) ||
      cudaMemcpyFromArray(middle, array, 4, 0, 8, DeviceToHost))
    return 1;
  image.array = array;
  if (cudaCreateTextureObject(&object, &image, &how, NULL) ||
      __cudaGetKernel(&kernel, &texel) ||
      __cudaLaunchKernel(kernel, single, single, arguments, 0, NULL) ||
      cudaMemcpy(&second, x, sizeof second, DeviceToHost) ||
      cudaDestroyTextureObject(object) || cudaFreeArray(array))
    return 1;
  printf("%d %d, %d\n", middle[0], middle[1], second);
  return 0;
}

int main(void) {
  int numbers[4] = {1, 2, 3, 4}, seven = 7;
  void *x;
  for (size_t i = 0; i < sizeof ptx; ++i)
    fatbin.text[i] = ptx[i];
  void **binary = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(binary, (const char *)add, NULL, "add", -1, NULL, NULL,
                         NULL, NULL, NULL);
  __cudaRegisterFunction(binary, &texel, NULL, "texel", -1, NULL, NULL, NULL,
                         NULL, NULL);
  __cudaRegisterVar(binary, &bias, NULL, "bias", 0, 4, 1, 0);
  __cudaRegisterFatBinaryEnd(binary);
  if (cudaMalloc(&x, sizeof numbers) ||
      cudaMemcpy(x, numbers, sizeof numbers, HostToDevice) ||
      cudaMemcpyToSymbol(&bias, &seven, sizeof seven, 0, HostToDevice))
    return 1;
  launch(x, 4);
  cudaMemcpy(numbers, x, sizeof numbers, DeviceToHost);
  printf("%d %d %d %d\n", numbers[0], numbers[1], numbers[2], numbers[3]);
  if (readArray(x, numbers))
    return 1;
  launch(x, 2048);
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  printf("%s\n", cudaGetErrorString(
                     cudaMemcpyToSymbol(&seven, &seven, 4, 0, HostToDevice)));
  cudaGetLastError();
  void *stream, *graph;
  if (cudaStreamCreate(&stream) || cudaStreamBeginCapture(stream, 0))
    return 1;
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  printf("%s\n", cudaGetErrorString(cudaStreamEndCapture(stream, &graph)));
  launch(x, 5);
  printf("%s\n", cudaGetErrorString(cudaPeekAtLastError()));
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}
