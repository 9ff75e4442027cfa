#include "tools/emulator/run/GlobalRaces.h"

#include <algorithm>
#include <cstring>

namespace cria::emulator {
namespace {

constexpr uint32_t kMaxSegments = 1 << 20; // of a launch
constexpr uint32_t kMaxReleases = 1 << 20; // of a launch
constexpr uint32_t kNumbers = 1 << (32 - kSegmentShift);
constexpr uint64_t kPage = 4096;
constexpr uint64_t kKept = uint64_t(512) << 20; // bytes of stamps

uint32_t numberOf(uint32_t half) { return half >> kSegmentShift; }
uint32_t bytesOf(uint32_t half) { return half & kStampBytes; }

} // namespace

GlobalRaces::GlobalRaces(const DeviceMemory &memory, uint64_t blocks,
                         uint64_t warps)
    : memory(memory), coarse(blocks * warps > kMaxSegments / 4),
      first(memory.firstSegment(kMaxSegments + 1, kNumbers)),
      chunks(kMaxSegments / kChunk + 1) {}

GlobalRaces::~GlobalRaces() {
  for (auto &chunk : chunks)
    delete[] chunk.load();
  memory.usedSegments(std::min<uint32_t>(count, kMaxSegments + 1));
  if (touched > kKept)
    memory.clearStamps();
}

Segment &GlobalRaces::segment(uint32_t number) const {
  uint32_t i = number - first;
  return chunks[i / kChunk].load()[i % kChunk];
}

uint32_t GlobalRaces::addSegment(uint64_t block, uint32_t warp,
                                 uint32_t epoch) {
  if (count.load(std::memory_order_relaxed) > kMaxSegments)
    return 0;
  uint32_t i = count++;
  if (i > kMaxSegments)
    return 0;
  std::atomic<Segment *> &chunk = chunks[i / kChunk];
  if (!chunk.load()) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!chunk.load())
      chunk = new Segment[kChunk];
  }
  Segment &made = chunk.load()[i % kChunk];
  made.block = block;
  made.epoch = epoch;
  made.warp = warp;
  return (first + i) << kSegmentShift;
}

/// Whether half a stamp says nothing about this launch.
bool GlobalRaces::isOld(uint32_t half) const {
  return numberOf(half) < first || !bytesOf(half);
}

uint64_t GlobalRaces::draw(uint64_t block, const Clock &clock) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t ticket = ++tickets;
  // Beyond the bound the last release stands for the later ones too.
  auto &list = releases[block];
  if (ticket > kMaxReleases && !list.empty())
    list.back().clock.join(clock);
  else
    list.push_back({ticket, clock});
  return ticket;
}

void GlobalRaces::release(uint64_t address, uint64_t ticket) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t &last = ticketsAt[address];
  last = std::max(last, ticket);
  anyRelease = true;
}

uint64_t GlobalRaces::ticketAt(uint64_t address) {
  if (!anyRelease)
    return 0;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = ticketsAt.find(address);
  return found == ticketsAt.end() ? 0 : found->second;
}

/// Whether the block of `other` released it with a ticket up to `seen`.
bool GlobalRaces::released(const Segment &other, uint64_t seen) {
  if (!seen)
    return false;
  std::lock_guard<std::mutex> lock(mutex);
  auto list = releases.find(other.block);
  if (list == releases.end())
    return false;
  for (const Release &release : list->second) {
    if (release.ticket > seen)
      return false;
    bool knows = other.warp == Segment::kAnyWarp
                     ? other.epoch < release.clock.acquired ||
                           other.epoch <= release.clock.heardOfAny()
                     : release.clock.knows(other.warp, other.epoch);
    if (knows)
      return true;
  }
  return false;
}

bool GlobalRaces::ordered(uint32_t number, const Thread &thread,
                          uint64_t block) {
  if (number == first)
    return thread.seen != 0;
  const Segment &other = segment(number);
  if (other.block == block &&
      (other.warp == Segment::kAnyWarp || other.warp == thread.warpIndex ||
       other.epoch < thread.acquired ||
       (thread.sync && other.epoch <= thread.sync->own.heard[other.warp])))
    return true;
  return released(other, thread.seen);
}

GlobalRace GlobalRaces::describe(const char *what, uint32_t number,
                                 const Access &access, bool wrote) const {
  if (number == first)
    return {what, nullptr, 0};
  GlobalRace race{what, &segment(number), 0};
  for (const Segment::Place &place : race.other->places)
    if (place.line && place.isWrite == wrote && access.address < place.high &&
        place.low < access.address + access.bytes)
      race.otherLine = place.line;
  return race;
}

