// Logic, shifts and bit fields.
#include "tools/emulator/translate/Emitter.h"

namespace cria::emulator {
namespace {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

void emitLogic(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef op = e.opcode();
  Type type = e.type();
  Value *x = e.read(1, type), *y = e.read(2, type);
  e.write(e.operand(0), op == "and"  ? b.CreateAnd(x, y)
                        : op == "or" ? b.CreateOr(x, y)
                                     : b.CreateXor(x, y));
}

void emitNot(Emitter &e) {
  Type type = e.type();
  e.write(e.operand(0), e.builder.CreateNot(e.read(1, type)));
}

void emitCnot(Emitter &e) {
  Type type = e.type();
  Value *isZero =
      e.builder.CreateICmpEQ(e.read(1, type), e.constant(type.bits, 0));
  e.write(e.operand(0), e.fit(isZero, type.bits));
}

/// Amounts are 32 bits without sign; amounts beyond the width shift everything
/// out.
void emitShift(Emitter &e) {
  auto &b = e.builder;
  bool left = e.opcode() == "shl";
  Type type = e.type();
  unsigned n = type.bits;
  Value *x = e.read(1, type), *amount = e.read32(2);
  Value *most = e.fit(e.binary(Intrinsic::umin, amount, b.getInt32(n - 1)), n);
  if (!left && type.isSigned())
    return e.write(e.operand(0), b.CreateAShr(x, most), true);
  Value *shifted = left ? b.CreateShl(x, most) : b.CreateLShr(x, most);
  Value *tooFar = b.CreateICmpUGE(amount, b.getInt32(n));
  e.write(e.operand(0), b.CreateSelect(tooFar, e.constant(n, 0), shifted));
}

/// Funnel shift of {b, a}.
void emitFunnelShift(Emitter &e) {
  auto &b = e.builder;
  bool left = e.oneOf("l|r") == "l", wrap = e.oneOf("wrap|clamp") == "wrap";
  e.type();
  Value *both = b.CreateOr(e.fit(e.read32(1), 64),
                           b.CreateShl(e.fit(e.read32(2), 64), 32));
  Value *amount = e.read32(3);
  amount = wrap ? b.CreateAnd(amount, 31)
                : e.binary(Intrinsic::umin, amount, b.getInt32(32));
  amount = e.fit(amount, 64);
  Value *result = left ? b.CreateLShr(b.CreateShl(both, amount), 32)
                       : b.CreateLShr(both, amount);
  e.write(e.operand(0), e.fit(result, 32));
}

void emitCount(Emitter &e) {
  llvm::StringRef op = e.opcode();
  Type type = e.type();
  Value *x = e.read(1, type);
  Value *result = op == "popc"
                      ? e.unary(Intrinsic::ctpop, x)
                      : e.binary(Intrinsic::ctlz, x, e.builder.getFalse());
  e.write(e.operand(0), e.fit(result, 32));
}

void emitReverse(Emitter &e) {
  Type type = e.type();
  e.write(e.operand(0), e.unary(Intrinsic::bitreverse, e.read(1, type)));
}

/// The place of the highest bit that differs from the sign; all ones if none.
void emitFindHighest(Emitter &e) {
  auto &b = e.builder;
  bool shiftAmount = e.has("shiftamt");
  Type type = e.type();
  Value *x = e.read(1, type), *zero = e.constant(type.bits, 0);
  if (type.isSigned())
    x = b.CreateSelect(b.CreateICmpSLT(x, zero), b.CreateNot(x), x);
  Value *above = e.fit(e.binary(Intrinsic::ctlz, x, b.getFalse()), 32);
  Value *result =
      shiftAmount ? above : b.CreateSub(b.getInt32(type.bits - 1), above);
  e.write(e.operand(0),
          b.CreateSelect(b.CreateICmpEQ(x, zero), b.getInt32(~0u), result));
}

/// The low 8 bits of an operand that is a number of bits, in 128 bits.
Value *bitCount(Emitter &e, size_t i, unsigned limit) {
  Value *count = e.builder.CreateAnd(e.read32(i), 255);
  return e.fit(e.binary(Intrinsic::umin, count, e.builder.getInt32(limit)),
               128);
}

void emitExtract(Emitter &e) {
  auto &b = e.builder;
  Type type = e.type();
  bool sign = type.isSigned();
  auto shiftRight = [&](Value *x, Value *amount) {
    return sign ? b.CreateAShr(x, amount) : b.CreateLShr(x, amount);
  };
  Value *field = e.fit(e.read(1, type), 128, sign);
  Value *position = bitCount(e, 2, 127), *length = bitCount(e, 3, type.bits);
  Value *isEmpty = b.CreateICmpEQ(length, e.constant(128, 0));
  Value *above =
      e.binary(Intrinsic::umin, b.CreateSub(e.constant(128, 128), length),
               e.constant(128, 127));
  field = shiftRight(field, position);
  field = shiftRight(b.CreateShl(field, above), above);
  e.write(e.operand(0),
          b.CreateSelect(isEmpty, e.constant(type.bits, 0),
                         e.fit(field, type.bits)),
          sign);
}

void emitInsert(Emitter &e) {
  auto &b = e.builder;
  Type type = e.type();
  Value *field = e.fit(e.read(1, type), 128),
        *into = e.fit(e.read(2, type), 128);
  Value *position = bitCount(e, 3, 64), *length = bitCount(e, 4, 64);
  Value *one = e.constant(128, 1);
  Value *mask =
      b.CreateShl(b.CreateSub(b.CreateShl(one, length), one), position);
  Value *inserted = b.CreateAnd(b.CreateShl(field, position), mask);
  Value *kept = b.CreateAnd(into, b.CreateNot(mask));
  e.write(e.operand(0), e.fit(b.CreateOr(inserted, kept), type.bits));
}

/// A mask of `length` bits from `position` on.
void emitMask(Emitter &e) {
  auto &b = e.builder;
  bool wrap = e.oneOf("wrap|clamp") == "wrap";
  e.type();
  auto bound = [&](size_t i) {
    Value *value = e.read32(i);
    return e.fit(wrap ? b.CreateAnd(value, 31)
                      : e.binary(Intrinsic::umin, value, b.getInt32(32)),
                 64);
  };
  Value *one = b.getInt64(1);
  Value *mask = b.CreateSub(b.CreateShl(one, bound(2)), one);
  e.write(e.operand(0), e.fit(b.CreateShl(mask, bound(1)), 32));
}

/// Byte `i` of prmt's result: the number of a byte of {b, a}, by `mode`, where
/// `by` is the last operand. Bit 3 copies the byte's sign.
Value *permuted(Emitter &e, llvm::StringRef mode, Value *by, unsigned i) {
  auto &b = e.builder;
  if (mode.empty())
    return b.CreateLShr(by, 4 * i);
  Value *low = b.CreateAnd(by, 3), *place = b.getInt32(i);
  if (mode == "f4e")
    return b.CreateAdd(low, place);
  if (mode == "b4e")
    return b.CreateAnd(b.CreateSub(low, place), 7);
  if (mode == "ecl")
    return e.binary(Intrinsic::umax, low, place);
  if (mode == "ecr")
    return e.binary(Intrinsic::umin, low, place);
  if (mode == "rc16")
    return b.CreateOr(b.CreateShl(b.CreateAnd(by, 1), 1), i & 1);
  return low; // rc8
}

/// Selects four of eight bytes.
void emitPermute(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef mode = e.oneOf("f4e|b4e|rc8|ecl|ecr|rc16");
  e.type();
  Value *bytes = b.CreateOr(e.fit(e.read32(1), 64),
                            b.CreateShl(e.fit(e.read32(2), 64), 32));
  Value *by = e.read32(3), *result = b.getInt32(0);
  for (unsigned i = 0; i < 4; ++i) {
    Value *selector = permuted(e, mode, by, i);
    Value *at = e.fit(b.CreateShl(b.CreateAnd(selector, 7), 3), 64);
    Value *byte = e.fit(b.CreateLShr(bytes, at), 8);
    Value *sign = b.CreateAShr(byte, 7);
    Value *wantsSign = b.CreateICmpNE(b.CreateAnd(selector, 8), b.getInt32(0));
    byte = e.fit(b.CreateSelect(wantsSign, sign, byte), 32);
    result = b.CreateOr(result, b.CreateShl(byte, 8 * i));
  }
  e.write(e.operand(0), result);
}

/// szext: extends the low bits of operand 1, by zeros or by their sign. Operand
/// 2 says how many bits.
void emitExtend(Emitter &e) {
  auto &b = e.builder;
  bool wrap = e.oneOf("wrap|clamp") == "wrap", sign = e.type().isSigned();
  Value *count = e.read32(2);
  count = wrap ? b.CreateAnd(count, 31)
               : e.binary(Intrinsic::umin, count, b.getInt32(32));
  Value *above = b.CreateSub(b.getInt64(64), e.fit(count, 64));
  Value *isEmpty = b.CreateICmpEQ(count, b.getInt32(0));
  above = b.CreateSelect(isEmpty, b.getInt64(63), above);
  Value *field = b.CreateShl(e.fit(e.read32(1), 64), above);
  field = sign ? b.CreateAShr(field, above) : b.CreateLShr(field, above);
  e.write(e.operand(0),
          b.CreateSelect(isEmpty, b.getInt32(0), e.fit(field, 32)));
}

/// The place of the n-th set bit from a bit on, upwards or downwards.
void emitFindNth(Emitter &e) {
  e.type();
  e.write(e.operand(0), e.call("emulatorFindNth", e.builder.getInt32Ty(),
                               {e.read32(1), e.read32(2), e.read32(3)}));
}

/// Any function of three bits: its table is the last operand.
Value *logic3(Emitter &e) {
  auto &b = e.builder;
  Value *inputs[] = {e.read32(1), e.read32(2), e.read32(3)};
  int64_t table = e.operand(4).value;
  Value *result = b.getInt32(0);
  for (unsigned row = 0; row < 8; ++row) {
    if (!(table >> row & 1))
      continue;
    Value *term = b.getInt32(~0u);
    for (unsigned i = 0; i < 3; ++i)
      term = b.CreateAnd(term, row >> (2 - i) & 1 ? inputs[i]
                                                  : b.CreateNot(inputs[i]));
    result = b.CreateOr(result, term);
  }
  return result;
}

void emitLogic3(Emitter &e) {
  e.type();
  e.write(e.operand(0), logic3(e));
}

/// d|p: p is whether d is not 0, combined with the last operand.
void emitLogic3Predicate(Emitter &e) {
  auto &b = e.builder;
  bool isOr = e.oneOf("or|and") == "or";
  e.type();
  Value *result = logic3(e), *other = e.readPredicate(5);
  Value *is = b.CreateICmpNE(result, b.getInt32(0));
  is = isOr ? b.CreateOr(is, other) : b.CreateAnd(is, other);
  e.writePair(e.operand(0),
              b.CreateOr(e.fit(result, 64), b.CreateShl(e.fit(is, 64), 32)));
}

constexpr Form kForms[] = {
    {"and", "pred|b16|b32|b64", "dss", emitLogic},
    {"or", "pred|b16|b32|b64", "dss", emitLogic},
    {"xor", "pred|b16|b32|b64", "dss", emitLogic},
    {"not", "pred|b16|b32|b64", "ds", emitNot},
    {"cnot", "$bits", "ds", emitCnot},
    {"shl", "$bits", "dss", emitShift},
    {"shr", "b16|b32|b64|u16|u32|u64|s16|s32|s64", "dss", emitShift},
    {"shf", "l|r wrap|clamp b32", "dsss", emitFunnelShift},
    {"popc", "b32|b64", "ds", emitCount},
    {"clz", "b32|b64", "ds", emitCount},
    {"brev", "b32|b64", "ds", emitReverse},
    {"bfind", "shiftamt? u32|u64|s32|s64", "ds", emitFindHighest},
    {"bfe", "u32|u64|s32|s64", "dsss", emitExtract},
    {"bfi", "b32|b64", "dssss", emitInsert},
    {"bmsk", "wrap|clamp b32", "dss", emitMask},
    {"szext", "wrap|clamp u32|s32", "dss", emitExtend},
    {"fns", "b32", "dsss", emitFindNth},
    {"prmt", "b32 f4e|b4e|rc8|ecl|ecr|rc16?", "dsss", emitPermute},
    {"lop3", "b32", "dsssi", emitLogic3},
    {"lop3", "or|and b32", "Psssis", emitLogic3Predicate},
};

} // namespace

llvm::ArrayRef<Form> bitForms() { return kForms; }

} // namespace cria::emulator
