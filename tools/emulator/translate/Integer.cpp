// Integer arithmetic.
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

bool isSubtraction(Emitter &e) { return e.opcode().starts_with("sub"); }

/// The carry flag as a number of `bits` bits.
Value *carryIn(Emitter &e, unsigned bits) {
  return e.fit(e.builder.CreateLoad(e.builder.getInt1Ty(), e.carry()), bits);
}

/// x + y + carry in `bits` bits; sets the carry flag if `carryOut`.
Value *addWithCarry(Emitter &e, Value *x, Value *y, Value *carry, unsigned bits,
                    bool carryOut) {
  auto &b = e.builder;
  unsigned wide = bits + 1;
  Value *sum = b.CreateAdd(e.fit(x, wide), e.fit(y, wide));
  sum = b.CreateAdd(sum, e.fit(carry, wide));
  if (carryOut)
    b.CreateStore(e.fit(b.CreateLShr(sum, bits), 1), e.carry());
  return e.fit(sum, bits);
}

/// add, sub; with carry in (addc, subc) and carry out (.cc).
///
/// The device subtracts as x + ~y + 1, and its only carry flag is that sum's
/// carry: after sub.cc it is 1 if nothing was borrowed. subc is x + ~y + carry.
/// This is visible if additions and subtractions are mixed: after `sub.cc a, 5,
/// 3`, `addc d, 0, 0` gives 1.
void emitAdd(Emitter &e) {
  auto &b = e.builder;
  bool subtract = isSubtraction(e), takesCarry = e.opcode().ends_with("c");
  bool saturate = e.has("sat"), carryOut = e.has("cc");
  Type type = e.type();
  Value *x = e.read(1, type), *y = e.read(2, type);
  if (saturate)
    return e.write(
        e.operand(0),
        e.binary(subtract ? Intrinsic::ssub_sat : Intrinsic::sadd_sat, x, y));
  Value *carry = takesCarry ? carryIn(e, type.bits) : b.getInt1(subtract);
  y = subtract ? b.CreateNot(y) : y;
  e.write(e.operand(0), addWithCarry(e, x, y, carry, type.bits, carryOut),
          type.isSigned());
}

/// Multiplies; the product has twice the bits for .wide and .hi.
Value *product(Emitter &e, const Type &type, llvm::StringRef part) {
  unsigned bits = part == "lo" ? type.bits : 2 * type.bits;
  Value *x = e.fit(e.read(1, type), bits, type.isSigned());
  Value *y = e.fit(e.read(2, type), bits, type.isSigned());
  Value *result = e.builder.CreateMul(x, y);
  return part == "hi"
             ? e.fit(e.builder.CreateLShr(result, type.bits), type.bits)
             : result;
}

void emitMul(Emitter &e) {
  llvm::StringRef part = e.oneOf("lo|hi|wide");
  Type type = e.type();
  e.write(e.operand(0), product(e, type, part), type.isSigned());
}

void emitMad(Emitter &e) {
  llvm::StringRef part = e.oneOf("lo|hi|wide");
  bool saturate = e.has("sat"), carryOut = e.has("cc");
  bool takesCarry = e.opcode() == "madc";
  Type type = e.type();
  Value *x = product(e, type, part);
  unsigned bits = x->getType()->getIntegerBitWidth();
  Value *y = e.read(e.operand(3), bits, type.isSigned());
  if (saturate)
    return e.write(e.operand(0), e.binary(Intrinsic::sadd_sat, x, y));
  Value *carry = takesCarry ? carryIn(e, bits) : e.builder.getFalse();
  e.write(e.operand(0), addWithCarry(e, x, y, carry, bits, carryOut),
          type.isSigned());
}

/// mul24, mad24: the low 24 bits of each factor.
void emitMul24(Emitter &e) {
  auto &b = e.builder;
  bool high = e.oneOf("lo|hi") == "hi";
  bool isMad = e.opcode() == "mad24";
  Type type = e.type();
  auto factor = [&](size_t i) {
    Value *low = e.fit(e.read32(i), 24);
    return e.fit(low, 64, type.isSigned());
  };
  Value *full = b.CreateMul(factor(1), factor(2));
  Value *result = e.fit(high ? b.CreateLShr(full, 16) : full, 32);
  if (isMad)
    result = b.CreateAdd(result, e.read32(3));
  e.write(e.operand(0), result);
}

/// Division by zero gives all ones. The device does not trap, so the host must
/// not trap. MIN / -1 is MIN.
void emitDivide(Emitter &e) {
  auto &b = e.builder;
  bool remainder = e.opcode() == "rem";
  Type type = e.type();
  unsigned n = type.bits;
  Value *x = e.read(1, type), *y = e.read(2, type);
  Value *byZero = b.CreateICmpEQ(y, e.constant(n, 0));
  Value *ones = e.constant(n, -1);
  Value *safe = b.CreateSelect(byZero, e.constant(n, 1), y);
  Value *result;
  if (type.isSigned()) {
    Value *byMinusOne = b.CreateICmpEQ(y, ones);
    safe = b.CreateSelect(byMinusOne, e.constant(n, 1), safe);
    result = b.CreateSelect(
        byMinusOne, remainder ? e.constant(n, 0) : b.CreateNeg(x),
        remainder ? b.CreateSRem(x, safe) : b.CreateSDiv(x, safe));
  } else {
    result = remainder ? b.CreateURem(x, safe) : b.CreateUDiv(x, safe);
  }
  result = b.CreateSelect(byZero, remainder ? x : ones, result);
  e.write(e.operand(0), result, type.isSigned());
}

