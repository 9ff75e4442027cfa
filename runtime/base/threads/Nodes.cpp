#include "runtime/base/threads/Nodes.h"

#include <fstream>

namespace cria {

std::vector<cpu_set_t> readNodes(const std::string &root) {
  static constexpr int most = 64;
  std::vector<cpu_set_t> nodes;
  for (int node = 0; node < most; ++node) {
    std::ifstream file(root + "/sys/devices/system/node/node" +
                       std::to_string(node) + "/cpulist");
    cpu_set_t cores;
    CPU_ZERO(&cores);
    char next = ','; // "0-3,8-11"
    for (int first, last; next == ',' && file >> first;) {
      last = first;
      if (file >> next && next == '-')
        file >> last >> next;
      for (int core = first; core <= last && core < CPU_SETSIZE; ++core)
        if (core >= 0)
          CPU_SET(core, &cores);
    }
    nodes.push_back(cores);
  }
  return nodes;
}

std::vector<cpu_set_t> within(const std::vector<cpu_set_t> &nodes,
                              const cpu_set_t &allowed) {
  std::vector<cpu_set_t> parts;
  for (const cpu_set_t &node : nodes) {
    cpu_set_t part;
    CPU_AND(&part, &node, &allowed);
    if (CPU_COUNT(&part) > 0)
      parts.push_back(part);
  }
  return parts;
}

std::vector<cpu_set_t> ownNodes() {
  static const std::vector<cpu_set_t> all = readNodes();
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0
             ? within(all, allowed)
             : std::vector<cpu_set_t>();
}

} // namespace cria
