// Matrix fragments: ldmatrix, stmatrix and mma.sync.
#include "tools/emulator/run/Collective.h"
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::Value;

size_t partCount(const Operand &operand) {
  return operand.kind == Operand::Vector ? operand.parts.size() : 1;
}

MatrixConfig matrixConfig(Emitter &e) {
  MatrixConfig config;
  for (auto fixed : {"sync", "aligned", "m8n8", "b16"})
    e.has(fixed);
  config.count = llvm::StringSwitch<uint32_t>(e.oneOf("x1|x2|x4"))
                     .Case("x4", 4)
                     .Case("x2", 2)
                     .Default(1);
  config.transposed = e.has("trans");
  return config;
}

/// Counts rows. Each matrix has 8 lanes that hold the addresses of its rows.
void countRows(Emitter &e, RequestKind kind, Value *row,
               const MatrixConfig &config) {
  auto &b = e.builder;
  Value *lane = e.threadField(offsetof(Thread, lane), b.getInt32Ty());
  Value *brings = b.CreateICmpULT(lane, b.getInt32(8 * config.count));
  e.countRequest(kind, row,
                 b.CreateSelect(brings, b.getInt32(16), b.getInt32(0)));
}

void emitLoadMatrix(Emitter &e) {
  MatrixConfig config = matrixConfig(e);
  if (partCount(e.operand(0)) != config.count)
    return e.fail("expected " + llvm::Twine(config.count) + " registers");
  Value *row = e.address(e.operand(1), e.space());
  llvm::AllocaInst *words = e.words(4);
  countRows(e, RequestKind::MatrixLoad, row, config);
  e.callBlocking("emulatorLoadMatrix", e.builder.getVoidTy(),
                 {e.builder.getInt32(config.packed()), row, words, e.line()});
  e.loadWords(words, e.operand(0));
}

void emitStoreMatrix(Emitter &e) {
  MatrixConfig config = matrixConfig(e);
  if (e.operand(1).parts.size() != config.count)
    return e.fail("expected " + llvm::Twine(config.count) + " registers");
  Value *row = e.address(e.operand(0), e.space());
  llvm::AllocaInst *words = e.words(4);
  e.storeWords(words, 0, e.operand(1));
  countRows(e, RequestKind::MatrixStore, row, config);
  e.callBlocking("emulatorStoreMatrix", e.builder.getVoidTy(),
                 {e.builder.getInt32(config.packed()), row, words, e.line()});
}

MmaConfig::Element elementOf(const Type &type) {
  if (type.isFloat())
    return type.kind == Type::BFloat ? MmaConfig::BFloat16 : MmaConfig::Half;
  return type.isSigned() ? MmaConfig::Signed8 : MmaConfig::Unsigned8;
}

/// d = a * b + c
void emitMma(Emitter &e) {
  MmaConfig config;
  for (auto fixed : {"sync", "aligned", "row", "col"})
    e.has(fixed);
  config.k = e.shape().k;
  config.halfResult = e.type().bits == 16;
  config.a = elementOf(e.type());
  config.b = elementOf(e.type());
  e.type();
  const uint32_t counts[] = {config.wordsC(), config.wordsA(), config.wordsB(),
                             config.wordsC()};
  for (size_t i = 0; i < 4; ++i)
    if (partCount(e.operand(i)) != counts[i])
      return e.fail("expected " + llvm::Twine(counts[i]) +
                    " registers in operand " + llvm::Twine(i + 1));
  llvm::AllocaInst *in = e.words(10), *out = e.words(4);
  unsigned at = 0;
  for (size_t i = 1; i < 4; ++i) {
    Operand list = e.operand(i);
    if (list.kind != Operand::Vector)
      list.parts.assign(1, e.operand(i));
    e.storeWords(in, at, list);
    at += counts[i];
  }
  e.callBlocking("emulatorMma", e.builder.getVoidTy(),
                 {e.builder.getInt32(config.packed()), in, out, e.line()});
  e.loadWords(out, e.operand(0));
}

#define MMA "sync aligned "

constexpr Form kForms[] = {
    {"ldmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16",
     "Dm", emitLoadMatrix, 75},
    {"stmatrix", "sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta? b16",
     "mV", emitStoreMatrix, 90},
    {"mma", MMA "m16n8k8|m16n8k16 row col f32 bf16 bf16 f32", "VVSV", emitMma,
     80},
    {"mma", MMA "m16n8k8|m16n8k16 row col f32 f16 f16 f32", "VVSV", emitMma,
     80},
    {"mma", MMA "m16n8k8|m16n8k16 row col f16 f16 f16 f16", "VVSV", emitMma,
     80},
    {"mma", MMA "m16n8k16|m16n8k32 row col s32 u8|s8 u8|s8 s32", "VVSV",
     emitMma, 80},
};

} // namespace

llvm::ArrayRef<Form> matrixForms() { return kForms; }

} // namespace cria::emulator