/// The readers of a granule, with `thread` one more.
uint32_t GlobalRaces::readBy(uint32_t half, uint32_t mask, const Thread &thread,
                             uint64_t block) {
  uint32_t me = thread.segment, number = numberOf(half);
  if (isOld(half) || number == numberOf(me))
    return me | mask | (isOld(half) ? 0 : bytesOf(half));
  uint32_t both = bytesOf(half) & mask;
  if (number == first)
    return thread.seen ? me | mask : half;
  const Segment &other = segment(number);
  if (!both || other.block == block || ordered(number, thread, block))
    return me | mask;
  return manyReaders() | both;
}

std::optional<GlobalRace> GlobalRaces::granule(const Access &access,
                                               uint64_t at, uint32_t mask,
                                               const Thread &thread,
                                               uint64_t block) {
  auto *stamp = reinterpret_cast<std::atomic<uint64_t> *>(memory.stampOf(at));
  uint64_t old = stamp->load(std::memory_order_relaxed);
  uint32_t read = uint32_t(old), wrote = uint32_t(old >> 32);
  uint32_t me = thread.segment;
  if (!old && at % kPage == 0)
    touched.fetch_add(kPage, std::memory_order_relaxed);
  if (isOld(wrote))
    wrote = 0;
  bool conflicts = (bytesOf(wrote) & mask) && numberOf(wrote) != numberOf(me) &&
                   !(wrote & kStampStrong && access.isStrong);
  if (conflicts && !ordered(numberOf(wrote), thread, block))
    return describe(access.isAtomic  ? "atomic operation after write"
                    : access.isWrite ? "write after write"
                                     : "read after write",
                    numberOf(wrote), access, true);
  if (access.isAtomic)
    return std::nullopt;
  if (!access.isWrite) {
    if (access.isStrong)
      return std::nullopt;
    // A warp need not note that it reads what it wrote itself.
    if (numberOf(wrote) != numberOf(me) || (mask & ~bytesOf(wrote)))
      read = readBy(read, mask, thread, block);
  } else {
    if (!isOld(read) && (bytesOf(read) & mask) &&
        numberOf(read) != numberOf(me) &&
        !ordered(numberOf(read), thread, block))
      return describe("write after read", numberOf(read), access, false);
    uint32_t strong = access.isStrong ? kStampStrong : 0;
    bool mine =
        numberOf(wrote) == numberOf(me) && (wrote & kStampStrong) == strong;
    wrote = me | strong | mask | (mine ? bytesOf(wrote) : 0);
    read = bytesOf(read) & ~mask ? read & ~mask : 0;
  }
  stamp->store(uint64_t(wrote) << 32 | read, std::memory_order_relaxed);
  return std::nullopt;
}

std::optional<GlobalRace> GlobalRaces::access(const Access &access,
                                              const Thread &thread,
                                              uint64_t block) {
  if (!thread.segment)
    return std::nullopt;
  uint64_t end = access.address + access.bytes;
  for (uint64_t at = access.address & ~uint64_t(7); at < end; at += 8) {
    uint32_t mask = 255;
    if (at < access.address)
      mask &= 255u << (access.address - at);
    if (at + 8 > end)
      mask &= 255u >> (at + 8 - end);
    auto race = granule(access, at, mask & 255, thread, block);
    if (!race)
      continue;
    // What is there already may be stored again.
    if (access.isWrite && access.stored &&
        std::memcmp(access.stored, reinterpret_cast<char *>(access.address),
                    access.bytes) == 0)
      continue;
    return race;
  }
  if (access.isAtomic || (access.isStrong && !access.isWrite))
    return std::nullopt; // leave no stamp
  Segment::Place &place = *placeOf(thread.segment, access.line, access.isWrite);
  place.low = std::min(place.low, access.address);
  place.high = std::max(place.high, end);
  return std::nullopt;
}

Segment::Place *GlobalRaces::placeOf(uint32_t key, int line,
                                     bool isWrite) const {
  Segment &mine = segment(numberOf(key));
  for (Segment::Place &place : mine.places)
    if (place.line == line && place.isWrite == isWrite)
      return &place;
  Segment::Place &next = mine.places[mine.nextPlace++ % 4];
  next = {~uint64_t(0), 0, line, isWrite};
  return &next;
}

} // namespace cria::emulator
