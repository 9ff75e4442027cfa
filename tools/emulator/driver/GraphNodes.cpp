// Nodes of graphs: how they are made, and what they do.
#include "tools/emulator/driver/Graphs.h"
#include "tools/emulator/driver/memory/Copies.h"

using namespace cria::emulator;

namespace {

void setPointers(CUgraphNode_st &node, KernelWork &work) {
  node.pointers.clear();
  for (const Parameter &parameter : work.function->kernel->function->parameters)
    node.pointers.push_back(work.parameters.data() + parameter.offset);
}

/// Adds a node to `graph` that runs after the nodes `after`.
CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
             size_t count, Work work) {
  Driver &driver = Driver::get();
  if (!node || (count && !after))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  for (size_t i = 0; i < count; ++i) {
    if (CUresult result = driver.check(driver.nodes, after[i]))
      return result;
    if (after[i]->graph != graph || std::count(after, after + i, after[i]))
      return CUDA_ERROR_INVALID_VALUE;
  }
  *node = driver.nodes.make();
  (*node)->work = std::move(work);
  (*node)->graph = graph;
  (*node)->after.assign(after, after + count);
  graph->nodes.push_back(*node);
  return CUDA_SUCCESS;
}

/// The work of kind `T` from `params`, in a node of `graph`.
template <typename T, typename P>
CUresult addWork(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                 size_t count, const P *params) {
  T work;
  if (!params)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = workOf(*params, work))
    return result;
  return add(node, graph, after, count, std::move(work));
}

CUresult addEvent(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                  size_t count, CUevent event, bool records) {
  Driver &driver = Driver::get();
  if (CUresult result = driver.check(driver.events, event))
    return result;
  return add(node, graph, after, count, EventWork{event, records});
}

/// Changes the work of a node of kind `T`.
template <typename T, typename P>
CUresult setParams(CUgraphNode node, const P *params) {
  if (CUresult result = Driver::get().check(Driver::get().nodes, node))
    return result;
  return change(std::get_if<T>(&node->work), params);
}

} // namespace

namespace cria::emulator {

CUresult workOf(const CUDA_KERNEL_NODE_PARAMS &params, KernelWork &work) {
  Driver &driver = Driver::get();
  CUfunction resolved = params.func;
  if (CUresult result = driver.resolve(resolved))
    return result;
  const Function &function = *resolved->kernel->function;
  if (params.extra || (!params.kernelParams && !function.parameters.empty()))
    return CUDA_ERROR_INVALID_VALUE;
  work.function = resolved;
  work.grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
  work.block = {params.blockDimX, params.blockDimY, params.blockDimZ};
  work.dynamicShared = params.sharedMemBytes;
  work.parameters.assign(function.parameterBytes, 0);
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    auto *from = static_cast<const char *>(params.kernelParams[i]);
    std::copy_n(from, function.parameters[i].size,
                work.parameters.data() + function.parameters[i].offset);
  }
  return checkLaunch(work);
}

CUresult workOf(const CUDA_MEMCPY3D &params, CopyWork &work) {
  return copyOf(params, work);
}

