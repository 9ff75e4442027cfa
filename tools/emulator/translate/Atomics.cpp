// Atomic operations. They are atomic on the host, whatever their scope: blocks
// run on all cores.
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::AtomicOrdering;
using llvm::AtomicRMWInst;
using llvm::Value;

AtomicRMWInst::BinOp operation(llvm::StringRef name, const Type &type) {
  bool sign = type.isSigned();
  return llvm::StringSwitch<AtomicRMWInst::BinOp>(name)
      .Case("add", type.isFloat() ? AtomicRMWInst::FAdd : AtomicRMWInst::Add)
      .Case("min", sign ? AtomicRMWInst::Min : AtomicRMWInst::UMin)
      .Case("max", sign ? AtomicRMWInst::Max : AtomicRMWInst::UMax)
      .Case("and", AtomicRMWInst::And)
      .Case("or", AtomicRMWInst::Or)
      .Case("xor", AtomicRMWInst::Xor)
      .Case("inc", AtomicRMWInst::UIncWrap)
      .Case("dec", AtomicRMWInst::UDecWrap)
      .Default(AtomicRMWInst::Xchg);
}

/// An atomic instruction. atom has a destination before the address.
struct Atomic {
  llvm::StringRef name, space;
  Type type;
  AccessFlags flags;
  size_t at; ///< index of the address operand
};

Atomic atomic(Emitter &e) {
  Atomic a;
  llvm::StringRef order = e.oneOf("relaxed|acquire|release|acq_rel");
  a.flags.isStore = a.flags.isAtomic = a.flags.isStrong = true;
  a.flags.acquires = order == "acquire" || order == "acq_rel";
  a.flags.releases = order == "release" || order == "acq_rel";
  a.flags.inBlock = e.scopeIsBlock();
  a.space = e.space();
  a.name = e.oneOf("add|min|max|and|or|xor|inc|dec|exch|cas");
  e.has("noftz");
  a.type = e.type();
  a.flags.bytes = a.type.bytes();
  a.at = e.opcode() == "atom" ? 1 : 0;
  return a;
}

Value *target(Emitter &e, const Atomic &a) {
  Value *pointer = e.address(e.operand(a.at), a.space, a.flags);
  e.countRequest(a.space, a.flags, pointer);
  return pointer;
}

void finish(Emitter &e, const Atomic &a, Value *old) {
  if (a.at == 1)
    e.write(e.operand(0), old, a.type.isSigned());
}

/// Whether a loop around the operation may wait for other threads: an exchange
/// takes a lock, and adding 0 is a way to read.
bool mayPoll(Emitter &e, const Atomic &a) {
  const Operand &operand = e.operand(a.at + 1);
  return a.name == "exch" ||
         (operand.kind == Operand::Integer && operand.value == 0);
}

void poll(Emitter &e, const Atomic &a) {
  e.callBlocking("emulatorSpin", e.builder.getVoidTy(),
                 {e.address(e.operand(a.at), a.space), e.line()});
}

void emitAtomic(Emitter &e) {
  Atomic a = atomic(e);
  if (mayPoll(e, a))
    poll(e, a);
  Value *pointer = target(e, a);
  Value *value = e.read(a.at + 1, a.type);
  if (a.type.isFloat())
    value = e.toFloat(value, a.type);
  finish(e, a,
         e.builder.CreateAtomicRMW(operation(a.name, a.type), pointer, value,
                                   llvm::Align(a.type.bytes()),
                                   AtomicOrdering::SequentiallyConsistent));
}

/// add of f16, bf16 and pairs of them.
void emitAtomicNarrow(Emitter &e) {
  auto &b = e.builder;
  Atomic a = atomic(e);
  Value *pointer = target(e, a);
  Value *value = e.fit(e.read(a.at + 1, a.type), 32);
  bool isBFloat = a.type.kind == Type::BFloat;
  Value *old = e.call(
      "emulatorAtomicAddNarrow", b.getInt32Ty(),
      {pointer, value, b.getInt32(isBFloat), b.getInt32(a.type.width())});
  finish(e, a, e.fit(old, a.type.width()));
}

void emitCompareAndSwap(Emitter &e) {
  auto &b = e.builder;
  Atomic a = atomic(e);
  poll(e, a);
  Value *pointer = target(e, a);
  Value *result = b.CreateAtomicCmpXchg(
      pointer, e.read(a.at + 1, a.type), e.read(a.at + 2, a.type),
      llvm::Align(a.type.bytes()), AtomicOrdering::SequentiallyConsistent,
      AtomicOrdering::SequentiallyConsistent);
  finish(e, a, b.CreateExtractValue(result, 0));
}

#define WHERE                                                                  \
  "relaxed|acquire|release|acq_rel? cta|cluster|gpu|sys? "                     \
  "global|shared|shared::cta|shared::cluster? "
#define RED_WHERE                                                              \
  "relaxed|release? cta|cluster|gpu|sys? "                                     \
  "global|shared|shared::cta|shared::cluster? "

constexpr Form kForms[] = {
    {"atom", WHERE "add u32|s32|u64|f32|f64", "dms", emitAtomic},
    {"atom", WHERE "add noftz f16|f16x2", "dms", emitAtomicNarrow, 70},
    {"atom", WHERE "add noftz bf16|bf16x2", "dms", emitAtomicNarrow, 90},
    {"atom", WHERE "min|max u32|s32|u64|s64", "dms", emitAtomic},
    {"atom", WHERE "and|or|xor b32|b64", "dms", emitAtomic},
    {"atom", WHERE "inc|dec u32", "dms", emitAtomic},
    {"atom", WHERE "exch b32|b64", "dms", emitAtomic},
    {"atom", WHERE "cas b16|b32|b64", "dmss", emitCompareAndSwap},
    {"red", RED_WHERE "add u32|s32|u64|f32|f64", "ms", emitAtomic},
    {"red", RED_WHERE "add noftz f16|f16x2", "ms", emitAtomicNarrow, 70},
    {"red", RED_WHERE "add noftz bf16|bf16x2", "ms", emitAtomicNarrow, 90},
    {"red", RED_WHERE "min|max u32|s32|u64|s64", "ms", emitAtomic},
    {"red", RED_WHERE "and|or|xor b32|b64", "ms", emitAtomic},
    {"red", RED_WHERE "inc|dec u32", "ms", emitAtomic},
};

} // namespace

llvm::ArrayRef<Form> atomicForms() { return kForms; }

} // namespace cria::emulator
