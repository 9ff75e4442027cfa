#include "lowering/memory/Bounds.h"

#include "lowering/entry/Entry.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace cria;

/// The most calls in each other through which an argument is followed.
/// Functions may call each other in circles.
static constexpr int kMostCalls = 16;
/// The most numbers and buffers that one bound follows from.
static constexpr int kMostSteps = 1 << 12;

LogicalResult cria::verifyDimensions(ModuleOp module) {
  auto walked = module.walk([](ShapedDimOpInterface dim) -> WalkResult {
    auto type = dyn_cast<ShapedType>(dim.getShapedValue().getType());
    std::optional<int64_t> index = getConstantIntValue(dim.getDimension());
    if (!type || !type.hasRank() || !index ||
        (*index >= 0 && *index < type.getRank()))
      return WalkResult::advance();
    return dim->emitError("expected a dimension of ")
           << type << ", got " << *index;
  });
  return failure(walked.wasInterrupted());
}

/// Whether a function's caller passes the argument. Other blocks of a function
/// take theirs from branches.
static bool isPassed(BlockArgument argument) {
  return argument.getOwner()->isEntryBlock() &&
         isa<func::FuncOp>(argument.getOwner()->getParentOp());
}

/// Whether the number is known to be negative, be it for some inputs only.
static bool mayBeNegative(Value number) {
  FailureOr<int64_t> least = ValueBoundsConstraintSet::computeConstantBound(
      presburger::BoundType::LB, number);
  return succeeded(least) && *least < 0;
}

/// The most tokens of a call. An entry that draws an id reads the logits of one
/// token.
static int64_t mostTokens(func::FuncOp function) {
  return chunkOf(function).value_or(1);
}

Bounds::Bounds(func::FuncOp function) : chunk(mostTokens(function)) {}

