/// The NUMA nodes of the machine: cores with a memory of their own, which they
/// read faster than that of others.
///
/// A loop gives each thread the same part of the rows of every matrix (Pool.h).
/// So on a machine of several nodes the threads of a pool stay on nodes by
/// their numbers, and each loads the part of the weights that it will read: the
/// system puts pages into the memory of the node that first touches them.
#pragma once

#include <sched.h>
#include <string>
#include <vector>

namespace cria {

/// The cores of each node, by the files in sys/devices/system/node. `root` is
/// the folder with sys.
std::vector<cpu_set_t> readNodes(const std::string &root = "");

/// What `nodes` have of `allowed`, without those that have nothing.
std::vector<cpu_set_t> within(const std::vector<cpu_set_t> &nodes,
                              const cpu_set_t &allowed);

/// The cores of each node that the calling thread may use, which are those that
/// the threads may use that it starts.
std::vector<cpu_set_t> ownNodes();

/// Whether these are several nodes.
inline bool hasNodes() { return ownNodes().size() > 1; }

} // namespace cria
