// Checks of single accesses to memory.
#include "tools/emulator/run/Block.h"
#include "tools/emulator/run/Check.h"

#include <algorithm>
#include <cstdio>

namespace cria::emulator {
namespace {

std::string hex(uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)value);
  return text;
}

std::string describe(const AccessFlags &flags) {
  std::string kind = flags.isAtomic  ? "atomic operation on "
                     : flags.isStore ? "store of "
                                     : "load of ";
  return kind + std::to_string(flags.bytes) + " bytes";
}

} // namespace

void Block::check(Thread &thread, uint64_t address, uint32_t packedFlags,
                  int line, const char *stored) {
  AccessFlags flags = AccessFlags::unpacked(packedFlags);
  bool shared = flags.isShared || (flags.isGeneric && inShared(address));
  if (!shared) {
    const Range &range = recent[line % kRanges];
    if (address - range.address >= range.bytes ||
        range.bytes - (address - range.address) < flags.bytes ||
        (address & (flags.bytes - 1))) {
      if (launch().checks.memory && (address & (flags.bytes - 1)))
        report(Finding::Misaligned, thread, line,
               "misaligned " + describe(flags) + " at " + hex(address));
      checkBounds(thread, address, flags.bytes, line, describe(flags));
    }
    if (flags.isStrong)
      synchronize(thread, address, flags, false);
    if (grid->races)
      checkRaces(thread, {address, flags.bytes, flags.isStore, flags.isStrong,
                          flags.isAtomic, line, stored});
    return;
  }
  auto kind = flags.isAtomic  ? Shadow::Kind::Atomic
              : flags.isStore ? Shadow::Kind::Write
                              : Shadow::Kind::Read;
  Shadow::Access access{0,    flags.bytes,    kind,
                        line, flags.isStrong, flags.isVolatile};
  access.stored = stored;
  access.memory = reinterpret_cast<const char *>(address);
  if (flags.isStrong)
    synchronize(thread, address, flags, true);
  checkShared(thread, address, flags.bytes, access,
              flags.isAtomic  ? "atomic operation on shared memory"
              : flags.isStore ? "store to shared memory"
                              : "load from shared memory");
}

void Block::checkBounds(Thread &thread, uint64_t address, uint32_t bytes,
                        int line, const std::string &what) {
  const DeviceMemory &memory = *launch().memory;
  if (const Allocation *found = memory.find(address, bytes)) {
    // Translated code looks for stamps in every range.
    if (found->bytes >= Range().bytes &&
        (!grid->races || memory.hasStamps(found->address)))
      recent[line % kRanges] = {found->address, found->bytes};
    return;
  }
  uint64_t parameters = uint64_t(launch().parameters.data());
  if (!launch().checks.memory || stacks.contains(address) ||
      address - parameters < launch().parameters.size())
    return;
  bool freed = memory.wasFreed(address);
  report(freed ? Finding::UseAfterFree : Finding::OutOfBounds, thread, line,
         (freed ? "use after free: " : "out of bounds: ") + what + " at " +
             hex(address),
         "  the address is " + memory.describe(address) + "\n");
}

bool Block::mayRead(Thread &thread, uint64_t address, uint32_t bytes, int line,
                    const char *what) {
  uint64_t parameters = uint64_t(launch().parameters.data());
  if (inShared(address) || stacks.contains(address) ||
      address - parameters < launch().parameters.size() ||
      launch().memory->find(address, bytes))
    return true;
  checkBounds(thread, address, bytes, line, what);
  return false;
}

void Block::freeOnHeap(Thread &thread, uint64_t address, int line) {
  const DeviceMemory &memory = *launch().memory;
  if (!address || memory.freeOnHeap(address) || !launch().checks.memory)
    return;
  report(Finding::Misuse, thread, line,
         memory.wasFreed(address)
             ? "double free of " + hex(address)
             : "free of " + hex(address) + ", which malloc did not return",
         "  the address is " + memory.describe(address) + "\n");
}

