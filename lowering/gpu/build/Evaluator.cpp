#include "lowering/gpu/build/Evaluator.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;
using linalg::LinalgOp;
using Kind = Elements::Definition;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value Evaluator::operator()(const Element &element) {
  if (Value known = leaf ? leaf(element) : Value())
    return known;
  Kind made = elements.define(element, box);
  if (made.kind == Kind::Same)
    return (*this)(made.same);
  if (made.kind == Kind::Payload)
    return payload(made.op, made.result, made.loops);
  if (made.kind == Kind::Fold) {
    Value sum = outside(filledWith(made.op.getDpsInits()[0].getDefiningOp()));
    for (const Kind &turn : elements.payloads(made))
      sum = payload(turn.op, turn.result, turn.loops, sum);
    return sum;
  }
  Type type = cast<RankedTensorType>(element.tensor.getType()).getElementType();
  if (made.kind != Kind::Leaf)
    return b.zero(type);
  return launch.load(
      element, loops,
      llvm::any_of(element.at, [&](auto at) { return isWide(at); }) ? lanes
                                                                    : 1);
}

/// A constant, a number, or an element of a tensor from outside of a payload.
Value Evaluator::outside(Value value) {
  if (auto read = value.getDefiningOp<tensor::ExtractOp>();
      read && !value.getType().isIndex())
    return (*this)(elements.extracted(read));
  if (Operation *op = value.getDefiningOp();
      op && matchPattern(op, m_Constant()))
    return b.clone(*op)->getResult(0);
  return b.create<arith::IndexCastOp>(
      b.getIndexType(), launch.value(elements.expr(value), loops));
}

/// Reads an element whose place the payload computes; a wide one begins there.
Value Evaluator::gathered(tensor::ExtractOp read, const IRMapping &mapping,
                          bool wide) {
  TypedValue<RankedTensorType> table = read.getTensor();
  if (isa<BlockArgument>(table) && !launch.holds(table)) {
    // The element is at indices from outside of the payload, such as a layer's
    // number, and at indices that the payload computes. The latter are added as
    // loops.
    SmallVector<Value> all(loops);
    Element element{table, {}};
    for (Value index : read.getIndices()) {
      Value own = mapping.lookupOrNull(index);
      element.at.push_back(own ? elements.dim(all.size())
                               : elements.expr(index));
      if (own)
        all.push_back(b.create<arith::IndexCastOp>(b.getI32Type(), own));
    }
    return launch.load(element, all, wide ? lanes : 1);
  }
  ArrayRef<int64_t> shape = table.getType().getShape();
  Value row = b.i32(0), column = row;
  for (auto [i, index] : llvm::enumerate(read.getIndices())) {
    if (i == 0 && launch.holds(table))
      continue; // the block's own one
    Value at = mapping.lookupOrNull(index);
    at = b.create<arith::IndexCastOp>(b.getI32Type(), at ? at : outside(index));
    if (i + 1 == shape.size())
      column = at;
    else
      row = i ? b.add(b.mul(row, shape[i]), at) : at;
  }
  return b.load(launch.memoryOf(launch.holds(table) ? table : withRows(table)),
                row, column, wide ? lanes : 1, Access::ReadOnly);
}

/// Clones the op, on vectors if one of its operands is a vector.
Value Evaluator::clone(Operation &op, const IRMapping &mapping) {
  SmallVector<Value> operands;
  bool wide = false;
  for (Value operand : op.getOperands()) {
    Value value = mapping.lookupOrNull(operand);
    operands.push_back(value ? value : outside(operand));
    wide |= isa<VectorType>(operands.back().getType());
  }
  if (wide)
    for (Value &operand : operands)
      if (!isa<VectorType>(operand.getType()))
        operand = b.splat(operand, lanes);
  Type type = op.getResult(0).getType();
  OperationState state(op.getLoc(), op.getName());
  state.addOperands(operands);
  state.addTypes(wide ? Type(VectorType::get({lanes}, type)) : type);
  state.addAttributes(op.getAttrs());
  return b.create(state)->getResult(0);
}

Value Evaluator::payload(LinalgOp op, unsigned result, ArrayRef<AffineExpr> at,
                         Value out) {
  return inPayload(op, yielded(op, result), at, out);
}

