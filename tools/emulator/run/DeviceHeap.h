/// The heap of the device: malloc and free in kernels.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace cria::emulator {

struct Allocation;

/// Hands out parts of a range of addresses, with gaps between them. Addresses
/// that were freed are given out again only when the range has been used up.
/// Threads of a launch may call all functions at the same time.
class DeviceHeap {
public:
  DeviceHeap();
  ~DeviceHeap();

  void attach(uint64_t address, uint64_t size) {
    base = cursor = address;
    bytes = size;
  }
  bool contains(uint64_t address) const { return address - base < bytes; }
  /// The address of `size` new bytes; 0 if there is no room.
  uint64_t allocate(uint64_t size);
  /// Whether an allocation began at `address`.
  bool free(uint64_t address);
  /// The allocation that holds [address, address + size), or null. It stays
  /// valid when it is freed.
  const Allocation *find(uint64_t address, uint64_t size) const;
  /// The allocation that held the address until it was freed, or null.
  const Allocation *findFreed(uint64_t address) const;

private:
  using Parts = std::map<uint64_t, Allocation>; // by address

  uint64_t findGap(uint64_t size) const;
  static const Allocation *holding(const Parts &parts, uint64_t address,
                                   uint64_t size);

  uint64_t base = 0, bytes = 0, cursor = 0, count = 0;
  mutable std::mutex mutex;
  Parts live, freed;
};

} // namespace cria::emulator
