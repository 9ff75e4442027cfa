// Graphs that are made node by node, values in memory that streams wait for,
// and how many blocks fit.
#include "tools/emulator/driver/Api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

/// Multiplies a number by `factor` and adds `term`.
const char *kAffine = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry affine(.param .u64 p, .param .u32 factor, .param .u32 term)
{
  .reg .b64 %a;
  .reg .b32 %v, %f, %t;
  .shared .align 4 .b8 tile[40960];
  ld.param.u64 %a, [p];
  ld.param.u32 %f, [factor];
  ld.param.u32 %t, [term];
  ld.global.u32 %v, [%a];
  mad.lo.u32 %v, %v, %f, %t;
  st.global.u32 [%a], %v;
  st.shared.u32 [tile], %v;
  ret;
}
)";

class GraphCalls : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    CUmodule module;
    ASSERT_EQ(cuModuleLoadData(&module, kAffine), CUDA_SUCCESS);
    ASSERT_EQ(cuModuleGetFunction(&affine, module, "affine"), CUDA_SUCCESS);
    ASSERT_EQ(cuMemAlloc_v2(&number, 4), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD32_v2(number, 1, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    cuGraphDestroy(graph);
    cuDevicePrimaryCtxReset_v2(0);
    cuDevicePrimaryCtxRelease_v2(0);
  }

  CUDA_KERNEL_NODE_PARAMS paramsOf(int &factor, int &term) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    arguments[0] = &number;
    arguments[1] = &factor;
    arguments[2] = &term;
    params.func = affine;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    return params;
  }

  CUgraphNode add(int factor, int term, std::vector<CUgraphNode> after = {}) {
    auto params = paramsOf(factor, term);
    CUgraphNode node = nullptr;
    EXPECT_EQ(cuGraphAddKernelNode_v2(&node, graph, after.data(), after.size(),
                                      &params),
              CUDA_SUCCESS);
    return node;
  }

  CUgraphExec instantiate() {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
  }

  int launch(CUgraphExec exec) {
    int value = 0;
    EXPECT_EQ(cuGraphLaunch(exec, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyDtoH_v2(&value, number, 4), CUDA_SUCCESS);
    return value;
  }

  CUcontext context = nullptr;
  CUfunction affine = nullptr;
  CUdeviceptr number = 0;
  CUgraph graph = nullptr;
  void *arguments[3];
};

TEST_F(GraphCalls, nodesRunInTheOrderOfTheirEdges) {
  CUgraphNode times = add(10, 0), plus = add(1, 3);
  ASSERT_EQ(cuGraphAddDependencies(graph, &plus, &times, 1), CUDA_SUCCESS);
  EXPECT_EQ(launch(instantiate()), (1 + 3) * 10);
  CUgraphNode root;
  size_t count = 1;
  ASSERT_EQ(cuGraphGetRootNodes(graph, &root, &count), CUDA_SUCCESS);
  EXPECT_EQ(root, plus);
}

TEST_F(GraphCalls, cyclesAreRefused) {
  CUgraphNode one = add(1, 1), two = add(1, 1, {one});
  ASSERT_EQ(cuGraphAddDependencies(graph, &two, &one, 1), CUDA_SUCCESS);
  CUgraphExec exec;
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("form a cycle"));
  CUgraph outer;
  CUgraphNode child;
  ASSERT_EQ(cuGraphCreate(&outer, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, graph),
            CUDA_SUCCESS);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, outer, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("form a cycle"));
  EXPECT_EQ(cuGraphDestroy(outer), CUDA_SUCCESS);
}

