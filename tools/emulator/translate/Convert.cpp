// Moves and conversions.
#include "tools/emulator/translate/Emitter.h"

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

/// Into or out of the generic address space, in which addresses are the
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

/// Out of range gives the nearest integer. NaN gives 0 where both types have
/// at most 32 bits, else the highest bit alone.
void emitFloatToInteger(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef mode = e.oneOf("rni|rzi|rmi|rpi");
  bool ftz = e.has("ftz");
  e.has("sat"); // as without it
  Type to = e.type(), from = e.type();
  Value *value = e.readFloat(1, from);
  if (ftz)
    value = e.flush(value);
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

Value *saturateFloat(Emitter &e, Value *value) {
  auto limit = [&](double x) {
    return llvm::ConstantFP::get(value->getType(), x);
  };
  value = e.binary(Intrinsic::maximumnum, value, limit(0));
  return e.binary(Intrinsic::minimumnum, value, limit(1));
}

void emitIntegerToFloat(Emitter &e) {
  auto &b = e.builder;
  e.has("rn");
  bool sat = e.has("sat");
  Type to = e.type(), from = e.type();
  Value *value = e.read(e.operand(1), from.bits, from.isSigned());
  llvm::Type *type = to.bits == 32 ? b.getFloatTy() : b.getDoubleTy();
  Value *result = from.isSigned() ? b.CreateSIToFP(value, type)
                                  : b.CreateUIToFP(value, type);
  if (to.bits == 16)
    result = e.narrowToOdd(result);
  e.write(e.operand(0),
          e.fromFloat(sat ? saturateFloat(e, result) : result, to));
}

/// f64 to f32 toward zero, down or up: one step back where rn went too far.
Value *narrow(Emitter &e, Value *value, llvm::StringRef mode) {
  auto &b = e.builder;
  llvm::Type *f32 = b.getFloatTy();
  Value *nearest = b.CreateFPTrunc(value, f32);
  if (mode.empty() || mode == "rn")
    return nearest;
  llvm::CallInst *made = e.call("emulatorNarrow", f32,
                                {b.getInt32(mode == "rz"   ? 0
                                            : mode == "rm" ? 1
                                                           : 2),
                                 value});
  made->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
  return made;
}

void emitFloatToFloat(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef whole = e.oneOf("rni|rzi|rmi|rpi");
  llvm::StringRef mode = e.oneOf("rn|rz|rm|rp");
  bool ftz = e.has("ftz"), sat = e.has("sat"), relu = e.has("relu");
  Type to = e.type(), from = e.type();
  Value *value = e.readFloat(1, from);
  if (ftz && from.bits == 32)
    value = e.flush(value);
  value = integral(e, whole, value);
  if (to.bits == 64 && from.bits != 64)
    value = b.CreateFPExt(value, b.getDoubleTy());
  if (to.bits != 64 && from.bits == 64)
    value = narrow(e, value, mode);
  if (sat)
    value = saturateFloat(e, value);
  if (relu)
    value = e.binary(Intrinsic::maximum, value,
                     llvm::ConstantFP::get(value->getType(), 0.0));
  if (ftz && to.bits == 32)
    value = e.flush(value);
  e.write(e.operand(0), e.fromFloat(value, to, mode));
}

/// Two f32 into one register: the first source is the high half.
void emitPack(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef mode = e.oneOf("rn|rz");
  bool relu = e.has("relu");
  Type to = e.type(), from = e.type();
  auto half = [&](size_t i) {
    Value *value = e.readFloat(i, from);
    if (relu)
      value = e.binary(Intrinsic::maximum, value,
                       llvm::ConstantFP::get(value->getType(), 0.0));
    return e.fit(e.fromFloat(value, to.element(), mode), 32);
  };
  Value *high = b.CreateShl(half(1), 16);
  e.write(e.operand(0), b.CreateOr(high, half(2)));
}

constexpr Form kForms[] = {
    {"mov", "pred", "ds", emitMove},
    {"mov", "b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|f16|bf16|f16x2|bf16x2",
     "DS", emitMove},
    {"mov", "b128", "DS", emitMove, 70},
    {"cvta",
     "to? global|shared|shared::cta|shared::cluster|local|param|const "
     "u64",
     "ds", emitConvertAddress},
    {"cvt", "sat? u8|u16|u32|u64|s8|s16|s32|s64 u8|u16|u32|u64|s8|s16|s32|s64",
     "ds", emitIntegerToInteger},
    {"cvt",
     "rni|rzi|rmi|rpi ftz? sat? u8|u16|u32|u64|s8|s16|s32|s64 f16|f32|f64",
     "ds", emitFloatToInteger},
    {"cvt", "rni|rzi|rmi|rpi u8|u16|u32|u64|s8|s16|s32|s64 bf16", "ds",
     emitFloatToInteger, 90},
    {"cvt", "rn sat? f16|f32|f64 u8|u16|u32|u64|s8|s16|s32|s64", "ds",
     emitIntegerToFloat},
    {"cvt", "rn bf16 u16|u32|u64|s16|s32|s64", "ds", emitIntegerToFloat, 90},
    {"cvt", "rn|rz|rm|rp|rni|rzi|rmi|rpi? ftz? sat? f32|f64 f16|f32|f64", "ds",
     emitFloatToFloat},
    {"cvt", "rni|rzi|rmi|rpi? f16 f16", "ds", emitFloatToFloat},
    {"cvt", "rn|rz ftz? relu? sat? f16|bf16 f32", "ds", emitFloatToFloat},
    {"cvt", "f32 bf16", "ds", emitFloatToFloat, 80},
    {"cvt", "rn|rz relu? f16x2|bf16x2 f32", "dss", emitPack, 80},
};

} // namespace

llvm::ArrayRef<Form> convertForms() { return kForms; }

} // namespace cria::emulator
