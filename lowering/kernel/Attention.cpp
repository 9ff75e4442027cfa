#include "lowering/kernel/Attention.h"
#include "lowering/kernel/CachePart.h"
#include "lowering/kernel/Elements.h"
#include "lowering/kernel/Product.h"

#include "mlir/Analysis/FlatLinearValueConstraints.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace cria;
using linalg::GenericOp;
using linalg::LinalgOp;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The op as a product of two tensors that is added to zero; null if it is not
/// one.
static LinalgOp productFromZero(Operation *op) {
  auto product = dyn_cast_or_null<LinalgOp>(op);
  if (!product || !isProduct(product) || !mayReorder(product))
    return nullptr;
  Value begin = filledWith(product.getDpsInits()[0].getDefiningOp());
  return begin && matchPattern(begin, m_AnyZeroFloat()) ? product : nullptr;
}

/// The operand of an elementwise op that another linalg op makes and that is
/// read at the same place; null if there is none.
static Value innerOperand(GenericOp generic) {
  for (OpOperand *input : generic.getDpsInputOperands())
    if (generic.getMatchingIndexingMap(input).isIdentity() &&
        isa_and_present<LinalgOp>(input->get().getDefiningOp()))
      return input->get();
  return {};
}

/// Whether an elementwise op reads its first operand where it writes, not, for
/// example, with two dimensions exchanged.
static bool readsInPlace(GenericOp generic) {
  return generic.getMatchingIndexingMap(&generic->getOpOperand(0)).isIdentity();
}

/// The product that scores come from, through elementwise ops; null if there is
/// none, or if another op also reads an intermediate value.
static LinalgOp scoresOf(Value value) {
  while (value && value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (LinalgOp product = productFromZero(op))
      return product;
    GenericOp generic = elementwise(op);
    value = generic ? innerOperand(generic) : Value();
  }
  return nullptr;
}

/// Whether two values are computed by the same ops from the same values.
static LogicalResult same(Value a, Value b) {
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  return success(a == b || (x && y &&
                            OperationEquivalence::isEquivalentTo(
                                x, y, same, nullptr,
                                OperationEquivalence::IgnoreLocations)));
}

static bool isF32(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType().isF32();
}

namespace {
/// Reads one attention, starting at its softmax. A step that fails says what
/// was expected.
class Reader {
public:
  Reader(linalg::SoftmaxOp softmax, StringRef &reason)
      : softmax(softmax), reason(reason) {}
  std::optional<Attention> read() {
    if (readSinks() && readScores() && readProduct() && readCaches() &&
        readMask())
      return a;
    return std::nullopt;
  }

private:
  using Loops = SmallVector<unsigned>;
  bool fail(StringRef why) {
    reason = why;
    return false;
  }
  bool readSinks();
  bool readScores();
  bool readProduct();
  bool readCaches();
  bool readMask();

  linalg::SoftmaxOp softmax;
  StringRef &reason;
  Attention a;
  Value p; // the softmax of the keys
  /// The select after the softmax that sets hidden probabilities to zero.
  arith::SelectOp zeroing;
  /// Whether each token has keys of its own.
  bool ofTokens = false;
};
} // namespace

/// The one of the five loops that is not in `four`.
static unsigned otherLoop(ArrayRef<unsigned> four) {
  return 0 + 1 + 2 + 3 + 4 - four[0] - four[1] - four[2] - four[3];
}

/// Whether a slice has all of a tensor, except for a part of the last
/// dimension.
static bool isOfLastDimension(OffsetSizeAndStrideOpInterface slice,
                              RankedTensorType part) {
  return slice.getMixedOffsets().size() == 4 &&
         static_cast<int64_t>(slice.getMixedSizes().size()) == part.getRank() &&
         llvm::all_of(ArrayRef(slice.getMixedOffsets()).drop_back(),
                      [](OpFoldResult i) { return isZeroInteger(i); }) &&
         slice.hasUnitStride();
}