Value Evaluator::inPayload(LinalgOp op, Value wanted, ArrayRef<AffineExpr> at,
                           Value out) {
  IRMapping mapping;
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (argument.use_empty())
      continue;
    if (out && op.isDpsInit(&operand))
      mapping.map(argument, out);
    else if (isa<RankedTensorType>(operand.get().getType()))
      mapping.map(argument, (*this)(elements.operand(op, operand, at, box)));
    else
      mapping.map(argument, outside(operand.get()));
  }
  for (Operation &nested : op.getBlock()->without_terminator()) {
    Value made;
    if (auto index = dyn_cast<linalg::IndexOp>(nested)) {
      made = b.create<arith::IndexCastOp>(
          b.getIndexType(), launch.value(at[index.getDim()], loops));
    } else if (auto read = dyn_cast<tensor::ExtractOp>(nested)) {
      auto last =
          read.getIndices().empty()
              ? linalg::IndexOp()
              : read.getIndices().back().getDefiningOp<linalg::IndexOp>();
      made = gathered(read, mapping, last && isWide(at[last.getDim()]));
    } else {
      made = clone(nested, mapping);
    }
    mapping.map(nested.getResult(0), made);
  }
  Value value = mapping.lookupOrNull(wanted);
  return value ? value : outside(wanted);
}

//===----------------------------------------------------------------------===//
// What can be computed
//===----------------------------------------------------------------------===//

bool simt::isNumber(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && matchPattern(op, m_Constant()))
    return true;
  if (!value.getType().isIndex())
    return false;
  return !op || isa<tensor::DimOp>(op) ||
         (isMemoryEffectFree(op) && op->getNumRegions() == 0 &&
          llvm::all_of(op->getOperands(), isNumber));
}

bool simt::canClone(LinalgOp op, const Elements &elements) {
  auto known = [&](Value value) {
    bool isRead =
        value.getType().isIndex() || value.getDefiningOp<tensor::ExtractOp>();
    return isNumber(value) || (isRead && elements.isOfTurn(value));
  };
  auto isOutside = [&](Value value) {
    return value.getParentBlock() != op.getBlock();
  };
  for (Value operand : op->getOperands())
    if (!isa<RankedTensorType>(operand.getType()) && !known(operand))
      return false;
  for (Value value : op.getBlock()->getTerminator()->getOperands())
    if (isOutside(value) && !known(value))
      return false;
  return llvm::all_of(op.getBlock()->without_terminator(), [&](Operation &op) {
    if (op.getNumRegions() || op.getNumResults() != 1)
      return false;
    bool read = isa<tensor::ExtractOp>(op);
    return (read || isMemoryEffectFree(&op)) &&
           llvm::all_of(op.getOperands(), [&](Value value) {
             return !isOutside(value) || known(value) ||
                    (read && isa<RankedTensorType>(value.getType()));
           });
  });
}

bool simt::canEvaluate(Elements &elements, const Element &element,
                       ArrayRef<Size> box) {
  Kind made = elements.define(element, box);
  if (made.kind == Kind::Same)
    return canEvaluate(elements, made.same, box);
  SmallVector<Kind> payloads = elements.payloads(made);
  if (payloads.empty())
    return made.kind == Kind::Leaf;
  return canClone(made.op, elements) &&
         llvm::all_of(payloads, [&](const Kind &payload) {
           return llvm::all_of(elements.operands(payload, box),
                               [&](const Element &read) {
                                 return canEvaluate(elements, read, box);
                               });
         });
}

/// Whether a payload reads an element at a place that it computes from values
/// that differ between lanes, for example a code's entry of a table.
static bool readsAtWide(LinalgOp op, ArrayRef<AffineExpr> at, unsigned last) {
  llvm::DenseSet<Value> wide;
  auto isWide = [&](Value value) { return wide.contains(value); };
  for (OpOperand &operand : op->getOpOperands())
    if (llvm::any_of(op.getMatchingIndexingMap(&operand).getResults(),
                     [&](AffineExpr place) {
                       return place.replaceDims(at).isFunctionOfDim(last);
                     }))
      wide.insert(op.getMatchingBlockArgument(&operand));
  for (Operation &nested : op.getBlock()->without_terminator()) {
    auto index = dyn_cast<linalg::IndexOp>(nested);
    if (index ? at[index.getDim()].isFunctionOfDim(last)
              : llvm::any_of(nested.getOperands(), isWide))
      wide.insert(nested.getResult(0));
    auto read = dyn_cast<tensor::ExtractOp>(nested);
    if (!read || read.getIndices().empty())
      continue;
    // payloadWidth looks at the loop that is the last coordinate.
    bool isLoop = isa_and_present<linalg::IndexOp>(
        read.getIndices().back().getDefiningOp());
    if (llvm::any_of(read.getIndices().drop_back(isLoop), isWide))
      return true;
  }
  return false;
}

