// Comparisons and selections.
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::CmpInst;
using llvm::Value;

constexpr const char *kComparisons =
    "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan|lo|ls|hi|hs";

Value *compareFloats(Emitter &e, llvm::StringRef name, Value *x, Value *y) {
  auto predicate = llvm::StringSwitch<CmpInst::Predicate>(name)
                       .Case("eq", CmpInst::FCMP_OEQ)
                       .Case("ne", CmpInst::FCMP_ONE)
                       .Case("lt", CmpInst::FCMP_OLT)
                       .Case("le", CmpInst::FCMP_OLE)
                       .Case("gt", CmpInst::FCMP_OGT)
                       .Case("ge", CmpInst::FCMP_OGE)
                       .Case("equ", CmpInst::FCMP_UEQ)
                       .Case("neu", CmpInst::FCMP_UNE)
                       .Case("ltu", CmpInst::FCMP_ULT)
                       .Case("leu", CmpInst::FCMP_ULE)
                       .Case("gtu", CmpInst::FCMP_UGT)
                       .Case("geu", CmpInst::FCMP_UGE)
                       .Case("num", CmpInst::FCMP_ORD)
                       .Default(CmpInst::FCMP_UNO); // nan
  return e.builder.CreateFCmp(predicate, x, y);
}

Value *compareIntegers(Emitter &e, llvm::StringRef name, bool isSigned,
                       Value *x, Value *y) {
  auto predicate = llvm::StringSwitch<CmpInst::Predicate>(name)
                       .Case("eq", CmpInst::ICMP_EQ)
                       .Case("ne", CmpInst::ICMP_NE)
                       .Cases({"lt", "lo"}, CmpInst::ICMP_ULT)
                       .Cases({"le", "ls"}, CmpInst::ICMP_ULE)
                       .Cases({"gt", "hi"}, CmpInst::ICMP_UGT)
                       .Default(CmpInst::ICMP_UGE); // ge, hs
  if (isSigned)
    predicate = llvm::ICmpInst::getSignedPredicate(predicate);
  return e.builder.CreateICmp(predicate, x, y);
}

Value *compare(Emitter &e, llvm::StringRef name, const Type &type, bool ftz,
               Value *x, Value *y) {
  if (!type.isFloat())
    return compareIntegers(e, name, type.isSigned(), x, y);
  x = e.toFloat(x, type);
  y = e.toFloat(y, type);
  if (ftz) {
    x = e.flush(x, type);
    y = e.flush(y, type);
  }
  return compareFloats(e, name, x, y);
}

/// Combines a comparison with the predicate operand, as in setp.lt.and.
Value *combine(Emitter &e, llvm::StringRef how, Value *value, size_t operand) {
  auto &b = e.builder;
  if (how.empty())
    return value;
  Value *other = e.readPredicate(operand);
  return how == "and"  ? b.CreateAnd(value, other)
         : how == "or" ? b.CreateOr(value, other)
                       : b.CreateXor(value, other);
}

void emitSetPredicate(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef name = e.oneOf(kComparisons), how = e.oneOf("and|or|xor");
  bool ftz = e.has("ftz");
  Type type = e.type();
  Value *result = compare(e, name, type, ftz, e.read(1, type), e.read(2, type));
  const Operand &to = e.operand(0);
  if (to.paired)
    e.write(to.parts[0], combine(e, how, b.CreateNot(result), 3));
  Operand first = to;
  first.paired = false;
  e.write(first, combine(e, how, result, 3));
}

/// Two predicates from packed halves: the low half's first.
void emitSetPredicatePacked(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef name = e.oneOf(kComparisons), how = e.oneOf("and|or|xor");
  bool ftz = e.has("ftz");
  Type type = e.type(), part = type.element();
  Value *x = e.read(1, type), *y = e.read(2, type);
  auto half = [&](unsigned at) {
    Value *result = compare(e, name, part, ftz, e.fit(b.CreateLShr(x, at), 16),
                            e.fit(b.CreateLShr(y, at), 16));
    return combine(e, how, result, 3);
  };
  Value *low = half(0), *high = half(16);
  Operand first = e.operand(0);
  if (!first.paired)
    return e.fail("expected a pair of predicates");
  first.paired = false;
  e.write(first, low);
  e.write(e.operand(0).parts[0], high);
}

