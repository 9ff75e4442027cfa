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

/// The cores of each node that has some of `allowed`, by the files in
/// sys/devices/system/node. `root` is the folder with sys.
std::vector<cpu_set_t> readNodes(const cpu_set_t &allowed,
                                 const std::string &root = "");

/// Whether this process may use cores of several nodes.
bool hasNodes();

/// Keeps the calling thread, number `thread` of `count`, on one of the nodes.
void stayOnNode(size_t thread, size_t count);

} // namespace cria