/// Reads the softmax's input and result: of the keys alone, or of the keys and
/// then a sink:
///
///   p = extract_slice(softmax(insert_slice(sinks, insert_slice(scores))))
bool Reader::readSinks() {
  if (!softmax.hasPureTensorSemantics())
    return fail("it has no tensors");
  a.softmaxInput = softmax.getInput();
  p = softmax->getResult(0);
  auto last = a.softmaxInput.getDefiningOp<tensor::InsertSliceOp>();
  if (!last)
    return true;
  auto keys = last.getDest().getDefiningOp<tensor::InsertSliceOp>();
  auto kept = p.hasOneUse() ? dyn_cast<tensor::ExtractSliceOp>(*p.user_begin())
                            : tensor::ExtractSliceOp();
  if (!keys || !keys.getDest().getDefiningOp<tensor::EmptyOp>() || !kept ||
      !last->hasOneUse() || !keys->hasOneUse())
    return fail("its input is not scores and sinks");
  OpFoldResult count = keys.getMixedSizes()[3];
  if (!isOfLastDimension(last, last.getSourceType()) ||
      !isOfLastDimension(keys, keys.getSourceType()) ||
      !isOfLastDimension(kept, kept.getType()) ||
      !isZeroInteger(keys.getMixedOffsets()[3]) ||
      !isZeroInteger(kept.getMixedOffsets()[3]) ||
      !isOneInteger(last.getMixedSizes()[3]) ||
      last.getMixedOffsets()[3] != count || kept.getMixedSizes()[3] != count)
    return fail("its sinks are not behind the scores, and dropped after it");
  a.sinks = last.getSource();
  a.softmaxInput = keys.getSource();
  p = kept;
  return true;
}

bool Reader::readScores() {
  a.scores = scoresOf(a.softmaxInput);
  if (!a.scores)
    return fail(
        "its input does not come from a product that only the softmax reads");
  auto maps = a.scores.getIndexingMapsArray();
  Loops out = loops(maps[2]);
  if (out.size() != 4 || a.scores.getNumLoops() != 5 ||
      softmax.getDimension() != 3)
    return fail("its scores are not by head, query, token and key");
  unsigned h = out[0], g = out[1], t = out[2], s = out[3];
  unsigned d = otherLoop(out);
  ofTokens = loops(maps[1]) == Loops{t, h, s, d};
  if (loops(maps[0]) != Loops{t, h, g, d} ||
      (!ofTokens && loops(maps[1]) != Loops{h, s, d}))
    return fail("queries are not (T, KVH, G, D) or keys not (KVH, S, D)");
  a.query = a.scores->getOperand(0);
  auto query = cast<RankedTensorType>(a.query.getType());
  if (ShapedType::isDynamicShape(query.getShape().drop_front()))
    return fail("its heads have no constant size");
  if (!isF32(a.scores->getResult(0)) || !isF32(a.softmaxInput))
    return fail("it is not computed in f32");
  return true;
}

/// Reads the ops after the softmax: the select that sets hidden probabilities
/// to zero, the product, and the elementwise op on the product.
bool Reader::readProduct() {
  GenericOp hides;
  if (p.hasOneUse())
    hides = elementwise(*p.user_begin());
  if (hides) {
    zeroing = yielded(hides).getDefiningOp<arith::SelectOp>();
    if (!zeroing || hides->getOperand(0) != p || !readsInPlace(hides) ||
        zeroing.getTrueValue() != hides.getBlock()->getArgument(0) ||
        !matchPattern(zeroing.getFalseValue(), m_AnyZeroFloat()))
      return fail("its result is changed before the second product");
    p = hides.getResult(0);
  }
  a.product = p.hasOneUse() ? productFromZero(*p.user_begin()) : nullptr;
  if (!a.product || a.product->getOperand(0) != p)
    return fail("its result is not the left side of one product");
  auto maps = a.product.getIndexingMapsArray();
  Loops out = loops(maps[2]);
  if (out.size() != 4 || a.product.getNumLoops() != 5)
    return fail("the output is not (T, KVH, G, D)");
  unsigned t = out[0], h = out[1], g = out[2], d = out[3];
  unsigned s = otherLoop(out);
  if (loops(maps[0]) != Loops{h, g, t, s} ||
      loops(maps[1]) != (ofTokens ? Loops{t, h, s, d} : Loops{h, s, d}))
    return fail("values are not (KVH, S, D) or the output not (T, KVH, G, D)");
  Value made = a.product->getResult(0);
  if (!isF32(made))
    return fail("it is not computed in f32");
  if (made.hasOneUse())
    if (GenericOp result = elementwise(*made.user_begin());
        result && result.getNumDpsInputs() == 1 &&
        !result.hasIndexSemantics() && readsInPlace(result))
      a.result = result;
  return true;
}

