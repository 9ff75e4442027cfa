#include "tools/emulator/run/async/AsyncEntries.h"

#include "tools/emulator/run/Block.h"

#include <cstring>

using namespace cria::emulator;

namespace {

void meet(Thread *thread, WarpOp op, uint32_t config, int line) {
  thread->op = op;
  thread->config = config;
  thread->mask = ~0u;
  thread->matchLine = line;
  thread->block->rendezvous(*thread, line);
}

/// Contiguous bytes, as a box of one row.
BulkBox boxOf(void *address, uint32_t bytes) {
  BulkBox box;
  box.map.rank = box.map.elementBytes = 1;
  box.map.address = uint64_t(address);
  box.map.dims[0] = box.map.box[0] = bytes;
  return box;
}

void checkBytes(Thread &thread, void *global, uint32_t bytes, int line) {
  if (bytes == 0 || bytes % 16 || uint64_t(global) % 16)
    thread.block->report(Finding::Misaligned, thread, line,
                         "cp.async.bulk of " + std::to_string(bytes) +
                             " bytes, expected a multiple of 16, at addresses "
                             "that are multiples of 16");
}

/// The box in an instruction's operands.
BulkBox boxOf(Thread &thread, void *map, const int32_t *coordinates,
              uint32_t rank, int line) {
  Block &block = *thread.block;
  block.checkTensorMap(thread, uint64_t(map), line);
  BulkBox box;
  box.isTensor = true;
  std::memcpy(&box.map, map, sizeof box.map);
  if (box.map.magic != TensorMap::kMagic)
    block.report(Finding::Misuse, thread, line,
                 "cp.async.bulk.tensor without a tensor map");
  if (box.map.rank != rank)
    block.report(Finding::Misuse, thread, line,
                 "cp.async.bulk.tensor." + std::to_string(rank) +
                     "d with a tensor map of " + std::to_string(box.map.rank) +
                     " dimensions");
  if (box.map.boxBytes() > kArena)
    block.report(Finding::OutOfBounds, thread, line,
                 "out of bounds: a box of " +
                     std::to_string(box.map.boxBytes()) +
                     " bytes, more than shared memory has");
  std::copy_n(coordinates, rank, box.coordinates);
  return box;
}

/// Begins a copy in each block that receives it.
void load(Thread &thread, BulkLoad load, void *mbarrier, uint32_t blocks,
          bool isMulticast) {
  Block &block = *thread.block;
  uint64_t to = load.target, at = uint64_t(mbarrier);
  checkSource(thread, load);
  if (!isMulticast) {
    Block &owner =
        block.ownerOf(thread, at, load.line, "mbarrier of cp.async.bulk");
    return owner.mbarriers().load({thread, at, load.line}, std::move(load));
  }
  if (!blocks || blocks >> thread.clusterBlocks)
    block.report(Finding::Misuse, thread, load.line,
                 "a multicast to blocks " + std::to_string(blocks) +
                     " (a bit each) of a cluster of " +
                     std::to_string(thread.clusterBlocks));
  for (uint32_t rank = 0; rank < thread.clusterBlocks; ++rank) {
    if (!(blocks >> rank & 1))
      continue;
    MbarrierAccess access{thread, block.inPeer(at, rank), load.line};
    load.target = block.inPeer(to, rank);
    block
        .ownerOf(thread, access.address, load.line,
                 "multicast of cp.async.bulk")
        .mbarriers()
        .load(access, load);
    load.isMulticast = true;
  }
}

void store(Thread &thread, BulkBox box, void *source, int line) {
  BulkStore made;
  made.box = box;
  made.source = uint64_t(source);
  made.line = line;
  issueStore(*thread.block, thread, std::move(made));
}

/// Whether `serial`, a number in `serials`, is a product whose accumulators are
/// in memory.
bool isPending(uint32_t serial) { return serial != 0 && serial != ~0u; }

constexpr uint32_t kNan = 0x7fff7fff; // in f32 and as two f16

} // namespace

