// Moves and conversions.
#include "tools/emulator/run/Rounding.h"
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::APInt;
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

void emitMove(Emitter &e) {
  Type type = e.type();
  if (e.operand(0).kind == Operand::Vector &&
      e.operand(1).kind == Operand::Vector)
    return e.fail("expected at most one vector");
  e.write(e.operand(0), e.read(1, type));
}

/// Converts into or out of the generic address space, whose addresses are the
/// host's.
void emitConvertAddress(Emitter &e) {
  auto &b = e.builder;
  bool toSpace = e.has("to"), isShared = e.space() == "shared";
  e.type();
  Value *address = e.read(e.operand(1), 64);
  if (isShared) {
    Value *window = b.CreatePtrToInt(e.sharedWindow(), b.getInt64Ty());
    address =
        toSpace ? b.CreateSub(address, window) : b.CreateAdd(address, window);
  }
  e.write(e.operand(0), address);
}

/// Rounds to an integral value as .rni, .rzi, .rmi or .rpi say.
Value *integral(Emitter &e, llvm::StringRef mode, Value *value) {
  if (mode == "rni")
    return e.unary(Intrinsic::roundeven, value);
  if (mode == "rzi")
    return e.unary(Intrinsic::trunc, value);
  if (mode == "rmi")
    return e.unary(Intrinsic::floor, value);
  return mode == "rpi" ? e.unary(Intrinsic::ceil, value) : value;
}

/// Clamps an integer of type `from` to the range of type `to`.
Value *saturate(Emitter &e, Value *value, const Type &from, const Type &to) {
  unsigned n = std::max(from.bits, to.bits) + 1;
  value = e.fit(value, n, from.isSigned());
  APInt low =
      to.isSigned() ? APInt::getSignedMinValue(to.bits).sext(n) : APInt(n, 0);
  APInt high = to.isSigned() ? APInt::getSignedMaxValue(to.bits).sext(n)
                             : APInt::getMaxValue(to.bits).zext(n);
  auto bound = [&](const APInt &limit) {
    return llvm::ConstantInt::get(e.builder.getContext(), limit);
  };
  value = e.binary(Intrinsic::smax, value, bound(low));
  value = e.binary(Intrinsic::smin, value, bound(high));
  return e.fit(value, to.bits);
}

void emitIntegerToInteger(Emitter &e) {
  bool sat = e.has("sat");
  Type to = e.type(), from = e.type();
  Value *value = e.read(e.operand(1), from.bits, from.isSigned());
  value = sat ? saturate(e, value, from, to)
              : e.fit(value, to.bits, from.isSigned());
  e.write(e.operand(0), value, to.isSigned());
}

/// A number out of range gives the nearest integer. NaN gives 0 if both types
/// have at most 32 bits, else only the highest bit is set.
void emitFloatToInteger(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef mode = e.oneOf("rni|rzi|rmi|rpi");
  bool ftz = e.has("ftz");
  e.has("sat"); // as without it
  Type to = e.type(), from = e.type();
  Value *value = e.readFloat(1, from);
  if (ftz && from.bits == 32)
    value = e.flush(value, from);
  Value *whole = integral(e, mode, value);
  Value *result = b.CreateIntrinsic(
      to.isSigned() ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat,
      {e.intType(to.bits), whole->getType()}, {whole});
  if (from.bits == 64 || to.bits == 64)
    result =
        b.CreateSelect(b.CreateFCmpUNO(value, value),
                       llvm::ConstantInt::get(
                           b.getContext(), APInt::getSignedMinValue(to.bits)),
                       result);
  e.write(e.operand(0), result, to.isSigned());
}

/// .sat and .relu; NaN becomes 0 by .sat and stays NaN by .relu.
Value *clamped(Emitter &e, bool sat, bool relu, Value *value) {
  auto limit = [&](double x) {
    return llvm::ConstantFP::get(value->getType(), x);
  };
  if (sat)
    value =
        e.binary(Intrinsic::minimumnum,
                 e.binary(Intrinsic::maximumnum, value, limit(0)), limit(1));
  return relu ? e.binary(Intrinsic::maximum, value, limit(0)) : value;
}

FloatFormat formatOf(const Type &type) {
  switch (type.kind) {
  case Type::BFloat:
    return FloatFormat::BF16;
  case Type::TFloat:
    return FloatFormat::TF32;
  case Type::E4M3:
    return FloatFormat::E4M3;
  case Type::E5M2:
    return FloatFormat::E5M2;
  default:
    return type.bits == 64   ? FloatFormat::F64
           : type.bits == 32 ? FloatFormat::F32
                             : FloatFormat::F16;
  }
}

/// How a conversion rounds; without a modifier, to nearest.
Rounding roundingOf(const Type &to, llvm::StringRef mode, bool finite) {
  auto found = llvm::StringSwitch<RoundingMode>(mode)
                   .Case("rna", RoundingMode::NearestAway)
                   .Case("rz", RoundingMode::Zero)
                   .Case("rm", RoundingMode::Down)
                   .Case("rp", RoundingMode::Up)
                   .Default(RoundingMode::Nearest);
  return {formatOf(to), found, finite};
}