/// All ones, or 1.0, for true; for each part of packed operands.
void emitSet(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef name = e.oneOf(kComparisons), how = e.oneOf("and|or|xor");
  bool ftz = e.has("ftz");
  Type to = e.type(), from = e.type(), part = from.element();
  Value *x = e.read(1, from), *y = e.read(2, from);
  unsigned bits = from.packed ? from.bits : to.bits;
  Type each = to.isFloat() ? to.element() : Type{to.kind, bits};
  auto valueAt = [&](unsigned at) {
    auto half = [&](Value *both) {
      return e.fit(b.CreateLShr(both, at), part.bits);
    };
    Value *is =
        combine(e, how, compare(e, name, part, ftz, half(x), half(y)), 3);
    return to.isFloat()
               ? e.fromFloat(b.CreateUIToFP(is, e.floatType(each)), each)
               : e.fit(is, bits, true);
  };
  Value *low = valueAt(0);
  if (!from.packed)
    return e.write(e.operand(0), low, true);
  Value *high = b.CreateShl(e.fit(valueAt(16), 32), 16);
  e.write(e.operand(0), b.CreateOr(e.fit(low, 32), high));
}

void emitSelect(Emitter &e) {
  Type type = e.type();
  e.write(e.operand(0),
          e.builder.CreateSelect(e.readPredicate(3), e.read(1, type),
                                 e.read(2, type)));
}

/// Selects by the sign of the last operand.
void emitSelectBySign(Emitter &e) {
  auto &b = e.builder;
  bool ftz = e.has("ftz");
  Type type = e.type(), by = e.type();
  Value *sign = e.read(3, by);
  Value *zero = e.constant(32, 0);
  Value *positive = compare(e, "ge", by, ftz, sign, zero);
  e.write(e.operand(0),
          b.CreateSelect(positive, e.read(1, type), e.read(2, type)));
}

#define FLOATS "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan and|or|xor? "

constexpr Form kForms[] = {
    {"setp",
     "eq|ne|lt|le|gt|ge|lo|ls|hi|hs and|or|xor? "
     "b16|b32|b64|u16|u32|u64|s16|s32|s64",
     "Psss?", emitSetPredicate},
    {"setp",
     FLOATS "ftz? "
            "f32|f64|f16",
     "Psss?", emitSetPredicate},
    {"setp", FLOATS "bf16", "Psss?", emitSetPredicate, 90},
    {"setp", FLOATS "ftz? f16x2", "Psss?", emitSetPredicatePacked},
    {"setp", FLOATS "bf16x2", "Psss?", emitSetPredicatePacked, 90},
    {"set",
     "eq|ne|lt|le|gt|ge|lo|ls|hi|hs and|or|xor? u32|s32|f32 "
     "b16|b32|b64|u16|u32|u64|s16|s32|s64",
     "dsss?", emitSet},
    {"set",
     FLOATS "ftz? "
            "u32|s32|f32|f16 f32|f64",
     "dsss?", emitSet},
    {"set", FLOATS "ftz? f16|u16|s16|u32|s32 f16", "dsss?", emitSet},
    {"set", FLOATS "ftz? f16x2|u32|s32 f16x2", "dsss?", emitSet},
    {"set", FLOATS "bf16|u16|s16|u32|s32 bf16", "dsss?", emitSet, 90},
    {"set", FLOATS "bf16x2|u32|s32 bf16x2", "dsss?", emitSet, 90},
    {"set", FLOATS "bf16 f16|f32|f64", "dsss?", emitSet, 90},
    {"selp", "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64", "dsss", emitSelect},
    {"slct", "ftz? b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64 s32|f32", "dsss",
     emitSelectBySign},
};

} // namespace

llvm::ArrayRef<Form> compareForms() { return kForms; }

} // namespace cria::emulator
