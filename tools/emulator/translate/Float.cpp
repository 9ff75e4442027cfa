// Floating-point arithmetic. The `.approx` functions are computed as precisely
// as the host can.
#include "tools/emulator/translate/Emitter.h"

#include "llvm/ADT/StringSwitch.h"

namespace cria::emulator {
namespace {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

/// Modifiers of an operation on floats, and its operands' type.
struct FloatOp {
  llvm::StringRef name, rounding;
  bool ftz, sat, relu, nan;
  Type type;
};

FloatOp floatOp(Emitter &e) {
  FloatOp op;
  op.name = e.opcode();
  op.rounding = e.oneOf("rn|rz|rm|rp");
  e.oneOf("approx|full");
  e.has("noftz");
  op.ftz = e.has("ftz");
  op.sat = e.has("sat");
  op.relu = e.has("relu");
  op.nan = e.has("NaN");
  op.type = e.type();
  return op;
}

/// The runtime's number for the operation in directed rounding.
int directedCode(llvm::StringRef name) {
  return llvm::StringSwitch<int>(name)
      .Case("add", 0)
      .Case("sub", 1)
      .Case("mul", 2)
      .Case("div", 3)
      .Case("fma", 4)
      .Case("sqrt", 5)
      .Default(6); // rcp
}

/// Rounding toward zero, down or up.
Value *directed(Emitter &e, const FloatOp &op,
                llvm::SmallVector<Value *> values) {
  auto &b = e.builder;
  values.resize(3, values[0]);
  int mode = op.rounding == "rz" ? 0 : op.rounding == "rm" ? 1 : 2;
  llvm::Type *type = values[0]->getType();
  llvm::CallInst *made = e.call(
      type->isDoubleTy() ? "emulatorDirected64" : "emulatorDirected32", type,
      {b.getInt32(directedCode(op.name == "mad" ? "fma" : op.name)),
       b.getInt32(mode), values[0], values[1], values[2]});
  made->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly());
  return made;
}

Value *minMax(Emitter &e, const FloatOp &op, Value *x, Value *y) {
  bool isMin = op.name == "min";
  return e.binary(op.nan
                      ? (isMin ? Intrinsic::minimum : Intrinsic::maximum)
                      : (isMin ? Intrinsic::minimumnum : Intrinsic::maximumnum),
                  x, y);
}

/// Fused multiply-add of 16-bit floats, rounded to odd, so that a second
/// rounding is right. The product is exact in f64; Knuth's TwoSum gives the
/// error of the sum.
Value *fusedNarrow(Emitter &e, llvm::ArrayRef<Value *> values) {
  auto &b = e.builder;
  auto wide = [&](size_t i) {
    return b.CreateFPExt(values[i], b.getDoubleTy());
  };
  Value *product = b.CreateFMul(wide(0), wide(1)), *addend = wide(2);
  Value *sum = b.CreateFAdd(product, addend);
  Value *second = b.CreateFSub(sum, product);
  Value *error = b.CreateFAdd(b.CreateFSub(product, b.CreateFSub(sum, second)),
                              b.CreateFSub(addend, second));
  Value *zero = llvm::ConstantFP::get(b.getDoubleTy(), 0);
  Value *bits = b.CreateBitCast(sum, b.getInt64Ty());
  Value *outward =
      b.CreateICmpEQ(b.CreateFCmpOGT(error, zero), b.CreateFCmpOGT(sum, zero));
  Value *next = b.CreateSelect(outward, b.CreateAdd(bits, b.getInt64(1)),
                               b.CreateSub(bits, b.getInt64(1)));
  Value *isOdd = b.CreateTrunc(bits, b.getInt1Ty());
  Value *isExact = b.CreateNot(b.CreateFCmpONE(error, zero));
  bits = b.CreateSelect(b.CreateOr(isExact, isOdd), bits, next);
  return e.narrowToOdd(b.CreateBitCast(bits, b.getDoubleTy()));
}

Value *hostUnary(Emitter &e, const FloatOp &op, Value *x) {
  auto &b = e.builder;
  Value *one = llvm::ConstantFP::get(x->getType(), 1.0);
  if (op.name == "rcp")
    return b.CreateFDiv(one, x);
  if (op.name == "rsqrt")
    return b.CreateFDiv(one, e.unary(Intrinsic::sqrt, x));
  if (op.name == "neg")
    return b.CreateFNeg(x);
  if (op.name == "tanh") {
    llvm::CallInst *made = e.call("emulatorTanh", b.getFloatTy(), {x});
    made->setDoesNotAccessMemory();
    return made;
  }
  return e.unary(llvm::StringSwitch<llvm::Intrinsic::ID>(op.name)
                     .Case("sqrt", Intrinsic::sqrt)
                     .Case("ex2", Intrinsic::exp2)
                     .Case("lg2", Intrinsic::log2)
                     .Case("sin", Intrinsic::sin)
                     .Case("cos", Intrinsic::cos)
                     .Default(Intrinsic::fabs),
                 x);
}

Value *compute(Emitter &e, const FloatOp &op,
               llvm::SmallVector<Value *> values) {
  auto &b = e.builder;
  if (!op.rounding.empty() && op.rounding != "rn")
    return directed(e, op, values);
  if (values.size() == 1)
    return hostUnary(e, op, values[0]);
  if (op.name == "add")
    return b.CreateFAdd(values[0], values[1]);
  if (op.name == "sub")
    return b.CreateFSub(values[0], values[1]);
  if (op.name == "mul")
    return b.CreateFMul(values[0], values[1]);
  if (op.name == "div")
    return b.CreateFDiv(values[0], values[1]);
  if (op.name == "copysign")
    return e.binary(Intrinsic::copysign, values[1], values[0]);
  if (op.name == "min" || op.name == "max") {
    Value *result = minMax(e, op, values[0], values[1]);
    return values.size() == 3 ? minMax(e, op, result, values[2]) : result;
  }
  if (op.type.bits == 16)
    return fusedNarrow(e, values);
  return b.CreateIntrinsic(values[0]->getType(), Intrinsic::fma, values);
}

/// .sat and .relu; .sat makes NaN 0, .relu keeps it.
Value *clamped(Emitter &e, const FloatOp &op, Value *value) {
  Value *zero = llvm::ConstantFP::get(value->getType(), 0.0);
  if (op.sat)
    value = e.binary(Intrinsic::minimumnum,
                     e.binary(Intrinsic::maximumnum, value, zero),
                     llvm::ConstantFP::get(value->getType(), 1.0));
  if (op.relu)
    value = e.binary(Intrinsic::maximum, value, zero);
  return value;
}

Value *element(Emitter &e, const FloatOp &op,
               llvm::ArrayRef<Value *> operands) {
  Type type = op.type.element();
  llvm::SmallVector<Value *> values;
  for (Value *operand : operands) {
    Value *value = e.toFloat(operand, type);
    values.push_back(op.ftz ? e.flush(value, type) : value);
  }
  Value *result = clamped(e, op, compute(e, op, values));
  if (op.ftz)
    result = e.flush(result, type);
  return e.fromFloat(result, type);
}

void emitFloat(Emitter &e) {
  auto &b = e.builder;
  FloatOp op = floatOp(e);
  llvm::SmallVector<Value *> operands;
  for (size_t i = 1; i < e.operandCount(); ++i)
    operands.push_back(e.read(i, op.type));
  if (!op.type.packed)
    return e.write(e.operand(0), element(e, op, operands));
  Value *result = nullptr;
  for (unsigned half : {0, 16}) {
    llvm::SmallVector<Value *> parts;
    for (Value *operand : operands)
      parts.push_back(e.fit(b.CreateLShr(operand, half), 16));
    Value *part = b.CreateShl(e.fit(element(e, op, parts), 32), half);
    result = result ? b.CreateOr(result, part) : part;
  }
  e.write(e.operand(0), result);
}

/// abs and neg change only the sign bit.
void emitSign(Emitter &e) {
  auto &b = e.builder;
  bool isAbs = e.opcode() == "abs", ftz = e.has("ftz");
  Type type = e.type();
  uint64_t sign = uint64_t(1) << (type.bits - 1);
  if (type.packed)
    sign |= sign << 16;
  Value *bits = e.read(1, type), *flushed = e.constant(type.width(), 0);
  for (unsigned at = 0; ftz && at < type.width(); at += type.bits) {
    Type part = type.element();
    Value *value = e.toFloat(e.fit(b.CreateLShr(bits, at), type.bits), part);
    Value *word = e.fromFloat(e.flush(value, part), part);
    flushed = b.CreateOr(flushed, b.CreateShl(e.fit(word, type.width()), at));
  }
  bits = ftz ? flushed : bits;
  e.write(e.operand(0),
          isAbs ? b.CreateAnd(bits, ~sign) : b.CreateXor(bits, sign));
}

void emitTestProperty(Emitter &e) {
  auto &b = e.builder;
  llvm::StringRef property =
      e.oneOf("finite|infinite|number|notanumber|normal|subnormal");
  Type type = e.type();
  int mask = llvm::StringSwitch<int>(property)
                 .Case("finite", llvm::fcFinite)
                 .Case("infinite", llvm::fcInf)
                 .Case("number", llvm::fcAllFlags & ~llvm::fcNan)
                 .Case("notanumber", llvm::fcNan)
                 .Case("normal", llvm::fcNormal)
                 .Default(llvm::fcSubnormal);
  e.write(e.operand(0), b.createIsFPClass(e.readFloat(1, type), mask));
}

/// The device reads and writes only the high halves of the numbers.
void emitApproximateDouble(Emitter &e) {
  auto &b = e.builder;
  bool isRoot = e.opcode() == "rsqrt";
  e.has("approx");
  e.has("ftz");
  Type type = e.type();
  Value *high = b.CreateAnd(e.read(1, type), ~uint64_t(0xffffffff));
  Value *value = e.flush(e.toFloat(high, type), type);
  if (isRoot)
    value = e.unary(Intrinsic::sqrt, value);
  Value *result = e.flush(
      b.CreateFDiv(llvm::ConstantFP::get(b.getDoubleTy(), 1), value), type);
  Value *bits =
      b.CreateAdd(e.fromFloat(result, type), b.getInt64(uint64_t(1) << 31));
  e.write(e.operand(0), b.CreateAnd(bits, ~uint64_t(0xffffffff)));
}

constexpr Form kForms[] = {
    {"add", "rn|rz|rm|rp? ftz? sat? f32", "dss", emitFloat},
    {"add", "rn|rz|rm|rp? f64", "dss", emitFloat},
    {"add", "rn? ftz? sat? f16|f16x2", "dss", emitFloat},
    {"add", "rn? bf16|bf16x2", "dss", emitFloat, 90},
    {"sub", "rn|rz|rm|rp? ftz? sat? f32", "dss", emitFloat},
    {"sub", "rn|rz|rm|rp? f64", "dss", emitFloat},
    {"sub", "rn? ftz? sat? f16|f16x2", "dss", emitFloat},
    {"sub", "rn? bf16|bf16x2", "dss", emitFloat, 90},
    {"mul", "rn|rz|rm|rp? ftz? sat? f32", "dss", emitFloat},
    {"mul", "rn|rz|rm|rp? f64", "dss", emitFloat},
    {"mul", "rn? ftz? sat? f16|f16x2", "dss", emitFloat},
    {"mul", "rn? bf16|bf16x2", "dss", emitFloat, 90},
    {"fma", "rn|rz|rm|rp ftz? sat? f32", "dsss", emitFloat},
    {"fma", "rn|rz|rm|rp f64", "dsss", emitFloat},
    {"fma", "rn ftz? sat|relu? f16|f16x2", "dsss", emitFloat},
    {"fma", "rn relu? bf16|bf16x2", "dsss", emitFloat, 80},
    {"mad", "rn|rz|rm|rp ftz? sat? f32", "dsss", emitFloat},
    {"mad", "rn|rz|rm|rp f64", "dsss", emitFloat},
    {"div", "approx|full ftz? f32", "dss", emitFloat},
    {"div", "rn|rz|rm|rp ftz? f32", "dss", emitFloat},
    {"div", "rn|rz|rm|rp f64", "dss", emitFloat},
    {"rcp", "approx ftz? f32", "ds", emitFloat},
    {"rcp", "rn|rz|rm|rp ftz? f32", "ds", emitFloat},
    {"rcp", "rn|rz|rm|rp f64", "ds", emitFloat},
    {"rcp", "approx ftz f64", "ds", emitApproximateDouble},
    {"sqrt", "approx ftz? f32", "ds", emitFloat},
    {"sqrt", "rn|rz|rm|rp ftz? f32", "ds", emitFloat},
    {"sqrt", "rn|rz|rm|rp f64", "ds", emitFloat},
    {"rsqrt", "approx ftz? f32", "ds", emitFloat},
    {"rsqrt", "approx f64", "ds", emitFloat},
    {"rsqrt", "approx ftz f64", "ds", emitApproximateDouble},
    {"ex2", "approx ftz? f32", "ds", emitFloat},
    {"ex2", "approx f16|f16x2", "ds", emitFloat},
    {"ex2", "approx ftz bf16|bf16x2", "ds", emitFloat, 90},
    {"lg2", "approx ftz? f32", "ds", emitFloat},
    {"sin", "approx ftz? f32", "ds", emitFloat},
    {"cos", "approx ftz? f32", "ds", emitFloat},
    {"tanh", "approx f32|f16|f16x2", "ds", emitFloat},
    {"tanh", "approx bf16|bf16x2", "ds", emitFloat, 90},
    {"min", "ftz? NaN? f32", "dss", emitFloat},
    {"min", "ftz? NaN? f16|f16x2", "dss", emitFloat},
    {"min", "NaN? bf16|bf16x2", "dss", emitFloat, 80},
    {"min", "f64", "dss", emitFloat},
    {"max", "ftz? NaN? f32", "dss", emitFloat},
    {"max", "ftz? NaN? f16|f16x2", "dss", emitFloat},
    {"max", "NaN? bf16|bf16x2", "dss", emitFloat, 80},
    {"max", "f64", "dss", emitFloat},
    {"copysign", "f32|f64", "dss", emitFloat},
    {"abs", "ftz? f32|f16|f16x2", "ds", emitSign},
    {"abs", "f64|bf16|bf16x2", "ds", emitSign},
    {"neg", "ftz? f32|f16|f16x2", "ds", emitSign},
    {"neg", "f64|bf16|bf16x2", "ds", emitSign},
    {"testp", "finite|infinite|number|notanumber|normal|subnormal f32|f64",
     "ds", emitTestProperty},
};

} // namespace

llvm::ArrayRef<Form> floatForms() { return kForms; }

} // namespace cria::emulator
