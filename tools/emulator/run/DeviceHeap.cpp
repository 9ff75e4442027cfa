#include "tools/emulator/run/DeviceHeap.h"

#include "tools/emulator/run/DeviceMemory.h"

#include <algorithm>

namespace cria::emulator {
namespace {

constexpr uint64_t kAlign = 16; // as the device's malloc aligns
constexpr uint64_t kGap = 16;

uint64_t roundUp(uint64_t value) {
  return (value + kAlign - 1) / kAlign * kAlign;
}

} // namespace

DeviceHeap::DeviceHeap() = default;
DeviceHeap::~DeviceHeap() = default;

/// After the last allocation, else the first gap that is large enough; 0: none.
uint64_t DeviceHeap::findGap(uint64_t size) const {
  if (cursor + size + kGap <= base + bytes)
    return cursor;
  uint64_t at = base;
  for (const auto &[address, part] : live) {
    if (at + size + kGap <= address)
      return at;
    at = roundUp(address + part.bytes + kGap);
  }
  return 0;
}

uint64_t DeviceHeap::allocate(uint64_t size) {
  std::lock_guard<std::mutex> lock(mutex);
  if (size == 0 || size > bytes)
    return 0;
  uint64_t address = findGap(size);
  if (!address)
    return 0;
  cursor = std::max(cursor, roundUp(address + size + kGap));
  live[address] = {address, size, Allocation::Heap, ++count, ""};
  return address;
}

bool DeviceHeap::free(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = live.find(address);
  if (found == live.end())
    return false;
  freed.erase(address); // an older one
  freed.insert(live.extract(found));
  return true;
}

const Allocation *DeviceHeap::holding(const Parts &parts, uint64_t address,
                                      uint64_t size) {
  auto after = parts.upper_bound(address);
  if (after == parts.begin())
    return nullptr;
  const Allocation &part = std::prev(after)->second;
  bool fits = size <= part.bytes && address - part.address <= part.bytes - size;
  return fits ? &part : nullptr;
}

const Allocation *DeviceHeap::find(uint64_t address, uint64_t size) const {
  std::lock_guard<std::mutex> lock(mutex);
  return holding(live, address, size);
}

const Allocation *DeviceHeap::findFreed(uint64_t address) const {
  std::lock_guard<std::mutex> lock(mutex);
  return holding(live, address, 1) ? nullptr : holding(freed, address, 1);
}

} // namespace cria::emulator
