#include "lowering/kernel/Elements.h"
#include "lowering/kernel/BlockProduct.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

using namespace mlir;
using namespace cria;
using linalg::LinalgOp;

//===----------------------------------------------------------------------===//
// Sizes and places
//===----------------------------------------------------------------------===//

std::optional<int64_t> cria::dimensionOf(tensor::DimOp op) {
  auto type = dyn_cast<RankedTensorType>(op.getSource().getType());
  std::optional<int64_t> index = op.getConstantIndex();
  return type && index && *index >= 0 && *index < type.getRank() ? index
                                                                 : std::nullopt;
}

static Size sizeOf(OpFoldResult size) {
  if (std::optional<int64_t> constant = getConstantIntValue(size))
    return {*constant};
  auto value = cast<Value>(size);
  if (auto dim = value.getDefiningOp<tensor::DimOp>())
    if (std::optional<int64_t> index = dimensionOf(dim))
      return cria::sizeOf(dim.getSource(), *index);
  return {ShapedType::kDynamic, value};
}

Size cria::sizeOf(Value tensor, unsigned dim) {
  int64_t known = cast<RankedTensorType>(tensor.getType()).getDimSize(dim);
  if (!ShapedType::isDynamic(known))
    return {known};
  Operation *op = tensor.getDefiningOp();
  if (auto empty = dyn_cast_or_null<tensor::EmptyOp>(op))
    return ::sizeOf(empty.getMixedSizes()[dim]);
  if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op))
    return ::sizeOf(expand.getMixedOutputShape()[dim]);
  if (auto slice = dyn_cast_or_null<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    SmallVector<OpFoldResult> sizes;
    for (auto [i, size] : llvm::enumerate(slice.getMixedSizes()))
      if (!dropped[i])
        sizes.push_back(size);
    return ::sizeOf(sizes[dim]);
  }
  if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op)) {
    auto group = collapse.getReassociationIndices()[dim];
    if (group.size() == 1)
      return cria::sizeOf(collapse.getSrc(), group[0]);
  }
  // The result of a linalg op or of an insert has the size of its destination.
  if (auto insert = dyn_cast_or_null<tensor::InsertSliceOp>(op))
    return cria::sizeOf(insert.getDest(), dim);
  if (auto cast = dyn_cast_or_null<tensor::CastOp>(op);
      cast && isa<RankedTensorType>(cast.getSource().getType()))
    return cria::sizeOf(cast.getSource(), dim);
  if (auto style = dyn_cast_or_null<DestinationStyleOpInterface>(op))
    return cria::sizeOf(style.getTiedOpOperand(cast<OpResult>(tensor))->get(),
                        dim);
  return {ShapedType::kDynamic, tensor, static_cast<int64_t>(dim)};
}

Box cria::sizesOf(Value tensor) {
  Box box;
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    box.push_back(cria::sizeOf(tensor, dim));
  return box;
}

AffineExpr Elements::expr(OpFoldResult number) {
  if (std::optional<int64_t> known = getConstantIntValue(number))
    return constant(*known);
  if (AffineExpr counter = ofLoop(cast<Value>(number)))
    return counter;
  return symbolOf(cast<Value>(number), {});
}

/// A number that is computed from the counter of a loop; else null.
AffineExpr Elements::ofLoop(Value number) const {
  if (auto found = loops.find(number); found != loops.end())
    return dim(found->second);
  Operation *op = number.getDefiningOp();
  bool divides = isa_and_present<arith::DivUIOp>(op);
  if (!divides && !isa_and_present<arith::MulIOp>(op))
    return {};
  std::optional<int64_t> by = getConstantIntValue(op->getOperand(1));
  AffineExpr of = by ? ofLoop(op->getOperand(0)) : AffineExpr();
  return !of ? of : divides ? of.floorDiv(*by) : of * *by;
}

Element Elements::extracted(tensor::ExtractOp op) {
  Element element{op.getTensor(), {}};
  for (Value index : op.getIndices())
    element.at.push_back(expr(index));
  return element;
}

AffineExpr Elements::symbolOf(Value value, const Element &element) {
  auto *found = llvm::find_if(symbols, [&](const Symbol &known) {
    return known.value == value && known.element == element;
  });
  unsigned place = found - symbols.begin();
  if (found == symbols.end())
    symbols.push_back({value, element});
  return getAffineSymbolExpr(place, context);
}