/// The greatest width of an op's payload, without its leaves.
static int64_t payloadWidth(Launch &launch, const Kind &made,
                            ArrayRef<Size> box, int64_t most) {
  LinalgOp op = made.op;
  if (readsAtWide(op, made.loops, box.size() - 1))
    return 1;
  auto isWide = [&](linalg::IndexOp index) {
    return index && made.loops[index.getDim()].isFunctionOfDim(box.size() - 1);
  };
  for (Operation &nested : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(nested)) {
      // The index is used only as the column of what is read.
      bool column = llvm::all_of(index->getUses(), [&](OpOperand &use) {
        return isa<tensor::ExtractOp>(use.getOwner()) &&
               use.getOperandNumber() + 1 == use.getOwner()->getNumOperands();
      });
      if (isWide(index) &&
          (!column || made.loops[index.getDim()] !=
                          launch.of.elements.dim(box.size() - 1)))
        return 1;
    } else if (auto read = dyn_cast<tensor::ExtractOp>(nested)) {
      auto type = read.getTensor().getType();
      if (!read.getIndices().empty() &&
          isWide(read.getIndices().back().getDefiningOp<linalg::IndexOp>()))
        most = std::gcd(most, std::gcd(type.getShape().back(),
                                       128 / type.getElementTypeBitWidth()));
    } else if (!OpTrait::hasElementwiseMappableTraits(&nested) &&
               nested.getNumOperands()) {
      return 1;
    }
  }
  return most;
}