/// The rows whose first numbers `value` has; `value` itself if it is no
/// slice of rows of the same rank.
static Value rowsOf(Value value, OpFoldResult count) {
  auto slice = value.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || slice.getSourceType().getRank() != slice.getType().getRank() ||
      !slice.hasUnitStride() ||
      !llvm::all_of(slice.getMixedOffsets(), isZeroInteger))
    return value;
  SmallVector<OpFoldResult> sizes = slice.getMixedSizes();
  size_t keys = sizes.size() - 2;
  bool hasAllRows = isEqualConstantIntOrValue(sizes[keys], count);
  for (size_t dim = 0; dim < keys; ++dim)
    hasAllRows &= slice.getType().getDimSize(dim) ==
                  slice.getSourceType().getDimSize(dim);
  return hasAllRows ? slice.getSource() : value;
}

bool Reader::readCaches() {
  CachePart keys = cachePart(a.scores->getOperand(1));
  Value read = a.product->getOperand(1);
  CachePart values = cachePart(rowsOf(read, keys.count));
  if (!keys.cache || !values.cache || !(keys == values) ||
      bool(keys.positions) != ofTokens)
    return fail("keys and values are not the same part of two caches");
  a.valueSize = cast<RankedTensorType>(read.getType()).getShape().back();
  auto cache = cast<RankedTensorType>(keys.cache.getType());
  if (ShapedType::isDynamicShape(
          cache.getShape().drop_front(keys.pages ? 2 : 1)))
    return fail("its caches have no constant size");
  a.keys = keys.cache;
  a.values = values.cache;
  a.areRings = keys.isRing;
  a.pages = keys.pages;
  a.positions = keys.positions;
  a.widenedKeys = keys.widened;
  a.widenedValues = values.widened;
  a.layer = keys.layer;
  a.firstKey = keys.first;
  a.keyCount = keys.count;
  return true;
}

bool Reader::readMask() {
  arith::SelectOp hiding;
  Operation *last = a.softmaxInput.getDefiningOp();
  if (last != a.scores.getOperation())
    hiding = yielded(cast<GenericOp>(last)).getDefiningOp<arith::SelectOp>();
  APFloat lowest(0.0);
  bool hides = hiding &&
               matchPattern(hiding.getFalseValue(), m_ConstantFloat(&lowest)) &&
               lowest.isNegative() &&
               (lowest.isInfinity() || lowest.isLargest());
  if (hides != static_cast<bool>(zeroing) ||
      (hides && failed(same(hiding.getCondition(), zeroing.getCondition()))))
    return fail("the keys masked before it are not zeroed after it");
  if (last != a.scores.getOperation())
    a.shown = hides ? hiding.getTrueValue() : yielded(cast<GenericOp>(last));
  if (hides)
    a.visible = hiding.getCondition();
  return true;
}

std::optional<Attention> Attention::match(linalg::SoftmaxOp softmax,
                                          StringRef &reason) {
  return Reader(softmax, reason).read();
}

//===----------------------------------------------------------------------===//
// Payloads
//===----------------------------------------------------------------------===//

/// The element of a tensor in memory. A schedule may compute scores of tokens
/// and keys that do not exist, and drop them. For these, indices are clamped to
/// the tensor.
static Value readElement(OpBuilder &b, Location loc, Value tensor,
                         ValueRange at) {
  SmallVector<Value> indices;
  Value one = arith::ConstantIndexOp::create(b, loc, 1);
  for (auto [dim, index] : llvm::enumerate(at)) {
    Value size = getValueOrCreateConstantIndexOp(
        b, loc, tensor::getMixedSize(b, loc, tensor, dim));
    // An unsigned minimum: a negative index counts as a large one.
    indices.push_back(arith::MinUIOp::create(
        b, loc, index, arith::SubIOp::create(b, loc, size, one)));
  }
  return tensor::ExtractOp::create(b, loc, tensor, indices);
}