void Block::checkRaces(Thread &thread, const GlobalRaces::Access &access) {
  GlobalRaces &races = *grid->races;
  if (!launch().memory->hasStamps(access.address))
    return;
  const Launch &with = launch();
  if (with.overlaps && !openLaunches(thread).empty())
    checkOverlap(thread, access);
  // Lanes share a segment, and translated code does not call where it fits.
  bool isOpen = with.overlaps && (!with.afterWait.empty() ||
                                  thread.warp->waited != thread.warp->full);
  if (races.readByMany(access))
    return;
  auto &open = openSegments[size_t(thread.segment - segments.data())];
  if (isOpen && open.second == shadow.now())
    *thread.segment = open.first;
  if (*thread.segment == kNoSegment)
    *thread.segment = races.addSegment(
        number, races.wholeBlocks() ? Segment::kAnyWarp : thread.warpIndex,
        shadow.now());
  if (*thread.segment == kNoSegment)
    return; // there are no more segments
  auto race = races.access(access, thread, number);
  if (race && thread.sync && thread.sync->address) {
    lookUp(thread, false);
    race = races.access(access, thread, number);
  }
  if (isOpen)
    open = {std::exchange(*thread.segment, kNoSegment), shadow.now()};
  if (race)
    reportRace(thread, access, *race);
}

void Block::reportRace(Thread &thread, const GlobalRaces::Access &access,
                       const GlobalRace &race) {
  std::string other = "  the other accesses are by several blocks\n";
  if (race.other) {
    const Dim &grid = launch().grid;
    uint64_t block = race.other->block;
    other =
        "  the other access is by " +
        blockName({uint32_t(block % grid.x), uint32_t(block / grid.x % grid.y),
                   uint32_t(block / grid.x / grid.y)});
    if (race.other->warp != Segment::kAnyWarp)
      other += " warp " + std::to_string(race.other->warp);
    if (race.otherLine)
      other += " at " + placeOf(race.otherLine);
    other += "\n";
  }
  report(Finding::Race, thread, access.line,
         std::string("race in global memory: ") + race.what + " of " +
             std::to_string(access.bytes) + " bytes at " + hex(access.address),
         other + "  the address is " +
             launch().memory->describe(access.address) + "\n");
}

/// Checks an access against earlier launches that may not have ended.
void Block::checkOverlap(Thread &thread, const GlobalRaces::Access &access) {
  const char *conflict =
      grid->races->conflictWith(openLaunches(thread), access);
  if (!conflict)
    return;
  report(Finding::Race, thread, access.line,
         std::string("race with a launch before: ") + conflict + ", " +
             std::to_string(access.bytes) + " bytes at " + hex(access.address),
         (hasWaited(thread)
              ? "  no block of the launch in between has executed "
                "griddepcontrol.wait\n"
              : "  no griddepcontrol.wait was before the access\n") +
             ("  the address is " + launch().memory->describe(access.address)) +
             "\n");
}

void Block::checkGlobal(Thread &thread, uint64_t address, uint32_t bytes,
                        uint32_t align, int line, const char *what,
                        bool isWrite) {
  if (launch().checks.memory && address % align)
    report(Finding::Misaligned, thread, line,
           std::string("misaligned ") + what + " at " + hex(address));
  if (!bytes)
    return;
  checkBounds(thread, address, bytes, line, what);
  if (grid->races)
    checkRaces(thread, {address, bytes, isWrite, false, false, line, nullptr});
}

void Block::checkTensorMap(Thread &thread, uint64_t address, int line) {
  constexpr uint64_t kBytes = 128, kAlign = 64;
  uint64_t offset = address - uint64_t(launch().parameters.data());
  bool isParameter = offset < launch().parameters.size();
  if (!isParameter)
    return checkGlobal(thread, address, kBytes, kAlign, line, "tensor map");
  if (offset % kAlign || launch().parameters.size() - offset < kBytes)
    report(Finding::Misaligned, thread, line,
           "a tensor map at offset " + std::to_string(offset) +
               " of the parameters, expected a parameter of 128 bytes at a "
               "multiple of 64");
}

