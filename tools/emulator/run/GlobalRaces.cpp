#include "tools/emulator/run/GlobalRaces.h"

#include <algorithm>
#include <cstring>

namespace cria::emulator {
namespace {

constexpr uint32_t kMaxSegments = 1 << 20; // of a launch
constexpr uint32_t kMaxReleases = 1 << 20; // of a launch
constexpr uint32_t kNumbers = 1 << (32 - kSegmentShift);
constexpr uint64_t kKept = uint64_t(512) << 20; // bytes of stamps

constexpr Segment::Site kNoSites[4];

uint32_t numberOf(uint32_t half) { return half >> kSegmentShift; }
uint32_t bytesOf(uint32_t half) { return half & kStampBytes; }

// Other workers may change stamps at the same time. A worker that reads a
// segment's number in a stamp also sees the segment.
template <typename T> T load(const T &from) {
  return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}
template <typename T> void store(T &to, T value) {
  __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}

} // namespace

GlobalRaces::GlobalRaces(const DeviceMemory &memory, uint64_t blocks,
                         uint64_t warps)
    : memory(memory), coarse(blocks * warps > kMaxSegments / 4),
      first(memory.firstSegment(kMaxSegments + 2, kNumbers)),
      chunks(kMaxSegments / kChunk + 1) {}

GlobalRaces::~GlobalRaces() {
  for (auto &chunk : chunks)
    delete[] chunk.load();
  memory.usedSegments(used());
  if (touched > kKept)
    memory.clearStamps();
}

/// The number of segments. Workers that found no more segments have counted,
/// too.
uint32_t GlobalRaces::used() const {
  return std::min<uint32_t>(count, kMaxSegments + 2);
}

Segment &GlobalRaces::segment(uint32_t number) const {
  // Generated code also stores numbers, which sanitizers do not see.
  published.load(std::memory_order_acquire);
  uint32_t i = number - first;
  return chunks[i / kChunk].load()[i % kChunk];
}

uint32_t GlobalRaces::addSegment(uint64_t block, uint32_t warp,
                                 uint32_t epoch) {
  if (count.load(std::memory_order_relaxed) > kMaxSegments)
    return kNoSegment;
  uint32_t i = count++;
  if (i > kMaxSegments)
    return kNoSegment;
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
  published.fetch_add(1, std::memory_order_release);
  return (first + i) << kSegmentShift;
}

/// Whether half a stamp has nothing of this launch.
bool GlobalRaces::isOld(uint32_t half) const {
  return numberOf(half) < first || !bytesOf(half);
}

uint64_t GlobalRaces::draw(uint64_t block, const Clock &clock) {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t ticket = ++tickets;
  // Beyond the bound, the last release stands for all later ones.
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

/// Whether the block of `other` released the segment with a ticket up to
/// `seen`.
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
  const LineStamp &line = lineOf(access.address);
  race.otherLine = int(wrote ? line.writeLine : line.readLine);
  const Segment::Places *places = race.other->places.load();
  for (const Segment::Site &place : places ? places->all : kNoSites)
    if (place.line && place.isWrite == wrote && access.address < place.high &&
        place.low < access.address + access.bytes)
      race.otherLine = place.line;
  return race;
}

/// The readers of a granule, with `thread` added.
uint32_t GlobalRaces::readBy(uint32_t half, uint32_t mask, const Thread &thread,
                             uint64_t block) {
  uint32_t me = *thread.segment, number = numberOf(half);
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

std::optional<GlobalRace> GlobalRaces::checkGranule(const Access &access,
                                                    uint64_t at, uint32_t mask,
                                                    const Thread &thread,
                                                    uint64_t block) {
  uint64_t &stamp = *reinterpret_cast<uint64_t *>(memory.stampOf(at));
  uint64_t old = load(stamp);
  uint32_t read = uint32_t(old), wrote = uint32_t(old >> 32);
  uint32_t me = *thread.segment;
  if (!old && at % kStampPage == 0)
    touched.fetch_add(kStampPage, std::memory_order_relaxed);
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
    // A warp need not note that it reads its own writes.
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
  store(stamp, uint64_t(wrote) << 32 | read);
  return std::nullopt;
}

/// Moves the accesses `noted` in half a line's stamp to the line's granules.
void GlobalRaces::moveToGranules(uint64_t address, uint64_t noted,
                                 bool isWrite) {
  uint32_t key = uint32_t(noted >> 32), bits = uint32_t(noted);
  for (uint64_t at = address; bits; at += 8, bits >>= 4) {
    if (!(bits & 15))
      continue;
    uint32_t bytes = 0;
    for (unsigned i = 0; i < 4; ++i)
      bytes |= (bits >> i & 1) * (3u << 2 * i);
    uint64_t &stamp = *reinterpret_cast<uint64_t *>(memory.stampOf(at));
    uint64_t old = load(stamp);
    uint32_t read = uint32_t(old), wrote = uint32_t(old >> 32);
    if (isWrite) {
      wrote = key | bytes;
    } else if (isOld(read) || numberOf(read) == numberOf(key) ||
               key == manyReaders()) {
      bool joins = !isOld(read) && numberOf(read) == numberOf(key);
      read = key | bytes | (joins ? bytesOf(read) : 0);
    } else if (numberOf(read) != first) {
      uint32_t both = bytesOf(read) & bytes;
      bool others =
          segment(numberOf(read)).block != segment(numberOf(key)).block;
      read = both && others ? manyReaders() | both : key | bytes;
    }
    store(stamp, uint64_t(wrote) << 32 | read);
  }
}

/// Notes an access to `bits` of a line in the line's stamp. False: the line's
/// granules must be checked. No bits: the access cannot be noted here.
bool GlobalRaces::noteLine(LineStamp &line, uint32_t bits, const Access &access,
                           const Thread &thread, uint64_t block) {
  uint64_t read = load(line.read), wrote = load(line.write);
  uint64_t many = load(line.many);
  uint32_t me = *thread.segment, reader = uint32_t(read >> 32),
           writer = uint32_t(wrote >> 32);
  auto by = [](uint32_t who, uint32_t what) {
    return uint64_t(who) << 32 | what;
  };
  if (reader == noOwner() || writer == noOwner())
    return false;
  bool wasRead = numberOf(reader) >= first,
       wasWritten = numberOf(writer) > first;
  bool isShared = many >> 32 == manyReaders();
  uint32_t shared = isShared ? uint32_t(many) : 0;
  uint64_t address = access.address & ~(kLineBytes - 1);
  auto noteRead = [&](uint64_t noted) {
    store(line.read, noted);
    store(line.readLine, uint32_t(access.line));
    return true;
  };
  auto noteWrite = [&](uint64_t noted) {
    store(line.write, noted);
    store(line.writeLine, uint32_t(access.line));
    return true;
  };
  if (!wasRead && !wasWritten && !isShared) {
    if (address % kStampPage == 0)
      touched.fetch_add(kStampPage / 2, std::memory_order_relaxed);
    store(line.many, uint64_t(0));
    store(line.readLine, 0u);
    store(line.writeLine, 0u);
    if (bits)
      return access.isWrite ? noteWrite(by(me, bits)) : noteRead(by(me, bits));
  }
  if (bits && access.isWrite && !isShared && (!wasRead || reader == me) &&
      (!wasWritten || writer == me))
    return noteWrite(by(me, bits | (wasWritten ? uint32_t(wrote) : 0)));
  if (bits && !access.isWrite && (!wasRead || reader == me) &&
      (!wasWritten || writer == me))
    return noteRead(by(me, bits | (wasRead ? uint32_t(read) : 0)));
  if (bits && !access.isWrite && !wasWritten && wasRead) {
    bool isOther = segment(numberOf(reader)).block != block;
    uint32_t both = isOther ? uint32_t(read) & bits : 0;
    store(line.many, by(manyReaders(), shared | both));
    if (both == bits)
      return true;
    moveToGranules(address, read, false);
    return noteRead(by(me, bits));
  }
  if (wasRead)
    moveToGranules(address, read, false);
  if (wasWritten)
    moveToGranules(address, wrote, true);
  if (shared)
    moveToGranules(address, many, false);
  store(line.many, uint64_t(0));
  store(line.read, by(noOwner(), 0));
  store(line.write, by(noOwner(), 0));
  return false;
}

namespace {

/// The bits of a line for [from, end), which lies in the line; 0 if an end is
/// odd.
uint32_t lineBits(uint64_t from, uint64_t end) {
  if (from % 2 || end % 2)
    return 0;
  unsigned at = unsigned(from % kLineBytes / 2),
           count = unsigned(end - from) / 2;
  return uint32_t(((uint64_t(1) << count) - 1) << at);
}

} // namespace

bool GlobalRaces::readByMany(const Access &access) const {
  if (access.isWrite || access.isStrong || access.isAtomic)
    return false;
  uint64_t end = access.address + access.bytes;
  if (access.address / kLineBytes != (end - 1) / kLineBytes)
    return false;
  uint32_t bits = lineBits(access.address, end);
  uint64_t many = load(lineOf(access.address).many);
  return bits && many >> 32 == manyReaders() && !(bits & ~uint32_t(many));
}

/// Strong accesses are no exception: the earlier launch has not made its own
/// yet.
const char *GlobalRaces::conflictWith(const SegmentRanges &open,
                                      const Access &access) const {
  uint64_t end = access.address + access.bytes;
  auto conflicts = [&](uint32_t segment, uint32_t bits, uint32_t mask) {
    return (bits & mask) && std::any_of(open.begin(), open.end(),
                                        [&](const SegmentRange &range) {
                                          return range.has(numberOf(segment));
                                        });
  };
  for (uint64_t at = access.address, next; at < end; at = next) {
    next = std::min(end, (at & ~uint64_t(7)) + 8);
    const LineStamp &line = lineOf(at);
    uint64_t wrote = load(line.write), read = load(line.read);
    uint64_t many = load(line.many);
    uint64_t granule =
        load(*reinterpret_cast<uint64_t *>(memory.stampOf(at & ~uint64_t(7))));
    uint32_t bits = lineBits(at & ~uint64_t(1), (next + 1) & ~uint64_t(1));
    uint32_t mask = (255u << at % 8) & (255u >> (7 - (next - 1) % 8));
    auto inGranule = [&](uint32_t half) {
      return conflicts(half, bytesOf(half), mask);
    };
    if (conflicts(uint32_t(wrote >> 32), uint32_t(wrote), bits) ||
        inGranule(uint32_t(granule >> 32)))
      return access.isWrite ? "write of what it writes"
                            : "read of what it writes";
    if (!access.isWrite)
      continue;
    if (conflicts(uint32_t(read >> 32), uint32_t(read), bits) ||
        conflicts(uint32_t(many >> 32), uint32_t(many), bits) ||
        inGranule(uint32_t(granule)))
      return "write of what it reads";
  }
  return nullptr;
}

std::optional<GlobalRace> GlobalRaces::access(const Access &access,
                                              const Thread &thread,
                                              uint64_t block) {
  uint64_t begin = access.address, end = begin + access.bytes;
  bool isPlain = !access.isStrong && !access.isAtomic, looksCloser = false;
  for (uint64_t at = begin, next; at < end; at = next) {
    next = std::min(end, (at & ~(kLineBytes - 1)) + kLineBytes);
    Access part = access;
    part.address = at;
    uint32_t bits = isPlain ? lineBits(at, next) : 0;
    if (noteLine(lineOf(at), bits, part, thread, block))
      continue;
    looksCloser = true;
    for (uint64_t granule = at & ~uint64_t(7); granule < next; granule += 8) {
      uint32_t mask = 255;
      if (granule < at)
        mask &= 255u << (at - granule);
      if (granule + 8 > next)
        mask &= 255u >> (granule + 8 - next);
      auto race = checkGranule(access, granule, mask & 255, thread, block);
      if (!race)
        continue;
      // A value that is already there may be stored again.
      if (access.isWrite && access.stored &&
          std::memcmp(access.stored, reinterpret_cast<char *>(begin),
                      access.bytes) == 0)
        continue;
      return race;
    }
  }
  if (looksCloser && !access.isAtomic && (!access.isStrong || access.isWrite))
    notePlace(access, thread);
  return std::nullopt;
}

/// Notes where the thread's segment made the access, for messages.
void GlobalRaces::notePlace(const Access &access, const Thread &thread) const {
  Segment &mine = segment(numberOf(*thread.segment));
  if (!mine.places.load())
    mine.places = new Segment::Places;
  Segment::Places &places = *mine.places.load();
  Segment::Site *place = std::find_if(
      std::begin(places.all), std::end(places.all), [&](auto &old) {
        return old.line == access.line && old.isWrite == access.isWrite;
      });
  if (place == std::end(places.all)) {
    place = &places.all[places.next++ % 4];
    *place = {~uint64_t(0), 0, access.line, access.isWrite};
  }
  place->low = std::min(place->low, access.address);
  place->high = std::max(place->high, access.address + access.bytes);
}

} // namespace cria::emulator