CUresult workOf(const CUDA_MEMSET_NODE_PARAMS &params, FillWork &work) {
  if (params.elementSize != 1 && params.elementSize != 2 &&
      params.elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE;
  work = {params.dst,         params.width,  params.value,
          params.elementSize, params.height, params.pitch};
  return checkFill(Driver::get(), work);
}

CUresult workOf(const CUDA_HOST_NODE_PARAMS &params, HostWork &work) {
  work = {params.fn, params.userData};
  return params.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace cria::emulator

extern "C" {

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph,
                                 const CUgraphNode *after, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *params) {
  ENTER(Context);
  return addWork<KernelWork>(node, graph, after, count, params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph,
                              const CUgraphNode *after, size_t count,
                              const CUDA_MEMCPY3D *copy, CUcontext) {
  ENTER(Context);
  return addWork<CopyWork>(node, graph, after, count, copy);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph,
                              const CUgraphNode *after, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *params,
                              CUcontext) {
  ENTER(Context);
  return addWork<FillWork>(node, graph, after, count, params);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph,
                            const CUgraphNode *after, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params) {
  ENTER(Context);
  return addWork<HostWork>(node, graph, after, count, params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph,
                             const CUgraphNode *after, size_t count) {
  ENTER(Healthy);
  return add(node, graph, after, count, EmptyWork());
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph,
                                  const CUgraphNode *after, size_t count,
                                  CUgraph child) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, child))
    return result;
  CUgraph own = cloneOf(*child);
  own->isChild = true;
  CUresult result = add(node, graph, after, count, GraphWork{own});
  if (result)
    destroy(own);
  return result;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph,
                                   const CUgraphNode *after, size_t count,
                                   CUevent event) {
  ENTER(Healthy);
  return addEvent(node, graph, after, count, event, true);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph,
                                 const CUgraphNode *after, size_t count,
                                 CUevent event) {
  ENTER(Healthy);
  return addEvent(node, graph, after, count, event, false);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph,
                        const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *params) {
  return cuGraphAddNode_v2(node, graph, after, nullptr, count, params);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph,
                           const CUgraphNode *after,
                           const CUgraphEdgeData *edges, size_t count,
                           CUgraphNodeParams *params) {
  ENTER(Context);
  if (!params)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; edges && i < count; ++i)
    if (edges[i].type)
      return CUDA_ERROR_NOT_SUPPORTED;
  switch (params->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL:
    return cuGraphAddKernelNode_v2(node, graph, after, count, &params->kernel);
  case CU_GRAPH_NODE_TYPE_MEMCPY:
    return cuGraphAddMemcpyNode(node, graph, after, count,
                                &params->memcpy.copyParams,
                                params->memcpy.copyCtx);
  case CU_GRAPH_NODE_TYPE_MEMSET:
    return cuGraphAddMemsetNode(node, graph, after, count, &params->memset,
                                nullptr);
  case CU_GRAPH_NODE_TYPE_HOST:
    return cuGraphAddHostNode(node, graph, after, count, &params->host);
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return cuGraphAddChildGraphNode(node, graph, after, count, params->graph);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    return cuGraphAddEmptyNode(node, graph, after, count);
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    return cuGraphAddEventWaitNode(node, graph, after, count, params->event);
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    return cuGraphAddEventRecordNode(node, graph, after, count, params->event);
  default:
    driver.reportMisuse("nodes of type " + std::to_string(params->type) +
                        " are not emulated");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  auto *work = std::get_if<GraphWork>(&node->work);
  if (!work || !graph)
    return CUDA_ERROR_INVALID_VALUE;
  *graph = work->graph;
  return CUDA_SUCCESS;
}

/// The pointers are valid as long as the graph lives.
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node,
                                       CUDA_KERNEL_NODE_PARAMS *params) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  auto *work = std::get_if<KernelWork>(&node->work);
  if (!params || !work)
    return CUDA_ERROR_INVALID_VALUE;
  setPointers(*node, *work);
  *params = {};
  params->func = work->function;
  params->gridDimX = work->grid.x;
  params->gridDimY = work->grid.y;
  params->gridDimZ = work->grid.z;
  params->blockDimX = work->block.x;
  params->blockDimY = work->block.y;
  params->blockDimZ = work->block.z;
  params->sharedMemBytes = work->dynamicShared;
  params->kernelParams = node->pointers.data();
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                       const CUDA_KERNEL_NODE_PARAMS *params) {
  ENTER(Context);
  return setParams<KernelWork>(node, params);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node,
                                    const CUDA_MEMCPY3D *copy) {
  ENTER(Context);
  return setParams<CopyWork>(node, copy);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node,
                                    const CUDA_MEMSET_NODE_PARAMS *params) {
  ENTER(Context);
  return setParams<FillWork>(node, params);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node,
                                  const CUDA_HOST_NODE_PARAMS *params) {
  ENTER(Context);
  return setParams<HostWork>(node, params);
}

} // extern "C"
