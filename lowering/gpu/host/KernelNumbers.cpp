#include "lowering/gpu/host/KernelNumbers.h"

#include "runtime/Abi.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <cstddef>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// A loop that carries this number of values has no registers left for others.
static constexpr unsigned kManyValues = 16;

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
  switch (arguments.all()[number.getArgNumber()]) {
  case EntryArgument::Tokens:
    return field(offsetof(CriaStepState, tokens));
  case EntryArgument::Position:
    return field(offsetof(CriaStepState, position));
  case EntryArgument::First:
    return field(offsetof(CriaStepState, first_logit));
  case EntryArgument::FirstHidden:
    return field(offsetof(CriaStepState, first_hidden));
  case EntryArgument::Source:
    return field(offsetof(CriaStepState, source));
  default:
    llvm_unreachable("no other argument is a number");
  }
}

bool KernelNumbers::canCompute(Value number) {
  if (auto argument = dyn_cast<BlockArgument>(number))
    return isa<func::FuncOp>(argument.getOwner()->getParentOp()) &&
           argument.getType().isIndex();
  Operation *op = number.getDefiningOp();
  return op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
         llvm::all_of(op->getOperands(), canCompute);
}

Value KernelNumbers::rebuild(Value number) {
  if (Value before = known.lookupOrNull(number))
    return before;
  if (auto argument = dyn_cast<BlockArgument>(number)) {
    known.map(number, rebuild(argument));
  } else {
    for (Value operand : number.getDefiningOp()->getOperands())
      rebuild(operand);
    b.clone(*number.getDefiningOp(), known);
  }
  return known.lookup(number);
}

/// The op before which a parameter's number is computed. Null means the
/// kernel's start, where nothing waits for memory yet. A number that is used
/// only after a loop that carries many values is computed after that loop:
/// before it, no register is left.
static Operation *latePlace(BlockArgument parameter) {
  Block &body = *parameter.getOwner();
  Operation *first = body.getTerminator();
  for (Operation *user : parameter.getUsers()) {
    Operation *op = body.findAncestorOpInBlock(*user);
    if (op->isBeforeInBlock(first))
      first = op;
  }
  for (Operation &op : body) {
    if (&op == first)
      break;
    if (isa<scf::ForOp>(op) && op.getNumResults() >= kManyValues)
      return first;
  }
  return nullptr;
}

LogicalResult KernelNumbers::compute(unsigned i, Value number) {
  if (!canCompute(number))
    return failure();
  BlockArgument parameter = kernel.getArgument(i);
  OpBuilder::InsertionGuard begin(b);
  IRMapping knownAtBegin = known;
  Operation *place = latePlace(parameter);
  if (place) {
    b.setInsertionPoint(place);
    known.clear();
  }
  parameter.replaceAllUsesWith(rebuild(number));
  if (place)
    known = knownAtBegin;
  computed.resize(kernel.getNumArguments());
  computed.set(i);
  return success();
}

bool KernelNumbers::finish() {
  if (computed.none())
    return false;
  // By hand: after the parameters, the block has the kernel's shared memory.
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
