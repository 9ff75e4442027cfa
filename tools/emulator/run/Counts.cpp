#include "tools/emulator/run/Counts.h"

#include <algorithm>
#include <numeric>

namespace cria::emulator {

uint32_t CountPlan::classOf(const std::string &name, uint64_t operations) {
  auto found = std::find_if(
      classes.begin(), classes.end(),
      [&](const InstructionClass &one) { return one.name == name; });
  if (found == classes.end())
    found = classes.insert(found, {name, operations});
  return uint32_t(found - classes.begin());
}

static void addEach(std::vector<uint64_t> &to,
                    const std::vector<uint64_t> &from) {
  to.resize(std::max(to.size(), from.size()));
  for (size_t i = 0; i < from.size(); ++i)
    to[i] += from[i];
}

void LaunchCounts::add(const LaunchCounts &other) {
  addEach(threadInstructions, other.threadInstructions);
  addEach(warpInstructions, other.warpInstructions);
  sites.resize(std::max(sites.size(), other.sites.size()));
  for (size_t i = 0; i < other.sites.size(); ++i)
    sites[i] += other.sites[i];
  longestBlock = std::max(longestBlock, other.longestBlock);
  bulkBytes += other.bulkBytes;
  multicastBytes += other.multicastBytes;
}

uint64_t LaunchCounts::instructions() const {
  return std::accumulate(threadInstructions.begin(), threadInstructions.end(),
                         uint64_t(0));
}

static uint64_t ofClass(const CountPlan &plan,
                        const std::vector<uint64_t> &counts,
                        const std::string &name) {
  for (size_t i = 0; i < counts.size(); ++i)
    if (plan.classes[i].name == name)
      return counts[i];
  return 0;
}

uint64_t LaunchCounts::ofThreads(const CountPlan &plan,
                                 const std::string &name) const {
  return ofClass(plan, threadInstructions, name);
}

uint64_t LaunchCounts::ofWarps(const CountPlan &plan,
                               const std::string &name) const {
  return ofClass(plan, warpInstructions, name);
}

RequestCounts LaunchCounts::ofKind(const CountPlan &plan,
                                   RequestKind kind) const {
  RequestCounts sum;
  for (size_t i = 0; i < sites.size(); ++i)
    if (plan.sites[i].kind == kind)
      sum += sites[i];
  return sum;
}

void BlockCounter::start(const CountPlan &newPlan, uint32_t count) {
  plan = &newPlan;
  threads = count;
  bulkBytes = multicastBytes = 0;
  executed.assign(size_t(threads) * plan->segments.size(), 0);
  requests.start(plan->sites, threads);
}

void BlockCounter::addSegments(LaunchCounts &to) const {
  to.threadInstructions.resize(plan->classes.size());
  to.warpInstructions.resize(plan->classes.size());
  size_t segments = plan->segments.size();
  uint64_t instructions = 0;
  for (uint32_t first = 0; first < threads; first += 32)
    for (size_t s = 0; s < segments; ++s) {
      uint64_t sum = 0, most = 0;
      for (uint32_t i = first; i < std::min(first + 32, threads); ++i) {
        sum += executed[i * segments + s];
        most = std::max<uint64_t>(most, executed[i * segments + s]);
      }
      for (auto [number, count] : plan->segments[s].classes) {
        to.threadInstructions[number] += sum * count;
        to.warpInstructions[number] += most * count;
        instructions += most * count;
      }
    }
  to.longestBlock = std::max(to.longestBlock, instructions);
}

void BlockCounter::finish(LaunchCounts &to) {
  addSegments(to);
  to.bulkBytes += bulkBytes;
  to.multicastBytes += multicastBytes;
  requests.finish(to.sites);
}

} // namespace cria::emulator