// The parameters of a node do not say whether its launch is cooperative.
TEST_F(GraphCalls, newParametersKeepALaunchCooperative) {
  CUstream stream;
  CUgraph captured;
  int factor = 2, term = 1;
  auto params = paramsOf(factor, term);
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
  ASSERT_EQ(
      cuLaunchCooperativeKernel(affine, 1, 1, 1, 1, 1, 1, 0, stream, arguments),
      CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream, &captured), CUDA_SUCCESS);
  CUgraphNode node;
  size_t count = 1;
  ASSERT_EQ(cuGraphGetNodes(captured, &node, &count), CUDA_SUCCESS);
  CUgraphExec exec;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, captured, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphKernelNodeSetParams_v2(node, &params), CUDA_SUCCESS);
  params.gridDimX = 108 * 4 + 1; // a block more than fits
  EXPECT_EQ(cuGraphKernelNodeSetParams_v2(node, &params),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_EQ(cuGraphExecKernelNodeSetParams_v2(exec, node, &params),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_EQ(launch(exec), 3); // as captured
  EXPECT_EQ(cuGraphDestroy(captured), CUDA_SUCCESS);
}

TEST_F(GraphCalls, fillsCopiesAndHostFunctionsAreNodes) {
  CUDA_MEMSET_NODE_PARAMS fill = {number, 0, 5, 4, 1, 1};
  int result = 0, calls = 0;
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = number;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = &result;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUDA_HOST_NODE_PARAMS host = {
      [](void *calls) { ++*static_cast<int *>(calls); }, &calls};
  CUgraphNode first, copied, last;
  ASSERT_EQ(cuGraphAddMemsetNode(&first, graph, nullptr, 0, &fill, context),
            CUDA_SUCCESS);
  CUgraphNode kernel = add(2, 1, {first});
  ASSERT_EQ(cuGraphAddMemcpyNode(&copied, graph, &kernel, 1, &copy, context),
            CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddHostNode(&last, graph, &copied, 1, &host), CUDA_SUCCESS);
  CUgraphExec exec = instantiate();
  EXPECT_EQ(launch(exec), 11);
  EXPECT_EQ(result, 11);
  EXPECT_EQ(calls, 1);
  fill.value = 7;
  ASSERT_EQ(cuGraphExecMemsetNodeSetParams(exec, first, &fill, context),
            CUDA_SUCCESS);
  EXPECT_EQ(launch(exec), 15);
}

TEST_F(GraphCalls, updateTakesOverTheWorkOfAnotherGraph) {
  add(2, 0);
  CUgraphExec exec = instantiate();
  EXPECT_EQ(launch(exec), 2);
  CUgraph clone;
  ASSERT_EQ(cuGraphClone(&clone, graph), CUDA_SUCCESS);
  CUgraphNode node;
  size_t count = 1;
  ASSERT_EQ(cuGraphGetNodes(clone, &node, &count), CUDA_SUCCESS);
  int factor = 5, term = 1;
  auto params = paramsOf(factor, term);
  ASSERT_EQ(cuGraphKernelNodeSetParams_v2(node, &params), CUDA_SUCCESS);
  CUgraphExecUpdateResultInfo info;
  ASSERT_EQ(cuGraphExecUpdate_v2(exec, clone, &info), CUDA_SUCCESS);
  EXPECT_EQ(launch(exec), 2 * 5 + 1);
  ASSERT_EQ(cuGraphAddEmptyNode(&node, clone, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecUpdate_v2(exec, clone, &info),
            CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(cuGraphDestroy(clone), CUDA_SUCCESS);
}

TEST_F(GraphCalls, childGraphIsACopy) {
  CUgraph outer;
  add(3, 0);
  ASSERT_EQ(cuGraphCreate(&outer, 0), CUDA_SUCCESS);
  CUgraphNode child;
  ASSERT_EQ(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, graph),
            CUDA_SUCCESS);
  add(100, 0); // not in the copy
  CUgraphExec exec;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, outer, 0), CUDA_SUCCESS);
  EXPECT_EQ(launch(exec), 3);
  EXPECT_EQ(cuGraphDestroy(outer), CUDA_SUCCESS);
}

TEST_F(GraphCalls, streamWaitsForAValueThatIsThere) {
  CUstream stream;
  ASSERT_EQ(cuStreamCreate(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue32_v2(stream, number, 7, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitValue32_v2(stream, number, 6, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamWaitValue32_v2(stream, number, 8, CU_STREAM_WAIT_VALUE_AND),
            CUDA_ERROR_NOT_SUPPORTED);
}

// 40 KiB of static shared memory and 1 KiB that is reserved: 4 blocks in 164
// KiB.
TEST_F(GraphCalls, sharedMemoryAndThreadsLimitTheBlocksThatFit) {
  int blocks = 0, gridSize = 0, blockSize = 0;
  ASSERT_EQ(
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, affine, 128, 0),
      CUDA_SUCCESS);
  EXPECT_EQ(blocks, 4);
  ASSERT_EQ(
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, affine, 1024, 0),
      CUDA_SUCCESS);
  EXPECT_EQ(blocks, 2);
  ASSERT_EQ(cuOccupancyMaxPotentialBlockSize(&gridSize, &blockSize, affine,
                                             nullptr, 0, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(blockSize, 1024);
  EXPECT_EQ(gridSize, 2 * 108);
}

} // namespace
