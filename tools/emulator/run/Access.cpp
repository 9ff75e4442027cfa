// Checks of single accesses to memory.
#include "tools/emulator/run/Block.h"
#include "tools/emulator/run/Check.h"

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
                  int line) {
  AccessFlags flags = AccessFlags::unpacked(packedFlags);
  bool shared = flags.isShared || (flags.isGeneric && inShared(address));
  if (!shared) {
    const Range &range = recent[line & 15];
    if (address - range.address < range.bytes &&
        range.bytes - (address - range.address) >= flags.bytes &&
        (address & (flags.bytes - 1)) == 0)
      return;
  }
  if (launch().checks.memory && (address & (flags.bytes - 1)))
    report(Finding::Misaligned, thread, line,
           "misaligned " + describe(flags) + " at " +
               hex(shared ? address - uint64_t(arena) : address));
  if (!shared)
    return checkBounds(thread, address, flags.bytes, line, describe(flags));
  auto kind = flags.isAtomic  ? Shadow::Kind::Atomic
              : flags.isStore ? Shadow::Kind::Write
                              : Shadow::Kind::Read;
  std::string what;
  checkShared(thread, address, flags.bytes, 1, kind, line,
              flags.isStore ? "store to shared memory"
                            : "load from shared memory");
}

void Block::checkBounds(Thread &thread, uint64_t address, uint32_t bytes,
                        int line, const std::string &what) {
  if (!launch().checks.memory)
    return;
  const DeviceMemory &memory = *launch().memory;
  if (const Allocation *found = memory.find(address, bytes)) {
    recent[line & 15] = {found->address, found->bytes};
    return;
  }
  uint64_t parameters = uint64_t(launch().parameters.data());
  if (stacks.contains(address) ||
      address - parameters < launch().parameters.size())
    return;
  bool freed = memory.wasFreed(address);
  report(freed ? Finding::UseAfterFree : Finding::OutOfBounds, thread, line,
         (freed ? "use after free: " : "out of bounds: ") + what + " at " +
             hex(address),
         "  the address is " + memory.describe(address) + "\n");
}

void Block::checkGlobal(Thread &thread, uint64_t address, uint32_t bytes,
                        uint32_t align, int line, const char *what) {
  if (launch().checks.memory && address % align)
    report(Finding::Misaligned, thread, line,
           std::string("misaligned ") + what + " at " + hex(address));
  if (bytes)
    checkBounds(thread, address, bytes, line, what);
}

void Block::checkShared(Thread &thread, uint64_t address, uint32_t bytes,
                        uint32_t align, Shadow::Kind kind, int line,
                        const char *what) {
  const Checks &checks = launch().checks;
  uint64_t offset = address - uint64_t(arena) - kSharedBase;
  uint64_t size = sharedEnd - kSharedBase;
  if (checks.memory && address % align)
    report(Finding::Misaligned, thread, line,
           std::string("misaligned ") + what + " at shared address " +
               hex(offset));
  if (checks.memory && (offset >= size || bytes > size - offset))
    report(Finding::OutOfBounds, thread, line,
           std::string("out of bounds: ") + what + ", " +
               std::to_string(bytes) + " bytes at offset " +
               std::to_string(int64_t(offset)) + " of " + std::to_string(size));
  if (!checks.init && !checks.race)
    return;
  if (offset >= size || bytes > size - offset)
    return;
  if (auto found = shadow.access(uint32_t(offset), bytes, kind, line, thread,
                                 checks.init, checks.race))
    reportShadow(thread, line, *found);
}

void Block::reportShadow(Thread &thread, int line, const ShadowFinding &found) {
  std::string details;
  if (found.isRace)
    details = "  the other access is at " + placeOf(found.otherLine) + "\n";
  report(found.isRace ? Finding::Race : Finding::Uninitialized, thread, line,
         std::string(found.what) + " at offset " + std::to_string(found.offset),
         details);
}

} // namespace cria::emulator
