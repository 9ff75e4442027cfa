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

/// A graph with copies of the nodes of `graph`.
CUgraph cloneOf(const CUgraph_st &graph);

/// Destroys a graph and its nodes.
void destroy(CUgraph graph);

} // namespace cria::emulator