Elements::Range Elements::rangeOf(AffineExpr expr, ArrayRef<Size> box) const {
  SmallVector<std::optional<int64_t>> least(box.size(), 0), most;
  for (const Size &size : box)
    most.push_back(size.isConstant() ? std::optional(size.constant - 1)
                                     : std::nullopt);
  least.resize(box.size() + symbols.size());
  most.resize(box.size() + symbols.size());
  auto bound = [&](bool isUpper) {
    return getBoundForAffineExpr(expr, box.size(), symbols.size(), least, most,
                                 isUpper);
  };
  if (!expr.isPureAffine())
    return {};
  return {bound(false), bound(true)};
}

static void addends(AffineExpr expr, SmallVectorImpl<AffineExpr> &terms) {
  auto sum = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!sum || sum.getKind() != AffineExprKind::Add) {
    terms.push_back(expr);
    return;
  }
  addends(sum.getLHS(), terms);
  addends(sum.getRHS(), terms);
}

/// expr floordiv by, or expr mod by.
AffineExpr Elements::divide(AffineExpr expr, int64_t by, bool remainder,
                            ArrayRef<Size> box) const {
  SmallVector<AffineExpr> terms;
  addends(expr, terms);
  AffineExpr whole = constant(0), rest = constant(0);
  for (AffineExpr term : terms) {
    if (term.isMultipleOf(by))
      whole = whole + term.floorDiv(by);
    else
      rest = rest + term;
  }
  Range range = rangeOf(rest, box);
  bool small =
      range.least && range.most && *range.least >= 0 && *range.most < by;
  if (remainder)
    return small ? rest : rest % by;
  return small ? whole : whole + rest.floorDiv(by);
}

AffineExpr Elements::simplify(AffineExpr expr, ArrayRef<Size> box) const {
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return expr;
  AffineExpr a = simplify(binary.getLHS(), box),
             b = simplify(binary.getRHS(), box);
  auto by = dyn_cast<AffineConstantExpr>(b);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return simplifyAffineExpr(a + b, box.size(), symbols.size());
  case AffineExprKind::Mul:
    return a * b;
  case AffineExprKind::FloorDiv:
    return by && by.getValue() > 0 ? divide(a, by.getValue(), false, box)
                                   : a.floorDiv(b);
  case AffineExprKind::Mod:
    return by && by.getValue() > 0 ? divide(a, by.getValue(), true, box)
                                   : a % b;
  default:
    return expr;
  }
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// The element of a reshape's source. A dynamic dimension must be alone in its
/// group, so that its place is the same in both tensors.
std::optional<Element> Elements::reshaped(const Element &element,
                                          ArrayRef<Size> box) {
  Operation *op = element.tensor.getDefiningOp();
  if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op)) {
    Element source{expand.getSrc(), {}};
    ArrayRef<int64_t> shape = expand.getType().getShape();
    for (const ReassociationIndices &group : expand.getReassociationIndices()) {
      AffineExpr at = element.at[group[0]];
      for (int64_t dim : ArrayRef(group).drop_front()) {
        if (ShapedType::isDynamic(shape[dim]))
          return std::nullopt;
        at = at * shape[dim] + element.at[dim];
      }
      source.at.push_back(simplify(at, box));
    }
    return source;
  }
  auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op);
  if (!collapse)
    return std::nullopt;
  Element source{collapse.getSrc(), {}};
  ArrayRef<int64_t> shape = collapse.getSrcType().getShape();
  for (auto [i, group] : llvm::enumerate(collapse.getReassociationIndices())) {
    SmallVector<AffineExpr> split;
    AffineExpr at = element.at[i];
    for (int64_t dim : llvm::reverse(ArrayRef(group).drop_front())) {
      if (ShapedType::isDynamic(shape[dim]))
        return std::nullopt;
      split.push_back(simplify(at % shape[dim], box));
      at = simplify(at.floorDiv(shape[dim]), box);
    }
    split.push_back(at);
    llvm::append_range(source.at, llvm::reverse(split));
  }
  if (source.at.empty()) // a tensor of one number
    source.at.assign(shape.size(), constant(0));
  return source;
}

/// Turns a place in a slice into the place in the whole tensor.
template <typename Slice>
static SmallVector<AffineExpr> inWhole(Elements &elements, Slice slice,
                                       ArrayRef<AffineExpr> at) {
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  SmallVector<AffineExpr> whole;
  unsigned next = 0;
  for (auto [i, offset] : llvm::enumerate(slice.getMixedOffsets())) {
    AffineExpr place = elements.expr(offset);
    if (!dropped[i]) {
      OpFoldResult stride = slice.getMixedStrides()[i];
      place = place + at[next++] * elements.expr(stride);
    }
    whole.push_back(place);
  }
  return whole;
}

