// Executable graphs. Their nodes run one after the other, in one of the orders
// that the edges allow.
#include "tools/emulator/driver/Graphs.h"

using namespace cria::emulator;

namespace {

/// Adds the nodes of `graph`, and the nodes of child graphs in their place.
/// False if the edges of a graph form a cycle.
bool addSteps(CUgraphExec_st &executable, const CUgraph_st &graph) {
  std::vector<CUgraphNode> order = orderOf(graph);
  for (CUgraphNode node : order) {
    auto *child = std::get_if<GraphWork>(&node->work);
    if (!child)
      executable.steps.push_back({node, node->work});
    else if (!addSteps(executable, *child->graph))
      return false;
  }
  return order.size() == graph.nodes.size();
}

CUgraphExec_st::Step *stepOf(CUgraphExec executable, CUgraphNode node) {
  for (CUgraphExec_st::Step &step : executable->steps)
    if (step.node == node)
      return &step;
  return nullptr;
}

/// Changes the work of a node of kind `T`.
template <typename T, typename P>
CUresult setParams(CUgraphExec executable, CUgraphNode node, const P *params) {
  if (CUresult result =
          Driver::get().check(Driver::get().executables, executable))
    return result;
  CUgraphExec_st::Step *step = stepOf(executable, node);
  return change(step ? std::get_if<T>(&step->work) : nullptr, params);
}

} // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long flags) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  if (!executable)
    return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUgraphExec_st>();
  made->flags = flags;
  if (!addSteps(*made, *graph)) {
    driver.reportMisuse("the edges of the graph form a cycle");
    return CUDA_ERROR_INVALID_VALUE;
  }
  *executable = driver.executables.adopt(std::move(made));
  return CUDA_SUCCESS;
}

CUresult
cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                  const CUDA_KERNEL_NODE_PARAMS *params) {
  ENTER(Context);
  return setParams<KernelWork>(executable, node, params);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable,
                                        CUgraphNode node,
                                        const CUDA_MEMCPY3D *copy, CUcontext) {
  ENTER(Context);
  return setParams<CopyWork>(executable, node, copy);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable,
                                        CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *params,
                                        CUcontext) {
  ENTER(Context);
  return setParams<FillWork>(executable, node, params);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS *params) {
  ENTER(Context);
  return setParams<HostWork>(executable, node, params);
}

/// Takes over the work of a graph with the same nodes in the same order.
CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph,
                              CUgraphExecUpdateResultInfo *info) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  if (!info)
    return CUDA_ERROR_INVALID_VALUE;
  *info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
  CUgraphExec_st updated;
  bool isOrdered = addSteps(updated, *graph);
  auto &steps = executable->steps;
  if (!isOrdered || updated.steps.size() != steps.size()) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  for (size_t i = 0; i < steps.size(); ++i)
    if (updated.steps[i].work.index() != steps[i].work.index()) {
      *info = {CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED,
               updated.steps[i].node, nullptr};
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
  for (size_t i = 0; i < steps.size(); ++i)
    steps[i].work = std::move(updated.steps[i].work);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec executable, CUgraphNode node,
                               unsigned enabled) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  CUgraphExec_st::Step *step = stepOf(executable, node);
  if (!step || step->work.index() > 2) // kernels, copies and fills
    return CUDA_ERROR_INVALID_VALUE;
  step->enabled = enabled;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec executable, CUgraphNode node,
                               unsigned *enabled) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  CUgraphExec_st::Step *step = stepOf(executable, node);
  if (!step || !enabled)
    return CUDA_ERROR_INVALID_VALUE;
  *enabled = step->enabled;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  if (!params)
    return CUDA_ERROR_INVALID_VALUE;
  params->hErrNode_out = nullptr;
  CUresult result =
      cuGraphInstantiateWithFlags(executable, graph, params->flags);
  params->result_out = result != CUDA_SUCCESS;
  return result;
}

CUresult cuGraphExecGetFlags(CUgraphExec executable, cuuint64_t *flags) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  return give(flags, executable->flags);
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
  for (const CUgraphExec_st::Step &step : executable->steps) {
    if (!step.enabled)
      continue;
    if (CUresult result = submit(stream, step.work))
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
