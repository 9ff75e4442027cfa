#include "lowering/cpu/VectorBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace cria;

Value VectorBuilder::index(int64_t value) {
  return create<arith::ConstantIndexOp>(value);
}

Value VectorBuilder::add(Value a, Value b) {
  return createOrFold<arith::AddIOp>(a, b);
}

Value VectorBuilder::add(Value a, int64_t b) {
  return b == 0 ? a : add(a, index(b));
}

Value VectorBuilder::mul(Value a, int64_t b) {
  return createOrFold<arith::MulIOp>(a, index(b));
}

Value VectorBuilder::div(Value a, int64_t b) {
  return createOrFold<arith::DivUIOp>(a, index(b));
}

Value VectorBuilder::less(Value a, Value b) {
  return create<arith::CmpIOp>(arith::CmpIPredicate::slt, a, b);
}

VectorType VectorBuilder::vectorType(int64_t lanes, Type element) {
  return VectorType::get({lanes}, element);
}

Value VectorBuilder::zero(int64_t lanes) {
  auto type = vectorType(lanes, getF32Type());
  return create<arith::ConstantOp>(
      type, DenseElementsAttr::get(type, llvm::APFloat(0.0f)));
}

Value VectorBuilder::load(Value memref, ValueRange at, int64_t lanes) {
  Type element = getElementTypeOrSelf(memref.getType());
  return create<vector::LoadOp>(vectorType(lanes, element), memref, at);
}

Value VectorBuilder::loadWide(Value memref, ValueRange at, int64_t lanes) {
  Value vector = load(memref, at, lanes);
  if (getElementTypeOrSelf(memref.getType()).isF32())
    return vector;
  return create<arith::ExtFOp>(vectorType(lanes, getF32Type()), vector);
}

void VectorBuilder::store(Value vector, Value memref, ValueRange at) {
  create<vector::StoreOp>(vector, memref, at);
}

Value VectorBuilder::fma(Value a, Value b, Value acc) {
  return create<vector::FMAOp>(a, b, acc);
}

Value VectorBuilder::dotPairs(Value a, Value b, Value acc) {
  return create<x86vector::DotBF16Op>(acc.getType(), acc, a, b);
}

Value VectorBuilder::splat(Value memref, ValueRange at, int64_t lanes) {
  Value scalar = create<memref::LoadOp>(memref, at);
  if (!scalar.getType().isF32())
    scalar = create<arith::ExtFOp>(getF32Type(), scalar);
  return create<vector::BroadcastOp>(vectorType(lanes, getF32Type()), scalar);
}

Value VectorBuilder::size(Value memref, unsigned dim) {
  return createOrFold<memref::DimOp>(memref, dim);
}

SmallVector<Value> VectorBuilder::loop(
    Value first, Value end, int64_t step, ValueRange init,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op = create<scf::ForOp>(first, end, index(step), init);
  OpBuilder::InsertionGuard guard(*this);
  if (init.empty())
    setInsertionPoint(op.getBody()->getTerminator());
  else
    setInsertionPointToEnd(op.getBody());
  auto yielded = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!init.empty())
    create<scf::YieldOp>(yielded);
  return SmallVector<Value>(op.getResults());
}

void VectorBuilder::loop(Value first, Value end, int64_t step,
                         llvm::function_ref<void(Value)> body) {
  loop(first, end, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

void VectorBuilder::parallel(Value end, llvm::function_ref<void(Value)> body) {
  auto op = create<scf::ForallOp>(ArrayRef<OpFoldResult>{end}, ValueRange{},
                                  std::nullopt);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(op.getTerminator());
  body(op.getInductionVar(0));
}

void VectorBuilder::when(Value condition, llvm::function_ref<void()> then,
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
