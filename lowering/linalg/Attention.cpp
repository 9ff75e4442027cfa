/// Attention by its definition. g counts the heads that share KV head h. s
/// counts keys from `first` on, the first key that any token may see:
///
///   scores[h, g, t, s] = q[t, h, g, :] . keys[layer, h, first + s, :]
///   p = softmax over s of (visible ? softcap(scale * scores) : lowest)
///   out[t, h, g, :] = sum_s (visible ? p : 0) * values[layer, h, first + s, :]
///
/// A row that sees no keys is zero. A head's sink is a last score, which no key
/// made; the softmax adds it up, and then its p is dropped. Schedules do not
/// store the scores, which are (tokens, keys) for each head. Keys and values in
/// blocks are widened before the products; schedules widen a few of them at a
/// time. Rows of paged caches are gathered before the products, for each token
/// if tokens have their own pages: then keys are keys[t, h, s, :]. So are the
/// rows of rings. Schedules read both in place.
#include "lowering/linalg/Functions.h"
#include "lowering/linalg/Lowering.h"
#include "lowering/linalg/Pages.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <limits>

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

namespace {
class Attention {
public:
  Attention(LinalgBuilder &b, AttentionOperands operands, GQAOp op)
      : b(b), in(operands), op(op) {}
  Value lower();

private:
  /// Whether each token has its own position and pages.
  bool isOfTokens() { return !in.position.getType().isIndex(); }
  void chooseKeys();
  Value cachePart(Value cache);
  Value valuesOf(Value rows);
  /// Whether some keys are hidden from some tokens.
  bool masks() {
    return op.getCausal() ||
           (op.getWindow() && getConstantIntValue(tokens) != 1);
  }
  Value visible();
  Value softmax(Value seen, ArrayRef<OpFoldResult> rows);
  Value splitHeads(Value x);

  LinalgBuilder &b;
  AttentionOperands in;
  GQAOp op;
  int64_t kvHeads, group, size;
  int64_t valueSize; // the numbers of a value: the first of a row
  OpFoldResult tokens, first, length;
};
} // namespace

/// Computes the range of keys that any of the tokens sees: [first, first +
/// length).
void Attention::chooseKeys() {
  int64_t room = op.getRoom();
  if (isOfTokens()) {
    first = b.getIndexAttr(0);
    length = b.getIndexAttr(room);
    return;
  }
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  auto apply = [&](AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  };
  OpFoldResult end =
      in.over ? OpFoldResult(in.over) : apply(d0 + d1, {in.position, tokens});
  first = b.getIndexAttr(0);
  if (op.getWindow()) {
    int64_t before = *op.getWindow() - 1;
    AffineMap most = AffineMap::get(
        1, 0, {d0 - before, b.getAffineConstantExpr(0)}, b.getContext());
    first = affine::makeComposedFoldedAffineMax(b, b.getLoc(), most,
                                                {OpFoldResult(in.position)});
  }
  // The minimum with the room of the cache bounds the memory of a row of
  // scores.
  AffineMap least = AffineMap::get(
      2, 0, {d0 - d1, b.getAffineConstantExpr(room)}, b.getContext());
  length =
      affine::makeComposedFoldedAffineMin(b, b.getLoc(), least, {end, first});
}

/// The rows of the layer's cache, (KVH, keys, D) or (T, KVH, keys, D).
Value Attention::cachePart(Value cache) {
  if (in.pages || op.getRing()) {
    Value storage =
        gatherPages(b, {cache, in.pages, in.position, in.layer}, first, length);
    bool inBlocks =
        isa<BlocksType>(op.getKeyCache().getType().getElementType());
    return inBlocks ? widenBlocks(b, storage) : storage;
  }
  if (isa<BlocksType>(op.getKeyCache().getType().getElementType()))
    return widenBlocks(b, cache, in.layer, first, length);
  OpFoldResult zero = b.getIndexAttr(0);
  auto all = cast<RankedTensorType>(cache.getType());
  auto keys = getConstantIntValue(length);
  auto type = RankedTensorType::get(
      {kvHeads, keys.value_or(ShapedType::kDynamic), size},
      all.getElementType());
  return b.slice(cache, {in.layer, zero, first, zero},
                 {b.getIndexAttr(1), b.getIndexAttr(kvHeads), length,
                  b.getIndexAttr(size)},
                 type);
}

