/// Graphs: what their functions share.
#pragma once

#include "tools/emulator/driver/Driver.h"

namespace cria::emulator {

/// The work of a node, from its parameters; checked.
/// @{
CUresult workOf(const CUDA_KERNEL_NODE_PARAMS &params, KernelWork &work);
CUresult workOf(const CUDA_MEMCPY3D &params, CopyWork &work);
CUresult workOf(const CUDA_MEMSET_NODE_PARAMS &params, FillWork &work);
CUresult workOf(const CUDA_HOST_NODE_PARAMS &params, HostWork &work);
/// @}

/// Changes `work`, which is null if the node has another kind, as `params` say.
/// Keeps what these do not have: a kernel's cluster, for example. An error
/// changes nothing.
template <typename T, typename P> CUresult change(T *work, const P *params) {
  if (!params || !work)
    return CUDA_ERROR_INVALID_VALUE;
  T changed = *work;
  if (CUresult result = workOf(*params, changed))
    return result;
  *work = std::move(changed);
  return CUDA_SUCCESS;
}

/// A graph with copies of the nodes of `graph`.
CUgraph cloneOf(const CUgraph_st &graph);

/// Destroys a graph and its nodes.
void destroy(CUgraph graph);

} // namespace cria::emulator