int64_t simt::vectorWidth(Launch &launch, const Element &element,
                          ArrayRef<Size> box, int64_t most,
                          ArrayRef<Element> known) {
  if (llvm::is_contained(known, element))
    return most;
  Elements &elements = launch.of.elements;
  unsigned last = box.size() - 1;
  Kind made = elements.define(element, box);
  if (made.kind == Kind::Same)
    return vectorWidth(launch, made.same, box, most, known);
  auto isWide = [&](AffineExpr at) { return at && at.isFunctionOfDim(last); };
  SmallVector<Kind> payloads = elements.payloads(made);
  for (const Kind &payload : payloads) {
    most = payloadWidth(launch, payload, box, most);
    for (const Element &read : elements.operands(payload, box))
      most = vectorWidth(launch, read, box, most, known);
  }
  if (!payloads.empty())
    return most;
  if (llvm::none_of(element.at, isWide))
    return most;
  if (!elements.isStored(element.tensor))
    return 1;
  return accessWidth(launch.place(element), last, most);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// The op that combines a term with the output.
static Operation *combiner(linalg::GenericOp op) {
  Operation *last = yielded(op).getDefiningOp();
  BlockArgument out = op.getRegionOutputArgs()[0];
  bool fits = last && last->getNumOperands() == 2 && out.hasOneUse() &&
              *out.user_begin() == last &&
              last->getOperand(0) != last->getOperand(1);
  return fits ? last : nullptr;
}

/// The value that changes nothing when it is combined with another.
static std::optional<double> neutral(Operation *combiner) {
  double infinity = std::numeric_limits<double>::infinity();
  if (auto add = dyn_cast<arith::AddFOp>(combiner))
    if (bitEnumContainsAll(add.getFastmath(), arith::FastMathFlags::reassoc))
      return 0;
  if (auto mul = dyn_cast<arith::MulFOp>(combiner))
    if (bitEnumContainsAll(mul.getFastmath(), arith::FastMathFlags::reassoc))
      return 1;
  if (isa<arith::MaximumFOp, arith::MaxNumFOp>(combiner))
    return -infinity;
  if (isa<arith::MinimumFOp, arith::MinNumFOp>(combiner))
    return infinity;
  return std::nullopt;
}

/// The value that a reduction begins with.
static Value initial(linalg::GenericOp op) {
  return filledWith(op.getDpsInits()[0].getDefiningOp());
}

bool simt::canReduce(Elements &elements, const Reduction &reduction,
                     ArrayRef<Size> box) {
  linalg::GenericOp op = reduction.op;
  Operation *combine = combiner(op);
  Value begin = initial(op);
  if (!combine || !neutral(combine) || !begin || !isNumber(begin) ||
      !begin.getType().isF32() || !reduction.terms.isConstant() ||
      !canClone(cast<LinalgOp>(op.getOperation()), elements))
    return false;
  Box longer(box);
  longer.push_back(reduction.terms);
  return llvm::all_of(op.getDpsInputOperands(), [&](OpOperand *input) {
    return !isa<RankedTensorType>(input->get().getType()) ||
           canEvaluate(elements,
                       elements.operand(op, *input, reduction.loops, longer),
                       longer);
  });
}

static Box withTerms(ArrayRef<Size> box, const Reduction &reduction) {
  Box longer(box);
  longer.push_back(reduction.terms);
  return longer;
}

int64_t simt::termsWidth(Launch &launch, const Reduction &reduction,
                         ArrayRef<Size> box, int64_t most) {
  linalg::GenericOp op = reduction.op;
  Box longer = withTerms(box, reduction);
  for (OpOperand *input : op.getDpsInputOperands())
    most = vectorWidth(
        launch, launch.of.elements.operand(op, *input, reduction.loops, longer),
        longer, most);
  Kind made{Kind::Payload};
  made.op = op;
  made.loops = reduction.loops;
  return payloadWidth(launch, made, longer, most);
}

namespace {
/// Builds one reduction.
class Reducer {
public:
  Reducer(Launch &launch, const Reduction &reduction, ArrayRef<Size> box,
          ValueRange loops, const Evaluator::Leaf &leaf)
      : launch(launch), b(launch.b), op(reduction.op), places(reduction.loops),
        combine(combiner(op)), box(withTerms(box, reduction)), turn(loops),
        leaf(leaf) {
    turn.push_back(Value());
  }

  Value combined(Value x, Value y) {
    OperationState state(op.getLoc(), combine->getName(), {x, y}, x.getType(),
                         combine->getAttrs());
    return b.create(state)->getResult(0);
  }
  /// `width` neutral values.
  Value start(int64_t width) {
    return b.splat(b.f32(*neutral(combine)), width);
  }
  /// `sum` combined with the terms from `k` on.
  Value add(Value sum, Value k, int64_t width) {
    turn.back() = k;
    Evaluator term(launch, box, turn, width, leaf);
    return term.payload(op, 0, places, sum);
  }
  /// The block's result from each thread's vector.
  Value ofBlock(Value partial) {
    auto combined = [&](Value x, Value y) { return this->combined(x, y); };
    Rows scratch = b.shared(b.getF32Type(), b.threads() / kWarp, 0);
    return begun(b.blockReduce(b.reduce(partial, combined), scratch, combined));
  }
  /// `all` combined with the value that the reduction begins with.
  Value begun(Value all) {
    APFloat begin(0.0f);
    matchPattern(initial(op), m_ConstantFloat(&begin));
    if (begin.convertToDouble() == *neutral(combine))
      return all;
    return combined(all, b.f32(begin.convertToDouble()));
  }

private:
  Launch &launch;
  KernelBuilder &b;
  linalg::GenericOp op;
  ArrayRef<AffineExpr> places;
  Operation *combine;
  Box box;
  SmallVector<Value> turn;
  const Evaluator::Leaf &leaf;
};
} // namespace

Value simt::reduce(Launch &launch, const Reduction &reduction,
                   ArrayRef<Size> box, ValueRange loops,
                   const Evaluator::Leaf &leaf) {
  KernelBuilder &b = launch.b;
  Reducer reducer(launch, reduction, box, loops, leaf);
  int64_t terms = reduction.terms.constant;
  int64_t width =
      termsWidth(launch, reduction, box, std::gcd<int64_t>(terms, 8));
  auto partial =
      b.loop(b.mul(b.thread(), width), b.i32(terms), b.threads() * width,
             {reducer.start(width)}, [&](Value k, ValueRange carried) {
               return SmallVector<Value>{reducer.add(carried[0], k, width)};
             });
  return reducer.ofBlock(partial[0]);
}

Value simt::reduceVectors(Launch &launch, const Reduction &reduction,
                          ArrayRef<Size> box, ValueRange loops, int64_t width,
                          ArrayRef<RowVector> vectors) {
  KernelBuilder &b = launch.b;
  Value partial;
  for (const RowVector &vector : vectors) {
    Reducer reducer(launch, reduction, box, loops, vector.leaf);
    if (!partial)
      partial = reducer.start(width);
    Value next = reducer.add(partial, vector.at, width);
    partial = vector.exists ? b.select(vector.exists, next, partial) : next;
  }
  return Reducer(launch, reduction, box, loops, {}).ofBlock(partial);
}

Value simt::reduceGroup(Launch &launch, const Reduction &reduction,
                        ArrayRef<Size> box, ValueRange loops, int64_t lanes,
                        const Evaluator::Leaf &leaf) {
  KernelBuilder &b = launch.b;
  Reducer reducer(launch, reduction, box, loops, leaf);
  auto combined = [&](Value x, Value y) { return reducer.combined(x, y); };
  Value own = reducer.add(reducer.start(lanes), loops.back(), lanes);
  return reducer.begun(b.warpReduce(
      b.reduce(own, combined), reduction.terms.constant / lanes, combined));
}
