// Graphs as wholes: their nodes and edges.
#include "tools/emulator/driver/Graphs.h"

using namespace cria::emulator;

namespace {

/// Writes `all` to a caller's array; null asks for their number.
CUresult giveNodes(const std::vector<CUgraphNode> &all, CUgraphNode *nodes,
                   size_t *count) {
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  size_t room = nodes ? *count : 0;
  for (size_t i = 0; i < room; ++i)
    nodes[i] = i < all.size() ? all[i] : nullptr;
  *count = nodes ? std::min(room, all.size()) : all.size();
  return CUDA_SUCCESS;
}

/// Calls `use(from, to)` for pairs of nodes of one graph.
template <typename F>
CUresult forPairs(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                  size_t count, F use) {
  Driver &driver = Driver::get();
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  if (count && (!from || !to))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    for (CUgraphNode node : {from[i], to[i]})
      if (CUresult result = driver.check(driver.nodes, node))
        return result;
    if (from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i])
      return CUDA_ERROR_INVALID_VALUE;
    if (CUresult result = use(from[i], to[i]))
      return result;
  }
  return CUDA_SUCCESS;
}

/// Edges with data are for programmatic dependent launch.
bool hasData(const CUgraphEdgeData *edges, size_t count) {
  for (size_t i = 0; edges && i < count; ++i)
    if (edges[i].type || edges[i].from_port || edges[i].to_port)
      return true;
  return false;
}

} // namespace

namespace cria::emulator {

/// Of the nodes that may run next, the one that was added first.
std::vector<CUgraphNode> orderOf(const CUgraph_st &graph) {
  std::vector<CUgraphNode> order;
  std::map<CUgraphNode, size_t> waitsFor;
  std::map<CUgraphNode, std::vector<CUgraphNode>> later;
  std::map<CUgraphNode, size_t> place;
  for (CUgraphNode node : graph.nodes) {
    place[node] = place.size();
    waitsFor[node] = node->after.size();
    for (CUgraphNode before : node->after)
      later[before].push_back(node);
  }
  std::set<std::pair<size_t, CUgraphNode>> ready;
  for (CUgraphNode node : graph.nodes)
    if (node->after.empty())
      ready.insert({place[node], node});
  while (!ready.empty()) {
    CUgraphNode node = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(node);
    for (CUgraphNode next : later[node])
      if (--waitsFor[next] == 0)
        ready.insert({place[next], next});
  }
  return order;
}

CUgraph cloneOf(const CUgraph_st &graph) {
  Driver &driver = Driver::get();
  CUgraph clone = driver.graphs.make();
  std::map<CUgraphNode, CUgraphNode> copies;
  for (CUgraphNode node : graph.nodes) {
    CUgraphNode copy = driver.nodes.make();
    copy->work = node->work;
    copy->graph = clone;
    copy->original = node;
    if (auto *child = std::get_if<GraphWork>(&copy->work)) {
      child->graph = cloneOf(*child->graph);
      child->graph->isChild = true;
    }
    copies[node] = copy;
    clone->nodes.push_back(copy);
  }
  for (CUgraphNode node : graph.nodes)
    for (CUgraphNode before : node->after)
      copies[node]->after.push_back(copies[before]);
  return clone;
}

void destroy(CUgraph graph) {
  Driver &driver = Driver::get();
  for (CUgraphNode node : graph->nodes) {
    if (auto *child = std::get_if<GraphWork>(&node->work))
      destroy(child->graph);
    driver.nodes.erase(node);
  }
  driver.graphs.erase(graph);
}

} // namespace cria::emulator

