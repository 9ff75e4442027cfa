// Instructions that lanes of a warp execute together.
#include "tools/emulator/run/Block.h"

#include <algorithm>

namespace cria::emulator {
namespace {

bool sameOperation(const Thread &a, const Thread &b) {
  return a.op == b.op && a.config == b.config && a.mask == b.mask &&
         a.matchLine == b.matchLine;
}

/// The lane that `thread` reads in a shuffle, and whether it lies in its
/// segment.
std::pair<int, bool> shuffleSource(const Thread &thread) {
  int lane = int(thread.lane), by = int(thread.in[1] & 31);
  int clamp = int(thread.in[2] & 31), segment = int(thread.in[2] >> 8 & 31);
  int first = lane & segment, last = first | (clamp & ~segment);
  switch (ShuffleMode(thread.config)) {
  case ShuffleMode::Butterfly:
    return {lane ^ by, (lane ^ by) <= last};
  case ShuffleMode::Index:
    return {first | (by & ~segment), (first | (by & ~segment)) <= last};
  case ShuffleMode::Down:
    return {lane + by, lane + by <= last};
  case ShuffleMode::Up:
    break;
  }
  return {lane - by, lane - by >= last};
}

uint32_t reduced(ReduceOp op, uint32_t a, uint32_t b) {
  switch (op) {
  case ReduceOp::Add:
    return a + b;
  case ReduceOp::Min:
    return std::min(a, b);
  case ReduceOp::Max:
    return std::max(a, b);
  case ReduceOp::SignedMin:
    return uint32_t(std::min(int32_t(a), int32_t(b)));
  case ReduceOp::SignedMax:
    return uint32_t(std::max(int32_t(a), int32_t(b)));
  case ReduceOp::And:
    return a & b;
  case ReduceOp::Or:
    return a | b;
  case ReduceOp::Xor:
    break;
  }
  return a ^ b;
}

} // namespace

void WarpSyncs::meet(uint32_t lanes) {
  if (!known)
    known = std::make_unique<std::array<Numbers, 32>>();
  ++count;
  Numbers all = {};
  for (unsigned lane : Lanes(lanes))
    for (unsigned other = 0; other < all.size(); ++other)
      all[other] = std::max(all[other], (*known)[lane][other]);
  for (unsigned lane : Lanes(lanes))
    all[lane] = count;
  for (unsigned lane : Lanes(lanes))
    (*known)[lane] = all;
}

void Block::rendezvous(Thread &thread, int line) {
  Warp &warp = *thread.warp;
  uint32_t self = 1u << thread.lane;
  if (!(thread.mask & self))
    report(Finding::DivergentWarp, thread, line,
           "the mask does not name the lane that executes the instruction");
  warp.waiting |= self;
  thread.line = line;
  if (!tryRendezvous(warp, thread, line))
    suspend(thread, Wait::Warp, line);
}

/// Executes the operation of `like` if all lanes that it needs have come to it,
/// except lanes that have ended.
bool Block::tryRendezvous(Warp &warp, const Thread &like, int line) {
  uint32_t needed = like.mask & warp.full & ~warp.exited;
  if (!needed || (warp.waiting & needed) != needed)
    return false;
  for (unsigned lane : Lanes(needed))
    if (!sameOperation(warp.lanes[lane], like))
      return false;
  if (launch().checks.sync && (like.mask & warp.exited))
    report(Finding::DivergentWarp, like, line,
           "divergent warp operation: the mask names lanes that have ended");
  execute(warp, needed, line);
  warp.waiting &= ~needed;
  for (unsigned lane : Lanes(needed))
    wake(warp.lanes[lane]);
  return true;
}

/// After a lane has ended: the others may have waited only for this lane.
void Block::tryAllOperations(Warp &warp) {
  for (unsigned lane : Lanes(warp.waiting))
    if (tryRendezvous(warp, warp.lanes[lane], warp.lanes[lane].line))
      return;
}

void Block::execute(Warp &warp, uint32_t lanes, int line) {
  if (synchronizes)
    shareClocks(warp, lanes);
  if (warp.waited & lanes)
    warp.waited |= lanes;
  if (counter && (lanes | warp.exited) == warp.full)
    counter->requests.join(warp.lanes->warpIndex);
  switch (warp.lanes[__builtin_ctz(lanes)].op) {
  case WarpOp::Sync:
    if ((lanes | warp.exited) == warp.full)
      warp.syncs.meetAll();
    else
      warp.syncs.meet(lanes);
    shadow.newGeneration();
    return;
  case WarpOp::Shuffle:
    return shuffleLanes(*this, warp, lanes, line);
  case WarpOp::Vote:
    return voteLanes(warp, lanes);
  case WarpOp::Match:
    return matchLanes(warp, lanes);
  case WarpOp::Reduce:
    return reduceLanes(warp, lanes);
  case WarpOp::LoadMatrix:
    return loadMatrices(*this, warp, line);
  case WarpOp::StoreMatrix:
    return storeMatrices(*this, warp, line);
  case WarpOp::Mma:
    return multiplyMatrices(warp);
  case WarpOp::MoveFragment:
    return moveFragments(*this, warp, lanes, line);
  case WarpOp::Product:
    return warpgroupOf(warp.lanes[0]).issue(*this, warp, line);
  case WarpOp::CommitProducts:
    return warpgroupOf(warp.lanes[0]).commit(warp);
  case WarpOp::WaitProducts:
    return warpgroupOf(warp.lanes[0]).beginWait(warp);
  case WarpOp::FenceProducts:
    return;
  case WarpOp::SetRegisters:
    return warpgroupOf(warp.lanes[0]).setRegisters(*this, warp, line);
  case WarpOp::ClusterBarrier:
    return;
  }
}

void shuffleLanes(Block &block, Warp &warp, uint32_t lanes, int line) {
  uint32_t values[32];
  for (unsigned lane : Lanes(lanes))
    values[lane] = uint32_t(warp.lanes[lane].in[0]);
  for (unsigned lane : Lanes(lanes)) {
    Thread &thread = warp.lanes[lane];
    auto [source, inside] = shuffleSource(thread);
    if (!inside)
      source = int(lane);
    if (!(lanes >> source & 1))
      block.report(Finding::DivergentWarp, thread, line,
                   "shuffle reads lane " + std::to_string(source) +
                       ", which does not take part");
    thread.out = values[source] | uint64_t(inside) << 32;
  }
}

void voteLanes(Warp &warp, uint32_t lanes) {
  uint32_t votes = 0;
  for (unsigned lane : Lanes(lanes))
    votes |= uint32_t(warp.lanes[lane].in[0] != 0) << lane;
  for (unsigned lane : Lanes(lanes)) {
    Thread &thread = warp.lanes[lane];
    switch (VoteMode(thread.config)) {
    case VoteMode::Ballot:
      thread.out = votes;
      break;
    case VoteMode::All:
      thread.out = votes == lanes;
      break;
    case VoteMode::Any:
      thread.out = votes != 0;
      break;
    case VoteMode::Uniform:
      thread.out = votes == lanes || votes == 0;
    }
  }
}

void matchLanes(Warp &warp, uint32_t lanes) {
  for (unsigned lane : Lanes(lanes)) {
    Thread &thread = warp.lanes[lane];
    uint32_t equal = 0;
    for (unsigned other : Lanes(lanes))
      equal |= uint32_t(warp.lanes[other].in[0] == thread.in[0]) << other;
    bool wantsAll = thread.config;
    if (!wantsAll)
      thread.out = equal;
    else
      thread.out = equal == lanes ? equal | uint64_t(1) << 32 : 0;
  }
}

void reduceLanes(Warp &warp, uint32_t lanes) {
  unsigned first = unsigned(__builtin_ctz(lanes));
  uint32_t result = uint32_t(warp.lanes[first].in[0]);
  for (unsigned lane : Lanes(lanes & (lanes - 1)))
    result = reduced(ReduceOp(warp.lanes[first].config), result,
                     uint32_t(warp.lanes[lane].in[0]));
  for (unsigned lane : Lanes(lanes))
    warp.lanes[lane].out = result;
}

} // namespace cria::emulator
