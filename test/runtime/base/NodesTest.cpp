#include "runtime/base/threads/Nodes.h"

#include "test/runtime/Fixtures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

using namespace cria;
using namespace cria::test;
using testing::ElementsAre;

namespace {

/// The cores of each node, of a machine whose nodes have the cores of `lists`.
std::vector<std::vector<int>> coresOf(const std::vector<std::string> &lists,
                                      const std::vector<int> &allowed) {
  TemporaryFolder root;
  for (size_t node = 0; node < lists.size(); ++node) {
    std::string folder = "/sys/devices/system/node/node" + std::to_string(node);
    std::filesystem::create_directories(root.path() + folder);
    root.write(folder + "/cpulist", lists[node] + "\n");
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int core : allowed)
    CPU_SET(core, &cores);
  std::vector<std::vector<int>> all;
  for (const cpu_set_t &node : within(readNodes(root.path()), cores)) {
    all.emplace_back();
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &node))
        all.back().push_back(core);
  }
  return all;
}

} // namespace

TEST(Nodes, HaveTheCoresOfTheirLists) {
  EXPECT_THAT(coresOf({"0-1,4-5", "2,3,6-7"}, {0, 1, 2, 3, 4, 5, 6, 7}),
              ElementsAre(ElementsAre(0, 1, 4, 5), ElementsAre(2, 3, 6, 7)));
}

TEST(Nodes, HaveOnlyCoresThatTheProcessMayUse) {
  EXPECT_THAT(coresOf({"0-3", "4-7"}, {1, 3, 4}),
              ElementsAre(ElementsAre(1, 3), ElementsAre(4)));
  EXPECT_THAT(coresOf({"0-3", "4-7"}, {2, 3}), ElementsAre(ElementsAre(2, 3)));
}

TEST(Nodes, AreNoneWithoutCores) {
  EXPECT_THAT(coresOf({"0-1", "", "2"}, {0, 1, 2}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_THAT(coresOf({}, {0, 1}), ElementsAre());
  EXPECT_THAT(coresOf({"0-99999999", "x", "7-"}, {1023}),
              ElementsAre(ElementsAre(1023)));
}
