#include "tools/emulator/run/DeviceMemory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace cria::emulator {
namespace {

constexpr uint64_t kAlign = 512; // at least, as the real driver aligns
constexpr uint64_t kGap = 4096;  // between allocations, at least
constexpr uint64_t kPage = 4096;
constexpr uint64_t kHeapBytes = 256 << 20;
constexpr size_t kRemembered = 4096;
/// The preferred place of the memory: machine code that is kept in a cache
/// (Compile.h) contains addresses.
void *const kPlace = reinterpret_cast<void *>(uint64_t(0x20) << 40);

uint64_t roundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

std::string named(const Allocation &allocation) {
  std::string bytes = std::to_string(allocation.bytes) + " bytes";
  if (allocation.kind == Allocation::Variable)
    return "variable '" + allocation.name + "' of " + bytes;
  if (allocation.kind == Allocation::Heap)
    return "memory of malloc of " + bytes;
  return "allocation " + std::to_string(allocation.serial) + " of " + bytes;
}

/// The end of an allocation and of the gap after it. A wide gap has as many
/// bytes, so that an index of up to twice the right one is found.
uint64_t endOfGap(uint64_t address, uint64_t bytes, bool wide) {
  return roundUp(address + bytes + (wide ? std::max(kGap, bytes) : kGap),
                 kAlign);
}

/// The range of `ranges` that holds `address` or ends at or before it.
const Allocation *atOrBefore(const std::map<uint64_t, Allocation> &ranges,
                             uint64_t address) {
  auto after = ranges.upper_bound(address);
  return after == ranges.begin() ? nullptr : &std::prev(after)->second;
}

} // namespace