/// Decides whether an element of a tensor with an inserted slice is an element
/// of the slice or of the destination.
Elements::Definition Elements::defineInserted(const Element &element,
                                              ArrayRef<Size> box) {
  auto insert = element.tensor.getDefiningOp<tensor::InsertSliceOp>();
  Definition undecided{Definition::Undefined};
  llvm::SmallBitVector dropped = insert.getDroppedDims();
  Element inner{insert.getSource(), {}}, outer{insert.getDest(), element.at};
  auto offsets = insert.getMixedOffsets(), sizes = insert.getMixedSizes();
  bool known = true;
  for (auto [i, at] : llvm::enumerate(element.at)) {
    AffineExpr from = simplify(at - expr(offsets[i]), box);
    std::optional<int64_t> stride =
        getConstantIntValue(insert.getMixedStrides()[i]);
    if (!stride)
      return undecided;
    if (*stride != 1) {
      // The loop is cut into the places that the slice has and the others.
      auto loop = dyn_cast<AffineDimExpr>(at);
      bool isWhole = loop && box[loop.getPosition()].isConstant() &&
                     box[loop.getPosition()].constant % *stride == 0;
      if (isWhole)
        return {Definition::Undecided, {}, {},     0, {},
                loop.getPosition(),    0,  *stride};
      auto rest = dyn_cast<AffineConstantExpr>(simplify(from % *stride, box));
      if (!rest)
        return undecided;
      if (rest.getValue() != 0)
        return {Definition::Same, outer};
      from = simplify(from.floorDiv(*stride), box);
    }
    if (!dropped[i])
      inner.at.push_back(from);
    Size size = ::sizeOf(sizes[i]);
    auto loop = dyn_cast<AffineDimExpr>(from);
    // The slice has the whole dimension.
    if (loop && box[loop.getPosition()] == size)
      continue;
    Range range = rangeOf(from, box);
    bool above = range.least && *range.least >= 0;
    if ((range.most && *range.most < 0) ||
        (size.isConstant() && range.least && *range.least >= size.constant))
      return {Definition::Same, outer};
    if (above && size.isConstant() && range.most && *range.most < size.constant)
      continue;
    if (isConstantIntValue(offsets[i], 0) && !size.isConstant() &&
        size == cria::sizeOf(insert.getDest(), i))
      continue;
    known = false;
    // The place is a loop plus a constant: the loop is cut where it enters or
    // leaves the slice.
    auto offset = getConstantIntValue(offsets[i]);
    AffineExpr dimension = at;
    int64_t plus = 0;
    if (auto sum = dyn_cast<AffineBinaryOpExpr>(at);
        sum && sum.getKind() == AffineExprKind::Add)
      if (auto term = dyn_cast<AffineConstantExpr>(sum.getRHS())) {
        dimension = sum.getLHS();
        plus = term.getValue();
      }
    auto cut = dyn_cast<AffineDimExpr>(dimension);
    if (!cut || !offset || !size.isConstant() ||
        !box[cut.getPosition()].isConstant())
      return undecided;
    int64_t end = box[cut.getPosition()].constant;
    for (int64_t below : {*offset - plus, *offset + size.constant - plus})
      if (below > 0 && below < end) {
        undecided.kind = Definition::Undecided;
        undecided.cut = cut.getPosition();
        undecided.below = below;
      }
  }
  return known ? Definition{Definition::Same, inner} : undecided;
}

/// The most turns of a fold.
static constexpr int64_t kMostTurns = 16;

/// Whether an op begins with one number and adds a few terms to it, in order.
static bool isFold(LinalgOp op) {
  if (!isa<linalg::GenericOp>(op) || !op.hasPureTensorSemantics() ||
      op.getNumDpsInits() != 1 || op.getNumReductionLoops() != 1 ||
      op.getNumParallelLoops() + 1 != op.getNumLoops() || mayReorder(op))
    return false;
  OpOperand &init = *op.getDpsInitOperand(0);
  AffineMap map = op.getMatchingIndexingMap(&init);
  int64_t turns = op.getStaticLoopRanges().back();
  Value sum = op.getBlock()->getTerminator()->getOperand(0);
  Value begin = filledWith(init.get().getDefiningOp());
  return op.getIteratorTypesArray().back() == utils::IteratorType::reduction &&
         map.isProjectedPermutation() &&
         map.getNumResults() + 1 == op.getNumLoops() && turns <= kMostTurns &&
         !ShapedType::isDynamic(turns) && sum.getDefiningOp<arith::AddFOp>() &&
         begin && matchPattern(begin, m_Constant());
}

static bool isElementwise(LinalgOp op) {
  return op.hasPureTensorSemantics() && op.getNumReductionLoops() == 0 &&
         op.getNumParallelLoops() == op.getNumLoops() &&
         llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
           return op.getMatchingIndexingMap(&init).isPermutation();
         });
}

