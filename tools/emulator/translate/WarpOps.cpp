// Instructions that lanes of a warp or threads of a block execute together.
#include "tools/emulator/run/Collective.h"
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::Value;

Value *code(Emitter &e, unsigned value) { return e.builder.getInt32(value); }

void emitShuffle(Emitter &e) {
  auto &b = e.builder;
  e.has("sync");
  auto mode = llvm::StringSwitch<ShuffleMode>(e.oneOf("up|down|bfly|idx"))
                  .Case("up", ShuffleMode::Up)
                  .Case("down", ShuffleMode::Down)
                  .Case("bfly", ShuffleMode::Butterfly)
                  .Default(ShuffleMode::Index);
  e.type();
  e.writePair(e.operand(0),
              e.callBlocking("emulatorShuffle", b.getInt64Ty(),
                             {code(e, unsigned(mode)), e.read32(1), e.read32(2),
                              e.read32(3), e.read32(4), e.line()}));
}

void emitVote(Emitter &e) {
  auto &b = e.builder;
  e.has("sync");
  auto mode = llvm::StringSwitch<VoteMode>(e.oneOf("all|any|uni|ballot"))
                  .Case("all", VoteMode::All)
                  .Case("any", VoteMode::Any)
                  .Case("uni", VoteMode::Uniform)
                  .Default(VoteMode::Ballot);
  Type type = e.type();
  Value *result =
      e.callBlocking("emulatorVote", b.getInt32Ty(),
                     {code(e, unsigned(mode)), e.fit(e.readPredicate(1), 32),
                      e.read32(2), e.line()});
  e.write(e.operand(0), e.fit(result, type.bits));
}

void emitMatch(Emitter &e) {
  bool all = e.oneOf("all|any") == "all";
  e.has("sync");
  Type type = e.type();
  e.writePair(e.operand(0),
              e.callBlocking("emulatorMatch", e.builder.getInt64Ty(),
                             {code(e, all), e.fit(e.read(1, type), 64),
                              e.read32(2), e.line()}));
}

void emitReduce(Emitter &e) {
  e.has("sync");
  llvm::StringRef name = e.oneOf("add|min|max|and|or|xor");
  bool sign = e.type().isSigned();
  auto op = llvm::StringSwitch<ReduceOp>(name)
                .Case("add", ReduceOp::Add)
                .Case("min", sign ? ReduceOp::SignedMin : ReduceOp::Min)
                .Case("max", sign ? ReduceOp::SignedMax : ReduceOp::Max)
                .Case("and", ReduceOp::And)
                .Case("or", ReduceOp::Or)
                .Default(ReduceOp::Xor);
  e.write(e.operand(0), e.callBlocking("emulatorReduce", e.builder.getInt32Ty(),
                                       {code(e, unsigned(op)), e.read32(1),
                                        e.read32(2), e.line()}));
}

void emitActiveMask(Emitter &e) {
  e.type();
  e.write(e.operand(0), e.callBlocking("emulatorActiveMask",
                                       e.builder.getInt32Ty(), {e.line()}));
}

/// The lowest lane of the mask, and whether it is this lane.
void emitElect(Emitter &e) {
  auto &b = e.builder;
  e.has("sync");
  Value *leader = e.binary(llvm::Intrinsic::cttz, e.read32(1), b.getFalse());
  Value *lane = e.threadField(offsetof(Thread, lane), b.getInt32Ty());
  Value *isLeader = e.fit(b.CreateICmpEQ(leader, lane), 64);
  e.writePair(e.operand(0),
              b.CreateOr(e.fit(leader, 64), b.CreateShl(isLeader, 32)));
}

void emitSyncWarp(Emitter &e) {
  e.has("warp");
  e.has("sync");
  e.callBlocking("emulatorSyncWarp", e.builder.getVoidTy(),
                 {e.read32(0), e.line()});
}

/// `bar` and `barrier.aligned`: all lanes of a warp execute it together.
bool isAligned(Emitter &e) {
  e.has("cta");
  bool aligned = e.has("aligned");
  return e.opcode() == "bar" || aligned;
}

void emitBarrier(Emitter &e) {
  BarrierConfig config;
  config.aligned = isAligned(e);
  config.op =
      e.oneOf("sync|arrive") == "arrive" ? BarrierOp::Arrive : BarrierOp::Sync;
  Value *count = e.operandCount() > 1 ? e.read32(1) : code(e, 0);
  e.callBlocking(
      "emulatorBarrier", e.builder.getInt32Ty(),
      {code(e, config.packed()), e.read32(0), count, code(e, 0), e.line()});
}

void emitBarrierReduce(Emitter &e) {
  BarrierConfig config;
  config.aligned = isAligned(e);
  e.has("red");
  config.op = llvm::StringSwitch<BarrierOp>(e.oneOf("popc|and|or"))
                  .Case("popc", BarrierOp::Count)
                  .Case("and", BarrierOp::And)
                  .Default(BarrierOp::Or);
  Type type = e.type();
  size_t last = e.operandCount() - 1;
  Value *count = last == 3 ? e.read32(2) : code(e, 0);
  Value *result = e.callBlocking("emulatorBarrier", e.builder.getInt32Ty(),
                                 {code(e, config.packed()), e.read32(1), count,
                                  e.fit(e.readPredicate(last), 32), e.line()});
  e.write(e.operand(0), e.fit(result, type.bits));
}

constexpr Form kForms[] = {
    {"shfl", "sync up|down|bfly|idx b32", "Pssss", emitShuffle},
    {"vote", "sync all|any|uni pred", "dss", emitVote},
    {"vote", "sync ballot b32", "dss", emitVote},
    {"match", "any sync b32|b64", "dss", emitMatch, 70},
    {"match", "all sync b32|b64", "Pss", emitMatch, 70},
    {"redux", "sync add|min|max u32|s32", "dss", emitReduce, 80},
    {"redux", "sync and|or|xor b32", "dss", emitReduce, 80},
    {"activemask", "b32", "d", emitActiveMask},
    {"elect", "sync", "Ps", emitElect, 90},
    {"bar", "warp sync", "s", emitSyncWarp},
    {"bar", "cta? sync", "ss?", emitBarrier},
    {"bar", "cta? arrive", "ss", emitBarrier},
    {"bar", "cta? red popc u32", "dss", emitBarrierReduce},
    {"bar", "cta? red popc u32", "dsss", emitBarrierReduce},
    {"bar", "cta? red and|or pred", "dss", emitBarrierReduce},
    {"bar", "cta? red and|or pred", "dsss", emitBarrierReduce},
    {"barrier", "cta? sync aligned?", "ss?", emitBarrier},
    {"barrier", "cta? arrive aligned?", "ss", emitBarrier},
    {"barrier", "cta? red popc aligned? u32", "dss", emitBarrierReduce},
    {"barrier", "cta? red popc aligned? u32", "dsss", emitBarrierReduce},
    {"barrier", "cta? red and|or aligned? pred", "dss", emitBarrierReduce},
    {"barrier", "cta? red and|or aligned? pred", "dsss", emitBarrierReduce},
};

} // namespace

llvm::ArrayRef<Form> warpForms() { return kForms; }

} // namespace cria::emulator
