#include "tools/emulator/run/Requests.h"

#include <algorithm>

namespace cria::emulator {
namespace {

constexpr uint64_t kSectorBytes = 32, kBanks = 32, kWordBytes = 4;
constexpr uint32_t kSettled = ~0u;
/// The most requests of a block that wait for lanes; 300 bytes each.
constexpr size_t kMostOpen = 1 << 16;

/// The most sectors of a request, and the most words of a wavefront's lanes:
/// for 32 unaligned lanes of up to 32 bytes each.
constexpr size_t kMostParts = 96;

/// The sectors that a request touches.
class Sectors {
public:
  void add(uint64_t address, uint64_t bytes) {
    for (uint64_t end = address + bytes; address < end;) {
      uint64_t at = address % kSectorBytes;
      uint64_t here = std::min(kSectorBytes - at, end - address);
      used(address / kSectorBytes) |= uint32_t(((1ull << here) - 1) << at);
      address += here;
    }
  }
  RequestCounts counts() const {
    RequestCounts result;
    result.requests = 1;
    result.parts = count;
    for (size_t i = 0; i < count; ++i)
      result.used += uint64_t(__builtin_popcount(sectors[i].used));
    result.least = (result.used + kSectorBytes - 1) / kSectorBytes;
    return result;
  }
  /// Adds the sectors to `all`. Returns how many are new.
  uint64_t addTo(std::unordered_set<uint64_t> &all) const {
    uint64_t added = 0;
    for (size_t i = 0; i < count; ++i)
      added += all.insert(sectors[i].number).second;
    return added;
  }

private:
  struct Sector {
    uint64_t number;
    uint32_t used; ///< one bit for each byte
  };

  /// The bits of a sector. A lane mostly touches the sector that was touched
  /// last.
  uint32_t &used(uint64_t number) {
    for (size_t i = count; i-- > 0;)
      if (sectors[i].number == number)
        return sectors[i].used;
    sectors[count] = {number, 0};
    return sectors[count++].used;
  }

  Sector sectors[kMostParts];
  size_t count = 0;
};

/// The words that some lanes want, by bank.
class Banks {
public:
  void add(uint64_t address, uint64_t bytes) {
    uint64_t last = (address + bytes - 1) / kWordBytes;
    for (uint64_t word = address / kWordBytes; word <= last; ++word)
      addWord(word);
  }
  /// The number of words that the busiest bank must give.
  uint64_t wavefronts() const {
    return *std::max_element(lengths, lengths + kBanks);
  }

private:
  /// The words of a bank are a list.
  struct Entry {
    uint64_t word;
    size_t next;
  };

  void addWord(uint64_t word) {
    uint64_t bank = word % kBanks;
    size_t at = firsts[bank];
    for (uint32_t i = 0; i < lengths[bank]; ++i, at = entries[at].next)
      if (entries[at].word == word)
        return;
    entries[count] = {word, firsts[bank]};
    firsts[bank] = count++;
    ++lengths[bank];
  }