extern "C" {

void emulatorMbarrierInit(Thread *thread, void *address, uint32_t count,
                          int line) {
  thread->block->mbarriers().init({*thread, uint64_t(address), line}, count);
}

void emulatorMbarrierInvalidate(Thread *thread, void *address, int line) {
  thread->block->mbarriers().invalidate({*thread, uint64_t(address), line});
}

uint64_t emulatorMbarrierArrive(Thread *thread, void *address, uint32_t count,
                                uint32_t bytes, uint32_t flags, int line) {
  MbarrierArrival arrival = MbarrierArrival::unpacked(flags);
  arrival.count = count;
  arrival.bytes = bytes;
  return thread->block
      ->ownerOf(*thread, uint64_t(address), line, "mbarrier.arrive")
      .mbarriers()
      .arrive({*thread, uint64_t(address), line}, arrival);
}

void emulatorMbarrierBytes(Thread *thread, void *address, uint32_t bytes,
                           uint32_t expects, int line) {
  MbarrierAccess access{*thread, uint64_t(address), line};
  Mbarriers &mbarriers =
      thread->block->ownerOf(*thread, access.address, line, "mbarrier")
          .mbarriers();
  if (expects)
    mbarriers.expect(access, bytes);
  else
    mbarriers.complete(access, bytes);
}

uint32_t emulatorMbarrierWait(Thread *thread, void *address, uint64_t phase,
                              uint32_t flags, int line) {
  MbarrierWait wait = MbarrierWait::unpacked(flags);
  wait.phase = phase;
  return thread->block->mbarriers().wait({*thread, uint64_t(address), line},
                                         wait);
}

void emulatorFenceProxy(Thread *thread, uint32_t ofMbarriers) {
  thread->block->mbarriers().fence(*thread, ofMbarriers);
  if (!ofMbarriers)
    thread->block->fenceProxy(*thread);
  else if (thread->clusterBlocks > 1)
    thread->block->fence(*thread, false); // a relaxed arrival makes the
                                          // mbarrier visible
}

void emulatorClusterBarrier(Thread *thread, uint32_t flags, int line) {
  thread->block->clusterBarrier(*thread, ClusterBarrierConfig::unpacked(flags),
                                line);
}

uint64_t emulatorMapShared(Thread *thread, uint64_t address, uint32_t rank,
                           int line) {
  return thread->block->addressOfPeer(*thread, address, rank, line);
}

void *emulatorClusterAddress(Thread *thread, uint64_t address, int line) {
  return reinterpret_cast<void *>(
      thread->block->clusterAddress(*thread, address, line));
}

void emulatorBulkLoad(Thread *thread, void *target, void *source,
                      uint32_t bytes, void *mbarrier, uint32_t blocks,
                      int line) {
  checkBytes(*thread, source, bytes, line);
  load(*thread, {boxOf(source, bytes), uint64_t(target), line, thread},
       mbarrier, blocks & 0xffff, blocks >> 16);
}

void emulatorBulkStore(Thread *thread, void *target, void *source,
                       uint32_t bytes, int line) {
  checkBytes(*thread, target, bytes, line);
  store(*thread, boxOf(target, bytes), source, line);
}

void emulatorTensorLoad(Thread *thread, void *target, void *map,
                        const int32_t *coordinates, uint32_t rank,
                        void *mbarrier, uint32_t blocks, int line) {
  load(*thread,
       {boxOf(*thread, map, coordinates, rank, line), uint64_t(target), line,
        thread},
       mbarrier, blocks & 0xffff, blocks >> 16);
}

void emulatorTensorStore(Thread *thread, void *map, const int32_t *coordinates,
                         uint32_t rank, void *source, int line) {
  store(*thread, boxOf(*thread, map, coordinates, rank, line), source, line);
}

void emulatorBulkCommit(Thread *thread) { commitStores(*thread); }

void emulatorBulkWait(Thread *thread, uint32_t left, uint32_t reads) {
  endStores(*thread->block, *thread, left, !reads);
}

void emulatorProduct(Thread *thread, uint32_t config, uint64_t a, uint64_t b,
                     uint32_t addsToD, const uint32_t *wordsOfA,
                     uint32_t *values, uint32_t *sums, uint32_t *serials,
                     const uint32_t *places, int line) {
  Warpgroup &group = thread->block->warpgroupOf(*thread);
  uint32_t serial = group.serialOf(*thread);
  for (uint32_t i = 0; i < ProductConfig::unpacked(config).words(); ++i) {
    if (!isPending(serials[places[i]]))
      sums[places[i]] = values[i];
    serials[places[i]] = serial;
    values[i] = kNan;
  }
  thread->in[0] = a;
  thread->in[1] = b;
  thread->in[2] = addsToD;
  thread->inWords = wordsOfA;
  thread->outWords = sums;
  thread->places = places;
  meet(thread, WarpOp::Product, config, line);
}

void emulatorFenceProducts(Thread *thread, int line) {
  meet(thread, WarpOp::FenceProducts, 0, line);
}

void emulatorCommitProducts(Thread *thread, int line) {
  meet(thread, WarpOp::CommitProducts, 0, line);
}

void emulatorWaitProducts(Thread *thread, uint32_t left, uint32_t *serials,
                          uint32_t count, int line) {
  meet(thread, WarpOp::WaitProducts, left, line);
  uint64_t ended = thread->out;
  thread->block->warpgroupOf(*thread).wait(*thread->block, *thread, ended,
                                           line);
  for (uint32_t i = 0; i < count; ++i)
    serials[i] = !isPending(serials[i]) ? 0
                 : serials[i] <= ended  ? ~0u
                                        : serials[i];
}

void emulatorSetRegisters(Thread *thread, uint32_t count, int line) {
  meet(thread, WarpOp::SetRegisters, count, line);
}

} // extern "C"