bool isIeee(const Rounding &how) {
  return how.mode == RoundingMode::Nearest && !how.finite &&
         how.to <= FloatFormat::F64 && how.to != FloatFormat::TF32;
}

/// Calls one of the runtime's functions that round.
Value *roundByCall(Emitter &e, llvm::StringRef function, Rounding how,
                   Value *value, const Type &to) {
  llvm::CallInst *made = e.call(function, e.builder.getInt64Ty(),
                                {e.builder.getInt32(how.packed()), value});
  made->setDoesNotAccessMemory();
  return e.fit(made, to.bits);
}

/// The bits of an f32 or f64 as a `to`.
Value *roundFloat(Emitter &e, Value *value, const Type &to, Rounding how) {
  auto &b = e.builder;
  llvm::Type *f64 = b.getDoubleTy();
  bool isDouble = value->getType()->isDoubleTy();
  if (!isIeee(how))
    return roundByCall(e, "emulatorRoundFloat", how, b.CreateFPExt(value, f64),
                       to);
  if (to.bits == 16)
    return e.fromFloat(isDouble ? e.narrowToOdd(value) : value, to);
  return e.fromFloat(b.CreateFPCast(value, e.floatType(to)), to);
}

void emitIntegerToFloat(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef mode = e.oneOf("rn|rz|rm|rp");
  e.has("ftz"); // no integer is subnormal
  bool sat = e.has("sat"), nearest = mode == "rn";
  Type to = e.type(), from = e.type();
  Value *value = e.read(e.operand(1), from.bits, from.isSigned());
  if (sat) { // 0 and 1 are exact
    value = saturate(e, value, from, {Type::Unsigned, from.bits});
    value = e.binary(Intrinsic::umin, value, e.constant(from.bits, 1));
    from.kind = Type::Unsigned;
  }
  bool isSigned = from.isSigned();
  auto toHost = [&](llvm::Type *type) {
    return isSigned ? b.CreateSIToFP(value, type) : b.CreateUIToFP(value, type);
  };
  Rounding how = roundingOf(to, mode, false);
  if (nearest && to.bits >= 32)
    return e.write(e.operand(0), e.fromFloat(toHost(e.floatType(to)), to));
  if (nearest && from.bits <= 32) // exact in f64
    return e.write(e.operand(0),
                   roundFloat(e, toHost(b.getDoubleTy()), to, how));
  e.write(
      e.operand(0),
      roundByCall(e, isSigned ? "emulatorRoundSigned" : "emulatorRoundUnsigned",
                  how, e.fit(value, 64, isSigned), to));
}

void emitFloatToFloat(Emitter &e) {
  llvm::StringRef whole = e.oneOf("rni|rzi|rmi|rpi");
  llvm::StringRef mode = e.oneOf("rn|rna|rz|rm|rp");
  bool ftz = e.has("ftz"), sat = e.has("sat"), relu = e.has("relu");
  bool finite = e.has("satfinite");
  Type to = e.type(), from = e.type();
  Value *value = e.readFloat(1, from);
  if (ftz && from.bits == 32)
    value = e.flush(value, from);
  value = clamped(e, sat, relu, integral(e, whole, value));
  Value *bits = roundFloat(e, value, to, roundingOf(to, mode, finite));
  if (ftz && to.bits == 32)
    bits = e.fromFloat(e.flush(e.toFloat(bits, to), to), to);
  e.write(e.operand(0), bits);
}

/// Packs two numbers into one register. The high half is the first of two
/// sources, or the high half of one source.
void emitPack(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef mode = e.oneOf("rn|rz");
  bool relu = e.has("relu"), finite = e.has("satfinite");
  Type to = e.type(), from = e.type(), part = to.element();
  Value *result = nullptr;
  for (unsigned i : {0, 1}) { // low, high
    Value *source =
        from.packed
            ? e.fit(b.CreateLShr(e.read(1, from), i * from.bits), from.bits)
            : e.read(2 - i, from);
    Value *value = clamped(e, false, relu, e.toFloat(source, from.element()));
    Value *bits = roundFloat(e, value, part, roundingOf(part, mode, finite));
    bits = b.CreateShl(e.fit(bits, to.width()), i * to.bits);
    result = result ? b.CreateOr(result, bits) : bits;
  }
  e.write(e.operand(0), result);
}