Elements::Definition Elements::define(const Element &element,
                                      ArrayRef<Size> box) {
  Definition leaf;
  Operation *op = element.tensor.getDefiningOp();
  if (!op || isStored(element.tensor))
    return leaf;
  if (isa<tensor::EmptyOp>(op))
    return {Definition::Undefined};
  if (isa<tensor::InsertSliceOp>(op))
    return defineInserted(element, box);
  if (auto source = reshaped(element, box))
    return {Definition::Same, *source};
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    Element source{slice.getSource(), inWhole(*this, slice, element.at)};
    return {Definition::Same, source};
  }
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return {Definition::Same, {cast.getSource(), element.at}};
  if (auto into = dyn_cast<bufferization::MaterializeInDestinationOp>(op))
    return {Definition::Same, {into.getSource(), element.at}};
  auto computed = dyn_cast<LinalgOp>(op);
  bool isFolded = computed && isFold(computed);
  if (!computed || (!isFolded && !isElementwise(computed)))
    return leaf;
  Definition payload{isFolded ? Definition::Fold : Definition::Payload};
  payload.op = computed;
  payload.result = cast<OpResult>(element.tensor).getResultNumber();
  payload.loops.resize(computed.getNumLoops());
  AffineMap map = computed.getMatchingIndexingMap(
      computed.getDpsInitOperand(payload.result));
  for (auto [place, at] : llvm::zip(map.getResults(), element.at))
    payload.loops[cast<AffineDimExpr>(place).getPosition()] = at;
  return payload;
}

SmallVector<Elements::Definition>
Elements::payloads(const Definition &made) const {
  if (made.kind == Definition::Payload)
    return {made};
  SmallVector<Definition> turns;
  if (made.kind != Definition::Fold)
    return turns;
  LinalgOp op = made.op;
  for (int64_t turn = 0; turn < op.getStaticLoopRanges().back(); ++turn) {
    turns.push_back(made);
    turns.back().kind = Definition::Payload;
    turns.back().loops.back() = constant(turn);
  }
  return turns;
}

Element Elements::origin(Element element, ArrayRef<Size> box) {
  for (Definition made = define(element, box); made.kind == Definition::Same;
       made = define(element, box))
    element = made.same;
  return element;
}

Element Elements::operand(LinalgOp op, OpOperand &operand,
                          ArrayRef<AffineExpr> loops, ArrayRef<Size> box) {
  Element element{operand.get(), {}};
  for (AffineExpr at : op.getMatchingIndexingMap(&operand).getResults())
    element.at.push_back(simplify(at.replaceDims(loops), box));
  return element;
}

SmallVector<Element> Elements::operands(const Definition &payload,
                                        ArrayRef<Size> box) {
  LinalgOp op = payload.op;
  SmallVector<Element> read;
  for (OpOperand &operand : op->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()) &&
        !op.getMatchingBlockArgument(&operand).use_empty())
      read.push_back(this->operand(op, operand, payload.loops, box));
  return read;
}

Value cria::withRows(Value tensor) {
  while (true) {
    auto view = tensor.getDefiningOp<tensor::CollapseShapeOp>();
    if (!view || view.getType().getRank() == 0 ||
        view.getReassociationIndices().back().size() != 1)
      return tensor;
    tensor = view.getSrc();
  }
}

bool Elements::leaves(const Element &element, ArrayRef<Size> box,
                      llvm::function_ref<void(const Element &)> leaf) {
  Definition made = define(element, box);
  if (made.kind == Definition::Same)
    return leaves(made.same, box, leaf);
  if (made.kind == Definition::Leaf)
    leaf(element);
  SmallVector<Definition> payloads = this->payloads(made);
  if (payloads.empty())
    return made.kind == Definition::Leaf;
  for (const Definition &payload : payloads)
    for (const Element &read : operands(payload, box))
      if (!leaves(read, box, leaf))
        return false;
  bool known = true;
  made.op.getBlock()->walk([&](tensor::ExtractOp read) {
    Value table = withRows(read.getTensor());
    SmallVector<AffineExpr> unknown(
        cast<RankedTensorType>(table.getType()).getRank());
    known &= isStored(table);
    leaf({table, unknown});
  });
  return known;
}

/// Whether an op has one output, which is f32 and filled with zero before the
/// op.
static bool addsToZeros(LinalgOp op) {
  if (op.getNumDpsInits() != 1)
    return false;
  Value init = op.getDpsInitOperand(0)->get();
  Value begin = filledWith(init.getDefiningOp());
  return begin && matchPattern(begin, m_AnyZeroFloat()) &&
         cast<ShapedType>(init.getType()).getElementType().isF32();
}

