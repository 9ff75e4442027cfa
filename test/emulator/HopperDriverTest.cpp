// The driver API on a device of sm_90: tensor maps, clusters, and kernels that
// begin before the previous kernel has ended.
#include "runtime/cuda/DriverApi.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

namespace {

/// copyBox(map, map, x, y): a box of a tensor of 16-bit elements, to shared
/// memory and back to the same place of another. add(from, to, waits): an
/// integer.
const char kHead[] = R"(.version 8.3
.target sm_90a
.address_size 64
.func copyBox(.param .b64 from, .param .b64 to, .param .b32 x, .param .b32 y)
{
  .shared .align 128 .b8 box[512];
  .shared .align 8 .b8 barrier[8];
  .reg .pred %done;
  .reg .b32 %x, %y, %box, %barrier;
  .reg .b64 %from, %to;
  ld.param.b64 %from, [from];
  ld.param.b64 %to, [to];
  ld.param.b32 %x, [x];
  ld.param.b32 %y, [y];
  mov.u32 %box, box;
  mov.u32 %barrier, barrier;
  mbarrier.init.shared::cta.b64 [%barrier], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], 512;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%box], [%from, {%x, %y}], [%barrier];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %done, [%barrier], 0;
  @!%done bra wait;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%to, {%x, %y}], [%box];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
.visible .entry add(.param .b64 from, .param .b64 to, .param .b32 waits)
{
  .reg .pred %waits;
  .reg .b32 %r<2>;
  .reg .b64 %p<2>;
  ld.param.b32 %r0, [waits];
  setp.ne.u32 %waits, %r0, 0;
  @%waits griddepcontrol.wait;
  ld.param.b64 %p0, [from];
  ld.param.b64 %p1, [to];
  ld.global.u32 %r1, [%p0];
  add.u32 %r1, %r1, 1;
  st.global.u32 [%p1], %r1;
  ret;
}
.visible .entry pairs(.param .b64 to) .explicitcluster .reqnctapercluster 1, 2
{
  .reg .b32 %r;
  .reg .b64 %p;
  ld.param.b64 %p, [to];
  mov.u32 %r, %cluster_nctarank;
  st.global.u32 [%p], %r;
  ret;
}
.visible .entry clusters(.param .b64 to) .explicitcluster .maxclusterrank 4
{
  .reg .b32 %r;
  .reg .b64 %p;
  ld.param.b64 %p, [to];
  mov.u32 %r, %cluster_nctarank;
  st.global.u32 [%p], %r;
  ret;
}
)";

/// The kernel `name` calls copyBox with the maps that `maps` puts into %a and
/// %b.
std::string copyKernel(const std::string &name, const std::string &parameters,
                       const std::string &maps) {
  return ".visible .entry " + name + "(" + parameters +
         ", .param .b32 x, .param .b32 y)\n{\n" + R"(
  .reg .b64 %a, %b;
  .reg .b32 %x, %y;
  .param .b64 from;
  .param .b64 to;
  .param .b32 px;
  .param .b32 py;
)" + maps +
         R"(
  ld.param.b32 %x, [x];
  ld.param.b32 %y, [y];
  st.param.b64 [from], %a;
  st.param.b64 [to], %b;
  st.param.b32 [px], %x;
  st.param.b32 [py], %y;
  call copyBox, (from, to, px, py);
  ret;
}
)";
}

/// The kernels add, copy, whose maps are parameters, and copyAt, whose maps are
/// in global memory.
std::string kernels() {
  return kHead +
         copyKernel("copy",
                    ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]",
                    "mov.b64 %a, a; cvta.param.u64 %a, %a; "
                    "mov.b64 %b, b; cvta.param.u64 %b, %b;") +
         copyKernel("copyAt", ".param .b64 maps",
                    "ld.param.b64 %a, [maps]; add.u64 %b, %a, 128;");
}

#define CALL(name) reinterpret_cast<decltype(&::name)>(dlsym(library(), #name))

