// Executable graphs. Their nodes run one after the other, in one of the orders
// that the edges allow.
#include "tools/emulator/driver/Graphs.h"

using namespace cria::emulator;

namespace {

/// Adds the nodes and, in their place, those of child graphs.
void addSteps(CUgraphExec_st &executable,
              const std::vector<CUgraphNode> &order) {
  for (CUgraphNode node : order)
    if (auto *child = std::get_if<GraphWork>(&node->work))
      addSteps(executable, orderOf(*child->graph));
    else
      executable.steps.push_back({node, node->work});
}

CUgraphExec_st::Step *stepOf(CUgraphExec executable, CUgraphNode node) {
  for (CUgraphExec_st::Step &step : executable->steps)
    if (step.node == node)
      return &step;
  return nullptr;
}

/// The work of kind `T` of a node; null if there is none.
template <typename T> T *workIn(CUgraphExec executable, CUgraphNode node) {
  CUgraphExec_st::Step *step = stepOf(executable, node);
  return step ? std::get_if<T>(&step->work) : nullptr;
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
  std::vector<CUgraphNode> order = orderOf(*graph);
  if (order.size() != graph->nodes.size()) {
    driver.reportMisuse("the edges of the graph form a cycle");
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto made = std::make_unique<CUgraphExec_st>();
  made->flags = flags;
  addSteps(*made, order);
  *executable = driver.executables.adopt(std::move(made));
  return CUDA_SUCCESS;
}

CUresult
cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                  const CUDA_KERNEL_NODE_PARAMS *params) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  KernelWork changed;
  auto *kernel = workIn<KernelWork>(executable, node);
  if (!params || !kernel)
    return CUDA_ERROR_INVALID_VALUE;
  changed.cooperative = kernel->cooperative;
  changed.overlaps = kernel->overlaps;
  if (CUresult result = workOf(*params, changed))
    return result;
  *kernel = std::move(changed);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable,
                                        CUgraphNode node,
                                        const CUDA_MEMCPY3D *copy, CUcontext) {
  ENTER(Context);
  CopyWork changed;
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  auto *work = workIn<CopyWork>(executable, node);
  if (!copy || !work)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = workOf(*copy, changed))
    return result;
  *work = changed;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable,
                                        CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *params,
                                        CUcontext) {
  ENTER(Context);
  FillWork changed;
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  auto *work = workIn<FillWork>(executable, node);
  if (!params || !work)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult result = workOf(*params, changed))
    return result;
  *work = changed;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS *params) {
  ENTER(Context);
  if (CUresult result = driver.check(driver.executables, executable))
    return result;
  auto *work = workIn<HostWork>(executable, node);
  if (!params || !work)
    return CUDA_ERROR_INVALID_VALUE;
  return workOf(*params, *work);
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
  addSteps(updated, orderOf(*graph));
  auto &steps = executable->steps;
  if (updated.steps.size() != steps.size()) {
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
  if (!flags)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = executable->flags;
  return CUDA_SUCCESS;
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
