// mbarrier, the barrier of a cluster, and the fences of the async proxy.
#include "tools/emulator/run/Collective.h"
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;

/// Asks for the modifiers that say what is ordered. True: nothing is ordered.
bool isRelaxed(Emitter &e) {
  e.oneOf("cta|cluster");
  return e.oneOf("acquire|release|relaxed") == "relaxed";
}

/// The mbarrier of operand `i`.
Value *mbarrier(Emitter &e, size_t i) {
  e.has("b64");
  if (e.has("shared::cluster"))
    return e.clusterAddress(e.operand(i));
  return e.address(e.operand(i), e.space());
}

Value *number(Emitter &e, uint32_t value) { return e.builder.getInt32(value); }

void emitInit(Emitter &e) {
  e.has("init");
  e.callBlocking("emulatorMbarrierInit", e.builder.getVoidTy(),
                 {mbarrier(e, 0), e.read32(1), e.line()});
}

void emitInvalidate(Emitter &e) {
  e.has("inval");
  e.callBlocking("emulatorMbarrierInvalidate", e.builder.getVoidTy(),
                 {mbarrier(e, 0), e.line()});
}

/// arrive state, [mbarrier], count or bytes
void emitArrive(Emitter &e) {
  MbarrierArrival arrival;
  arrival.drops = e.oneOf("arrive|arrive_drop") == "arrive_drop";
  arrival.noComplete = e.has("noComplete");
  arrival.isRelaxed = isRelaxed(e);
  bool expects = e.has("expect_tx");
  Value *last = e.operandCount() > 2 ? e.read32(2) : number(e, 1);
  Value *state = e.callBlocking(
      "emulatorMbarrierArrive", e.builder.getInt64Ty(),
      {mbarrier(e, 1), expects ? number(e, 1) : last,
       expects ? last : number(e, 0), number(e, arrival.packed()), e.line()});
  e.write(e.operand(0), state);
}

void emitBytes(Emitter &e) {
  isRelaxed(e);
  bool expects = e.oneOf("expect_tx|complete_tx") == "expect_tx";
  e.callBlocking("emulatorMbarrierBytes", e.builder.getVoidTy(),
                 {mbarrier(e, 0), e.read32(1), number(e, expects), e.line()});
}

/// wait done, [mbarrier], state or parity[, time]
void emitWait(Emitter &e) {
  auto &b = e.builder;
  MbarrierWait wait;
  wait.mayBlock = e.oneOf("test_wait|try_wait") == "try_wait";
  wait.isParity = e.has("parity");
  wait.isRelaxed = isRelaxed(e);
  Value *phase =
      wait.isParity ? e.fit(e.read32(2), 64) : e.read(e.operand(2), 64);
  Value *done = e.callBlocking(
      "emulatorMbarrierWait", b.getInt32Ty(),
      {mbarrier(e, 1), phase, number(e, wait.packed()), e.line()});
  e.write(e.operand(0), e.fit(done, 1));
}

/// The barrier of all threads of a cluster.
void emitClusterBarrier(Emitter &e) {
  ClusterBarrierConfig config;
  e.has("cluster");
  config.waits = e.oneOf("arrive|wait") == "wait";
  config.isRelaxed = e.oneOf("release|relaxed|acquire") == "relaxed";
  config.aligned = e.has("aligned");
  e.callBlocking("emulatorClusterBarrier", e.builder.getVoidTy(),
                 {number(e, config.packed()), e.line()});
}

/// mapa d, address, rank: the address in another block of the cluster.
void emitMapShared(Emitter &e) {
  e.has("shared::cluster");
  unsigned bits = e.oneOf("u32|u64") == "u64" ? 64 : 32;
  Value *address = e.fit(e.read(e.operand(1), bits), 64);
  Value *mapped = e.call("emulatorMapShared", e.builder.getInt64Ty(),
                         {address, e.read32(2), e.line()});
  e.write(e.operand(0), e.fit(mapped, bits));
}

/// Fences between threads and hardware that accesses memory on its own. Fences
/// of only global memory are not checked.
void emitProxyFence(Emitter &e) {
  bool ofMbarriers = e.has("mbarrier_init");
  e.has("proxy");
  e.has("async");
  if (e.oneOf("global|shared::cta|shared::cluster") == "global")
    return;
  e.call("emulatorFenceProxy", e.builder.getVoidTy(), {number(e, ofMbarriers)});
}

#define SPACE "shared|shared::cta? "
#define ANY_SPACE "shared|shared::cta|shared::cluster? "
#define SCOPE "cta|cluster? "

constexpr Form kForms[] = {
    {"mbarrier", "init " SPACE "b64", "ms", emitInit, 80},
    {"mbarrier", "inval " SPACE "b64", "m", emitInvalidate, 80},
    {"mbarrier", "arrive|arrive_drop release|relaxed? " SCOPE ANY_SPACE "b64",
     "dms?", emitArrive, 80},
    {"mbarrier", "arrive|arrive_drop noComplete release? cta? " SPACE "b64",
     "dms", emitArrive, 80},
    {"mbarrier",
     "arrive|arrive_drop expect_tx release|relaxed? " SCOPE ANY_SPACE "b64",
     "dms", emitArrive, 90},
    {"mbarrier", "expect_tx|complete_tx relaxed? " SCOPE ANY_SPACE "b64", "ms",
     emitBytes, 90},
    {"mbarrier", "test_wait parity? acquire|relaxed? " SCOPE SPACE "b64", "dms",
     emitWait, 80},
    {"mbarrier", "try_wait parity? acquire|relaxed? " SCOPE SPACE "b64",
     "dmss?", emitWait, 90},
    {"barrier", "cluster arrive release|relaxed? aligned?", "",
     emitClusterBarrier, 90},
    {"barrier", "cluster wait acquire? aligned?", "", emitClusterBarrier, 90},
    {"mapa", "shared::cluster u32|u64", "dss", emitMapShared, 90},
    {"fence", "mbarrier_init ~release ~cluster", "", emitProxyFence, 90},
    {"fence", "proxy async global|shared::cta|shared::cluster?", "",
     emitProxyFence, 90},
};

} // namespace

llvm::ArrayRef<Form> mbarrierForms() { return kForms; }

} // namespace cria::emulator