Dot Elements::blockDot(const BlockProduct &product, const Element &leaf,
                       ArrayRef<Size> box) {
  AffineExpr t = leaf.at[0], n = leaf.at[1], zero = constant(0);
  Dot dot;
  dot.w = {product.weights, {n, zero, zero}};
  dot.terms = {product.blocks() * BlockProduct::kNumbers};
  dot.bits = product.bits;
  if (product.rows) {
    dot.isFloat = product.isFloat;
    dot.rounds = product.rounds;
    dot.x = {product.rows, {t, dim(box.size())}};
    return dot;
  }
  dot.x = {product.codes, {t, zero, zero}};
  dot.scale = {product.scales, {t, zero}};
  return dot;
}

std::optional<Dot> Elements::blockDot(const ChosenBlockProduct &product,
                                      const Element &leaf) {
  if (!isStored(product.weights) || !isStored(product.chosen))
    return std::nullopt;
  AffineExpr t = leaf.at[0], s = leaf.at[1], n = leaf.at[2], zero = constant(0);
  SmallVector<AffineExpr> block = {t};
  if (product.hasRows())
    block.push_back(s);
  block.push_back(zero);
  Dot dot;
  dot.chosen = {product.chosen, {t, s}};
  dot.scale = {product.scales, block};
  block.push_back(zero);
  dot.x = {product.codes, block};
  dot.w = {product.weights, {symbolOf({}, dot.chosen), n, zero, zero}};
  auto shape = cast<RankedTensorType>(product.weights.getType()).getShape();
  dot.terms = {shape[2] * BlockProduct::kNumbers};
  dot.bits = product.bits;
  return dot;
}

/// The value that is widened, or the value itself.
static Value unwidened(Value value) {
  auto wide = value.getDefiningOp<arith::ExtFOp>();
  return wide ? wide.getIn() : value;
}

/// The dot product that a leaf of `op` is if the payload reads its second
/// factor by a number:
///
///   %w = tensor.extract %weights[%chosen, %n, %k]
///   yield %sum + %x * %w
///
/// %chosen and %x are elements of inputs; %n and %k are numbers of loops.
std::optional<Dot> Elements::chosenDot(linalg::GenericOp op,
                                       const Element &leaf,
                                       ArrayRef<Size> box) {
  Block &body = *op.getBlock();
  auto add = yielded(op).getDefiningOp<arith::AddFOp>();
  auto product =
      add ? add.getRhs().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (!product || !mayReorder(op) || op.getNumReductionLoops() != 1 ||
      op.getNumParallelLoops() + 1 != op.getNumLoops() ||
      !map.isProjectedPermutation() ||
      map.getNumResults() + 1 != op.getNumLoops() ||
      add.getLhs() != op.getRegionOutputArgs()[0])
    return std::nullopt;
  auto x = dyn_cast<BlockArgument>(unwidened(product.getLhs()));
  auto w = unwidened(product.getRhs()).getDefiningOp<tensor::ExtractOp>();
  if (!x || x.getOwner() != &body || !w || !isStored(w.getTensor()))
    return std::nullopt;
  SmallVector<AffineExpr> loops(op.getNumLoops());
  for (auto [place, at] : llvm::zip(map.getResults(), leaf.at))
    loops[cast<AffineDimExpr>(place).getPosition()] = at;
  unsigned k = llvm::find(loops, AffineExpr()) - loops.begin();
  loops[k] = dim(box.size());
  Dot dot;
  Box longer(box);
  auto indices = llvm::to_vector(llvm::enumerate(w.getIndices()));
  for (auto [i, index] : indices)
    if (isLoop(index, k))
      dot.terms = cria::sizeOf(w.getTensor(), i);
  if (dot.terms == Size())
    return std::nullopt;
  longer.push_back(dot.terms);
  dot.w.tensor = w.getTensor();
  for (auto [i, index] : indices) {
    if (auto loop = index.getDefiningOp<linalg::IndexOp>()) {
      dot.w.at.push_back(simplify(loops[loop.getDim()], longer));
      continue;
    }
    auto cast = index.getDefiningOp<arith::IndexCastOp>();
    auto number =
        cast ? dyn_cast<BlockArgument>(cast.getIn()) : BlockArgument();
    if (i || !number || number.getOwner() != &body)
      return std::nullopt;
    dot.chosen = operand(op, *op.getMatchingOpOperand(number), loops, longer);
    dot.w.at.push_back(symbolOf({}, dot.chosen));
  }
  if (!dot.chosen.tensor || !isStored(dot.chosen.tensor))
    return std::nullopt;
  dot.x = operand(op, *op.getMatchingOpOperand(x), loops, longer);
  return dot;
}

