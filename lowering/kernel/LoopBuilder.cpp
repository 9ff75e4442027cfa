#include "lowering/kernel/LoopBuilder.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;

Value LoopBuilder::number(int64_t value, Value like) {
  return create<arith::ConstantOp>(getIntegerAttr(like.getType(), value));
}

Value LoopBuilder::add(Value a, Value b) {
  return createOrFold<arith::AddIOp>(a, b, overflow);
}
Value LoopBuilder::add(Value a, int64_t b) {
  return b == 0 ? a : add(a, number(b, a));
}
Value LoopBuilder::sub(Value a, Value b) {
  return createOrFold<arith::SubIOp>(a, b, overflow);
}
Value LoopBuilder::mul(Value a, Value b) {
  return createOrFold<arith::MulIOp>(a, b, overflow);
}
Value LoopBuilder::mul(Value a, int64_t b) {
  return b == 1 ? a : mul(a, number(b, a));
}
Value LoopBuilder::div(Value a, int64_t b) {
  return b == 1 ? a : createOrFold<arith::DivUIOp>(a, number(b, a));
}
Value LoopBuilder::ceilDiv(Value a, int64_t b) { return div(add(a, b - 1), b); }
Value LoopBuilder::rem(Value a, int64_t b) {
  return createOrFold<arith::RemUIOp>(a, number(b, a));
}
Value LoopBuilder::min(Value a, Value b) {
  return createOrFold<arith::MinSIOp>(a, b);
}
Value LoopBuilder::max(Value a, Value b) {
  return createOrFold<arith::MaxSIOp>(a, b);
}
Value LoopBuilder::less(Value a, Value b) {
  return create<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}

Value LoopBuilder::equal(Value a, Value b) {
  return create<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b);
}

SmallVector<Value> LoopBuilder::loop(
    Value first, Value end, int64_t step, ValueRange init,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = create<scf::ForOp>(
      first, end, number(step, first), init,
      [&](OpBuilder &, Location, Value i, ValueRange carried) {
        create<scf::YieldOp>(body(i, carried));
      });
  return SmallVector<Value>(op.getResults());
}

void LoopBuilder::loop(Value first, Value end, int64_t step,
                       llvm::function_ref<void(Value)> body) {
  loop(first, end, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

void LoopBuilder::when(Value condition, llvm::function_ref<void()> then,
                       llvm::function_ref<void()> otherwise) {
  auto op = create<scf::IfOp>(condition, /*withElse=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(op.thenBlock()->getTerminator());
  then();
  if (!otherwise)
    return;
  setInsertionPoint(op.elseBlock()->getTerminator());
  otherwise();
}
