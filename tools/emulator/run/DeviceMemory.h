/// The memory of the emulated device: which addresses are allocated.
#pragma once

#include "tools/emulator/run/Check.h"
#include "tools/emulator/run/DeviceHeap.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace cria::emulator {

/// A range of addresses that kernels may use.
struct Allocation {
  enum Kind {
    Device,
    Managed,
    Mapped,
    Variable,
    PinnedHost,
    RegisteredHost,
    Heap
  };

  uint64_t address = 0, bytes = 0;
  Kind kind = Device;
  uint64_t serial = 0; ///< counts allocations from 1
  std::string name;    ///< of a variable
};

/// Returns addresses from one large reserved range, with gaps between
/// allocations, as wide as they are, and reuses no address soon. So an address
/// outside of all allocations can be recognized and explained. Addresses are
/// the host's own.
class DeviceMemory {
public:
  /// A device with `capacity` bytes. Poisoned memory is filled with 0xFF (NaN
  /// for every float type).
  DeviceMemory(uint64_t capacity, bool poison);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory &) = delete;
  DeviceMemory &operator=(const DeviceMemory &) = delete;

  /// The address of `bytes` new bytes, 0 if there are not enough.
  uint64_t allocate(uint64_t bytes, Allocation::Kind kind,
                    const std::string &name = "");
  /// Whether an allocation of this kind began at `address`.
  bool free(uint64_t address, Allocation::Kind kind);
  /// Ranges of addresses that hold no allocations, and memory that is mapped
  /// there: the start of `file`. `setMapped` says which memory is mapped and
  /// may be accessed: bytes, by address. Each run is one allocation.
  /// @{
  uint64_t reserve(uint64_t bytes, uint64_t align);
  void release(uint64_t address);
  bool map(uint64_t address, uint64_t bytes, int file);
  void unmap(uint64_t address, uint64_t bytes);
  void setMapped(const std::map<uint64_t, uint64_t> &runs);
  /// @}
  /// Memory of the program that kernels may use, and its end.
  /// @{
  bool registerHost(uint64_t address, uint64_t bytes);
  bool unregisterHost(uint64_t address);
  /// @}

  /// malloc and free of a kernel: the address, or 0; whether there was such
  /// memory. New memory is poisoned.
  /// @{
  uint64_t allocateOnHeap(uint64_t bytes) const;
  bool freeOnHeap(uint64_t address) const { return heap->free(address); }
  /// @}

  /// The allocation that holds [address, address + bytes), or null.
  const Allocation *find(uint64_t address, uint64_t bytes) const;
  /// What lies at or next to `address`, in words.
  std::string describe(uint64_t address) const;
  bool wasFreed(uint64_t address) const;
  /// Whether the address can only be the device's, allocated or not.
  bool isReserved(uint64_t address) const { return address - base < reserved; }

  /// 8 bytes at which the blocks of a cooperative launch meet
  /// (cooperative_groups/details/driver_abi.h: a size and a barrier).
  uint64_t gridWorkspace() const { return base; }

  /// Stamps of the race check, zeros at first: 8 bytes for each 8 bytes of
  /// device memory, and 32 bytes for each line of 64 bytes (GlobalRaces.h).
  /// @{
  bool hasStamps(uint64_t address) const { return address - base < reserved; }
  uint64_t stampDistance() const { return stamps - base; }
  uint64_t stampOf(uint64_t address) const { return address + stampDistance(); }
  /// The stamp of a line is at address / 64 * 32 plus this.
  uint64_t lineDistance() const { return lines - base / 2; }
  uint64_t lineOf(uint64_t address) const {
    return address / kLineBytes * kLineStampBytes + lineDistance();
  }
  void clearStamps() const;
  /// The first of `count` numbers that no stamp has, below `end`; and how many
  /// of them were used.
  /// @{
  uint32_t firstSegment(uint32_t count, uint32_t end) const;
  void usedSegments(uint32_t count) const { nextSegment += count; }
  /// @}
  /// @}

  uint64_t capacity() const { return limit; }
  uint64_t used() const { return inUse; }

private:
  /// With the stamps after it.
  uint64_t mapped() const { return 2 * reserved + reserved / 2; }
  uint64_t findGap(uint64_t bytes, bool wide);
  void remember(const Allocation &freed);

  uint64_t limit, inUse = 0, count = 0;
  bool poison;
  uint64_t base = 0, reserved = 0, cursor = 0;
  std::map<uint64_t, uint64_t> ranges; ///< of `reserve`: bytes, by address
  uint64_t rangesStart = 0; ///< allocations lie before it, ranges after it
  uint64_t stamps = 0, lines = 0;
  mutable uint32_t nextSegment = 1;
  std::unique_ptr<DeviceHeap> heap = std::make_unique<DeviceHeap>();
  std::map<uint64_t, Allocation> live; ///< by address
  std::map<uint64_t, Allocation> freed;
};

} // namespace cria::emulator
