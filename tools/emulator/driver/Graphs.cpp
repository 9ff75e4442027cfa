// Graphs, which only capture makes. Their nodes run in the order of capture,
// which is one of the orders that the edges allow.
#include "tools/emulator/driver/Driver.h"

using namespace cria::emulator;

namespace {

void setPointers(CUgraphNode_st &node, KernelWork &work) {
  node.pointers.clear();
  for (const Parameter &parameter : work.function->kernel->function->parameters)
    node.pointers.push_back(work.parameters.data() + parameter.offset);
}

/// The work that `params` describes.
CUresult workOf(const CUDA_KERNEL_NODE_PARAMS &params, KernelWork &work) {
  Driver &driver = Driver::get();
  if (CUresult result = driver.check(driver.functions, params.func))
    return result;
  const Function &function = *params.func->kernel->function;
  if (params.extra || (!params.kernelParams && !function.parameters.empty()))
    return CUDA_ERROR_INVALID_VALUE;
  work.function = params.func;
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

} // namespace

extern "C" {

CUresult cuGraphDestroy(CUgraph graph) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  for (CUgraphNode node : graph->nodes)
    driver.nodes.erase(node);
  driver.graphs.erase(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  size_t room = nodes ? *count : 0;
  for (size_t i = 0; i < room; ++i)
    nodes[i] = i < graph->nodes.size() ? graph->nodes[i] : nullptr;
  *count = nodes ? std::min(room, graph->nodes.size()) : graph->nodes.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  if (!type)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr CUgraphNodeType kTypes[] = {
      CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST};
  *type = kTypes[node->work.index()];
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

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  if (!executable)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUgraphExec_st>();
  for (CUgraphNode node : graph->nodes)
    made->works.emplace_back(node, node->work);
  *executable = driver.executables.adopt(std::move(made));
  return CUDA_SUCCESS;
}

CUresult
cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                  const CUDA_KERNEL_NODE_PARAMS *params) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  if (!params)
    return CUDA_ERROR_INVALID_VALUE;
  for (auto &[from, work] : executable->works) {
    auto *kernel = std::get_if<KernelWork>(&work);
    if (from != node || !kernel)
      continue;
    KernelWork changed;
    changed.cooperative = kernel->cooperative;
    changed.overlaps = kernel->overlaps;
    if (CUresult result = workOf(*params, changed))
      return result;
    *kernel = std::move(changed);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  return checkStream(stream);
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  if (CUresult result = checkStream(stream))
    return result;
  if (captureOf(stream))
    return CUDA_ERROR_NOT_SUPPORTED;
  driver.traces.erase(stream); // only kernels of one graph overlap
  for (auto &[node, work] : executable->works) {
    if (CUresult result = submit(stream, work))
      return result;
    if (currentContext()->error)
      break;
  }
  driver.traces.erase(stream);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  driver.executables.erase(executable);
  return CUDA_SUCCESS;
}

} // extern "C"