extern "C" {

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
  ENTER(Initialized);
  if (!graph || flags)
    return CUDA_ERROR_INVALID_VALUE;
  *graph = driver.graphs.make();
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  if (graph->isChild)
    return CUDA_ERROR_INVALID_VALUE;
  destroy(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph graph) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  if (!clone)
    return CUDA_ERROR_INVALID_VALUE;
  *clone = cloneOf(*graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode node,
                                CUgraph clone) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  if (CUresult result = driver.check(driver.graphs, clone))
    return result;
  for (CUgraphNode other : clone->nodes)
    if (found && other->original == node) {
      *found = other;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  return giveNodes(graph->nodes, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  std::vector<CUgraphNode> roots;
  for (CUgraphNode node : graph->nodes)
    if (node->after.empty())
      roots.push_back(node);
  return giveNodes(roots, nodes, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes,
                                    size_t *count) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  return giveNodes(node->after, nodes, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes,
                                      size_t *count) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  std::vector<CUgraphNode> later;
  for (CUgraphNode other : node->graph->nodes)
    if (std::count(other->after.begin(), other->after.end(), node))
      later.push_back(other);
  return giveNodes(later, nodes, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                         size_t *count) {
  return cuGraphGetEdges_v2(graph, from, to, nullptr, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edges, size_t *count) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.graphs, graph))
    return result;
  std::vector<CUgraphNode> froms, tos;
  for (CUgraphNode node : graph->nodes)
    for (CUgraphNode before : node->after) {
      froms.push_back(before);
      tos.push_back(node);
    }
  if (!count || !from != !to)
    return CUDA_ERROR_INVALID_VALUE;
  size_t room = *count;
  for (size_t i = 0; from && edges && i < room; ++i)
    edges[i] = {};
  if (CUresult result = giveNodes(froms, from, count))
    return result;
  return giveNodes(tos, to, from ? &room : count);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                const CUgraphNode *to, size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                   const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count) {
  ENTER(Healthy);
  if (hasData(edges, count))
    return CUDA_ERROR_NOT_SUPPORTED;
  return forPairs(graph, from, to, count, [](CUgraphNode one, CUgraphNode two) {
    auto &after = two->after;
    if (std::count(after.begin(), after.end(), one))
      return CUDA_ERROR_INVALID_VALUE;
    after.push_back(one);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                   const CUgraphNode *to, size_t count) {
  return cuGraphRemoveDependencies_v2(graph, from, to, nullptr, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                      const CUgraphNode *to,
                                      const CUgraphEdgeData *, size_t count) {
  ENTER(Healthy);
  return forPairs(graph, from, to, count, [](CUgraphNode one, CUgraphNode two) {
    auto &after = two->after;
    auto found = std::find(after.begin(), after.end(), one);
    if (found == after.end())
      return CUDA_ERROR_INVALID_VALUE;
    after.erase(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  auto drop = [&](std::vector<CUgraphNode> &from) {
    from.erase(std::remove(from.begin(), from.end(), node), from.end());
  };
  drop(node->graph->nodes);
  for (CUgraphNode other : node->graph->nodes)
    drop(other->after);
  if (auto *child = std::get_if<GraphWork>(&node->work))
    destroy(child->graph);
  driver.nodes.erase(node);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  ENTER(Healthy);
  if (CUresult result = driver.check(driver.nodes, node))
    return result;
  if (!type)
    return CUDA_ERROR_INVALID_VALUE;
  constexpr int kTypes[] = {
      CU_GRAPH_NODE_TYPE_KERNEL,    CU_GRAPH_NODE_TYPE_MEMCPY,
      CU_GRAPH_NODE_TYPE_MEMSET,    CU_GRAPH_NODE_TYPE_HOST,
      CU_GRAPH_NODE_TYPE_GRAPH,     CU_GRAPH_NODE_TYPE_EMPTY,
      CU_GRAPH_NODE_TYPE_WAIT_EVENT};
  auto *event = std::get_if<EventWork>(&node->work);
  bool records = event && event->records;
  *type = CUgraphNodeType(records ? int(CU_GRAPH_NODE_TYPE_EVENT_RECORD)
                                  : kTypes[node->work.index()]);
  return CUDA_SUCCESS;
}

} // extern "C"