/// The first numbers of rows, if values are not whole rows.
Value Attention::valuesOf(Value rows) {
  SmallVector<OpFoldResult> sizes = b.sizes(rows),
                            zeros(sizes.size(), b.getIndexAttr(0));
  sizes.back() = b.getIndexAttr(valueSize);
  return valueSize == size ? rows : b.slice(rows, zeros, sizes);
}

/// In a payload over (h, g, t, s): whether token t sees key s.
Value Attention::visible() {
  auto at = [&](unsigned dim, OpFoldResult from) -> Value {
    Value i = linalg::IndexOp::create(b, b.getLoc(), dim);
    if (!isConstantIntValue(from, 0))
      i = arith::AddIOp::create(
          b, b.getLoc(), i,
          getValueOrCreateConstantIndexOp(b, b.getLoc(), from));
    return arith::IndexCastOp::create(b, b.getLoc(), b.getI32Type(), i);
  };
  Value position, key = at(3, first), result;
  if (isOfTokens())
    position = tensor::ExtractOp::create(
        b, b.getLoc(), in.position,
        ValueRange{linalg::IndexOp::create(b, b.getLoc(), 2)});
  else
    position = at(2, in.position);
  if (op.getCausal()) {
    Value last = position;
    if (in.ahead)
      last = arith::AddIOp::create(
          b, b.getLoc(), last,
          arith::IndexCastOp::create(b, b.getLoc(), b.getI32Type(), in.ahead));
    result = arith::CmpIOp::create(b, b.getLoc(), arith::CmpIPredicate::sle,
                                   key, last);
  }
  if (!op.getWindow())
    return result;
  int64_t window = std::min<int64_t>(*op.getWindow(), 1 << 30);
  Value reach = arith::AddIOp::create(
      b, b.getLoc(), key,
      arith::ConstantIntOp::create(b, b.getLoc(), b.getI32Type(), window));
  Value recent = arith::CmpIOp::create(b, b.getLoc(), arith::CmpIPredicate::sgt,
                                       reach, position);
  return result ? arith::AndIOp::create(b, b.getLoc(), result, recent) : recent;
}

/// The softmax over the keys and then the sink of the head.
Value Attention::softmax(Value seen, ArrayRef<OpFoldResult> rows) {
  auto softmaxOf = [&](Value input) {
    return linalg::SoftmaxOp::create(b, b.getLoc(), input.getType(), input,
                                     b.empty(b.sizes(input), b.getF32Type()),
                                     /*dimension=*/3)
        ->getResult(0);
  };
  if (!in.sinks)
    return softmaxOf(seen);
  Type element = cast<RankedTensorType>(in.sinks.getType()).getElementType();
  Value sinks = tensor::ExpandShapeOp::create(
      b, b.getLoc(), RankedTensorType::get({kvHeads, group}, element), in.sinks,
      ArrayRef<ReassociationIndices>{{0, 1}});
  SmallVector<OpFoldResult> column(rows), all(rows),
      start(4, b.getIndexAttr(0)), end = start;
  column[3] = b.getIndexAttr(1);
  end[3] = length;
  all[3] = affine::makeComposedFoldedAffineApply(
      b, b.getLoc(), b.getAffineDimExpr(0) + 1, {length});
  Value last =
      b.generic(4, {sinks}, {b.empty(column, b.getF32Type())},
                {b.select(4, {0, 1}), b.select(4, {0, 1, 2, 3})},
                [](Values v) -> SmallVector<Value> { return {v[0]}; })[0];
  Value input = b.insert(seen, b.empty(all, b.getF32Type()), start, rows);
  Value p = softmaxOf(b.insert(last, input, end, column));
  return b.slice(p, start, rows, cast<RankedTensorType>(seen.getType()));
}