/// The element of `tensor` at a place. The element of `leaf` that it is made
/// from is `value`. A read of `known` is replaced by `element`, if given.
static Value emitElement(OpBuilder &b, Value tensor, Value leaf, Value value,
                         ArrayRef<Value> at, Value known = {},
                         Value element = {}) {
  if (tensor == leaf)
    return value;
  Location loc = tensor.getLoc();
  GenericOp generic = elementwise(tensor.getDefiningOp());
  if (!generic)
    return readElement(b, loc, tensor, at);
  IRMapping mapping;
  for (OpOperand *input : generic.getDpsInputOperands()) {
    auto inner =
        llvm::map_to_vector(loops(generic.getMatchingIndexingMap(input)),
                            [&](unsigned loop) { return at[loop]; });
    BlockArgument argument = generic.getMatchingBlockArgument(input);
    if (argument.use_empty())
      continue;
    mapping.map(argument, isa<RankedTensorType>(input->get().getType())
                              ? emitElement(b, input->get(), leaf, value, inner,
                                            known, element)
                              : input->get());
  }
  for (Operation &op : generic.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(op)) {
      mapping.map(index.getResult(), at[index.getDim()]);
    } else if (auto read = dyn_cast<tensor::ExtractOp>(op);
               read && element && read.getTensor() == known) {
      mapping.map(read.getResult(), element);
    } else if (auto read = dyn_cast<tensor::ExtractOp>(op)) {
      auto indices = llvm::map_to_vector(read.getIndices(), [&](Value index) {
        return mapping.lookupOrDefault(index);
      });
      mapping.map(read.getResult(),
                  readElement(b, loc, read.getTensor(), indices));
    } else {
      b.clone(op, mapping);
    }
  }
  return mapping.lookupOrDefault(yielded(generic));
}

Value Attention::emitScore(OpBuilder &b, ArrayRef<Value> at, Value score,
                           Value position) const {
  return emitElement(b, softmaxInput, scores->getResult(0), score, at,
                     positions, position);
}

Value Attention::emitSink(OpBuilder &b, Value head, Value query) const {
  Value zero = arith::ConstantIndexOp::create(b, sinks.getLoc(), 0);
  Value at[] = {head, query, zero, zero};
  return emitElement(b, sinks, /*leaf=*/{}, /*value=*/{}, at);
}

Value Attention::emitResult(OpBuilder &b, Value value) const {
  // The place is not used: the payload reads no other tensor.
  SmallVector<Value> at(4);
  return emitElement(b, output(), product->getResult(0), value, at);
}

std::optional<double> Attention::factor() const {
  Value tensor = softmaxInput, value = shown;
  double factor = 1;
  while (tensor != scores->getResult(0)) {
    auto generic = tensor.getDefiningOp<GenericOp>();
    FloatAttr constant;
    if (auto mul = value.getDefiningOp<arith::MulFOp>();
        mul && matchPattern(mul.getRhs(), m_Constant(&constant))) {
      factor *= constant.getValueAsDouble();
      value = mul.getLhs();
      continue;
    }
    auto argument = dyn_cast<BlockArgument>(value);
    tensor = argument ? innerOperand(generic) : Value();
    if (!tensor || generic->getOperand(argument.getArgNumber()) != tensor)
      return std::nullopt;
    if (tensor != scores->getResult(0))
      value = yielded(tensor.getDefiningOp<GenericOp>());
  }
  return factor;
}

bool Attention::onlyRounds() const {
  if (!result)
    return true;
  GenericOp op = result;
  Value made = yielded(op), argument = op.getBlock()->getArgument(0);
  auto rounded = made.getDefiningOp<arith::TruncFOp>();
  return made == argument || (rounded && rounded.getIn() == argument);
}

