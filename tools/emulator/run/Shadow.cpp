#include "tools/emulator/run/Shadow.h"

#include <algorithm>
#include <cstring>

namespace cria::emulator {
namespace {

// Stamp::who: a thread's index + 1, or one of these.
constexpr uint16_t kManyWarps = 0xffff;
constexpr uint16_t kOwnBytes = 0xfffe; // several threads, each its own bytes
constexpr uint16_t kOneWarp = 0x8000;  // + warp: several lanes of a warp

constexpr uint32_t kGenerations = 1 << (32 - kGenerationShift);

uint16_t whoIs(const Thread &thread) { return uint16_t(thread.index + 1); }

uint16_t whoIs(const Shadow::Access &access, const Thread &thread) {
  return access.agent ? uint16_t(kOneWarp | access.agent) : whoIs(thread);
}

unsigned warpOf(uint16_t who) {
  return who & kOneWarp ? who & 0x7fff : (who - 1u) / 32;
}

bool inWarpOf(uint16_t who, const Thread &thread) {
  return who != kManyWarps && who != kOwnBytes &&
         warpOf(who) == thread.warpIndex;
}

/// The last bar.warp.sync of the thread.
uint32_t lastSync(const Thread &thread) {
  return thread.warp->syncs.last(thread.lane);
}

/// Whether the thread has heard of the epoch; for several warps, from any warp.
bool heardOf(uint16_t who, uint32_t epoch, const Thread &thread) {
  if (!thread.sync)
    return false;
  const Clock &own = thread.sync->own;
  return epoch <=
         (who == kManyWarps ? own.heardOfAny() : own.heard[warpOf(who)]);
}

} // namespace

void Shadow::newGeneration() {
  if (++generation == kGenerations) {
    std::memset(keys, 0, kArena);
    generation = 1;
  }
  std::fill_n(generationWords, kKeyWords, generation << kGenerationShift);
}

void Shadow::reset(uint32_t bytes, uint32_t written) {
  size_t count = (bytes + 3) / 4;
  // Old stamps are older than any thread's epoch, but `written` is not.
  ++epoch;
  if (epoch > 0xf0000000) {
    words.clear();
    epoch = 1;
  }
  commonEpoch = firstEpoch = epoch;
  newGeneration();
  size = bytes;
  if (words.size() < count)
    words.resize(count);
  for (size_t i = 0; i < count; ++i) {
    words[i].written = i < written / 4 ? 15 : 0;
    words[i].copier = 0;
  }
}

uint32_t Shadow::advance() {
  ++epoch;
  newGeneration();
  return epoch;
}

/// Whether bar.warp.sync orders the access before the thread's. Of several
/// lanes that made it, only one needs to be known.
bool Shadow::hasMet(const Stamp &stamp, const Thread &thread) {
  if (!inWarpOf(stamp.who, thread))
    return false;
  unsigned other = stamp.who & kOneWarp ? thread.lane : (stamp.who - 1u) % 32;
  return thread.warp->syncs.hasMet(thread.lane, other, stamp.syncs);
}

bool Shadow::ordered(const Stamp &stamp, const Thread &thread) {
  if (stamp.epoch < thread.acquired || stamp.who == whoIs(thread) ||
      stamp.who == kOwnBytes)
    return true;
  if (hasMet(stamp, thread))
    return true;
  return heardOf(stamp.who, stamp.epoch, thread);
}

/// Whether the thread knows of a proxy fence after a write by threads.
bool Shadow::fenced(const Stamp &stamp, const Thread &thread) const {
  bool isThreads = stamp.who == kOwnBytes || warpOf(stamp.who) < kMaxWarps;
  if (!stamp.bytes || stamp.epoch < firstEpoch || !isThreads)
    return true;
  if (!thread.sync)
    return false;
  const Clock &own = thread.sync->own;
  const uint32_t *heard = own.proxyHeard;
  return stamp.epoch < own.proxyAcquired ||
         stamp.epoch <= (stamp.who == kOwnBytes
                             ? *std::max_element(heard, heard + kMaxWarps)
                             : heard[warpOf(stamp.who)]);
}

/// Whether both accesses are strong. Lanes of one warp that exchange data
/// through `.volatile` do not count: they rely on running in step, which lanes
/// need not do.
bool Shadow::bothStrong(const Stamp &stamp, const Access &access,
                        const Thread &thread) {
  if (!stamp.isStrong || !access.isStrong)
    return false;
  return !(stamp.isVolatile && access.isVolatile &&
           inWarpOf(stamp.who, thread));
}

/// Whether lanes of one warp store the same value by one instruction.
bool Shadow::storesTheSame(const Word &word, const Access &access, uint32_t at,
                           const Thread &thread) const {
  const Stamp &stamp = word.write;
  if (!access.stored || stamp.line != access.line || stamp.epoch != epoch ||
      stamp.who == whoIs(thread) || !inWarpOf(stamp.who, thread) ||
      hasMet(stamp, thread))
    return false;
  uint32_t from = at - access.offset;
  uint32_t bytes = std::min(4 - at % 4, access.bytes - from);
  return std::memcmp(access.stored + from, access.memory + from, bytes) == 0;
}

std::optional<ShadowFinding> Shadow::race(const Word &word, uint8_t bytes,
                                          uint32_t at, const Access &access,
                                          const Thread &thread) const {
  bool writes = access.kind != Kind::Read; // or does both
  if (writes && storesTheSame(word, access, at, thread))
    return std::nullopt;
  // Lanes that stored one value together may all read it.
  bool isOurs =
      word.write.who & kOneWarp && inWarpOf(word.write.who, thread) && !writes;
  if ((word.write.bytes & bytes) && !isOurs && !ordered(word.write, thread) &&
      !bothStrong(word.write, access, thread))
    return ShadowFinding{ShadowFinding::Race,
                         writes ? "race: write after write"
                                : "race: read after write",
                         word.write.line, at};
  if (writes && access.kind != Kind::Atomic && (word.read.bytes & bytes) &&
      !ordered(word.read, thread))
    return ShadowFinding{word.written & bytes ? ShadowFinding::Race
                                              : ShadowFinding::EarlyRead,
                         "race: write after read", word.read.line, at};
  return std::nullopt;
}

void Shadow::noteWrite(Word &word, uint8_t bytes, const Access &access,
                       uint32_t at, const Thread &thread) {
  Stamp &stamp = word.write;
  uint16_t me = whoIs(access, thread);
  bool sameEpoch = stamp.epoch == epoch;
  if (access.agent) {
    stamp.who = me;
    stamp.bytes = bytes;
  } else if (storesTheSame(word, access, at, thread)) {
    stamp.who = uint16_t(kOneWarp | thread.warpIndex);
    stamp.bytes |= bytes;
  } else if (sameEpoch && stamp.who != me && (stamp.bytes & ~bytes)) {
    stamp.who = kOwnBytes;
    stamp.bytes |= bytes;
  } else {
    // What the thread wrote before its warp met is ordered before the others'
    // next accesses, so those bytes are forgotten.
    bool joins =
        sameEpoch && stamp.who == me && stamp.syncs == lastSync(thread);
    stamp.bytes = joins ? uint8_t(stamp.bytes | bytes) : bytes;
    stamp.who = me;
  }
  stamp.epoch = epoch;
  stamp.syncs = lastSync(thread);
  stamp.line = access.line;
  stamp.isStrong = access.isStrong;
  stamp.isVolatile = access.isVolatile;
}

void Shadow::noteRead(Word &word, uint8_t bytes, const Access &access,
                      const Thread &thread) {
  Stamp &stamp = word.read;
  uint16_t me = whoIs(access, thread), old = stamp.who;
  bool sameEpoch = stamp.epoch == epoch && stamp.bytes &&
                   (old != me || stamp.syncs == lastSync(thread));
  if (!sameEpoch || old == me || access.agent)
    stamp.who = me;
  else if (!(stamp.bytes & bytes) || old == kOwnBytes)
    stamp.who = kOwnBytes;
  else if (inWarpOf(old, thread))
    stamp.who = uint16_t(kOneWarp | thread.warpIndex);
  else
    stamp.who = kManyWarps;
  stamp.bytes = sameEpoch ? uint8_t(stamp.bytes | bytes) : bytes;
  stamp.epoch = epoch;
  stamp.syncs = std::max(sameEpoch ? stamp.syncs : 0, lastSync(thread));
  stamp.line = access.line;
}

/// The key of a word after an access; 0 if the next access must be noted.
uint32_t Shadow::keyOf(const Word &word, const Access &access,
                       const Thread &thread, bool checkInit,
                       bool checkRace) const {
  uint32_t all = generation << kGenerationShift;
  uint32_t own = all | keyOfThread(thread.index);
  if (word.copier || (checkInit && word.written != 15))
    return 0;
  if (access.agent)
    return 0;
  if (!checkRace)
    return access.kind == Kind::Read ? all : own | kKeyWritten;
  if (access.isStrong || access.kind == Kind::Issue ||
      access.kind == Kind::Arrive)
    return 0;
  if (access.kind == Kind::Write) {
    bool mine = word.write.who == whoIs(thread) && word.write.bytes == 15 &&
                word.write.epoch == epoch;
    return mine ? own | kKeyWritten : 0;
  }
  if (access.kind != Kind::Read || word.read.bytes != 15)
    return 0;
  if (word.write.epoch >= commonEpoch)
    return own; // others may not have acquired the write
  if (word.read.who == kManyWarps)
    return all;
  if (word.read.who & kOneWarp && inWarpOf(word.read.who, thread))
    return all | keyOfWarp(thread.warpIndex);
  return own;
}

std::optional<ShadowFinding> Shadow::access(const Access &access,
                                            const Thread &thread,
                                            bool checkInit, bool checkRace) {
  uint32_t end = access.offset + access.bytes;
  Kind kind = access.kind;
  bool reads = kind == Kind::Read || kind == Kind::Atomic;
  std::optional<ShadowFinding> found;
  for (uint32_t i = access.offset / 4; i * 4 < end; ++i) {
    Word &word = words[i];
    uint8_t mask = 15;
    if (i * 4 < access.offset)
      mask &= uint8_t(15 << (access.offset - i * 4));
    if (i * 4 + 4 > end)
      mask &= uint8_t(15 >> (i * 4 + 4 - end));
    uint32_t at = std::max(i * 4, access.offset);
    if (kind == Kind::Arrive)
      word.copier = 0;
    else if (word.copier && (checkInit || checkRace))
      return ShadowFinding{ShadowFinding::InFlight, "", word.copyLine, at};
    if (checkInit && reads && (word.written & mask) != mask && !found)
      found = {ShadowFinding::NeverWritten,
               "read of shared memory that nobody wrote", 0, at};
    bool isLanding = access.agent && kind == Kind::Arrive;
    if (checkRace && !isLanding)
      if (auto bad = race(word, mask, at, access, thread))
        return bad;
    if (checkRace && access.isAsyncProxy && !fenced(word.write, thread))
      return ShadowFinding{ShadowFinding::NoProxyFence, "", word.write.line,
                           at};
    if (kind != Kind::Issue && !(found && reads))
      word.written |= mask;
    if (checkRace) {
      if (kind == Kind::Read && !access.isStrong)
        noteRead(word, mask, access, thread);
      else if (kind != Kind::Read && kind != Kind::Atomic)
        noteWrite(word, mask, access, at, thread);
    }
    if (kind == Kind::Issue) {
      word.copier = whoIs(thread);
      word.copyLine = access.line;
    }
    keys[kSharedBase / 4 + i] =
        i * 4 + 4 <= size ? keyOf(word, access, thread, checkInit, checkRace)
                          : 0;
  }
  return found;
}

} // namespace cria::emulator
