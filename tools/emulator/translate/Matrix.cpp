// Matrix fragments: ldmatrix, stmatrix and mma.sync.
#include "tools/emulator/translate/Matrix.h"
#include "tools/emulator/run/Collective.h"
#include "tools/emulator/run/Thread.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::Value;

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
  if (partCount(e.operand(1)) != config.count)
    return e.fail("expected " + llvm::Twine(config.count) + " registers");
  Value *row = e.address(e.operand(0), e.space());
  llvm::AllocaInst *words = e.words(4);
  e.storeWords(words, 0, e.operand(1));
  countRows(e, RequestKind::MatrixStore, row, config);
  e.callBlocking("emulatorStoreMatrix", e.builder.getVoidTy(),
                 {e.builder.getInt32(config.packed()), row, words, e.line()});
}

void emitMma(Emitter &e) {
  MmaConfig config;
  for (auto fixed : {"sync", "aligned", "row", "col", "popc"})
    e.has(fixed);
  Shape shape = e.shape();
  config.shape = {shape.m, shape.n, shape.k};
  config.saturates = e.has("satfinite");
  config.isXor = e.oneOf("xor|and") == "xor";
  for (MmaElement *element : {&config.d, &config.a, &config.b, &config.c})
    *element = elementOf(e.type());
  emitProduct(e, config, registersOf({FragmentRole::A, config.a, config.shape}),
              registersOf({FragmentRole::B, config.b, config.shape}));
}

#define MMA "sync aligned "
#define INTEGERS(type) "row col satfinite? s32 " type " " type " s32"

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
    {"mma", MMA "m16n8k4|m16n8k8 row col f32 tf32 tf32 f32", "VVSV", emitMma,
     80},
    {"mma", MMA "m8n8k4 row col f64 f64 f64 f64", "VSSV", emitMma, 80},
    {"mma", MMA "m16n8k4|m16n8k8|m16n8k16 row col f64 f64 f64 f64", "VVSV",
     emitMma, 90},
    {"mma", MMA "m8n8k16|m16n8k16|m16n8k32 " INTEGERS("u8|s8"), "VSSV", emitMma,
     80},
    {"mma", MMA "m8n8k32|m16n8k32|m16n8k64 " INTEGERS("u4|s4"), "VSSV", emitMma,
     80},
    {"mma",
     MMA "m8n8k128|m16n8k128|m16n8k256 row col s32 b1 b1 s32 xor|and popc",
     "VSSV", emitMma, 80},
    {"mma", MMA "m16n8k32 row col f32 e4m3|e5m2 e4m3|e5m2 f32", "VVSV", emitMma,
     89},
};

} // namespace

MmaElement elementOf(const Type &type) {
  switch (type.kind) {
  case Type::Float:
    return type.bits == 16   ? MmaElement::Half
           : type.bits == 32 ? MmaElement::Float32
                             : MmaElement::Float64;
  case Type::BFloat:
    return MmaElement::BFloat16;
  case Type::TFloat:
    return MmaElement::TFloat32;
  case Type::E4M3:
    return MmaElement::E4M3;
  case Type::E5M2:
    return MmaElement::E5M2;
  case Type::Signed:
    return type.bits == 4   ? MmaElement::Signed4
           : type.bits == 8 ? MmaElement::Signed8
                            : MmaElement::Int32;
  case Type::Unsigned:
    return type.bits == 4 ? MmaElement::Unsigned4 : MmaElement::Unsigned8;
  default:
    return MmaElement::Bit;
  }
}

unsigned registersOf(const FragmentLayout &layout) {
  return layout.words() / (layout.bits == 64 ? 2 : 1);
}

void emitProduct(Emitter &e, const MmaConfig &config, size_t countA,
                 size_t countB) {
  const FragmentLayout layouts[] = {{FragmentRole::C, config.d, config.shape},
                                    {FragmentRole::A, config.a, config.shape},
                                    {FragmentRole::B, config.b, config.shape},
                                    {FragmentRole::C, config.c, config.shape}};
  const size_t counts[] = {registersOf(layouts[0]), countA, countB,
                           registersOf(layouts[3])};
  for (size_t i = 0; i < 4; ++i)
    if (partCount(e.operand(i)) != counts[i])
      return e.fail("expected " + llvm::Twine(counts[i]) +
                    " registers in operand " + llvm::Twine(i + 1));
  unsigned total = 0;
  for (size_t i = 1; i < 4; ++i)
    total += layouts[i].words();
  llvm::AllocaInst *in = e.words(total), *out = e.words(layouts[0].words());
  unsigned at = 0;
  for (size_t i = 1; i < 4; ++i) {
    Operand list = e.operand(i);
    if (list.kind == Operand::Vector)
      list.parts.resize(registersOf(layouts[i]));
    e.storeWords(in, at, list, layouts[i].bits == 64 ? 64 : 32);
    at += layouts[i].words();
  }
  e.callBlocking("emulatorMma", e.builder.getVoidTy(),
                 {e.builder.getInt32(config.packed()), in, out, e.line()});
  e.loadWords(out, e.operand(0), layouts[0].bits == 64 ? 64 : 32);
}

llvm::ArrayRef<Form> matrixForms() { return kForms; }

} // namespace cria::emulator
