/// What translated code tells the runtime about an access to memory.
#pragma once

#include <cstdint>

namespace cria::emulator {

/// An access, packed into the argument of emulatorCheck.
struct AccessFlags {
  uint32_t bytes = 0;
  bool isStore = false;
  bool isAtomic = false;
  bool isShared = false;
  bool isGeneric = false;

  constexpr uint32_t packed() const {
    return bytes | isStore << 8 | isAtomic << 9 | isShared << 10 |
           isGeneric << 11;
  }
  static constexpr AccessFlags unpacked(uint32_t bits) {
    AccessFlags flags;
    flags.bytes = bits & 255;
    flags.isStore = bits >> 8 & 1;
    flags.isAtomic = bits >> 9 & 1;
    flags.isShared = bits >> 10 & 1;
    flags.isGeneric = bits >> 11 & 1;
    return flags;
  }
};

} // namespace cria::emulator