std::optional<Dot> Elements::dot(const Element &leaf, ArrayRef<Size> box) {
  auto op = leaf.tensor.getDefiningOp<LinalgOp>();
  if (!op || !addsToZeros(op))
    return std::nullopt;
  StringRef reason;
  if (auto product = BlockProduct::match(op, reason))
    return blockDot(*product, leaf, box);
  if (auto product = ChosenBlockProduct::match(op))
    return blockDot(*product, leaf);
  if (auto generic = dyn_cast<linalg::GenericOp>(op.getOperation()))
    if (auto dot = chosenDot(generic, leaf, box))
      return dot;
  if (!isProduct(op) || !mayReorder(op) || op.getNumLoops() != 3 ||
      op.getNumReductionLoops() != 1)
    return std::nullopt;
  auto loops = SmallVector<AffineExpr>(3);
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (!map.isProjectedPermutation())
    return std::nullopt;
  for (auto [place, at] : llvm::zip(map.getResults(), leaf.at))
    loops[cast<AffineDimExpr>(place).getPosition()] = at;
  unsigned k = llvm::find(loops, AffineExpr()) - loops.begin();
  loops[k] = dim(box.size());
  OpOperand &x = *op.getDpsInputOperand(0), &w = *op.getDpsInputOperand(1);
  Dot dot;
  for (auto [dim, at] :
       llvm::enumerate(op.getMatchingIndexingMap(&w).getResults()))
    if (at == this->dim(k))
      dot.terms = cria::sizeOf(w.get(), dim);
  if (dot.terms == Size())
    return std::nullopt;
  Box longer(box);
  longer.push_back(dot.terms);
  dot.x = operand(op, x, loops, longer);
  dot.w = operand(op, w, loops, longer);
  return dot;
}

