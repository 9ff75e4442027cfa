#include "runtime/base/Nodes.h"

#include <fstream>

namespace cria {

std::vector<cpu_set_t> readNodes(const cpu_set_t &allowed,
                                 const std::string &root) {
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
        if (core >= 0 && CPU_ISSET(core, &allowed))
          CPU_SET(core, &cores);
    }
    if (CPU_COUNT(&cores) > 0)
      nodes.push_back(cores);
  }
  return nodes;
}

/// The nodes, read once, by a thread that may use all cores that the process
/// may use.
static const std::vector<cpu_set_t> &nodes() {
  static const std::vector<cpu_set_t> all = [] {
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0
               ? readNodes(allowed)
               : std::vector<cpu_set_t>();
  }();
  return all;
}

bool hasNodes() { return nodes().size() > 1; }

void stayOnNode(size_t thread, size_t count) {
  if (hasNodes())
    sched_setaffinity(0, sizeof(cpu_set_t),
                      &nodes()[thread * nodes().size() / count]);
}

} // namespace cria
