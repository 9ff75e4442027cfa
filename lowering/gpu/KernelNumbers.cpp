#include "lowering/gpu/KernelNumbers.h"

#include "runtime/Abi.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <cstddef>

using namespace mlir;
using namespace cria;
using namespace cria::cuda;

/// The 32-bit field of CriaStepState at an offset, as an index.
Value KernelNumbers::field(size_t offset) {
  Location loc = kernel.getLoc();
  auto bytes = MemRefType::get({sizeof(CriaStepState)}, b.getI8Type());
  if (!state)
    state = kernel.front().insertArgument(kernel.getNumArguments(), bytes, loc);
  Value at = arith::ConstantIndexOp::create(b, loc, offset);
  Value view = memref::ViewOp::create(
      b, loc, MemRefType::get({}, b.getI32Type()), state, at, ValueRange());
  Value value = memref::LoadOp::create(b, loc, view, ValueRange());
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), value);
}

Value KernelNumbers::rebuild(BlockArgument number) {
  if (!isa<func::FuncOp>(number.getOwner()->getParentOp()))
    return {};
  switch (arguments.all()[number.getArgNumber()]) {
  case EntryArgument::Tokens:
    return field(offsetof(CriaStepState, tokens));
  case EntryArgument::Position:
    return field(offsetof(CriaStepState, position));
  case EntryArgument::First:
    return field(offsetof(CriaStepState, first_logit));
  case EntryArgument::Source:
    return field(offsetof(CriaStepState, source));
  default:
    return {};
  }
}

/// Null for what is neither a constant nor computed from the step's numbers.
Value KernelNumbers::rebuild(Value number) {
  if (Value before = known.lookupOrNull(number))
    return before;
  Value result;
  Operation *op = number.getDefiningOp();
  if (auto argument = dyn_cast<BlockArgument>(number)) {
    result = rebuild(argument);
  } else if (isa<affine::AffineApplyOp>(op) ||
             (isa<arith::ArithDialect>(op->getDialect()) &&
              isMemoryEffectFree(op))) {
    for (Value operand : op->getOperands())
      if (!rebuild(operand))
        return {};
    result = b.clone(*op, known)
                 ->getResult(cast<OpResult>(number).getResultNumber());
  }
  if (result)
    known.map(number, result);
  return result;
}

LogicalResult KernelNumbers::compute(unsigned i, Value number) {
  Value value = rebuild(number);
  if (!value)
    return failure();
  kernel.getArgument(i).replaceAllUsesWith(value);
  computed.resize(kernel.getNumArguments());
  computed.set(i);
  return success();
}

bool KernelNumbers::finish() {
  if (computed.none())
    return false;
  // By hand: behind the parameters the block has the kernel's memory.
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < computed.size(); ++i)
    if (!computed.test(i)) {
      types.push_back(kernel.getArgumentTypes()[i]);
      attributes.push_back(kernel.getArgAttrDict(i));
    }
  if (state) {
    types.push_back(state.getType());
    attributes.push_back(b.getDictionaryAttr({}));
  }
  for (int i : llvm::reverse(computed.set_bits()))
    kernel.front().eraseArgument(i);
  kernel.removeArgAttrsAttr();
  kernel.setFunctionTypeAttr(TypeAttr::get(b.getFunctionType(types, {})));
  kernel.setAllArgAttrs(attributes);
  return bool(state);
}
