#include "tools/emulator/run/async/BulkCopy.h"

#include "tools/emulator/run/Block.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cria::emulator {
namespace {

constexpr uint32_t kUnit = 16;       // bytes that a swizzle moves
constexpr uint32_t kMostNoted = 256; // bytes of one access to global memory
constexpr uint32_t kBoxAlign = 128;  // of a box in shared memory

uint32_t alignOf(const BulkBox &box) {
  return box.isTensor ? kBoxAlign : kUnit;
}

/// Calls `visit` with each row that lies in the tensor, and its offset.
template <typename F> void forEachRow(const BulkBox &box, F visit) {
  for (uint32_t i = 0; i < box.map.rows(); ++i)
    visit(rowOf(box.map, box.coordinates, i), uint64_t(i) * box.map.rowBytes());
}

/// Calls `visit` with the parts of `bytes` bytes, from `offset` on, of a box in
/// shared memory at `base`: the part's place after the swizzle, its distance
/// from `offset` and its size.
template <typename F>
void forEachUnit(const BulkBox &box, uint64_t base, uint64_t offset,
                 uint32_t bytes, F visit) {
  for (uint32_t at = 0; at < bytes;) {
    uint32_t inUnit = uint32_t((offset + at) % kUnit);
    uint32_t size = std::min(kUnit - inUnit, bytes - at);
    uint64_t unit = swizzled(base + offset + at - inUnit, box.map.swizzleBytes);
    visit(reinterpret_cast<char *>(unit + inUnit), at, size);
    at += size;
  }
}

void checkRows(Block &block, Thread &thread, const BulkBox &box, int line,
               const char *what, bool isWrite) {
  forEachRow(box, [&](const TensorRow &row, uint64_t) {
    for (uint32_t at = 0; at < row.bytes; at += kMostNoted)
      block.checkGlobal(thread, row.address + at,
                        std::min(kMostNoted, row.bytes - at), 1, line, what,
                        isWrite);
  });
}

/// Shared memory as the copy reads it: in the order of the box.
std::vector<char> readShared(const BulkStore &store) {
  std::vector<char> bytes(store.box.bytes());
  forEachUnit(store.box, store.source, 0, store.box.bytes(),
              [&](char *from, uint32_t at, uint32_t size) {
                std::memcpy(&bytes[at], from, size);
              });
  return bytes;
}

void readNow(Block &block, Thread &thread, BulkStore &store) {
  if (!store.read.empty())
    return;
  if (block.launch().checks.accesses()) {
    Shadow::Access access{0, store.box.bytes(), Shadow::Kind::Read, store.line};
    access.isAsyncProxy = true;
    block.checkShared(thread, store.source, kUnit, access,
                      "source of cp.async.bulk");
  }
  store.read = readShared(store);
  if (block.launch().checks.race && store.read != store.seen)
    block.report(Finding::Race, thread, store.line,
                 "race: shared memory was written while a cp.async.bulk read "
                 "it");
}

void writeNow(Block &block, Thread &thread, BulkStore &store) {
  readNow(block, thread, store);
  if (block.launch().checks.accesses())
    checkRows(block, thread, store.box, store.line, "target of cp.async.bulk",
              true);
  forEachRow(store.box, [&](const TensorRow &row, uint64_t offset) {
    block.countBulk(row.bytes);
    std::memcpy(reinterpret_cast<void *>(row.address),
                &store.read[offset + row.skipped], row.bytes);
  });
}

} // namespace

void checkSource(Thread &thread, const BulkLoad &load) {
  if (thread.block->launch().checks.accesses())
    checkRows(*thread.block, thread, load.box, load.line,
              "source of cp.async.bulk", false);
}

void checkTarget(Block &block, Thread &thread, const BulkLoad &load) {
  if (!block.launch().checks.accesses())
    return;
  block.checkShared(thread, load.target, alignOf(load.box),
                    {0, load.box.bytes(), Shadow::Kind::Issue, load.line},
                    "target of cp.async.bulk");
}

void makeLoad(Block &block, const BulkLoad &load, unsigned agent) {
  const BulkBox &box = load.box;
  uint32_t rowBytes = box.map.rowBytes();
  int fill = box.map.fillsWithNan ? 0xFF : 0;
  forEachRow(box, [&](const TensorRow &row, uint64_t offset) {
    std::vector<char> bytes(rowBytes, char(fill));
    block.countBulk(row.bytes, load.isMulticast);
    if (row.bytes)
      std::memcpy(&bytes[row.skipped], reinterpret_cast<void *>(row.address),
                  row.bytes);
    forEachUnit(box, load.target, offset, rowBytes,
                [&](char *to, uint32_t at, uint32_t size) {
                  std::memcpy(to, &bytes[at], size);
                });
  });
  if (!block.launch().checks.accesses())
    return;
  Shadow::Access access{0, box.bytes(), Shadow::Kind::Arrive, load.line};
  access.agent = agent;
  block.checkShared(*load.issuer, load.target, 1, access,
                    "target of cp.async.bulk");
}

void issueStore(Block &block, Thread &thread, BulkStore store) {
  if (block.launch().checks.accesses()) {
    Shadow::Access access{0, store.box.bytes(), Shadow::Kind::Read, store.line};
    access.isAsyncProxy = true;
    block.checkShared(thread, store.source, alignOf(store.box), access,
                      "source of cp.async.bulk");
  }
  store.seen = readShared(store);
  if (block.launch().seed && block.random().next() & 1)
    readNow(block, thread, store);
  thread.openStores.push_back(std::move(store));
}

void commitStores(Thread &thread) {
  thread.storeGroups.push_back(std::exchange(thread.openStores, {}));
}

void endStores(Block &block, Thread &thread, uint32_t left, bool writes) {
  auto &groups = thread.storeGroups;
  size_t count = groups.size() > left ? groups.size() - left : 0;
  for (size_t i = 0; i < count; ++i)
    for (BulkStore &store : groups[i])
      writes ? writeNow(block, thread, store) : readNow(block, thread, store);
  if (writes)
    groups.erase(groups.begin(), groups.begin() + long(count));
}

void endStoresOfThread(Block &block, Thread &thread) {
  const BulkStore *unread =
      thread.openStores.empty() ? nullptr : &thread.openStores.back();
  for (const auto &group : thread.storeGroups)
    for (const BulkStore &store : group)
      if (store.read.empty())
        unread = &store;
  if (unread && block.launch().checks.sync)
    block.report(Finding::Misuse, thread, unread->line,
                 "thread ends with a cp.async.bulk that it has not waited for");
  if (!thread.openStores.empty())
    commitStores(thread);
  endStores(block, thread, 0, true);
}

} // namespace cria::emulator
