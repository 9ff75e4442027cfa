// Floats of 16 bits are computed in f32 and rounded. LLVM could convert bf16,
// but x86 would flush its subnormal values.
#include "tools/emulator/translate/Emitter.h"

#include <cfloat>

namespace cria::emulator {

llvm::Type *Emitter::floatType(const Type &type) {
  return type.bits == 64 ? builder.getDoubleTy() : builder.getFloatTy();
}

llvm::Value *Emitter::toFloat(llvm::Value *bits, const Type &type) {
  if (type.bits >= 32)
    return builder.CreateBitCast(bits, floatType(type));
  if (type.kind == Type::BFloat)
    return builder.CreateBitCast(builder.CreateShl(fit(bits, 32), 16),
                                 builder.getFloatTy());
  return builder.CreateFPExt(builder.CreateBitCast(bits, builder.getHalfTy()),
                             builder.getFloatTy());
}

static llvm::Value *toBFloat(llvm::IRBuilder<> &b, llvm::Value *value) {
  llvm::Value *bits = b.CreateBitCast(value, b.getInt32Ty());
  llvm::Value *odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
  bits = b.CreateAdd(bits, b.CreateAdd(odd, b.getInt32(0x7fff)));
  llvm::Value *high = b.CreateTrunc(b.CreateLShr(bits, 16), b.getInt16Ty());
  return b.CreateSelect(b.CreateFCmpUNO(value, value), b.getInt16(0x7fff),
                        high);
}

static llvm::Value *toHalf(llvm::IRBuilder<> &b, llvm::Value *value) {
  llvm::Value *half = b.CreateFPTrunc(value, b.getHalfTy());
  return b.CreateSelect(b.CreateFCmpUNO(value, value), b.getInt16(0x7fff),
                        b.CreateBitCast(half, b.getInt16Ty()));
}

llvm::Value *Emitter::fromFloat(llvm::Value *value, const Type &type) {
  if (type.bits >= 32)
    return builder.CreateBitCast(value, intType(type.bits));
  return type.kind == Type::BFloat ? toBFloat(builder, value)
                                   : toHalf(builder, value);
}

llvm::Value *Emitter::narrowToOdd(llvm::Value *value) {
  auto &b = builder;
  llvm::Value *nearest = b.CreateFPTrunc(value, b.getFloatTy());
  llvm::Value *back = b.CreateFPExt(nearest, b.getDoubleTy());
  llvm::Value *isExact = b.CreateNot(b.CreateFCmpONE(back, value));
  llvm::Value *tooFar = b.CreateFCmpOGT(unary(llvm::Intrinsic::fabs, back),
                                        unary(llvm::Intrinsic::fabs, value));
  llvm::Value *bits = b.CreateBitCast(nearest, b.getInt32Ty());
  llvm::Value *toward = b.CreateSub(bits, fit(tooFar, 32));
  return b.CreateSelect(isExact, nearest,
                        b.CreateBitCast(b.CreateOr(toward, 1), b.getFloatTy()));
}

llvm::Value *Emitter::flush(llvm::Value *value, const Type &from) {
  llvm::Type *type = value->getType();
  bool isHalf = from.kind == Type::Float && from.bits == 16;
  double least = isHalf ? 0x1p-14 : from.bits == 64 ? DBL_MIN : FLT_MIN;
  llvm::Value *tiny = builder.CreateFCmpOLT(unary(llvm::Intrinsic::fabs, value),
                                            llvm::ConstantFP::get(type, least));
  llvm::Value *zero = binary(llvm::Intrinsic::copysign,
                             llvm::ConstantFP::get(type, 0.0), value);
  return builder.CreateSelect(tiny, zero, value);
}

} // namespace cria::emulator
