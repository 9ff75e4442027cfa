// Graphs.
#include "tools/emulator/cudart/Runtime.h"

#include <cstdint>

using namespace cria::cudart;

namespace {

struct KernelNode {
  const void *function; ///< the host address of a kernel
  Dim3 grid, block;
  unsigned shared;
  void **parameters, **extra;
};

Error nodeOf(const KernelNode *node, CUDA_KERNEL_NODE_PARAMS &params) {
  if (!node)
    return CUDA_ERROR_INVALID_VALUE;
  params = {};
  params.gridDimX = node->grid.x;
  params.gridDimY = node->grid.y;
  params.gridDimZ = node->grid.z;
  params.blockDimX = node->block.x;
  params.blockDimY = node->block.y;
  params.blockDimZ = node->block.z;
  params.sharedMemBytes = node->shared;
  params.kernelParams = node->parameters;
  params.extra = node->extra;
  return functionOf(node->function, &params.func);
}

/// A copy of bytes from address to address.
CUDA_MEMCPY3D lineOf(void *to, const void *from, size_t bytes) {
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = CUdeviceptr(uintptr_t(from));
  copy.dstDevice = CUdeviceptr(uintptr_t(to));
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = bytes;
  copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 1;
  return copy;
}

CUcontext current() {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  return context;
}

/// The parameters of cudaGraphAddNode; the kinds have the driver's numbers.
struct NodeParams {
  int type, reserved0[3];
  union {
    long long reserved1[29];
    KernelNode kernel;
    struct {
      int flags, reserved[3];
      Memcpy3D copy;
    } memcpy;
    CUDA_MEMSET_NODE_PARAMS memset;
    CUDA_HOST_NODE_PARAMS host;
    CUgraph graph;
    CUevent event;
  };
  long long reserved2;
};

Error driverNode(const NodeParams *from, CUgraphNodeParams &params) {
  if (!from)
    return CUDA_ERROR_INVALID_VALUE;
  params = {};
  params.type = from->type;
  switch (from->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return nodeOf(&from->kernel, params.kernel);
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    params.memcpy.copyCtx = current();
    return boxOf(&from->memcpy.copy, params.memcpy.copyParams);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    params.memset = from->memset;
    return 0;
  case CU_GRAPH_NODE_TYPE_HOST:
    params.host = from->host;
    return 0;
  case CU_GRAPH_NODE_TYPE_GRAPH:
    params.graph = from->graph;
    return 0;
  default:
    params.event = from->event;
    return 0;
  }
}

} // namespace

API(cudaGraphCreate)(CUgraph *graph, unsigned flags) {
  ENTER();
  RETURN(cuGraphCreate(graph, flags));
}

API(cudaGraphDestroy)(CUgraph graph) {
  ENTER();
  RETURN(cuGraphDestroy(graph));
}

API(cudaGraphClone)(CUgraph *clone, CUgraph graph) {
  ENTER();
  RETURN(cuGraphClone(clone, graph));
}

API(cudaGraphNodeFindInClone)
(CUgraphNode *found, CUgraphNode node, CUgraph clone) {
  ENTER();
  RETURN(cuGraphNodeFindInClone(found, node, clone));
}

API(cudaGraphAddKernelNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 const KernelNode *kernel) {
  ENTER();
  CUDA_KERNEL_NODE_PARAMS params;
  TRY(nodeOf(kernel, params));
  RETURN(cuGraphAddKernelNode_v2(node, graph, after, count, &params));
}

API(cudaGraphAddMemcpyNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 const Memcpy3D *params) {
  ENTER();
  CUDA_MEMCPY3D copy;
  TRY(boxOf(params, copy));
  RETURN(cuGraphAddMemcpyNode(node, graph, after, count, &copy, current()));
}

API(cudaGraphAddMemcpyNode1D)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 void *to, const void *from, size_t bytes, Direction) {
  ENTER();
  CUDA_MEMCPY3D copy = lineOf(to, from, bytes);
  RETURN(cuGraphAddMemcpyNode(node, graph, after, count, &copy, current()));
}

API(cudaGraphAddMemsetNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 const CUDA_MEMSET_NODE_PARAMS *params) {
  ENTER();
  RETURN(cuGraphAddMemsetNode(node, graph, after, count, params, current()));
}

API(cudaGraphAddHostNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 const CUDA_HOST_NODE_PARAMS *params) {
  ENTER();
  RETURN(cuGraphAddHostNode(node, graph, after, count, params));
}

API(cudaGraphAddEmptyNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
  ENTER();
  RETURN(cuGraphAddEmptyNode(node, graph, after, count));
}

API(cudaGraphAddChildGraphNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 CUgraph child) {
  ENTER();
  RETURN(cuGraphAddChildGraphNode(node, graph, after, count, child));
}

API(cudaGraphAddEventRecordNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 CUevent event) {
  ENTER();
  RETURN(cuGraphAddEventRecordNode(node, graph, after, count, event));
}

API(cudaGraphAddEventWaitNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
 CUevent event) {
  ENTER();
  RETURN(cuGraphAddEventWaitNode(node, graph, after, count, event));
}

API(cudaGraphAddNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
 const CUgraphEdgeData *edges, size_t count, const NodeParams *params) {
  ENTER();
  CUgraphNodeParams same;
  TRY(driverNode(params, same));
  RETURN(cuGraphAddNode_v2(node, graph, after, edges, count, &same));
}

API(cudaGraphAddDependencies)
(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
 const CUgraphEdgeData *edges, size_t count) {
  ENTER();
  RETURN(cuGraphAddDependencies_v2(graph, from, to, edges, count));
}

API(cudaGraphRemoveDependencies)
(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
 const CUgraphEdgeData *edges, size_t count) {
  ENTER();
  RETURN(cuGraphRemoveDependencies_v2(graph, from, to, edges, count));
}

API(cudaGraphDestroyNode)(CUgraphNode node) {
  ENTER();
  RETURN(cuGraphDestroyNode(node));
}

API(cudaGraphGetNodes)(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ENTER();
  RETURN(cuGraphGetNodes(graph, nodes, count));
}

API(cudaGraphGetRootNodes)(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ENTER();
  RETURN(cuGraphGetRootNodes(graph, nodes, count));
}

API(cudaGraphGetEdges)
(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
 size_t *count) {
  ENTER();
  RETURN(cuGraphGetEdges_v2(graph, from, to, edges, count));
}

API(cudaGraphNodeGetType)(CUgraphNode node, CUgraphNodeType *type) {
  ENTER();
  RETURN(cuGraphNodeGetType(node, type));
}

API(cudaGraphInstantiate)
(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  ENTER();
  RETURN(cuGraphInstantiateWithFlags(exec, graph, flags));
}

API(cudaGraphInstantiateWithFlags)
(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  ENTER();
  RETURN(cuGraphInstantiateWithFlags(exec, graph, flags));
}

API(cudaGraphInstantiateWithParams)
(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  ENTER();
  RETURN(cuGraphInstantiateWithParams(exec, graph, params));
}

API(cudaGraphUpload)(CUgraphExec exec, CUstream stream) {
  ENTER();
  RETURN(cuGraphUpload(exec, stream));
}

API(cudaGraphLaunch)(CUgraphExec exec, CUstream stream) {
  ENTER();
  RETURN(cuGraphLaunch(exec, stream));
}

API(cudaGraphExecDestroy)(CUgraphExec exec) {
  ENTER();
  RETURN(cuGraphExecDestroy(exec));
}

API(cudaGraphExecUpdate)
(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
  ENTER();
  RETURN(cuGraphExecUpdate_v2(exec, graph, info));
}

API(cudaGraphExecKernelNodeSetParams)
(CUgraphExec exec, CUgraphNode node, const KernelNode *kernel) {
  ENTER();
  CUDA_KERNEL_NODE_PARAMS params;
  TRY(nodeOf(kernel, params));
  RETURN(cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
}

API(cudaGraphExecMemcpyNodeSetParams1D)
(CUgraphExec exec, CUgraphNode node, void *to, const void *from, size_t bytes,
 Direction) {
  ENTER();
  CUDA_MEMCPY3D copy = lineOf(to, from, bytes);
  RETURN(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, current()));
}

API(cudaGraphExecMemsetNodeSetParams)
(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params) {
  ENTER();
  RETURN(cuGraphExecMemsetNodeSetParams(exec, node, params, current()));
}

API(cudaGraphExecHostNodeSetParams)
(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params) {
  ENTER();
  RETURN(cuGraphExecHostNodeSetParams(exec, node, params));
}

API(cudaGraphKernelNodeSetParams)(CUgraphNode node, const KernelNode *kernel) {
  ENTER();
  CUDA_KERNEL_NODE_PARAMS params;
  TRY(nodeOf(kernel, params));
  RETURN(cuGraphKernelNodeSetParams_v2(node, &params));
}

API(cudaGraphNodeSetEnabled)
(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  ENTER();
  RETURN(cuGraphNodeSetEnabled(exec, node, enabled));
}