//===----------------------------------------------------------------------===//
// Visible keys
//===----------------------------------------------------------------------===//

/// Integer arithmetic in a payload as an affine expression: d0 is the token, d1
/// is the key, and values from outside of the payload are symbols. Null if it
/// is not affine.
static AffineExpr linear(Value value, SmallVectorImpl<Value> &symbols) {
  MLIRContext *context = value.getContext();
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return getAffineConstantExpr(*constant, context);
  Operation *op = value.getDefiningOp();
  if (auto index = dyn_cast_or_null<linalg::IndexOp>(op))
    return index.getDim() >= 2 ? getAffineDimExpr(index.getDim() - 2, context)
                               : AffineExpr();
  if (auto cast = dyn_cast_or_null<arith::IndexCastOp>(op))
    return linear(cast.getIn(), symbols);
  if (auto read = dyn_cast_or_null<tensor::ExtractOp>(op)) {
    bool ofToken =
        read.getIndices().size() == 1 &&
        linear(read.getIndices()[0], symbols) == getAffineDimExpr(0, context);
    if (!ofToken)
      return {};
    symbols.push_back(read.getTensor());
    return getAffineSymbolExpr(symbols.size() - 1, context);
  }
  if (isa_and_present<arith::AddIOp, arith::SubIOp>(op)) {
    AffineExpr a = linear(op->getOperand(0), symbols),
               b = linear(op->getOperand(1), symbols);
    if (!a || !b)
      return {};
    return isa<arith::AddIOp>(op) ? a + b : a - b;
  }
  if (!value.getType().isIndex() || (op && isa<GenericOp>(op->getParentOp())))
    return {};
  symbols.push_back(value);
  return getAffineSymbolExpr(symbols.size() - 1, context);
}

/// Adds the bound that a comparison sets for the keys that pass it. False if it
/// sets none.
static bool addBound(arith::CmpIOp compare, Attention::Bounds &bounds) {
  using Predicate = arith::CmpIPredicate;
  MLIRContext *context = compare.getContext();
  AffineExpr a = linear(compare.getLhs(), bounds.symbols),
             b = linear(compare.getRhs(), bounds.symbols);
  Predicate predicate = compare.getPredicate();
  if (predicate == Predicate::sgt || predicate == Predicate::sge) {
    std::swap(a, b);
    predicate = predicate == Predicate::sgt ? Predicate::slt : Predicate::sle;
  }
  if (!a || !b || (predicate != Predicate::slt && predicate != Predicate::sle))
    return false;
  // The comparison holds if `rest` is not negative.
  AffineExpr rest = b - a - (predicate == Predicate::slt ? 1 : 0);
  unsigned symbols = bounds.symbols.size();
  SmallVector<int64_t> factors; // of token, key, symbols, one
  if (failed(getFlattenedAffineExpr(rest, 2, symbols, &factors)) ||
      factors.size() != symbols + 3 || std::abs(factors[1]) != 1)
    return false;
  bool upper = factors[1] < 0;
  AffineExpr token = getAffineDimExpr(0, context),
             key = getAffineDimExpr(1, context);
  AffineExpr bound =
      simplifyAffineExpr(upper ? rest + key + 1 : key - rest, 2, symbols);
  // The bound must hold for all tokens of the range. If an upper bound grows
  // with the token, or a lower bound falls, the last token (d1 - 1) has the
  // widest bound.
  if (upper ? factors[0] >= 0 : factors[0] > 0)
    bound = bound.replace(token, key - 1);
  (upper ? bounds.end : bounds.first).push_back(bound);
  return true;
}

/// Adds the bounds of all conjuncts of a condition.
static void addBounds(Value condition, Attention::Bounds &bounds) {
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    addBounds(both.getLhs(), bounds);
    addBounds(both.getRhs(), bounds);
    return;
  }
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  bounds.exact &= compare && addBound(compare, bounds);
}

Attention::Bounds Attention::keysSeen() const {
  Bounds bounds;
  if (visible)
    addBounds(visible, bounds);
  return bounds;
}
