#include "runtime/base/Limits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

namespace cria {

/// The number after the word `key` in a file, or the first word if `key` is
/// empty. Nothing if that is not a number ("max").
static std::optional<int64_t> numberIn(const std::string &path,
                                       const std::string &key = "") {
  std::ifstream file(path);
  int64_t number = 0;
  if (key.empty())
    return file >> number ? std::make_optional(number) : std::nullopt;
  for (std::string word; file >> word;)
    if (word == key && file >> number)
      return number;
  return std::nullopt;
}

/// Whether `list`, for example "rw,cpu,cpuacct", has `item`.
static bool hasItem(const std::string &list, const std::string &item) {
  return ("," + list + ",").find("," + item + ",") != std::string::npos;
}

namespace {

/// A tree of control groups, and the process's group in it.
struct Hierarchy {
  bool isUnified;    // version 2
  std::string group; // "/user.slice/session-1.scope"
};

} // namespace

/// The hierarchies of `controller`. A line of /proc/self/cgroup is
/// "4:cpu,cpuacct:/group" in version 1, "0::/group" in version 2.
static std::vector<Hierarchy> hierarchiesOf(const std::string &controller,
                                            const std::string &root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() || hasItem(controllers, controller))
      found.push_back({controllers.empty(), line.substr(second + 1)});
  }
  return found;
}

/// The path in a field of /proc/self/mountinfo, which writes a space as "\040".
static std::string unescaped(const std::string &field) {
  std::string path;
  for (size_t i = 0; i < field.size(); ++i)
    if (field[i] == '\\' && i + 3 < field.size()) {
      path += static_cast<char>((field[i + 1] - '0') * 64 +
                                (field[i + 2] - '0') * 8 + field[i + 3] - '0');
      i += 3;
    } else {
      path += field[i];
    }
  return path;
}

/// The path of `group` below the group `top`: "" for `top` itself, nothing if
/// `group` is not below `top`.
static std::optional<std::string> below(const std::string &top,
                                        const std::string &group) {
  if (group.empty() || group[0] != '/')
    return std::nullopt;
  if (top == "/")
    return group == "/" ? "" : group;
  if (group.compare(0, top.size(), top) != 0 ||
      (group.size() > top.size() && group[top.size()] != '/'))
    return std::nullopt;
  return group.substr(top.size());
}

/// The folders of the process's group and of the groups above it. A line of
/// /proc/self/mountinfo is
///   35 31 0:32 TOP MOUNTPOINT rw,relatime shared:9 - cgroup cgroup rw,memory
/// where TOP is the mounted group. In a container, the process's group may lie
/// outside of the mounted group. Then only the mounted group can be read.
static std::vector<std::string> groupFolders(const Hierarchy &hierarchy,
                                             const std::string &controller,
                                             const std::string &root) {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    size_t dash = line.find(" - ");
    if (dash == std::string::npos)
      continue;
    std::string skip, top, point, type, options;
    std::istringstream(line) >> skip >> skip >> skip >> top >> point;
    std::istringstream(line.substr(dash + 3)) >> type >> skip >> options;
    if (type != (hierarchy.isUnified ? "cgroup2" : "cgroup") ||
        (!hierarchy.isUnified && !hasItem(options, controller)))
      continue;
    std::string mounted = root + unescaped(point);
    std::string group = below(unescaped(top), hierarchy.group).value_or("");
    if (group.find("/..") != std::string::npos)
      group.clear();
    for (; !group.empty(); group.erase(group.rfind('/')))
      folders.push_back(mounted + group);
    folders.push_back(mounted);
  }
  return folders;
}

/// How many cores' worth of time the group at `folder` may use.
static std::optional<double> quotaOf(const std::string &folder,
                                     bool isUnified) {
  std::optional<int64_t> quota, period;
  if (isUnified) { // cpu.max: "200000 100000", or "max 100000"
    std::ifstream file(folder + "/cpu.max");
    int64_t numbers[2];
    if (file >> numbers[0] >> numbers[1]) {
      quota = numbers[0];
      period = numbers[1];
    }
  } else {
    quota = numberIn(folder + "/cpu.cfs_quota_us"); // -1: none
    period = numberIn(folder + "/cpu.cfs_period_us");
  }
  if (quota.value_or(0) <= 0 || period.value_or(0) <= 0)
    return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

/// The bytes that the group at `folder` can still use. The group's cache of
/// files does not count as used: the system frees it when memory is needed.
static std::optional<uint64_t> roomOf(const std::string &folder,
                                      bool isUnified) {
  auto number = [&](const char *unified, const char *other) {
    return numberIn(folder + (isUnified ? unified : other));
  };
  auto limit = number("/memory.max", "/memory.limit_in_bytes");
  auto used = number("/memory.current", "/memory.usage_in_bytes");
  if (!limit || !used)
    return std::nullopt;
  int64_t cached = numberIn(folder + "/memory.stat",
                            isUnified ? "inactive_file" : "total_inactive_file")
                       .value_or(0);
  int64_t held = std::max<int64_t>(*used - cached, 0);
  return static_cast<uint64_t>(std::max<int64_t>(*limit - held, 0));
}

uint64_t availableMemory(const std::string &root) {
  auto kibibytes = numberIn(root + "/proc/meminfo", "MemAvailable:");
  uint64_t available = static_cast<uint64_t>(kibibytes.value_or(0)) * 1024;
  for (const Hierarchy &hierarchy : hierarchiesOf("memory", root))
    for (const std::string &folder : groupFolders(hierarchy, "memory", root))
      available = std::min(
          available, roomOf(folder, hierarchy.isUnified).value_or(available));
  return available;
}

std::optional<int> coreQuota(const std::string &root) {
  std::optional<double> least;
  for (const Hierarchy &hierarchy : hierarchiesOf("cpu", root))
    for (const std::string &folder : groupFolders(hierarchy, "cpu", root))
      if (auto quota = quotaOf(folder, hierarchy.isUnified))
        least = std::min(least.value_or(*quota), *quota);
  if (!least)
    return std::nullopt;
  return static_cast<int>(std::clamp(std::ceil(*least), 1.0, 1e6));
}

} // namespace cria
