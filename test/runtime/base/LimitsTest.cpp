#include "runtime/base/Limits.h"

#include "test/runtime/Fixtures.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace cria;
using namespace cria::test;

namespace {

/// A folder with the files of /proc and /sys/fs/cgroup that limits come from.
class LimitsTest : public testing::Test {
protected:
  LimitsTest() {
    write("/proc/meminfo", "MemFree: 5 kB\nMemAvailable: 9000 kB");
  }

  void write(const std::string &path, const std::string &text) {
    namespace fs = std::filesystem;
    fs::create_directories(fs::path(root.path() + path).parent_path());
    root.write(path, text + "\n");
  }

  /// One hierarchy of version 2, mounted whole; the process is in /a/b.
  void writeUnified() {
    write("/proc/self/cgroup", "0::/a/b");
    write(
        "/proc/self/mountinfo",
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw");
  }

  TemporaryFolder root;
};

} // namespace

TEST_F(LimitsTest, NoControlGroups) {
  EXPECT_EQ(coreQuota(root.path()), std::nullopt);
  EXPECT_EQ(availableMemory(root.path()), 9000u * 1024);
  writeUnified();
  EXPECT_EQ(coreQuota(root.path()), std::nullopt);
  EXPECT_EQ(availableMemory(root.path()), 9000u * 1024);
}

TEST_F(LimitsTest, RoundsQuotasUp) {
  writeUnified();
  for (auto [text, cores] :
       {std::pair("200000 100000", 2), std::pair("200001 100000", 3),
        std::pair("1000 100000", 1)}) {
    write("/sys/fs/cgroup/a/b/cpu.max", text);
    EXPECT_EQ(coreQuota(root.path()), cores) << text;
  }
  for (const char *none : {"max 100000", "", "-1 100000", "100000 0"}) {
    write("/sys/fs/cgroup/a/b/cpu.max", none);
    EXPECT_EQ(coreQuota(root.path()), std::nullopt) << none;
  }
}

// The process's own group may set no limit where one above it does.
TEST_F(LimitsTest, TakesTheLeastOfAllGroupsAbove) {
  writeUnified();
  write("/sys/fs/cgroup/a/b/cpu.max", "800000 100000");
  write("/sys/fs/cgroup/a/cpu.max", "150000 50000");
  write("/sys/fs/cgroup/other/cpu.max", "100000 100000");
  EXPECT_EQ(coreQuota(root.path()), 3);
  write("/sys/fs/cgroup/a/b/memory.max", "max");
  write("/sys/fs/cgroup/a/b/memory.current", "1000");
  write("/sys/fs/cgroup/a/memory.max", "6000");
  write("/sys/fs/cgroup/a/memory.current", "2500");
  EXPECT_EQ(availableMemory(root.path()), 3500u);
  write("/sys/fs/cgroup/a/b/memory.max", "4000");
  EXPECT_EQ(availableMemory(root.path()), 3000u);
}

// What is cached of files goes when memory is needed.
TEST_F(LimitsTest, DoesNotCountCachedFiles) {
  writeUnified();
  write("/sys/fs/cgroup/a/b/memory.max", "4000");
  write("/sys/fs/cgroup/a/b/memory.current", "3900");
  write("/sys/fs/cgroup/a/b/memory.stat", "anon 100\ninactive_file 900");
  EXPECT_EQ(availableMemory(root.path()), 1000u);
  write("/sys/fs/cgroup/a/b/memory.stat", "inactive_file 5000");
  EXPECT_EQ(availableMemory(root.path()), 4000u); // read at two moments
  write("/sys/fs/cgroup/a/b/memory.current", "9900");
  EXPECT_EQ(availableMemory(root.path()), 0u);
}

TEST_F(LimitsTest, ReadsVersion1) {
  write("/proc/self/cgroup",
        "5:memory:/jobs/7\n4:cpu,cpuacct:/jobs\n1:name=systemd:/\n0::/");
  write("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup "
        "rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  std::string cpu = "/sys/fs/cgroup/cpu,cpuacct",
              memory = "/sys/fs/cgroup/memory";
  write(cpu + "/jobs/cpu.cfs_quota_us", "-1");
  write(cpu + "/jobs/cpu.cfs_period_us", "100000");
  EXPECT_EQ(coreQuota(root.path()), std::nullopt);
  write(cpu + "/cpu.cfs_quota_us", "250000");
  write(cpu + "/cpu.cfs_period_us", "100000");
  EXPECT_EQ(coreQuota(root.path()), 3);
  write(memory + "/memory.limit_in_bytes", "9223372036854771712"); // none
  write(memory + "/memory.usage_in_bytes", "100");
  EXPECT_EQ(availableMemory(root.path()), 9000u * 1024);
  write(memory + "/jobs/7/memory.limit_in_bytes", "5000");
  write(memory + "/jobs/7/memory.usage_in_bytes", "3000");
  write(memory + "/jobs/7/memory.stat",
        "inactive_file 1\ntotal_inactive_file 500");
  EXPECT_EQ(availableMemory(root.path()), 2500u);
}

// A container sees its own group where others see the root, under a path with
// a blank as well.
TEST_F(LimitsTest, FindsTheGroupThatAContainerMounts) {
  write("/proc/self/cgroup", "0::/docker/one/inner");
  write("/proc/self/mountinfo",
        "30 22 0:26 /docker/one /sys/fs/c\\040group rw - cgroup2 cgroup2 rw");
  write("/sys/fs/c group/cpu.max", "400000 100000");
  write("/sys/fs/c group/inner/cpu.max", "300000 100000");
  write("/sys/fs/c group/docker/one/inner/cpu.max", "100000 100000");
  EXPECT_EQ(coreQuota(root.path()), 3);
  // Outside of what is mounted, or of the namespace: the mounted group.
  for (const char *group : {"0::/docker/oneself", "0::/../other", "0::/"}) {
    write("/proc/self/cgroup", group);
    EXPECT_EQ(coreQuota(root.path()), 4) << group;
  }
}

TEST_F(LimitsTest, DoesNotCountOnWellFormedFiles) {
  for (const char *text :
       {"", "\n\n", "0:", "0::", "x", "0::relative", ":::"}) {
    write("/proc/self/cgroup", text);
    write(
        "/proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n - cgroup2\n - ");
    EXPECT_EQ(coreQuota(root.path()), std::nullopt) << text;
    EXPECT_EQ(availableMemory(root.path()), 9000u * 1024) << text;
  }
}
