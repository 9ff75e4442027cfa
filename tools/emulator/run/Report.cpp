// The text of a block's findings.
#include "tools/emulator/run/Block.h"

#include <map>
#include <set>

namespace cria::emulator {
namespace {

std::string triple(uint32_t x, uint32_t y, uint32_t z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," +
         std::to_string(z) + ")";
}

const char *nameOf(Wait wait) {
  switch (wait) {
  case Wait::None:
    return "can run";
  case Wait::Warp:
    return "wait for lanes of their warp";
  case Wait::Barrier:
    return "wait at a barrier";
  case Wait::ActiveMask:
    return "wait at activemask";
  case Wait::Spin:
    return "poll memory";
  case Wait::Mbarrier:
    return "wait for an mbarrier";
  case Wait::Warpgroup:
    return "wait for other warps of their warpgroup";
  case Wait::Cluster:
    return "wait for other threads of their cluster";
  case Wait::Exited:
    break;
  }
  return "have ended";
}

} // namespace

std::string Block::placeOf(int line) const {
  return "PTX line " + std::to_string(line) + launch().sourceOf(line);
}

std::string Block::offsetOf(uint64_t address) const {
  return std::to_string(address - uint64_t(arena) - kSharedBase);
}

std::string Block::blockName(const Dim &at) {
  return "block " + triple(at.x, at.y, at.z);
}

std::string Block::where(const Thread *thread) const {
  std::string text = blockName(index);
  if (thread)
    text += " thread " + triple(thread->tid[0], thread->tid[1], thread->tid[2]);
  return text;
}

std::string Block::headline(const std::string &what, const Thread *thread,
                            int line) const {
  return "kernel '" + launch().name + "', " + placeOf(line) + ": " + what +
         ", " + where(thread);
}

Finding Block::findingOf(const EarlyRead &read) const {
  return {Finding::Uninitialized, headline(read.what, read.thread, read.line),
          ""};
}

/// If there is an early read, it is reported instead of its consequence.
void Block::report(Finding::Kind kind, const Thread &thread, int line,
                   const std::string &what, const std::string &details) {
  if (thread.block != this) // a thread of another block runs on that block's
                            // stack
    thread.block->report(kind, thread, line, what, details);
  grid->stop(earlyRead ? findingOf(*earlyRead)
                       : Finding{kind, headline(what, &thread, line), details});
  // The fiber is abandoned; the block's next start forgets it.
  void *abandoned;
  emulatorSwitch(&abandoned, schedulerStack);
  __builtin_trap();
}

/// The lanes of each warp, grouped by what they do and where.
std::string Block::states() const {
  std::string text;
  for (size_t i = 0; i < warps.size() && text.size() < 4000; ++i) {
    std::map<std::pair<Wait, int>, uint32_t> groups;
    for (unsigned lane : Lanes(warps[i].full)) {
      const Thread &thread = warps[i].lanes[lane];
      int line = thread.wait == Wait::Exited ? 0 : thread.line;
      groups[{thread.wait, line}] |= 1u << lane;
    }
    for (auto &[state, lanes] : groups) {
      char mask[16];
      snprintf(mask, sizeof mask, "%08x", lanes);
      text += "  warp " + std::to_string(i) + ": lanes " + mask + " " +
              nameOf(state.first);
      text += state.second ? " at " + placeOf(state.second) + "\n" : "\n";
    }
  }
  std::set<uint64_t> awaited;
  for (const Thread &thread : threads)
    if (thread.mbarrier)
      awaited.insert(thread.mbarrier);
  for (uint64_t mbarrier : awaited)
    text += mbarrierObjects.describe(mbarrier);
  return text;
}

/// Polled memory that only the program could write now, which waits for the
/// launch.
std::string Block::polledHostMemory() const {
  for (auto &[address, value] : polled) {
    const Allocation *found = launch().memory->find(address, 1);
    if (found && (found->kind == Allocation::Managed ||
                  found->kind == Allocation::PinnedHost ||
                  found->kind == Allocation::RegisteredHost))
      return "  the block polls memory that the host can write; here the host "
             "runs on only when the launch has ended\n";
  }
  return "";
}

void Block::reportDeadlock() {
  int line = 0;
  for (const Thread &thread : threads)
    if (thread.wait != Wait::Exited && thread.line && !line)
      line = thread.line;
  if (earlyRead)
    return grid->stop(findingOf(*earlyRead));
  std::string all = polledHostMemory() + states();
  for (size_t i = 0; i < cluster->size(); ++i) {
    const Block &other = cluster->block(i);
    if (&other != this)
      all +=
          "  " + blockName(other.index) + " of the cluster:\n" + other.states();
  }
  grid->stop({Finding::Deadlock, headline("deadlock", nullptr, line), all});
}

} // namespace cria::emulator