  Entry entries[kMostParts];
  size_t count = 0, firsts[kBanks] = {};
  uint32_t lengths[kBanks] = {};
};

Sectors sectorsOf(const Request &request) {
  Sectors sectors;
  for (unsigned lane = 0; lane < 32; ++lane)
    sectors.add(request.addresses[lane], request.bytes[lane]);
  return sectors;
}

/// Lanes are served together if they ask for at most 128 bytes: all 32 lanes,
/// halves of the warp for 8 bytes per lane, quarters for 16.
RequestCounts wavefrontsOf(const Request &request) {
  RequestCounts result;
  result.requests = 1;
  uint32_t widest = *std::max_element(request.bytes, request.bytes + 32);
  unsigned together = widest <= 4 ? 32 : widest <= 8 ? 16 : 8;
  for (unsigned first = 0; first < 32; first += together) {
    Banks banks;
    for (unsigned lane = first; lane < first + together; ++lane)
      if (request.bytes[lane])
        banks.add(request.addresses[lane], request.bytes[lane]);
    result.parts += banks.wavefronts();
    result.least += banks.wavefronts() != 0;
  }
  return result;
}

} // namespace

RequestCounts &RequestCounts::operator+=(const RequestCounts &other) {
  bytes += other.bytes;
  requests += other.requests;
  used += other.used;
  parts += other.parts;
  least += other.least;
  first += other.first;
  unseen += other.unseen;
  return *this;
}

void Requests::start(const std::vector<RequestSite> &newSites, uint32_t count) {
  for (uint32_t warp = 0; warp < joins.size(); ++warp)
    forget(warp); // left by a block that was stopped
  sites = &newSites;
  siteCount = sites->size();
  threads = count;
  uint32_t warps = (count + 31) / 32;
  tracks.resize(warps * siteCount);
  touched.resize(warps);
  joins.resize(warps);
  for (uint64_t &join : joins)
    join = ++lastJoin;
  pool.clear();
  unused.clear();
  counts.assign(siteCount, RequestCounts());
  loaded.clear();
}

/// The request of an execution; null if it is not noted. After one that is not
/// noted, no later one is noted either: lanes that had already come to it would
/// be missing.
Request *Requests::find(Track &track, uint32_t execution) {
  if (execution < track.open.size())
    return &pool[track.open[execution]];
  track.full |= unused.empty() && pool.size() >= kMostOpen;
  if (track.full)
    return nullptr;
  if (unused.empty()) {
    unused.push_back(uint32_t(pool.size()));
    pool.emplace_back();
  }
  track.open.push_back(unused.back());
  unused.pop_back();
  Request &made = pool[track.open.back()];
  made = Request();
  return &made;
}

void Requests::add(uint32_t index, uint32_t site, uint64_t address,
                   uint32_t bytes) {
  counts[site].bytes += bytes;
  if (isLocal(siteAt(site).kind))
    return;
  uint32_t warp = index / 32, lane = index % 32;
  Track &track = tracks[warp * siteCount + site];
  if (track.join != joins[warp]) {
    track.join = joins[warp];
    std::fill_n(track.next, 32, 0);
    track.full = false;
    touched[warp].push_back(site);
  }
  uint32_t execution = track.next[lane]++;
  Request *request = find(track, execution);
  if (!request) {
    counts[site].unseen += bytes != 0;
    return;
  }
  request->came |= 1u << lane;
  request->bytes[lane] = uint8_t(bytes);
  request->addresses[lane] = address;
  uint32_t lanes = std::min(32u, threads - warp * 32);
  if (request->came == (lanes == 32 ? ~0u : (1u << lanes) - 1))
    settle(site, track.open[execution]);
}

/// The counts that one request adds to its instruction.
RequestCounts Requests::countsOf(RequestKind kind, const Request &request) {
  bool any = std::any_of(request.bytes, request.bytes + 32,
                         [](uint8_t bytes) { return bytes != 0; });
  if (!any || isLocal(kind))
    return {};
  if (!isGlobal(kind))
    return wavefrontsOf(request);
  Sectors sectors = sectorsOf(request);
  RequestCounts result = sectors.counts();
  if (kind == RequestKind::GlobalLoad)
    result.first = sectors.addTo(loaded);
  return result;
}

/// Counts the request at `place` if it is not counted yet.
void Requests::settle(uint32_t site, uint32_t &place) {
  if (place == kSettled)
    return;
  counts[site] += countsOf(siteAt(site).kind, pool[place]);
  unused.push_back(place);
  place = kSettled;
}

void Requests::join(uint32_t warp) {
  for (uint32_t site : touched[warp]) {
    Track &track = tracks[warp * siteCount + site];
    for (uint32_t &place : track.open)
      settle(site, place);
  }
  forget(warp);
}

void Requests::forget(uint32_t warp) {
  for (uint32_t site : touched[warp])
    tracks[warp * siteCount + site].open.clear();
  touched[warp].clear();
  joins[warp] = ++lastJoin;
}

void Requests::finish(std::vector<RequestCounts> &to) {
  for (uint32_t warp = 0; warp < joins.size(); ++warp)
    join(warp);
  to.resize(counts.size());
  for (size_t i = 0; i < counts.size(); ++i)
    to[i] += counts[i];
}

} // namespace cria::emulator