/// The greatest bound of what calls of the function pass for an argument.
/// An argument that no call passes is taken for a number of tokens.
std::optional<int64_t> Bounds::mostPassed(
    BlockArgument argument,
    llvm::function_ref<std::optional<int64_t>(Value)> bound) const {
  if (!isPassed(argument) || calls == kMostCalls)
    return std::nullopt;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (isEntry(function))
    return std::nullopt;
  ++calls;
  llvm::scope_exit leave([&] { --calls; });
  std::optional<int64_t> result;
  auto module = function->getParentOfType<ModuleOp>();
  auto walked = module.walk([&](func::CallOp call) {
    if (call.getCallee() != function.getName())
      return WalkResult::advance();
    std::optional<int64_t> passed =
        bound(call.getOperand(argument.getArgNumber()));
    result = std::max(result, passed);
    return passed ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (walked.wasInterrupted())
    return std::nullopt;
  return result.value_or(chunk);
}

/// The bound of an argument. The attribute `cria.arguments` bounds an entry's
/// arguments, and the callers bound a kernel's. A loop's number is less than
/// its end.
std::optional<int64_t> Bounds::most(BlockArgument argument) const {
  auto bound = [&](Value value) { return most(value); };
  if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
    return argument == loop.getInductionVar()
               ? most(loop.getUpperBound())
               : mostCarried(loop, argument, bound);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (!function || !isEntry(function) || !isPassed(argument))
    return mostPassed(argument, bound);
  FailureOr<EntryArguments> arguments = EntryArguments::of(function);
  using What = EntryArgument;
  bool tokens = succeeded(arguments) &&
                llvm::is_contained({What::Tokens, What::First,
                                    What::FirstHidden, What::Source},
                                   arguments->all()[argument.getArgNumber()]);
  return tokens ? std::optional(chunk) : std::nullopt;
}

/// The bound of what a loop carries: of the first value, and of those that
/// turns yield.
std::optional<int64_t> Bounds::mostCarried(
    scf::ForOp loop, BlockArgument argument,
    llvm::function_ref<std::optional<int64_t>(Value)> bound) const {
  // A turn may yield what it was given, or as much: that adds no bound.
  if (llvm::is_contained(carried, argument))
    return 0;
  auto first = bound(loop.getTiedLoopInit(argument)->get());
  carried.push_back(argument);
  auto later = bound(loop.getTiedLoopYieldedValue(argument)->get());
  carried.pop_back();
  return first && later ? std::optional(std::max(*first, *later))
                        : std::nullopt;
}

/// The bound of a dimension of a buffer.
std::optional<int64_t> Bounds::most(Value buffer, int64_t dim) const {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  if (!type || dim < 0 || dim >= type.getRank() || ++steps > kMostSteps)
    return std::nullopt;
  if (!type.isDynamicDim(dim))
    return type.getDimSize(dim);
  auto bound = [&](Value other) { return most(other, dim); };
  if (auto argument = dyn_cast<BlockArgument>(buffer)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    return loop ? mostCarried(loop, argument, bound)
                : mostPassed(argument, bound);
  }
  Operation *op = buffer.getDefiningOp();
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    auto a = most(select.getTrueValue(), dim);
    auto b = most(select.getFalseValue(), dim);
    return a && b ? std::optional(std::max(*a, *b)) : std::nullopt;
  }
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return mostCarried(
        loop, loop.getTiedLoopRegionIterArg(cast<OpResult>(buffer)), bound);
  if (auto view = dyn_cast<memref::CastOp>(op))
    return most(view.getSource(), dim);
  if (auto alloc = dyn_cast<memref::AllocOp>(op))
    return most(alloc.getDynamicSizes()[type.getDynamicDimIndex(dim)]);
  if (auto expand = dyn_cast<memref::ExpandShapeOp>(op))
    return most(expand.getMixedOutputShape()[dim]);
  if (auto collapse = dyn_cast<memref::CollapseShapeOp>(op)) {
    std::optional<int64_t> product = 1;
    for (int64_t each : collapse.getReassociationIndices()[dim]) {
      std::optional<int64_t> size = most(collapse.getSrc(), each);
      product = product && size ? llvm::checkedMul(*product, *size)
                                : std::optional<int64_t>();
    }
    return product;
  }
  auto view = dyn_cast<OffsetSizeAndStrideOpInterface>(op);
  if (!view)
    return std::nullopt;
  SmallVector<OpFoldResult> sizes = view.getMixedSizes();
  if (auto subview = dyn_cast<memref::SubViewOp>(op)) {
    llvm::SmallBitVector dropped = subview.getDroppedDims();
    for (int i : llvm::reverse(dropped.set_bits()))
      sizes.erase(sizes.begin() + i);
  }
  return most(sizes[dim]);
}

/// The bound of the minimum of a map's results.
std::optional<int64_t> Bounds::most(AffineMap map, ValueRange operands) const {
  SmallVector<std::optional<int64_t>> least(operands.size(), 0), greatest;
  for (Value operand : operands)
    greatest.push_back(most(operand));
  std::optional<int64_t> result;
  for (AffineExpr expr : map.getResults()) {
    // A turn may not yield more than it was given.
    bool mayGrow = isa<AffineBinaryOpExpr>(expr);
    if (mayGrow && !carried.empty())
      continue;
    auto bound = getBoundForAffineExpr(expr, map.getNumDims(),
                                       map.getNumSymbols(), least, greatest,
                                       /*isUpper=*/true);
    if (bound)
      result = std::min(*bound, result.value_or(*bound));
  }
  return result;
}

std::optional<int64_t> Bounds::most(OpFoldResult size) const {
  auto number = dyn_cast<Value>(size);
  return number ? most(number) : getConstantIntValue(size);
}

std::optional<int64_t> Bounds::most(Value size) const {
  if (++steps > kMostSteps)
    return std::nullopt;
  FailureOr<int64_t> constant = ValueBoundsConstraintSet::computeConstantBound(
      presburger::BoundType::UB, size, nullptr, /*closedUB=*/true);
  if (succeeded(constant))
    return *constant;
  if (auto argument = dyn_cast<BlockArgument>(size))
    return most(argument);
  Operation *op = size.getDefiningOp();
  if (auto dim = dyn_cast<memref::DimOp>(op))
    return dim.getConstantIndex()
               ? most(dim.getSource(), *dim.getConstantIndex())
               : std::nullopt;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return most(loop.getTiedLoopRegionIterArg(cast<OpResult>(size)));
  if (isa<arith::SubIOp>(op) && mayBeNegative(op->getOperand(1)))
    return std::nullopt;
  // The results are at most the first operand, because no number is negative.
  if (isa<arith::SubIOp, arith::DivUIOp, arith::DivSIOp, arith::CeilDivUIOp,
          arith::CeilDivSIOp, arith::FloorDivSIOp>(op))
    return most(op->getOperand(0));
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op))
    return most(apply.getAffineMap(), apply.getOperands());
  if (auto min = dyn_cast<affine::AffineMinOp>(op))
    return most(min.getAffineMap(), min.getOperands());
  // A turn may not yield more than it was given.
  if (!isa<arith::AddIOp, arith::MulIOp>(op) || !carried.empty())
    return std::nullopt;
  auto a = most(op->getOperand(0)), b = most(op->getOperand(1));
  if (!a || !b)
    return std::nullopt;
  return isa<arith::AddIOp>(op) ? llvm::checkedAdd(*a, *b)
                                : llvm::checkedMul(*a, *b);
}

FailureOr<SmallVector<int64_t>> Bounds::mostShape(memref::AllocOp alloc) const {
  SmallVector<int64_t> shape;
  for (OpFoldResult size : alloc.getMixedSizes()) {
    std::optional<int64_t> bound = most(size);
    if (!bound)
      return alloc.emitError("expected sizes with a constant bound, or numbers "
                             "of tokens, got ")
             << alloc.getType();
    shape.push_back(*bound);
  }
  return shape;
}
