#include "tools/emulator/run/Shadow.h"

#include <algorithm>

namespace cria::emulator {
namespace {

// Stamp::who: a thread's index + 1, or one of these.
constexpr uint16_t kManyWarps = 0xffff;
constexpr uint16_t kOwnBytes = 0xfffe; // several, each its own bytes
constexpr uint16_t kOneWarp = 0x8000;  // + warp: several of its lanes

uint16_t whoIs(const Thread &thread) { return uint16_t(thread.index + 1); }

unsigned warpOf(uint16_t who) {
  return who & kOneWarp ? who & 0x7fff : (who - 1u) / 32;
}

} // namespace

void Shadow::reset(uint32_t bytes) {
  size_t count = (bytes + 3) / 4;
  // Old stamps are older than any thread's epoch; `written` is not.
  ++epoch;
  if (epoch > 0xf0000000) {
    words.clear();
    epoch = 1;
  }
  if (words.size() < count)
    words.resize(count);
  for (size_t i = 0; i < count; ++i)
    words[i].written = 0;
}

bool Shadow::ordered(const Stamp &stamp, const Thread &thread) {
  if (stamp.epoch < thread.acquired || stamp.who == whoIs(thread) ||
      stamp.who == kOwnBytes)
    return true;
  if (stamp.who == kManyWarps)
    return false;
  return warpOf(stamp.who) == thread.warpIndex &&
         stamp.syncs != thread.warp->syncs;
}

const char *Shadow::race(const Word &word, uint8_t bytes, bool writes,
                         const Thread &thread, int &otherLine) const {
  if ((word.write.bytes & bytes) && !ordered(word.write, thread)) {
    otherLine = word.write.line;
    return writes ? "race: write after write" : "race: read after write";
  }
  if (writes && (word.read.bytes & bytes) && !ordered(word.read, thread)) {
    otherLine = word.read.line;
    return "race: write after read";
  }
  return nullptr;
}

void Shadow::noteWrite(Word &word, uint8_t bytes, int line,
                       const Thread &thread) {
  Stamp &stamp = word.write;
  uint16_t me = whoIs(thread);
  bool sameEpoch = stamp.epoch == epoch;
  if (sameEpoch && stamp.who != me && (stamp.bytes & ~bytes)) {
    stamp.who = kOwnBytes;
    stamp.bytes |= bytes;
  } else {
    stamp.bytes =
        sameEpoch && stamp.who == me ? uint8_t(stamp.bytes | bytes) : bytes;
    stamp.who = me;
  }
  stamp.epoch = epoch;
  stamp.syncs = thread.warp->syncs;
  stamp.line = line;
}

void Shadow::noteRead(Word &word, uint8_t bytes, int line,
                      const Thread &thread) {
  Stamp &stamp = word.read;
  uint16_t me = whoIs(thread), old = stamp.who;
  bool sameEpoch = stamp.epoch == epoch && stamp.bytes;
  if (!sameEpoch || old == me)
    stamp.who = me;
  else if (!(stamp.bytes & bytes) || old == kOwnBytes)
    stamp.who = kOwnBytes;
  else if (old != kManyWarps && warpOf(old) == thread.warpIndex)
    stamp.who = uint16_t(kOneWarp | thread.warpIndex);
  else
    stamp.who = kManyWarps;
  stamp.bytes = sameEpoch ? uint8_t(stamp.bytes | bytes) : bytes;
  stamp.epoch = epoch;
  stamp.syncs = thread.warp->syncs;
  stamp.line = line;
}

std::optional<ShadowFinding> Shadow::access(uint32_t offset, uint32_t bytes,
                                            Kind kind, int line,
                                            const Thread &thread,
                                            bool checkInit, bool checkRace) {
  uint32_t end = offset + bytes;
  bool writes = kind == Kind::Write || kind == Kind::Issue;
  for (uint32_t i = offset / 4; i * 4 < end; ++i) {
    Word &word = words[i];
    uint8_t mask = 15;
    if (i * 4 < offset)
      mask &= uint8_t(15 << (offset - i * 4));
    if (i * 4 + 4 > end)
      mask &= uint8_t(15 >> (i * 4 + 4 - end));
    uint32_t at = std::max(i * 4, offset);
    bool reads = kind == Kind::Read || kind == Kind::Atomic;
    if (checkInit && reads && (word.written & mask) != mask)
      return ShadowFinding{false, "read of shared memory that nobody wrote", 0,
                           at};
    if (kind != Kind::Issue)
      word.written |= mask;
    if (!checkRace || kind == Kind::Atomic)
      continue;
    int otherLine = 0;
    if (const char *what = race(word, mask, writes, thread, otherLine))
      return ShadowFinding{true, what, otherLine, at};
    if (writes)
      noteWrite(word, mask, line, thread);
    else
      noteRead(word, mask, line, thread);
  }
  return std::nullopt;
}

} // namespace cria::emulator
