// cp.async.bulk and cp.async.bulk.tensor.
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;

/// Asks for the modifiers that add nothing to the row of the table.
void askFixed(Emitter &e) {
  for (auto fixed : {"async", "bulk", "tensor", "global", "shared::cta",
                     "shared::cluster", "tile", "multicast::cluster",
                     "bulk_group", "mbarrier::complete_tx::bytes"})
    e.has(fixed);
}

Value *shared(Emitter &e, size_t i) {
  return e.address(e.operand(i), "shared");
}

/// The blocks of a multicast: a bit for each block in operand `i`, and bit 16;
/// 0 if the copy is no multicast.
Value *blocks(Emitter &e, bool isMulticast, size_t i) {
  auto &b = e.builder;
  if (!isMulticast)
    return b.getInt32(0);
  return b.CreateOr(e.fit(e.read(e.operand(i), 16), 32), 1 << 16);
}

/// [target], [source], bytes, [mbarrier][, blocks]
void emitLoad(Emitter &e) {
  bool isMulticast = e.has("multicast::cluster");
  askFixed(e);
  Value *target = e.clusterAddress(e.operand(0));
  Value *mbarrier = e.clusterAddress(e.operand(3));
  e.callBlocking("emulatorBulkLoad", e.builder.getVoidTy(),
                 {target, e.address(e.operand(1), "global"), e.read32(2),
                  mbarrier, blocks(e, isMulticast, 4), e.line()});
}

/// [target], [source], bytes
void emitStore(Emitter &e) {
  askFixed(e);
  e.call(
      "emulatorBulkStore", e.builder.getVoidTy(),
      {e.address(e.operand(0), "global"), shared(e, 1), e.read32(2), e.line()});
}

/// [map, {coordinates}] in operand `i`: the map, the coordinates, how many.
struct Box {
  Value *map, *coordinates, *rank;
};

Box box(Emitter &e, size_t i) {
  askFixed(e);
  unsigned rank = unsigned(e.oneOf("1d|2d|3d|4d|5d")[0] - '0');
  const Operand &operand = e.operand(i);
  const Operand &coordinates = operand.parts[0];
  if (coordinates.parts.size() != rank)
    e.fail("expected " + llvm::Twine(rank) + " coordinates");
  llvm::AllocaInst *words = e.words(rank);
  e.storeWords(words, 0, coordinates);
  return {e.address(operand, ""), words, e.builder.getInt32(rank)};
}

/// [target], [map, {coordinates}], [mbarrier][, blocks]
void emitTensorLoad(Emitter &e) {
  bool isMulticast = e.has("multicast::cluster");
  Box from = box(e, 1);
  Value *target = e.clusterAddress(e.operand(0));
  Value *mbarrier = e.clusterAddress(e.operand(2));
  e.callBlocking("emulatorTensorLoad", e.builder.getVoidTy(),
                 {target, from.map, from.coordinates, from.rank, mbarrier,
                  blocks(e, isMulticast, 3), e.line()});
}

/// [map, {coordinates}], [source]
void emitTensorStore(Emitter &e) {
  Box to = box(e, 0);
  e.call("emulatorTensorStore", e.builder.getVoidTy(),
         {to.map, to.coordinates, to.rank, shared(e, 1), e.line()});
}

void emitCommit(Emitter &e) {
  askFixed(e);
  e.has("commit_group");
  e.call("emulatorBulkCommit", e.builder.getVoidTy(), {});
}

void emitWait(Emitter &e) {
  auto &b = e.builder;
  askFixed(e);
  e.has("wait_group");
  Value *left = b.getInt32(uint32_t(e.operand(0).value));
  e.call("emulatorBulkWait", b.getVoidTy(), {left, b.getInt32(e.has("read"))});
}

/// Prefetches fill a cache, which a program cannot see.
void emitPrefetch(Emitter &) {}

#define TO_SHARED                                                              \
  "shared::cluster|shared::cta global tile? mbarrier::complete_tx::bytes "
#define HINT "~L2::cache_hint?"
#define RANK "1d|2d|3d|4d|5d "

constexpr Form kForms[] = {
    {"cp",
     "async bulk shared::cluster|shared::cta global "
     "mbarrier::complete_tx::bytes " HINT,
     "mmsms?", emitLoad, 90},
    {"cp",
     "async bulk shared::cluster global mbarrier::complete_tx::bytes "
     "multicast::cluster " HINT,
     "mmsmss?", emitLoad, 90},
    {"cp", "async bulk global shared::cta bulk_group " HINT, "mmss?", emitStore,
     90},
    {"cp", "~async ~bulk ~prefetch ~L2 ~global " HINT, "mss?", emitPrefetch,
     90},
    {"cp", "async bulk tensor " RANK TO_SHARED HINT, "mtms?", emitTensorLoad,
     90},
    {"cp",
     "async bulk tensor " RANK "shared::cluster global tile? "
     "mbarrier::complete_tx::bytes multicast::cluster " HINT,
     "mtmss?", emitTensorLoad, 90},
    {"cp",
     "async bulk tensor " RANK "global shared::cta tile? bulk_group " HINT,
     "tms?", emitTensorStore, 90},
    {"cp",
     "~async ~bulk ~prefetch ~tensor ~1d|2d|3d|4d|5d ~L2 ~global ~tile? " HINT,
     "ts?", emitPrefetch, 90},
    {"cp", "async bulk commit_group", "", emitCommit, 90},
    {"cp", "async bulk wait_group read?", "i", emitWait, 90},
    {"prefetch", "~param|const? ~tensormap", "m", emitPrefetch, 90},
};

} // namespace

llvm::ArrayRef<Form> bulkCopyForms() { return kForms; }

} // namespace cria::emulator