/// Converts two floats of 8 bits to two f16, which hold them exactly. E5M2 is
/// the high half of an f16. The exponent of E4M3 is 8 less than the exponent
/// that its bits have in an f16.
void emitUnpack(Emitter &e) {
  auto &b = e.builder;
  e.has("rn");
  bool relu = e.has("relu");
  Type to = e.type(), from = e.type(), half = to.element();
  bool isE5M2 = from.kind == Type::E5M2;
  Value *result = b.getInt32(0);
  for (unsigned at : {0, 8}) {
    Value *bits = e.fit(e.fit(b.CreateLShr(e.read(1, from), at), 8), 16);
    Value *magnitude = b.CreateAnd(bits, 0x7f);
    Value *sign = b.CreateShl(b.CreateAnd(bits, 0x80), 8);
    Value *isNan = b.CreateICmpUGT(magnitude, b.getInt16(isE5M2 ? 0x7c : 0x7e));
    magnitude = b.CreateShl(magnitude, isE5M2 ? 8 : 7);
    Value *value = e.toFloat(b.CreateOr(sign, magnitude), half);
    if (!isE5M2)
      value = b.CreateFMul(value, llvm::ConstantFP::get(b.getFloatTy(), 256));
    Value *word = e.fromFloat(clamped(e, false, relu, value), half);
    word = b.CreateSelect(isNan, b.getInt16(0x7fff), word);
    result = b.CreateOr(result, b.CreateShl(e.fit(word, 32), 2 * at));
  }
  e.write(e.operand(0), result);
}

#define INTEGER "u8|u16|u32|u64|s8|s16|s32|s64"
#define WHOLE "rni|rzi|rmi|rpi"
#define MODE "rn|rz|rm|rp"

constexpr Form kForms[] = {
    {"mov", "pred", "ds", emitMove},
    {"mov", "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|f16|bf16|f16x2|bf16x2",
     "DS", emitMove},
    {"mov", "b128", "DS", emitMove, 70},
    {"cvta",
     "to? global|shared|shared::cta|shared::cluster|local|param|const "
     "u64",
     "ds", emitConvertAddress},
    {"cvt", "sat? " INTEGER " " INTEGER, "ds", emitIntegerToInteger},
    {"cvt", WHOLE " ftz? sat? " INTEGER " f32", "ds", emitFloatToInteger},
    {"cvt", WHOLE " sat? " INTEGER " f16|f64", "ds", emitFloatToInteger},
    {"cvt", WHOLE " " INTEGER " bf16", "ds", emitFloatToInteger, 90},
    {"cvt", MODE " ftz? sat? f32 " INTEGER, "ds", emitIntegerToFloat},
    {"cvt", MODE " sat? f16|f64 " INTEGER, "ds", emitIntegerToFloat},
    {"cvt", MODE " bf16 $int", "ds", emitIntegerToFloat, 90},
    {"cvt", WHOLE "? ftz? sat? f32 f32", "ds", emitFloatToFloat},
    {"cvt", WHOLE "? sat? f16 f16", "ds", emitFloatToFloat},
    {"cvt", WHOLE "? sat? f64 f64", "ds", emitFloatToFloat},
    {"cvt", WHOLE "? bf16 bf16", "ds", emitFloatToFloat, 90},
    {"cvt", "ftz? sat? f32 f16", "ds", emitFloatToFloat},
    {"cvt", "ftz? sat? f64 f32", "ds", emitFloatToFloat},
    {"cvt", "sat? f64 f16", "ds", emitFloatToFloat},
    {"cvt", MODE " ftz? sat? f32 f64", "ds", emitFloatToFloat},
    {"cvt", MODE " ftz? sat? f16 f32", "ds", emitFloatToFloat},
    {"cvt", MODE " sat? f16 f64", "ds", emitFloatToFloat},
    {"cvt", MODE " ftz? bf16 f32", "ds", emitFloatToFloat, 80},
    {"cvt", "rn|rz relu? satfinite? f16|bf16 f32", "ds", emitFloatToFloat, 80},
    {"cvt", MODE "? f32 bf16", "ds", emitFloatToFloat, 80},
    {"cvt", MODE "? ftz f32 bf16", "ds", emitFloatToFloat, 90},
    {"cvt", MODE "? f16|f64 bf16", "ds", emitFloatToFloat, 90},
    {"cvt", MODE "? bf16 f16", "ds", emitFloatToFloat, 90},
    {"cvt", MODE " bf16 f64", "ds", emitFloatToFloat, 90},
    {"cvt", "rna satfinite? tf32 f32", "ds", emitFloatToFloat, 80},
    {"cvt", "rn|rz relu? tf32 f32", "ds", emitFloatToFloat, 90},
    {"cvt", "rn|rz relu? satfinite? f16x2|bf16x2 f32", "dss", emitPack, 80},
    {"cvt", "rn satfinite relu? e4m3x2|e5m2x2 f32", "dss", emitPack, 89},
    {"cvt", "rn satfinite relu? e4m3x2|e5m2x2 f16x2", "ds", emitPack, 89},
    {"cvt", "rn relu? f16x2 e4m3x2|e5m2x2", "ds", emitUnpack, 89},
};

} // namespace

llvm::ArrayRef<Form> convertForms() { return kForms; }

} // namespace cria::emulator