/// The arguments of cuTensorMapEncodeTiled, all of them right at first: boxes
/// of 16 rows of 16 elements in 40 rows of 56.
struct Arguments {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  cuuint32_t rank = 2;
  uint64_t address = 4096;
  cuuint64_t dims[2] = {56, 40}, strides[1] = {112};
  cuuint32_t box[2] = {16, 16}, elementStrides[2] = {1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

class HopperDriver : public testing::Test {
protected:
  static void *library() {
    static void *opened = dlopen(CRIA_EMULATOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return opened;
  }

  void SetUp() override {
    setenv("CRIA_EMULATOR_DEVICE", "sm_90", 1);
    ASSERT_EQ(CALL(cuInit)(0), CUDA_SUCCESS);
    CUcontext context;
    ASSERT_EQ(CALL(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(CALL(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    ASSERT_EQ(CALL(cuModuleLoadData)(&module, kernels().c_str()), CUDA_SUCCESS);
  }
  void TearDown() override {
    unsetenv("CRIA_EMULATOR_DEVICE");
    CALL(cuDevicePrimaryCtxReset_v2)(0);
    CALL(cuDevicePrimaryCtxRelease_v2)(0);
    CALL(cuCtxSetCurrent)(nullptr);
    CALL(cuInit)(0);
  }

  CUfunction function(const char *name) {
    CUfunction found = nullptr;
    EXPECT_EQ(CALL(cuModuleGetFunction)(&found, module, name), CUDA_SUCCESS);
    return found;
  }
  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(CALL(cuMemAlloc_v2)(&pointer, bytes), CUDA_SUCCESS);
    return pointer;
  }

  CUresult encode(const Arguments &use, CUtensorMap *map) {
    return CALL(cuTensorMapEncodeTiled)(
        map, use.type, use.rank, reinterpret_cast<void *>(use.address),
        use.dims, use.strides, use.box, use.elementStrides, use.interleave,
        use.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, use.fill);
  }
  /// What a change to the arguments leads to.
  template <typename F> CUresult encodeWith(F change) {
    Arguments use;
    change(use);
    CUtensorMap map;
    return encode(use, &map);
  }

  CUmodule module = nullptr;
};

TEST_F(HopperDriver, ChecksTheArgumentsOfATensorMap) {
  EXPECT_EQ(encodeWith([](Arguments &) {}), CUDA_SUCCESS);
  CUtensorMap maps[2];
  auto *inside =
      reinterpret_cast<CUtensorMap *>(reinterpret_cast<char *>(maps) + 16);
  EXPECT_EQ(encode({}, inside), CUDA_ERROR_INVALID_VALUE);
  void (*const wrong[])(Arguments &) = {
      [](Arguments &use) { use.address += 8; },
      [](Arguments &use) { use.rank = 0; },
      [](Arguments &use) { use.rank = 6; },
      [](Arguments &use) { use.dims[1] = 0; },
      [](Arguments &use) { use.dims[0] = (cuuint64_t(1) << 32) + 1; },
      [](Arguments &use) { use.strides[0] = 120; },
      [](Arguments &use) { use.strides[0] = cuuint64_t(1) << 40; },
      [](Arguments &use) { use.box[1] = 0; },
      [](Arguments &use) { use.box[1] = 257; },
      [](Arguments &use) { use.box[0] = 12; },
      [](Arguments &use) { use.box[0] = 24; },
      [](Arguments &use) { use.elementStrides[0] = 9; },
      [](Arguments &use) { use.elementStrides[0] = 0; },
      [](Arguments &use) { use.type = CUtensorMapDataType(16); },
      [](Arguments &use) { use.swizzle = CUtensorMapSwizzle(9); },
      [](Arguments &use) { use.fill = CUtensorMapFloatOOBfill(2); },
      [](Arguments &use) {
        use.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
        use.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
      }};
  for (auto change : wrong)
    EXPECT_EQ(encodeWith(change), CUDA_ERROR_INVALID_VALUE)
        << "change " << &change - wrong;
}

TEST_F(HopperDriver, SaysWhichTensorMapsItDoesNotSupport) {
  void (*const missing[])(Arguments &) = {
      [](Arguments &use) { use.elementStrides[1] = 2; },
      [](Arguments &use) { use.interleave = CUtensorMapInterleave(1); },
      [](Arguments &use) { use.box[0] = 8; }};
  for (auto change : missing)
    EXPECT_EQ(encodeWith(change), CUDA_ERROR_NOT_SUPPORTED)
        << "change " << &change - missing;
  EXPECT_EQ(encodeWith([](Arguments &use) { use.elementStrides[0] = 2; }),
            CUDA_SUCCESS); // of the innermost dimension it is ignored
}

/// Boxes that hang over each edge: what lies outside is neither read nor
/// written.
TEST_F(HopperDriver, CopiesBoxes) {
  constexpr int kRows = 40, kColumns = 56, kCount = kRows * kColumns;
  std::vector<uint16_t> from(kCount), to(kCount);
  std::iota(from.begin(), from.end(), uint16_t(1));
  CUdeviceptr pointers[] = {allocate(kCount * 2), allocate(kCount * 2)};
  ASSERT_EQ(CALL(cuMemcpyHtoD_v2)(pointers[0], from.data(), kCount * 2),
            CUDA_SUCCESS);
  CUtensorMap maps[2];
  for (int i = 0; i < 2; ++i) {
    Arguments use;
    use.address = pointers[i];
    ASSERT_EQ(encode(use, &maps[i]), CUDA_SUCCESS);
  }
  CUdeviceptr device = allocate(sizeof maps);
  ASSERT_EQ(CALL(cuMemcpyHtoD_v2)(device, maps, sizeof maps), CUDA_SUCCESS);
  for (int x : {-5, 8, 50})
    for (int y : {-3, 10, 30}) {
      ASSERT_EQ(CALL(cuMemsetD8_v2)(pointers[1], 0, kCount * 2), CUDA_SUCCESS);
      void *byValue[] = {&maps[0], &maps[1], &x, &y};
      void *inMemory[] = {&device, &x, &y};
      bool isByValue = (x + y) % 2;
      ASSERT_EQ(CALL(cuLaunchKernel)(function(isByValue ? "copy" : "copyAt"), 1,
                                     1, 1, 1, 1, 1, 0, nullptr,
                                     isByValue ? byValue : inMemory, nullptr),
                CUDA_SUCCESS);
      ASSERT_EQ(CALL(cuMemcpyDtoH_v2)(to.data(), pointers[1], kCount * 2),
                CUDA_SUCCESS);
      for (int i = 0; i < kCount; ++i) {
        int column = i % kColumns - x, row = i / kColumns - y;
        bool isInside = column >= 0 && column < 16 && row >= 0 && row < 16;
        ASSERT_EQ(to[size_t(i)], isInside ? from[size_t(i)] : 0)
            << x << " " << y << " " << i;
      }
    }
}

class HopperLaunches : public HopperDriver {
protected:
  void SetUp() override {
    HopperDriver::SetUp();
    add = function("add");
    for (CUdeviceptr *pointer : {&a, &b, &c})
      *pointer = allocate(4);
    ASSERT_EQ(CALL(cuStreamCreate)(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  }

  /// add(from, to), which may begin early.
  CUresult launchEarly(CUdeviceptr from, CUdeviceptr to, unsigned waits) {
    void *arguments[] = {&from, &to, &waits};
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
    return CALL(cuLaunchKernelEx)(&config, add, arguments, nullptr);
  }

  /// add(a, b) and then add(b, c), which may begin early.
  CUresult launchTwo(unsigned waits) {
    unsigned zero = 0;
    void *first[] = {&a, &b, &zero};
    if (CUresult result = CALL(cuLaunchKernel)(add, 1, 1, 1, 1, 1, 1, 0, stream,
                                               first, nullptr))
      return result;
    return launchEarly(b, c, waits);
  }

  /// What `launch` launches, as a graph.
  template <typename F> CUgraphExec graphOf(F launch) {
    EXPECT_EQ(
        CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
        CUDA_SUCCESS);
    EXPECT_EQ(launch(), CUDA_SUCCESS);
    CUgraph graph = nullptr;
    EXPECT_EQ(CALL(cuStreamEndCapture)(stream, &graph), CUDA_SUCCESS);
    CUgraphExec executable = nullptr;
    EXPECT_EQ(CALL(cuGraphInstantiateWithFlags)(&executable, graph, 0),
              CUDA_SUCCESS);
    return executable;
  }

  CUfunction add = nullptr;
  CUdeviceptr a = 0, b = 0, c = 0;
  CUstream stream = nullptr;
};

/// Clusters are those that the kernel says or, where it says none, the launch.
TEST_F(HopperLaunches, FormsClusters) {
  auto launch = [&](const char *name, CUlaunchConfig config, unsigned x = 0,
                    unsigned y = 0) {
    unsigned zero = 0;
    void *arguments[] = {&a, &b, &zero}; // of `add`; the others have one
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {x, y, 1};
    config.attrs = &attribute;
    config.numAttrs = x ? 1 : 0;
    return CALL(cuLaunchKernelEx)(&config, function(name), arguments, nullptr);
  };
  auto blocks = [&] {
    unsigned count = 0;
    EXPECT_EQ(CALL(cuMemcpyDtoH_v2)(&count, a, 4), CUDA_SUCCESS);
    return count;
  };
  CUlaunchConfig grid = {4, 6, 1, 1, 1, 1, 0, stream, nullptr, 0};
  EXPECT_EQ(launch("pairs", grid), CUDA_SUCCESS);
  EXPECT_EQ(blocks(), 2u);
  EXPECT_EQ(launch("pairs", grid, 1, 2), CUDA_SUCCESS);
  EXPECT_EQ(launch("pairs", grid, 2, 1), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(launch("clusters", grid), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(launch("clusters", grid, 4, 1), CUDA_SUCCESS);
  EXPECT_EQ(blocks(), 4u);
  EXPECT_EQ(launch("clusters", grid, 2, 3), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(launch("clusters", grid, 1, 4), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(launch("add", grid, 4, 3), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  grid.gridDimY = 5;
  EXPECT_EQ(launch("pairs", grid), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_EQ(CALL(cuStreamSynchronize)(stream), CUDA_SUCCESS);
}

TEST_F(HopperLaunches, LetsKernelsBeginEarly) {
  unsigned zero = 0, result = 0;
  ASSERT_EQ(CALL(cuMemcpyHtoD_v2)(a, &zero, 4), CUDA_SUCCESS);
  EXPECT_EQ(launchTwo(1), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuMemcpyDtoH_v2)(&result, c, 4), CUDA_SUCCESS);
  EXPECT_EQ(result, 2u);
  EXPECT_EQ(launchTwo(0), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuCtxSynchronize)(), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(HopperLaunches, LetsKernelsOfGraphsBeginEarly) {
  for (unsigned waits : {1u, 0u}) {
    CUgraphExec graph = graphOf([&] { return launchTwo(waits); });
    EXPECT_EQ(CALL(cuGraphLaunch)(graph, stream), CUDA_SUCCESS);
    EXPECT_EQ(CALL(cuStreamSynchronize)(stream),
              waits ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED);
  }
}

/// A graph begins when the work before it has ended, and ends before the work
/// after it begins.
TEST_F(HopperLaunches, OrdersGraphs) {
  CUgraphExec graph = graphOf([&] { return launchEarly(b, c, 0); });
  EXPECT_EQ(launchEarly(a, b, 0), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuGraphLaunch)(graph, stream), CUDA_SUCCESS);
  EXPECT_EQ(launchEarly(c, a, 0), CUDA_SUCCESS);
  EXPECT_EQ(CALL(cuStreamSynchronize)(stream), CUDA_SUCCESS);
}

} // namespace