namespace {

/// A thread of another block of the cluster, for the shadow of this block: it
/// has what the thread knows of this block, which began at `began`.
struct Guest {
  Guest(const Thread &thread, uint32_t rank, uint32_t began) {
    if (thread.sync && thread.sync->own.peers.size() > rank)
      sync.own = thread.sync->own.peers[rank];
    stand.acquired = std::max(sync.own.acquired, began);
    stand.index = kPeerAgent * 32;
    stand.warpIndex = kPeerAgent;
    stand.warp = &warp;
    stand.sync = &sync;
  }
  Warp warp;
  ThreadSync sync;
  Thread stand = {};
};

} // namespace

void Block::checkShared(Thread &thread, uint64_t address, uint32_t align,
                        Shadow::Access access, const char *what) {
  const Checks &checks = launch().checks;
  uint64_t offset = address - uint64_t(arena) - kSharedBase;
  uint64_t size = sharedEnd - kSharedBase;
  if (checks.memory && address % align)
    report(Finding::Misaligned, thread, access.line,
           std::string("misaligned ") + what + " at shared address " +
               hex(offset));
  if (offset >= size || access.bytes > size - offset) {
    if (checks.memory)
      report(Finding::OutOfBounds, thread, access.line,
             std::string("out of bounds: ") + what + ", " +
                 std::to_string(access.bytes) + " bytes at offset " +
                 std::to_string(int64_t(offset)) + " of " +
                 std::to_string(size));
    return;
  }
  if (!checks.accesses())
    return; // nothing is recorded
  access.offset = uint32_t(offset);
  if (thread.block != this) {
    Guest guest(thread, rank, shadow.first());
    if (auto found =
            shadow.access(access, guest.stand, checks.init, checks.race))
      foundInShared(thread, access.line, *found);
    return;
  }
  auto found = shadow.access(access, thread, checks.init, checks.race);
  if (found && thread.sync && thread.sync->address) {
    lookUp(thread, false);
    found = shadow.access(access, thread, checks.init, checks.race);
  }
  if (found)
    foundInShared(thread, access.line, *found);
}

void Block::foundInShared(Thread &thread, int line,
                          const ShadowFinding &found) {
  std::string at = " at offset " + std::to_string(found.offset);
  switch (found.kind) {
  case ShadowFinding::NeverWritten:
    if (!launch().checks.race)
      report(Finding::Uninitialized, thread, line, found.what + at);
    if (thread.block != this)
      report(Finding::Uninitialized, thread, line,
             found.what + at + " of another block");
    if (!earlyRead)
      earlyRead = EarlyRead{&thread, line, found.what + at};
    return;
  case ShadowFinding::EarlyRead:
    earlyRead.reset();
    report(Finding::Race, thread, line,
           "race: missing barrier: write of shared memory" + at +
               " after another thread has read it",
           "  the read, which needs a barrier before it, is at " +
               placeOf(found.otherLine) + "\n");
  case ShadowFinding::Race:
    report(Finding::Race, thread, line, found.what + at,
           "  the other access is at " + placeOf(found.otherLine) + "\n");
  case ShadowFinding::InFlight:
    report(Finding::Race, thread, line,
           "race: access to shared memory" + at +
               " that a cp.async is still to write",
           "  the copy, which nobody has waited for, is at " +
               placeOf(found.otherLine) + "\n");
  case ShadowFinding::NoProxyFence:
    report(Finding::Race, thread, line,
           "race: missing fence.proxy.async: the async proxy reads shared "
           "memory" +
               at + " that a thread wrote",
           "  the write is at " + placeOf(found.otherLine) + "\n");
  }
}

} // namespace cria::emulator
