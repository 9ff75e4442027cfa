// wmma: products of matrices that a warp loads from memory.
//
// The manual leaves open which lane holds which element. Here the layout is
// that of mma.sync (run/matrix/Fragment.h). A and B of f16 have 8 registers in
// every shape; where the matrix needs fewer, its registers are repeated.
#include "tools/emulator/translate/Emitter.h"
#include "tools/emulator/translate/Matrix.h"

namespace cria::emulator {
namespace {

using llvm::Value;

constexpr unsigned kHalfRegisters = 8;

/// Registers that an instruction has for a matrix.
unsigned countOf(FragmentRole role, MmaElement element, MmaShape shape) {
  bool isRepeated = role != FragmentRole::C && element == MmaElement::Half;
  return isRepeated ? kHalfRegisters : registersOf({role, element, shape});
}

MmaShape shapeOf(Emitter &e) {
  Shape shape = e.shape();
  return {shape.m, shape.n, shape.k};
}

/// load registers, [matrix], stride; store [matrix], registers, stride
void emitMove(Emitter &e) {
  auto &b = e.builder;
  FragmentConfig config;
  for (auto fixed : {"sync", "aligned"})
    e.has(fixed);
  config.isStore = e.oneOf("load|store") == "store";
  llvm::StringRef role = e.oneOf("a|b|c|d");
  config.role = role == "a"   ? FragmentRole::A
                : role == "b" ? FragmentRole::B
                              : FragmentRole::C;
  config.byColumns = e.oneOf("row|col") == "col";
  config.shape = shapeOf(e);
  llvm::StringRef space = e.space();
  config.isShared = space == "shared";
  config.isGeneric = space.empty();
  config.element = elementOf(e.type());
  FragmentLayout layout(config.role, config.element, config.shape);
  unsigned bits = layout.bits == 64 ? 64 : 32;
  unsigned count = countOf(config.role, config.element, config.shape);
  const Operand &registers = e.operand(config.isStore ? 1 : 0);
  if (partCount(registers) != count)
    return e.fail("expected " + llvm::Twine(count) + " registers");
  Value *matrix = e.address(e.operand(config.isStore ? 0 : 1), space);
  // Without a stride, rows (or columns) follow one another.
  unsigned dense = config.byColumns ? layout.rows() : layout.columns();
  Value *stride = e.operandCount() > 2 ? e.read32(2) : b.getInt32(dense);
  llvm::AllocaInst *words = e.words(layout.words());
  if (config.isStore)
    e.storeWords(words, 0, registers, bits);
  e.callBlocking(
      "emulatorMoveFragment", b.getVoidTy(),
      {b.getInt32(config.packed()), matrix, stride, words, e.line()});
  if (config.isStore)
    return;
  unsigned needed = registersOf(layout);
  for (unsigned from = 0; from < count; from += needed) {
    Operand part;
    part.kind = Operand::Vector;
    part.parts.assign(1, registers);
    if (registers.kind == Operand::Vector)
      part.parts.assign(registers.parts.begin() + from,
                        registers.parts.begin() + from + needed);
    e.loadWords(words, part, bits);
  }
}

MmaConfig multiplyConfig(Emitter &e) {
  MmaConfig config;
  for (auto fixed : {"mma", "sync", "aligned", "popc", "rn"})
    e.has(fixed);
  config.shape = shapeOf(e);
  config.saturates = e.has("satfinite");
  config.isXor = e.oneOf("xor|and") == "xor";
  return config;
}

void multiply(Emitter &e, const MmaConfig &config) {
  emitProduct(e, config, countOf(FragmentRole::A, config.a, config.shape),
              countOf(FragmentRole::B, config.b, config.shape));
}

void emitMultiply(Emitter &e) {
  MmaConfig config = multiplyConfig(e);
  for (MmaElement *element : {&config.d, &config.a, &config.b, &config.c})
    *element = elementOf(e.type());
  multiply(e, config);
}

/// A and B are f16; the types that the instruction names are D's and C's.
void emitMultiplyHalves(Emitter &e) {
  MmaConfig config = multiplyConfig(e);
  config.a = config.b = MmaElement::Half;
  config.d = elementOf(e.type());
  config.c = elementOf(e.type());
  multiply(e, config);
}

#define SPACE "global|shared|shared::cta? "
#define LARGE "m16n16k16|m8n32k16|m32n8k16 "
#define LOAD(roles) "load " roles " sync aligned row|col "
#define MMA "mma sync aligned ~row|col ~row|col "

constexpr Form kForms[] = {
    {"wmma", LOAD("a|b") LARGE SPACE "f16|bf16|u8|s8", "Dms?", emitMove, 80},
    {"wmma", LOAD("a|b") "m16n16k8 " SPACE "tf32", "Dms?", emitMove, 80},
    {"wmma", LOAD("a|b") "m8n8k4 " SPACE "f64", "Dms?", emitMove, 80},
    {"wmma", LOAD("a|b") "m8n8k32 " SPACE "u4|s4", "Dms?", emitMove, 80},
    {"wmma", LOAD("a|b") "m8n8k128 " SPACE "b1", "Dms?", emitMove, 80},
    {"wmma", LOAD("c") LARGE SPACE "f16|f32|s32", "Dms?", emitMove, 80},
    {"wmma", LOAD("c") "m16n16k8 " SPACE "f32", "Dms?", emitMove, 80},
    {"wmma", LOAD("c") "m8n8k4 " SPACE "f64", "Dms?", emitMove, 80},
    {"wmma", LOAD("c") "m8n8k32|m8n8k128 " SPACE "s32", "Dms?", emitMove, 80},
    {"wmma", "store d sync aligned row|col " LARGE SPACE "f16|f32|s32", "mSs?",
     emitMove, 80},
    {"wmma", "store d sync aligned row|col m16n16k8 " SPACE "f32", "mSs?",
     emitMove, 80},
    {"wmma", "store d sync aligned row|col m8n8k4 " SPACE "f64", "mSs?",
     emitMove, 80},
    {"wmma", "store d sync aligned row|col m8n8k32|m8n8k128 " SPACE "s32",
     "mSs?", emitMove, 80},
    {"wmma", MMA LARGE "f16|f32 f16|f32", "VVVV", emitMultiplyHalves, 80},
    {"wmma", MMA LARGE "f32 bf16 bf16 f32", "VVVV", emitMultiply, 80},
    {"wmma", MMA LARGE "s32 u8|s8 u8|s8 s32 satfinite?", "VSSV", emitMultiply,
     80},
    {"wmma", MMA "m16n16k8 f32 tf32 tf32 f32", "VVVV", emitMultiply, 80},
    {"wmma", MMA "m8n8k4 f64 f64 f64 f64 rn?", "VSSV", emitMultiply, 80},
    {"wmma", MMA "m8n8k32 s32 u4|s4 u4|s4 s32 satfinite?", "VSSV", emitMultiply,
     80},
    {"wmma", "mma xor|and popc sync aligned ~row ~col m8n8k128 s32 b1 b1 s32",
     "VSSV", emitMultiply, 80},
};

} // namespace

llvm::ArrayRef<Form> wmmaForms() { return kForms; }

} // namespace cria::emulator