void emitAbs(Emitter &e) {
  Type type = e.type();
  e.write(e.operand(0),
          e.binary(Intrinsic::abs, e.read(1, type), e.builder.getFalse()),
          true);
}

void emitNeg(Emitter &e) {
  Type type = e.type();
  e.write(e.operand(0), e.builder.CreateNeg(e.read(1, type)), true);
}

void emitMinMax(Emitter &e) {
  bool isMin = e.opcode() == "min", relu = e.has("relu");
  Type type = e.type();
  bool sign = type.isSigned();
  Value *result = e.binary(isMin ? (sign ? Intrinsic::smin : Intrinsic::umin)
                                 : (sign ? Intrinsic::smax : Intrinsic::umax),
                           e.read(1, type), e.read(2, type));
  if (relu)
    result = e.binary(Intrinsic::smax, result, e.constant(type.bits, 0));
  e.write(e.operand(0), result, sign);
}

/// |a - b| + c
void emitSad(Emitter &e) {
  auto &b = e.builder;
  Type type = e.type();
  Value *x = e.read(1, type), *y = e.read(2, type);
  Value *greater =
      type.isSigned() ? b.CreateICmpSGT(x, y) : b.CreateICmpUGT(x, y);
  Value *distance =
      b.CreateSelect(greater, b.CreateSub(x, y), b.CreateSub(y, x));
  e.write(e.operand(0), b.CreateAdd(distance, e.read(3, type)),
          type.isSigned());
}

/// The product of four (dp4a) or two (dp2a) small integers of each operand.
void emitDotProduct(Emitter &e) {
  auto &b = e.builder;
  bool four = e.opcode() == "dp4a";
  bool high = !four && e.oneOf("lo|hi") == "hi";
  bool signs[2];
  for (bool &sign : signs)
    sign = e.type().isSigned();
  unsigned bits = four ? 8 : 16;
  auto part = [&](size_t i, unsigned width, unsigned at, bool sign) {
    return e.fit(e.fit(b.CreateLShr(e.read32(i), at), width), 32, sign);
  };
  Value *sum = e.read32(3);
  for (unsigned i = 0; i < 32 / bits; ++i)
    sum = b.CreateAdd(
        sum, b.CreateMul(part(1, bits, i * bits, signs[0]),
                         part(2, 8, i * 8 + (high ? 16 : 0), signs[1])));
  e.write(e.operand(0), sum);
}

constexpr Form kForms[] = {
    {"add", "$int", "dss", emitAdd},
    {"add", "sat s32", "dss", emitAdd},
    {"add", "cc u32|s32|u64|s64", "dss", emitAdd},
    {"addc", "cc? u32|s32|u64|s64", "dss", emitAdd},
    {"sub", "$int", "dss", emitAdd},
    {"sub", "sat s32", "dss", emitAdd},
    {"sub", "cc u32|s32|u64|s64", "dss", emitAdd},
    {"subc", "cc? u32|s32|u64|s64", "dss", emitAdd},
    {"mul", "lo|hi $int", "dss", emitMul},
    {"mul", "wide u16|u32|s16|s32", "dss", emitMul},
    {"mad", "lo|hi $int", "dsss", emitMad},
    {"mad", "wide u16|u32|s16|s32", "dsss", emitMad},
    {"mad", "hi sat s32", "dsss", emitMad},
    {"mad", "lo|hi cc u32|s32|u64|s64", "dsss", emitMad},
    {"madc", "lo|hi cc? u32|s32|u64|s64", "dsss", emitMad},
    {"mul24", "lo|hi u32|s32", "dss", emitMul24},
    {"mad24", "lo|hi u32|s32", "dsss", emitMul24},
    {"div", "$int", "dss", emitDivide},
    {"rem", "$int", "dss", emitDivide},
    {"abs", "s16|s32|s64", "ds", emitAbs},
    {"neg", "s16|s32|s64", "ds", emitNeg},
    {"min", "$int", "dss", emitMinMax},
    {"min", "relu s32", "dss", emitMinMax, 90},
    {"max", "$int", "dss", emitMinMax},
    {"max", "relu s32", "dss", emitMinMax, 90},
    {"sad", "$int", "dsss", emitSad},
    {"dp4a", "u32|s32 u32|s32", "dsss", emitDotProduct},
    {"dp2a", "lo|hi u32|s32 u32|s32", "dsss", emitDotProduct},
};

} // namespace

llvm::ArrayRef<Form> integerForms() { return kForms; }

} // namespace cria::emulator