std::optional<Reduction> Elements::reduction(const Element &leaf,
                                             ArrayRef<Size> box) {
  auto op = leaf.tensor.getDefiningOp<linalg::GenericOp>();
  if (!op || op.getNumDpsInits() != 1 || op.getNumReductionLoops() != 1 ||
      op.getNumParallelLoops() + 1 != op.getNumLoops())
    return std::nullopt;
  AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (!map.isProjectedPermutation() ||
      map.getNumResults() + 1 != op.getNumLoops())
    return std::nullopt;
  Reduction reduction{op, SmallVector<AffineExpr>(op.getNumLoops()), {}};
  for (auto [place, at] : llvm::zip(map.getResults(), leaf.at))
    reduction.loops[cast<AffineDimExpr>(place).getPosition()] = at;
  unsigned k =
      llvm::find(reduction.loops, AffineExpr()) - reduction.loops.begin();
  reduction.loops[k] = dim(box.size());
  for (OpOperand *input : op.getDpsInputOperands())
    for (auto [dim, at] :
         llvm::enumerate(op.getMatchingIndexingMap(input).getResults()))
      if (at == this->dim(k))
        reduction.terms = cria::sizeOf(input->get(), dim);
  if (reduction.terms == Size())
    return std::nullopt;
  return reduction;
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

/// Whether the numbers in an expression, beside loops, are the same in all
/// turns and for all elements.
bool Elements::isOutsideOfTurns(AffineExpr at) const {
  for (auto [i, symbol] : llvm::enumerate(symbols))
    if (at.isFunctionOfSymbol(i) &&
        !(symbol.value && isOfFunction(symbol.value)))
      return false;
  return true;
}

bool Elements::isOwnPlace(const Element &a, const Element &b) const {
  return a.tensor == b.tensor &&
         llvm::all_of(llvm::zip(a.at, b.at), [&](auto places) {
           auto [x, y] = places;
           if (!x) // unknown
             return false;
           // At a known distance, another store of the unit may write.
           return x == y ||
                  (x.isSymbolicOrConstant() && y.isSymbolicOrConstant() &&
                   isOutsideOfTurns(x) && isOutsideOfTurns(y) &&
                   !isa<AffineConstantExpr>(simplify(y - x, {})));
         });
}

bool Elements::areApart(const Element &a, ArrayRef<Size> boxOfA,
                        const Element &b, ArrayRef<Size> boxOfB) const {
  if (a.tensor != b.tensor)
    return true;
  Box both(boxOfA);
  llvm::append_range(both, boxOfB);
  return llvm::any_of(llvm::zip(a.at, b.at), [&](auto places) {
    auto [x, y] = places;
    if (!isOutsideOfTurns(x) || !isOutsideOfTurns(y))
      return false; // each turn has its own number
    AffineExpr apart =
        simplify(y.shiftDims(boxOfB.size(), boxOfA.size()) - x, both);
    // Neighbours are at even and at odd places.
    auto rest = dyn_cast<AffineConstantExpr>(simplify(apart % 2, both));
    if (rest && rest.getValue() != 0)
      return true;
    Range range = rangeOf(apart, both);
    return (range.least && *range.least > 0) || (range.most && *range.most < 0);
  });
}

/// The argument's element that has the same memory as an element of a tensor.
std::optional<Element> Elements::memory(const Element &element,
                                        ArrayRef<Size> box) {
  if (isa<BlockArgument>(element.tensor))
    return element;
  Operation *op = element.tensor.getDefiningOp();
  if (auto source = reshaped(element, box))
    return memory(*source, box);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return memory({slice.getSource(), inWhole(*this, slice, element.at)}, box);
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return memory({cast.getSource(), element.at}, box);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return memory({insert.getDest(), element.at}, box);
  if (auto style = dyn_cast<DestinationStyleOpInterface>(op))
    return memory(
        {style.getTiedOpOperand(cast<OpResult>(element.tensor))->get(),
         element.at},
        box);
  return std::nullopt;
}

/// Appends parts for the iterations `first`, `first + step`, ... of a loop.
bool Elements::cutBySteps(const Part &part, unsigned loop, int64_t step,
                          SmallVectorImpl<Part> &parts) {
  for (int64_t first = 0; first < step; ++first) {
    Part each = part;
    each.box[loop].constant /= step;
    for (Element *element : {&each.stores[0].value, &each.stores[0].into})
      for (AffineExpr &at : element->at)
        at =
            simplify(at.replace(dim(loop), dim(loop) * step + first), each.box);
    if (!cut(each, parts))
      return false;
  }
  return true;
}

/// Appends the part. If a loop decides how an element is computed, appends one
/// part for the iterations below the bound and one for the others.
bool Elements::cut(Part part, SmallVectorImpl<Part> &parts) {
  const Store &store = part.stores[0];
  Definition undecided;
  std::function<bool(const Element &)> find = [&](const Element &element) {
    Definition made = define(element, part.box);
    if (made.kind == Definition::Same)
      return find(made.same);
    if (made.kind == Definition::Undecided)
      undecided = made;
    SmallVector<Definition> payloads = this->payloads(made);
    if (payloads.empty())
      return made.kind == Definition::Leaf;
    return llvm::all_of(payloads, [&](const Definition &payload) {
      return llvm::all_of(operands(payload, part.box), find);
    });
  };
  if (find(store.value)) {
    parts.push_back(part);
    return true;
  }
  if (undecided.kind != Definition::Undecided)
    return false;
  unsigned loop = undecided.cut;
  if (undecided.step > 1)
    return cutBySteps(part, loop, undecided.step, parts);
  int64_t size = part.box[loop].constant;
  Part low = part, high = part;
  low.box[loop].constant = undecided.below;
  high.box[loop].constant = size - undecided.below;
  for (Element *element : {&high.stores[0].value, &high.stores[0].into})
    for (AffineExpr &at : element->at)
      at = simplify(at.replace(dim(loop), dim(loop) + undecided.below),
                    high.box);
  return cut(low, parts) && cut(high, parts);
}

bool Elements::addStore(Value value, const Element &into, Box box,
                        SmallVectorImpl<Part> &parts) {
  std::optional<Element> place = memory(into, box);
  if (!place)
    return false;
  for (AffineExpr &at : place->at)
    at = simplify(at, box);
  Store store{{value, {}}, *place};
  for (unsigned loop = 0; loop < box.size(); ++loop)
    store.value.at.push_back(dim(loop));
  return cut({box, {store}}, parts);
}

/// Whether a number is the same in all turns of loops.
bool Elements::isOfFunction(Value number) const {
  Operation *op = number.getDefiningOp();
  return !counter(number) && (!op || isa<func::FuncOp>(op->getParentOp()));
}

bool cria::readsTensor(Operation *op) {
  return isa<tensor::ExtractOp>(op) ||
         llvm::any_of(op->getOperands(), [](Value operand) {
           Operation *from = operand.getDefiningOp();
           return from && !isa<RankedTensorType>(operand.getType()) &&
                  readsTensor(from);
         });
}

bool Elements::isOfTurn(Value number) const {
  Operation *op = number.getDefiningOp();
  if (counter(number) || (isOfFunction(number) && !(op && readsTensor(op))))
    return true;
  if (auto read = dyn_cast<tensor::ExtractOp>(op))
    return isa<BlockArgument>(read.getTensor()) &&
           llvm::is_contained({1, 2}, read.getTensor().getType().getRank()) &&
           llvm::all_of(read.getIndices(),
                        [&](Value at) { return isOfTurn(at); });
  bool divides = isa<arith::DivUIOp, arith::RemUIOp>(op);
  if (divides && !getConstantIntValue(op->getOperand(1)))
    return false;
  return (divides || isa<arith::IndexCastOp, arith::AddIOp>(op)) &&
         llvm::all_of(op->getOperands(), [&](Value x) { return isOfTurn(x); });
}

/// Adds a store for a loop that inserts rows[t], (1, KVH, ...), in turn t as
/// (1, 1, KVH, 1, ...): the loops of the part are those over all rows.
bool Elements::addRow(tensor::InsertSliceOp insert, scf::ForOp loop,
                      SmallVectorImpl<Part> &parts) {
  auto expand = insert.getSource().getDefiningOp<tensor::ExpandShapeOp>();
  auto row = expand ? expand.getSrc().getDefiningOp<tensor::ExtractSliceOp>()
                    : tensor::ExtractSliceOp();
  if (!row || !row.hasUnitStride() || !insert.hasUnitStride() ||
      row.getDroppedDims().any() || insert.getDroppedDims().any() ||
      row.getMixedOffsets()[0] != OpFoldResult(loop.getInductionVar()) ||
      !isConstantIntValue(row.getMixedSizes()[0], 1))
    return false;
  Box box = sizesOf(row.getSource());
  for (size_t dim = 1; dim < box.size(); ++dim)
    if (!isConstantIntValue(row.getMixedOffsets()[dim], 0) ||
        !(::sizeOf(row.getMixedSizes()[dim]) == box[dim]))
      return false;
  if (!(::sizeOf(OpFoldResult(loop.getUpperBound())) == box[0]))
    return false;
  SmallVector<AffineExpr> at(expand.getType().getRank(), constant(0));
  for (auto [i, group] : llvm::enumerate(expand.getReassociationIndices()))
    for (int64_t dim : group)
      if (i && expand.getType().getDimSize(dim) != 1)
        at[dim] = this->dim(i);
  for (OpFoldResult offset : insert.getMixedOffsets())
    if (auto number = dyn_cast<Value>(offset); number && !isOfTurn(number))
      return false;
  return addStore(row.getSource(),
                  {loop.getInitArgs()[0], inWhole(*this, insert, at)}, box,
                  parts);
}

/// Adds the stores of a loop whose turn t inserts row t of one or several
/// tensors into the carried tensor.
bool Elements::collectTurns(scf::ForOp loop, SmallVectorImpl<Part> &parts) {
  if (loop.getNumResults() != 1 ||
      !isConstantIntValue(loop.getLowerBound(), 0) ||
      !isConstantIntValue(loop.getStep(), 1) ||
      !collect(loop.getInitArgs()[0], parts))
    return false;
  counters[loop.getInductionVar()] = 0;
  SmallVector<tensor::InsertSliceOp> inserts;
  Value now = loop.getYieldedValues()[0];
  while (now != loop.getRegionIterArg(0)) {
    auto insert = now.getDefiningOp<tensor::InsertSliceOp>();
    if (!insert)
      return false;
    inserts.push_back(insert);
    now = insert.getDest();
  }
  return llvm::all_of(llvm::reverse(inserts),
                      [&](auto insert) { return addRow(insert, loop, parts); });
}

bool Elements::collect(Value result, SmallVectorImpl<Part> &parts) {
  Operation *op = result.getDefiningOp();
  if (!op)
    return true;
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return collectTurns(loop, parts);
  auto all = [&](const Box &box) {
    SmallVector<AffineExpr> at;
    for (unsigned loop = 0; loop < box.size(); ++loop)
      at.push_back(dim(loop));
    return at;
  };
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op))
    return collect(op->getOperand(0), parts);
  if (auto into = dyn_cast<bufferization::MaterializeInDestinationOp>(op)) {
    Box box = sizesOf(into.getSource());
    return addStore(into.getSource(), {into.getDest(), all(box)}, box, parts);
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    if (!collect(insert.getDest(), parts))
      return false;
    Box box = sizesOf(insert.getSource());
    return addStore(insert.getSource(),
                    {insert.getDest(), inWhole(*this, insert, all(box))}, box,
                    parts);
  }
  auto computed = dyn_cast<LinalgOp>(op);
  if (!computed)
    return false;
  Box box = sizesOf(result);
  return addStore(result, {result, all(box)}, box, parts);
}

std::optional<SmallVector<Part>> Elements::parts(func::FuncOp kernel) {
  SmallVector<Part> parts;
  for (Value result : kernel.front().getTerminator()->getOperands())
    if (!isa<RankedTensorType>(result.getType()) || !collect(result, parts))
      return std::nullopt;
  return parts;
}
