/// What translated code and the runtime share about accesses to memory.
#pragma once

#include <cstdint>

namespace cria::emulator {

/// Bytes of shared addresses. The host's memory for them has this alignment.
constexpr uint64_t kArena = 256 << 10;

/// The first address of shared memory. It is not 0, so that 0 is no address.
constexpr uint32_t kSharedBase = 1024;

/// Each aligned word of shared memory has a key, kArena bytes after the word;
/// see Shadow.h. At address 0, where no variable lies, there are kKeyWords
/// words; each is the generation. One access looks at up to kKeyWords keys at
/// once.
/// @{
constexpr uint64_t kKeys = kArena;
constexpr unsigned kKeyWords = 4;
constexpr unsigned kGenerationShift = 21;
/// In the key of a word that a thread wrote last.
constexpr uint32_t kKeyWritten = 1;
/// The bits of a warp in a key, and those of a thread, which include its
/// warp's. A number is stored with its complement, so that no number has all
/// bits of another.
constexpr uint32_t keyOfWarp(uint32_t warp) {
  return (~warp & 31) << 16 | warp << 11;
}
constexpr uint32_t keyOfThread(uint32_t index) {
  uint32_t lane = index % 32;
  return keyOfWarp(index / 32) | (~lane & 31) << 6 | lane << 1;
}
/// @}

/// Each granule of 8 bytes of device memory has a stamp of 8 bytes: the last
/// readers in the low half, the last writer in the high half; see
/// GlobalRaces.h. A half has a bit for each byte, a bit for strong accesses,
/// and the number of a segment.
/// @{
constexpr unsigned kSegmentShift = 9;
constexpr uint32_t kStampStrong = 256;
constexpr uint32_t kStampBytes = 255;
/// In place of the segment, for a thread that has none.
constexpr uint32_t kNoSegment = 1;
/// @}

/// Lines of device memory have stamps too, so that most accesses are noted
/// inline. `read` and `write` have a segment (shifted) in the high half and a
/// bit for each 2 bytes of the line in the low half. `many` has the same layout
/// for bytes that several blocks read, with GlobalRaces::manyReaders().
/// @{
constexpr uint64_t kLineBytes = 64;
constexpr uint64_t kLineStampBytes = 32;
constexpr uint64_t kStampPage = 4096; ///< of memory, whose stamps are counted
struct LineStamp {
  uint64_t read, write, many;
  uint32_t readLine, writeLine; ///< PTX lines of the last accesses
};
static_assert(sizeof(LineStamp) == kLineStampBytes);
/// @}

/// An allocation that an instruction accessed recently. At first, one that
/// holds nothing.
struct Range {
  uint64_t address = uint64_t(1) << 63;
  uint64_t bytes = 16; ///< at least 16
};
/// An instruction uses the range at index (its line modulo kRanges).
constexpr unsigned kRanges = 16;

/// An access, packed into the argument of emulatorCheck.
struct AccessFlags {
  uint32_t bytes = 0; ///< 0: no check
  bool isStore = false;
  bool isAtomic = false;
  bool isShared = false;
  bool isGeneric = false;
  bool isStrong = false;   ///< other threads may access it at the same time
  bool isVolatile = false; ///< strong by `.volatile`
  bool acquires = false, releases = false;
  bool inBlock = false; ///< of scope .cta

  constexpr uint32_t packed() const {
    return bytes | isStore << 8 | isAtomic << 9 | isShared << 10 |
           isGeneric << 11 | isStrong << 12 | isVolatile << 13 |
           acquires << 14 | releases << 15 | inBlock << 16;
  }
  static constexpr AccessFlags unpacked(uint32_t bits) {
    AccessFlags flags;
    flags.bytes = bits & 255;
    flags.isStore = bits >> 8 & 1;
    flags.isAtomic = bits >> 9 & 1;
    flags.isShared = bits >> 10 & 1;
    flags.isGeneric = bits >> 11 & 1;
    flags.isStrong = bits >> 12 & 1;
    flags.isVolatile = bits >> 13 & 1;
    flags.acquires = bits >> 14 & 1;
    flags.releases = bits >> 15 & 1;
    flags.inBlock = bits >> 16 & 1;
    return flags;
  }
};

} // namespace cria::emulator