DeviceMemory::DeviceMemory(uint64_t capacity, bool poison)
    : limit(capacity), poison(poison) {
  for (uint64_t factor : {8, 4, 2, 1}) {
    reserved = roundUp(capacity * factor + (uint64_t(1) << 30), kPage);
    void *range = mmap(kPlace, mapped(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
      continue;
    base = uint64_t(range);
    uint64_t heapBase = base + roundUp(8 + kGap, kAlign);
    cursor = roundUp(heapBase + kHeapBytes + kGap, kAlign);
    live[base] = {base, 8, Allocation::Variable, 0, "workspace of the grid"};
    live[heapBase] = {heapBase, kHeapBytes, Allocation::Variable, 0,
                      "heap of the device"};
    heap->attach(heapBase, kHeapBytes);
    rangesStart = base + reserved;
    stamps = base + reserved;
    lines = stamps + reserved;
    return;
  }
  reserved = limit = 0;
}

DeviceMemory::~DeviceMemory() {
  if (base)
    munmap(reinterpret_cast<void *>(base), mapped());
  for (auto &[address, allocation] : live)
    if (allocation.kind == Allocation::PinnedHost)
      munmap(reinterpret_cast<void *>(address),
             roundUp(allocation.bytes, kPage));
}

/// A free range after the last allocated one, else the first that fits.
uint64_t DeviceMemory::findGap(uint64_t bytes, bool wide) {
  for (uint64_t start : {cursor, base}) {
    uint64_t at = start;
    for (auto i = live.lower_bound(start); i != live.end(); ++i) {
      if (i->first >= rangesStart || i->first >= endOfGap(at, bytes, wide))
        break;
      if (i->first >= base)
        at = endOfGap(i->first, i->second.bytes, wide);
    }
    if (endOfGap(at, bytes, wide) <= rangesStart)
      return at;
  }
  return 0;
}

uint64_t DeviceMemory::allocate(uint64_t bytes, Allocation::Kind kind,
                                const std::string &name) {
  uint64_t address = 0;
  if (kind == Allocation::PinnedHost) {
    void *range = mmap(nullptr, roundUp(bytes, kPage), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    address = range == MAP_FAILED ? 0 : uint64_t(range);
  } else if (bytes <= limit && inUse <= limit - bytes) {
    bool wide = (address = findGap(bytes, /*wide=*/true)) != 0;
    if (!wide)
      address = findGap(bytes, /*wide=*/false);
    if (address) {
      cursor = endOfGap(address, bytes, wide);
      inUse += bytes;
    }
  }
  if (!address)
    return 0;
  auto reused = freed.lower_bound(address);
  while (reused != freed.end() && reused->first < address + bytes)
    reused = freed.erase(reused);
  live[address] = {address, bytes, kind, ++count, name};
  if (poison && (kind == Allocation::Device || kind == Allocation::Managed))
    std::memset(reinterpret_cast<void *>(address), 0xFF, bytes);
  return address;
}

uint64_t DeviceMemory::allocateOnHeap(uint64_t bytes) const {
  uint64_t address = heap->allocate(bytes);
  if (address && poison)
    std::memset(reinterpret_cast<void *>(address), 0xFF, bytes);
  return address;
}

void DeviceMemory::remember(const Allocation &allocation) {
  freed[allocation.address] = allocation;
  if (freed.size() <= kRemembered)
    return;
  freed.erase(std::min_element(freed.begin(), freed.end(),
                               [](const auto &a, const auto &b) {
                                 return a.second.serial < b.second.serial;
                               }));
}

bool DeviceMemory::free(uint64_t address, Allocation::Kind kind) {
  auto found = live.find(address);
  if (found == live.end() || found->second.kind != kind)
    return false;
  Allocation allocation = found->second;
  live.erase(found);
  remember(allocation);
  if (kind == Allocation::PinnedHost) {
    munmap(reinterpret_cast<void *>(address), roundUp(allocation.bytes, kPage));
    return true;
  }
  inUse -= allocation.bytes;
  uint64_t first = roundUp(address, kPage);
  uint64_t last = (address + allocation.bytes) / kPage * kPage;
  if (first < last)
    madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
  return true;
}

uint64_t DeviceMemory::reserve(uint64_t bytes, uint64_t align) {
  uint64_t room = rangesStart - cursor;
  if (bytes > room || align + kGap > room - bytes)
    return 0;
  rangesStart = (rangesStart - kGap - bytes) / align * align;
  ranges[rangesStart] = bytes;
  return rangesStart;
}

void DeviceMemory::release(uint64_t address) {
  ranges.erase(address);
  rangesStart = ranges.empty() ? base + reserved : ranges.begin()->first;
}

bool DeviceMemory::map(uint64_t address, uint64_t bytes, int file) {
  return mmap(reinterpret_cast<void *>(address), bytes, PROT_READ | PROT_WRITE,
              MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
}

void DeviceMemory::unmap(uint64_t address, uint64_t bytes) {
  mmap(reinterpret_cast<void *>(address), bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void DeviceMemory::setMapped(const std::map<uint64_t, uint64_t> &runs) {
  auto isRun = [&](const Allocation &allocation) {
    auto run = runs.find(allocation.address);
    return run != runs.end() && run->second == allocation.bytes;
  };
  for (auto i = live.begin(); i != live.end();) {
    bool ends = i->second.kind == Allocation::Mapped && !isRun(i->second);
    if (ends)
      remember(i->second);
    i = ends ? live.erase(i) : std::next(i);
  }
  for (auto [address, bytes] : runs)
    if (!live.count(address)) {
      live[address] = {address, bytes, Allocation::Mapped, ++count, ""};
      freed.erase(address);
    }
}

bool DeviceMemory::registerHost(uint64_t address, uint64_t bytes) {
  if (!bytes || find(address, 1) || address + bytes < address)
    return false;
  live[address] = {address, bytes, Allocation::RegisteredHost, ++count, ""};
  return true;
}

bool DeviceMemory::unregisterHost(uint64_t address) {
  auto found = live.find(address);
  if (found == live.end() || found->second.kind != Allocation::RegisteredHost)
    return false;
  live.erase(found);
  return true;
}

void DeviceMemory::clearStamps() const {
  madvise(reinterpret_cast<void *>(stamps), mapped() - reserved, MADV_DONTNEED);
}

uint32_t DeviceMemory::firstSegment(uint32_t count, uint32_t end) const {
  if (nextSegment > end - count) {
    clearStamps();
    nextSegment = 1;
  }
  return nextSegment;
}

const Allocation *DeviceMemory::find(uint64_t address, uint64_t bytes) const {
  if (heap->contains(address))
    return heap->find(address, bytes);
  const Allocation *before = atOrBefore(live, address);
  if (!before || bytes > before->bytes)
    return nullptr;
  return address - before->address <= before->bytes - bytes ? before : nullptr;
}

bool DeviceMemory::wasFreed(uint64_t address) const {
  if (heap->contains(address))
    return heap->findFreed(address) != nullptr;
  const Allocation *before = atOrBefore(freed, address);
  return before && address - before->address < before->bytes &&
         !find(address, 1);
}

std::string DeviceMemory::describe(uint64_t address) const {
  if (const Allocation *inside = find(address, 1))
    return std::to_string(address - inside->address) + " bytes into " +
           named(*inside);
  if (wasFreed(address)) {
    const Allocation *gone = heap->contains(address)
                                 ? heap->findFreed(address)
                                 : atOrBefore(freed, address);
    return std::to_string(address - gone->address) + " bytes into " +
           named(*gone) + ", which was freed";
  }
  const Allocation *before = atOrBefore(live, address);
  if (before && address - before->address < before->bytes + (1 << 30))
    return std::to_string(address - before->address - before->bytes) +
           " bytes after " + named(*before);
  auto after = live.upper_bound(address);
  if (after != live.end() && after->first - address < (1 << 30))
    return std::to_string(after->first - address) + " bytes before " +
           named(after->second);
  return "near no allocation";
}

} // namespace cria::emulator