/// (T, H, D)  =>  (T, KVH, G, D)
Value Attention::splitHeads(Value x) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<OpFoldResult> shape = {tokens, b.getIndexAttr(kvHeads),
                                     b.getIndexAttr(group),
                                     b.getIndexAttr(size)};
  auto split = RankedTensorType::get({type.getDimSize(0), kvHeads, group, size},
                                     type.getElementType());
  return tensor::ExpandShapeOp::create(
      b, b.getLoc(), split, x, ArrayRef<ReassociationIndices>{{0}, {1, 2}, {3}},
      shape);
}

Value Attention::lower() {
  RankedTensorType type = op.getQuery().getType();
  kvHeads = op.getKeyCache().getType().getShape().take_back(4)[1];
  group = type.getDimSize(1) / kvHeads;
  size = type.getDimSize(2);
  valueSize = op.getType().getDimSize(2);
  tokens = b.sizes(in.query)[0];
  chooseKeys();
  OpFoldResult heads = b.getIndexAttr(kvHeads), queries = b.getIndexAttr(group);
  SmallVector<OpFoldResult> rows = {heads, queries, tokens, length};

  Value query = splitHeads(in.query), keys = cachePart(in.keys);
  // Loops (h, g, t, s, d).
  AffineMap keyMap =
      isOfTokens() ? b.select(5, {2, 0, 3, 4}) : b.select(5, {0, 3, 4});
  Value scores = b.contract({query, b.select(5, {2, 0, 1, 4})}, {keys, keyMap},
                            b.select(5, {0, 1, 2, 3}), b.filled(rows, 0));
  double scale = op.getScale().convertToDouble();
  Value lowest = b.f32(-std::numeric_limits<float>::max());
  Value seen = b.map({scores}, b.getF32Type(), [&](Values v) {
    Value score = v[0];
    if (scale != 1)
      score = arith::MulFOp::create(b, b.getLoc(), score, b.f32(scale));
    if (op.getSoftcap())
      score = softcap(b, score, *op.getSoftcap());
    if (masks())
      score = arith::SelectOp::create(b, b.getLoc(), visible(), score, lowest);
    return SmallVector<Value>{score};
  });
  Value p = softmax(seen, rows);
  if (masks())
    p = b.map({p}, b.getF32Type(), [&](Values v) -> SmallVector<Value> {
      return {
          arith::SelectOp::create(b, b.getLoc(), visible(), v[0], b.f32(0))};
    });
  Value values = valuesOf(in.values == in.keys ? keys : cachePart(in.values));
  SmallVector<OpFoldResult> outRows = {tokens, heads, queries,
                                       b.getIndexAttr(valueSize)};
  // Loops (t, h, g, d, s).
  AffineMap valueMap =
      isOfTokens() ? b.select(5, {0, 1, 4, 3}) : b.select(5, {1, 4, 3});
  Value out = b.contract({p, b.select(5, {1, 2, 0, 4})}, {values, valueMap},
                         b.select(5, {0, 1, 2, 3}), b.filled(outRows, 0));
  Type stored = op.getType().getElementType();
  if (!stored.isF32())
    out = b.map({out}, stored,
                [](Values v) -> SmallVector<Value> { return {v[0]}; });
  return tensor::CollapseShapeOp::create(
      b, b.getLoc(), out, ArrayRef<ReassociationIndices>{{0}, {1, 2}, {3}});
}

Value cria::lowerAttention(LinalgBuilder &b, AttentionOperands operands,
                           GQAOp op) {
  return Attention(b, operands, op).lower();
}
