// Instructions of warpgroups: wgmma and setmaxnreg.
#include "tools/emulator/run/Collective.h"
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;

/// The modifiers, and the immediate operands from `first` on: scales, then
/// transpositions.
ProductConfig configOf(Emitter &e) {
  ProductConfig config;
  for (auto fixed : {"mma_async", "sync", "aligned"})
    e.has(fixed);
  config.n = e.shape().n;
  config.halfResult = e.type().bits == 16;
  config.isHalf = e.type().kind == Type::Float;
  e.type();
  config.aInRegisters = e.operand(1).kind == Operand::Vector;
  config.negatesA = e.operand(4).value == -1;
  config.negatesB = e.operand(5).value == -1;
  config.transposesA = !config.aInRegisters && e.operand(6).value == 1;
  config.transposesB = e.operand(config.aInRegisters ? 6 : 7).value == 1;
  return config;
}

/// Scales are 1 or -1, transpositions 0 or 1.
bool hasGoodImmediates(Emitter &e) {
  for (size_t i = 4; i < e.operandCount(); ++i) {
    int64_t value = e.operand(i).value;
    if (i < 6 ? value != 1 && value != -1 : value != 0 && value != 1)
      return false;
  }
  return true;
}

/// d, a, b, scale-d, imm-scale-a, imm-scale-b[, imm-trans-a], imm-trans-b
void emitProduct(Emitter &e) {
  auto &b = e.builder;
  ProductConfig config = configOf(e);
  if (!hasGoodImmediates(e))
    return e.fail("expected scales of 1 or -1 and transpositions of 0 or 1");
  if (e.operand(0).parts.size() != config.words())
    return e.fail("expected " + llvm::Twine(config.words()) +
                  " registers in operand 1");
  if (config.aInRegisters && e.operand(1).parts.size() != 4)
    return e.fail("expected 4 registers in operand 2");
  llvm::AllocaInst *values = e.words(128), *a = e.words(4);
  e.storeWords(values, 0, e.operand(0));
  if (config.aInRegisters)
    e.storeWords(a, 0, e.operand(1));
  Value *descriptor =
      config.aInRegisters ? b.getInt64(0) : e.read(e.operand(1), 64);
  const Emitter::Sums &sums = e.sums();
  e.callBlocking("emulatorProduct", b.getVoidTy(),
                 {b.getInt32(config.packed()), descriptor,
                  e.read(e.operand(2), 64), e.fit(e.readPredicate(3), 32), a,
                  values, sums.values, sums.serials, e.placesOf(e.operand(0)),
                  e.line()});
  e.loadWords(values, e.operand(0));
}

void emitFence(Emitter &e) {
  for (auto fixed : {"fence", "sync", "aligned"})
    e.has(fixed);
  e.callBlocking("emulatorFenceProducts", e.builder.getVoidTy(), {e.line()});
}

void emitCommit(Emitter &e) {
  for (auto fixed : {"commit_group", "sync", "aligned"})
    e.has(fixed);
  e.callBlocking("emulatorCommitProducts", e.builder.getVoidTy(), {e.line()});
}

/// Waits. Accumulators whose products have ended get their sums.
void emitWait(Emitter &e) {
  auto &b = e.builder;
  for (auto fixed : {"wait_group", "sync", "aligned"})
    e.has(fixed);
  const Emitter::Sums &sums = e.sums();
  e.callBlocking("emulatorWaitProducts", b.getVoidTy(),
                 {b.getInt32(uint32_t(e.operand(0).value)), sums.serials,
                  b.getInt32(uint32_t(sums.registers.size())), e.line()});
  auto load = [&](Value *array, size_t i) {
    return b.CreateLoad(b.getInt32Ty(),
                        b.CreateConstGEP1_64(b.getInt32Ty(), array, i));
  };
  for (size_t i = 0; i < sums.registers.size(); ++i) {
    Value *hasEnded = b.CreateICmpEQ(load(sums.serials, i), b.getInt32(~0u));
    llvm::AllocaInst *slot = sums.registers[i];
    Value *old = b.CreateLoad(b.getInt32Ty(), slot);
    b.CreateStore(b.CreateSelect(hasEnded, load(sums.values, i), old), slot);
  }
}

void emitSetRegisters(Emitter &e) {
  for (auto fixed : {"inc", "dec", "sync", "aligned", "u32"})
    e.has(fixed);
  int64_t count = e.operand(0).value;
  if (count % 8 || count < 24 || count > 256)
    return e.fail("expected a multiple of 8 from 24 to 256");
  e.callBlocking("emulatorSetRegisters", e.builder.getVoidTy(),
                 {e.builder.getInt32(uint32_t(count)), e.line()});
}

#define SHAPES                                                                 \
  "m64n8k16|m64n16k16|m64n24k16|m64n32k16|m64n40k16|m64n48k16|m64n56k16|"      \
  "m64n64k16|m64n72k16|m64n80k16|m64n88k16|m64n96k16|m64n104k16|m64n112k16|"   \
  "m64n120k16|m64n128k16|m64n136k16|m64n144k16|m64n152k16|m64n160k16|"         \
  "m64n168k16|m64n176k16|m64n184k16|m64n192k16|m64n200k16|m64n208k16|"         \
  "m64n216k16|m64n224k16|m64n232k16|m64n240k16|m64n248k16|m64n256k16 "
#define PRODUCT "mma_async sync aligned " SHAPES

constexpr Form kForms[] = {
    {"wgmma", PRODUCT "f32 bf16 bf16", "Vsssiiii", emitProduct, 90},
    {"wgmma", PRODUCT "f32 bf16 bf16", "VVssiii", emitProduct, 90},
    {"wgmma", PRODUCT "f32|f16 f16 f16", "Vsssiiii", emitProduct, 90},
    {"wgmma", PRODUCT "f32|f16 f16 f16", "VVssiii", emitProduct, 90},
    {"wgmma", "fence sync aligned", "", emitFence, 90},
    {"wgmma", "commit_group sync aligned", "", emitCommit, 90},
    {"wgmma", "wait_group sync aligned", "i", emitWait, 90},
    {"setmaxnreg", "inc|dec sync aligned u32", "i", emitSetRegisters, 90},
};

} // namespace

llvm::ArrayRef<Form> warpgroupForms() { return kForms; }

} // namespace cria::emulator
