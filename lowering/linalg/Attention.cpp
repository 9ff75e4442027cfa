/// Attention as an online softmax (Milakov and Gimelshein 2018, as in
/// FlashAttention): keys come in blocks; for every row, a query of one head and
/// one token, run the maximum m, the sum l of exp(s - m) and the unnormalized
/// output o. A new block rescales them by alpha = exp(m_old - m_new).
///
/// All rows of one KV head share its keys and values, so one iteration of the
/// parallel loop is one KV head. The two forms differ in what lies innermost,
/// and so becomes the vector:
///
///   one token    rows are few (heads per KV head): scores s are (rows, keys),
///                each a dot product along the head size, as keys lie in the
///                cache; outputs o are (rows, head size).
///   more tokens  rows are many (tokens of a block times heads per KV head):
///                everything is transposed, s (keys, rows) and o (head size,
///                rows). Softmax is then elementwise over vectors of rows, and
///                both products broadcast cache elements against rows.
///
/// Blocks of keys that no row of the iteration may see are not visited.
#include "lowering/linalg/Functions.h"
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

namespace {
/// m, l and o of the rows of one iteration.
struct Softmax {
  Value maximum, sum, output;
};

/// One lowering of one llama.gqa.
class Attention {
public:
  Attention(LinalgBuilder &b, AttentionOperands operands, GQAOp op,
            RankedTensorType type);
  Value decode();
  Value prefill();

private:
  Value add(Value a, Value c) {
    return arith::AddIOp::create(b, b.getLoc(), a, c);
  }
  Value affine(AffineExpr expr, ValueRange operands);
  Value cacheBlock(Value cache, Value head, Value block, bool widen);
  std::pair<Value, Value> blocks(Value firstToken, Value endToken);
  void mask(Value &scores, Value block, unsigned keyDim, Value positions);
  Value positions(Value firstToken, int64_t rows);
  Value isVisible(Value key, Value p, Value end);
  Value toI32(Value index) {
    return arith::IndexCastOp::create(b, b.getLoc(), b.getI32Type(), index);
  }
  SmallVector<Value> step(Softmax state, Value scores, unsigned keyDim);
  Value rescale(Value output, Value alpha, unsigned rowDim);
  Value queryBlock(Value head, Value first, Value valid);
  Value prefillRows(Value head, Value first, Value valid, Value out);
  Value decodeRows(Value head, Value out);

  LinalgBuilder &b;
  AttentionOperands in;
  GQAOp op;
  RankedTensorType type;
  int64_t kvHeads, group, size, keys, tokensPerBlock;
  Value tokens;
  OpFoldResult zero, one;
};
} // namespace

Attention::Attention(LinalgBuilder &b, AttentionOperands operands, GQAOp op,
                     RankedTensorType type)
    : b(b), in(operands), op(op), type(type) {
  auto cache = cast<RankedTensorType>(in.keys.getType());
  kvHeads = cache.getDimSize(1);
  group = type.getDimSize(1) / kvHeads;
  size = type.getDimSize(2);
  // A block of keys never reaches past the cache.
  keys = std::gcd<int64_t>(cache.getDimSize(2), 64);
  // Rows are a multiple of 16, a vector, and at least 64 where they can be.
  tokensPerBlock = std::max<int64_t>(16, 64 / llvm::PowerOf2Ceil(group));
  tokens = getValueOrCreateConstantIndexOp(b, b.getLoc(), b.sizes(in.query)[0]);
  zero = b.getIndexAttr(0);
  one = b.getIndexAttr(1);
}

Value Attention::affine(AffineExpr expr, ValueRange operands) {
  return affine::makeComposedAffineApply(b, b.getLoc(), expr,
                                         getAsOpFoldResult(operands));
}

/// (keys, D) of one head of the cache, in f32 if `widen`.
Value Attention::cacheBlock(Value cache, Value head, Value block, bool widen) {
  auto cacheType = cast<RankedTensorType>(cache.getType());
  Value first = affine(b.getAffineDimExpr(0) * keys, block);
  Value tile =
      b.slice(cache, {in.layer, head, first, zero},
              {one, one, b.getIndexAttr(keys), b.getIndexAttr(size)},
              RankedTensorType::get({keys, size}, cacheType.getElementType()));
  if (!widen || cacheType.getElementType().isF32())
    return tile;
  return b.map({tile}, b.getF32Type(),
               [](Values v) -> SmallVector<Value> { return {v[0]}; });
}

/// The blocks [first, end) that tokens [firstToken, endToken) may see.
std::pair<Value, Value> Attention::blocks(Value firstToken, Value endToken) {
  AffineExpr position = b.getAffineDimExpr(0), token = b.getAffineDimExpr(1);
  if (Value over = in.over)
    return {b.index(0), affine(position.ceilDiv(keys), over)};
  Value last = op.getCausal() ? endToken : tokens;
  Value end = affine((position + token).ceilDiv(keys), {in.position, last});
  if (!op.getWindow())
    return {b.index(0), end};
  int64_t window = *op.getWindow();
  Value oldest =
      affine(position + token - (window - 1), {in.position, firstToken});
  Value clamped = arith::MaxSIOp::create(b, b.getLoc(), oldest, b.index(0));
  return {affine(position.floorDiv(keys), clamped), end};
}

/// The rows' positions, as i32. Row r is the token firstToken + r / group.
Value Attention::positions(Value firstToken, int64_t rows) {
  Value first = add(in.position, firstToken);
  Value out = b.empty({b.getIndexAttr(rows)}, b.getI32Type());
  return b.generic(1, {}, {out}, {b.select(1, {0})}, [&](Values) {
    Value row = linalg::IndexOp::create(b, b.getLoc(), 0);
    Value token = arith::DivUIOp::create(b, b.getLoc(), row, b.index(group));
    return SmallVector<Value>{toI32(add(first, token))};
  })[0];
}

/// Whether the token at position p sees the key, all i32.
Value Attention::isVisible(Value key, Value p, Value end) {
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value c) {
    return arith::CmpIOp::create(b, b.getLoc(), predicate, a, c);
  };
  Value visible = op.getCausal() ? compare(arith::CmpIPredicate::sle, key, p)
                                 : compare(arith::CmpIPredicate::slt, key, end);
  if (!op.getWindow())
    return visible;
  int64_t window = std::min<int64_t>(*op.getWindow(), 1 << 30);
  Value reach = add(
      key, arith::ConstantIntOp::create(b, b.getLoc(), b.getI32Type(), window));
  Value recent = compare(arith::CmpIPredicate::sgt, reach, p);
  return arith::AndIOp::create(b, b.getLoc(), visible, recent);
}

/// scores = visible ? softcap(scores) : -inf, in place.
void Attention::mask(Value &scores, Value block, unsigned keyDim,
                     Value positions) {
  Value first = toI32(affine(b.getAffineDimExpr(0) * keys, block));
  Value end = toI32(in.over ? in.over : add(in.position, tokens));
  Value hidden = b.f32(-std::numeric_limits<double>::infinity());
  scores = b.generic(
      2, {positions}, {scores},
      {b.select(2, {1 - keyDim}), b.select(2, {0, 1})},
      [&](Values v) -> SmallVector<Value> {
        Value key = toI32(linalg::IndexOp::create(b, b.getLoc(), keyDim));
        Value visible = isVisible(add(key, first), v[0], end);
        Value score =
            op.getSoftcap() ? softcap(b, v[1], *op.getSoftcap()) : v[1];
        return {arith::SelectOp::create(b, b.getLoc(), visible, score, hidden)};
      })[0];
}

/// Takes a block's scores into m and l: returns p, alpha, m and l.
SmallVector<Value> Attention::step(Softmax state, Value scores,
                                   unsigned keyDim) {
  AffineMap all = b.select(2, {0, 1}), rows = b.select(2, {1 - keyDim});
  using Flags = arith::FastMathFlags;
  auto fast = arith::FastMathFlagsAttr::get(
      b.getContext(), Flags::nnan | Flags::nsz | Flags::reassoc);
  auto sum = arith::FastMathFlagsAttr::get(b.getContext(), Flags::reassoc);
  auto expOfDifference = [&](Value a, Value c) -> Value {
    return math::ExpOp::create(b, b.getLoc(),
                               arith::SubFOp::create(b, b.getLoc(), a, c));
  };
  auto larger = [&](Value a, Value c) -> Value {
    return arith::MaxNumFOp::create(b, b.getLoc(), a, c, fast);
  };
  // The block's own maximum first: alpha is read off before m changes, so that
  // m changes in place.
  Value block = b.generic(
      2, {scores}, {b.filled(b.sizes(state.maximum), -1e30)}, {all, rows},
      [&](Values v) { return SmallVector<Value>{larger(v[1], v[0])}; })[0];
  Value alpha = b.map({state.maximum, block}, b.getF32Type(), [&](Values v) {
    return SmallVector<Value>{expOfDifference(v[0], larger(v[0], v[1]))};
  });
  Value maximum = b.generic(
      1, {block}, {state.maximum}, {b.select(1, {0}), b.select(1, {0})},
      [&](Values v) { return SmallVector<Value>{larger(v[1], v[0])}; })[0];
  Value p = b.generic(2, {maximum}, {scores}, {rows, all}, [&](Values v) {
    return SmallVector<Value>{expOfDifference(v[1], v[0])};
  })[0];
  Value scaled = b.generic(1, {alpha}, {state.sum},
                           {b.select(1, {0}), b.select(1, {0})}, [&](Values v) {
                             return SmallVector<Value>{arith::MulFOp::create(
                                 b, b.getLoc(), v[1], v[0])};
                           })[0];
  Value total = b.generic(2, {p}, {scaled}, {all, rows}, [&](Values v) {
    return SmallVector<Value>{
        arith::AddFOp::create(b, b.getLoc(), v[1], v[0], sum)};
  })[0];
  return {p, alpha, maximum, total};
}

/// output *= alpha of its row, which is dimension `rowDim`, in place.
Value Attention::rescale(Value output, Value alpha, unsigned rowDim) {
  return b.generic(2, {alpha}, {output},
                   {b.select(2, {rowDim}), b.select(2, {0, 1})},
                   [&](Values v) -> SmallVector<Value> {
                     return {arith::MulFOp::create(b, b.getLoc(), v[1], v[0])};
                   })[0];
}

/// Runs `body` over blocks of keys from the empty softmax of `rows` rows with
/// an output of shape `shape`.
static Softmax
overBlocks(LinalgBuilder &b, int64_t rows, ArrayRef<int64_t> shape,
           std::pair<Value, Value> range,
           llvm::function_ref<Softmax(Value block, Softmax state)> body) {
  // Not -inf: exp(-inf - -inf) would be a NaN in a block no key of which shows.
  SmallVector<OpFoldResult> row = {b.getIndexAttr(rows)};
  SmallVector<Value> init = {
      b.filled(row, -1.0e30), b.filled(row, 0),
      b.filled(getAsIndexOpFoldResult(b.getContext(), shape), 0)};
  auto loop = scf::ForOp::create(b, b.getLoc(), range.first, range.second,
                                 b.index(1), init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  ValueRange args = loop.getRegionIterArgs();
  Softmax next = body(loop.getInductionVar(), {args[0], args[1], args[2]});
  scf::YieldOp::create(b, b.getLoc(),
                       ValueRange{next.maximum, next.sum, next.output});
  return {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
}

/// The rows of one KV head for one token: (1, group, D) of `out`'s type.
Value Attention::decodeRows(Value head, Value out) {
  Value firstHead = affine(b.getAffineDimExpr(0) * group, head);
  Value query =
      b.slice(in.query, {zero, firstHead, zero},
              {one, b.getIndexAttr(group), b.getIndexAttr(size)},
              RankedTensorType::get(
                  {group, size},
                  cast<RankedTensorType>(in.query.getType()).getElementType()));
  double scale = op.getScale().convertToDouble();
  query = b.map({query}, b.getF32Type(), [&](Values v) {
    return SmallVector<Value>{
        arith::MulFOp::create(b, b.getLoc(), v[0], b.f32(scale))};
  });
  Value rowPositions = positions(b.index(0), group);
  SmallVector<OpFoldResult> scoreShape = {b.getIndexAttr(group),
                                          b.getIndexAttr(keys)};
  Softmax end = overBlocks(
      b, group, {group, size}, blocks(b.index(0), b.index(1)),
      [&](Value block, Softmax state) -> Softmax {
        Value k = cacheBlock(in.keys, head, block, /*widen=*/false);
        Value v = cacheBlock(in.values, head, block, /*widen=*/false);
        Value scores = b.contractTransposed(query, k, b.filled(scoreShape, 0));
        mask(scores, block, 1, rowPositions);
        auto next = step(state, scores, 1);
        Value scaled = rescale(state.output, next[1], 0);
        Value output = b.contract(next[0], b.select(3, {0, 2}), v,
                                  b.select(3, {2, 1}), scaled);
        return {next[2], next[3], output};
      });
  Value tile =
      b.slice(out, {zero, firstHead, zero},
              {one, b.getIndexAttr(group), b.getIndexAttr(size)},
              RankedTensorType::get({group, size}, type.getElementType()));
  return b.generic(2, {end.output, end.sum}, {tile},
                   {b.select(2, {0, 1}), b.select(2, {0}), b.select(2, {0, 1})},
                   [&](Values v) -> SmallVector<Value> {
                     return {arith::DivFOp::create(b, b.getLoc(), v[0], v[1])};
                   })[0];
}

Value Attention::decode() {
  Value out = b.empty(b.sizes(in.query), type.getElementType());
  auto loop = scf::ForallOp::create(
      b, b.getLoc(), ArrayRef<OpFoldResult>{b.getIndexAttr(kvHeads)},
      ValueRange{out}, std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value head = loop.getInductionVar(0);
  Value destination = loop.getRegionIterArgs()[0];
  Value rows = decodeRows(head, destination);
  Value firstHead = affine(b.getAffineDimExpr(0) * group, head);
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  tensor::ParallelInsertSliceOp::create(
      b, b.getLoc(), rows, destination,
      ArrayRef<OpFoldResult>{zero, firstHead, zero},
      ArrayRef<OpFoldResult>{one, b.getIndexAttr(group), b.getIndexAttr(size)},
      ArrayRef<OpFoldResult>{one, one, one});
  return loop.getResult(0);
}

/// Scaled queries (D, tokensPerBlock, group), zero for tokens past the last.
Value Attention::queryBlock(Value head, Value first, Value valid) {
  Value firstHead = affine(b.getAffineDimExpr(0) * group, head);
  OpFoldResult heads = b.getIndexAttr(group), d = b.getIndexAttr(size);
  Value query = b.slice(in.query, {first, firstHead, zero}, {valid, heads, d});
  Value block = b.filled({d, b.getIndexAttr(tokensPerBlock), heads}, 0);
  double scale = op.getScale().convertToDouble();
  Value rows = b.generic(
      3, {query}, {b.slice(block, {zero, zero, zero}, {d, valid, heads})},
      {b.select(3, {1, 2, 0}), b.select(3, {0, 1, 2})}, [&](Values v) {
        return SmallVector<Value>{
            arith::MulFOp::create(b, b.getLoc(), v[0], b.f32(scale))};
      })[0];
  return b.insert(rows, block, {zero, zero, zero}, {d, valid, heads});
}

/// The rows of one KV head for tokens [first, first + valid).
Value Attention::prefillRows(Value head, Value first, Value valid, Value out) {
  int64_t rows = tokensPerBlock * group;
  Value query = tensor::CollapseShapeOp::create(
      b, b.getLoc(), queryBlock(head, first, valid),
      ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  Value rowPositions = positions(first, rows);
  OpFoldResult scoreShape[] = {b.getIndexAttr(keys), b.getIndexAttr(rows)};
  Softmax end =
      overBlocks(b, rows, {size, rows}, blocks(first, add(first, valid)),
                 [&](Value block, Softmax state) -> Softmax {
                   Value k = cacheBlock(in.keys, head, block, /*widen=*/true);
                   Value v = cacheBlock(in.values, head, block, /*widen=*/true);
                   Value scores =
                       b.contract(k, b.select(3, {0, 2}), query,
                                  b.select(3, {2, 1}), b.filled(scoreShape, 0));
                   mask(scores, block, 0, rowPositions);
                   auto next = step(state, scores, 0);
                   Value scaled = rescale(state.output, next[1], 1);
                   Value output = b.contract(v, b.select(3, {2, 0}), next[0],
                                             b.select(3, {2, 1}), scaled);
                   return {next[2], next[3], output};
                 });
  auto expand = [&](Value value, ArrayRef<ReassociationIndices> groups,
                    ArrayRef<int64_t> shape) -> Value {
    auto type = RankedTensorType::get(shape, b.getF32Type());
    return tensor::ExpandShapeOp::create(b, b.getLoc(), type, value, groups);
  };
  OpFoldResult heads = b.getIndexAttr(group), d = b.getIndexAttr(size);
  Value output =
      b.slice(expand(end.output, {{0}, {1, 2}}, {size, tokensPerBlock, group}),
              {zero, zero, zero}, {d, valid, heads});
  Value sum = b.slice(expand(end.sum, {{0, 1}}, {tokensPerBlock, group}),
                      {zero, zero}, {valid, heads});
  Value firstHead = affine(b.getAffineDimExpr(0) * group, head);
  Value tile = b.slice(out, {first, firstHead, zero}, {valid, heads, d});
  return b.generic(
      3, {output, sum}, {tile},
      {b.select(3, {2, 0, 1}), b.select(3, {0, 1}), b.select(3, {0, 1, 2})},
      [&](Values v) -> SmallVector<Value> {
        return {arith::DivFOp::create(b, b.getLoc(), v[0], v[1])};
      })[0];
}

Value Attention::prefill() {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  Value out = b.empty(b.sizes(in.query), type.getElementType());
  Value tokenBlocks = affine(d0.ceilDiv(tokensPerBlock), tokens);
  auto loop = scf::ForallOp::create(
      b, b.getLoc(),
      ArrayRef<OpFoldResult>{b.getIndexAttr(kvHeads), tokenBlocks},
      ValueRange{out}, std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value head = loop.getInductionVar(0);
  Value first = affine(d0 * tokensPerBlock, loop.getInductionVar(1));
  Value valid = affine::makeComposedAffineMin(
      b, b.getLoc(),
      AffineMap::get(2, 0, {d0 - d1, b.getAffineConstantExpr(tokensPerBlock)},
                     b.getContext()),
      getAsOpFoldResult(ValueRange{tokens, first}));
  Value destination = loop.getRegionIterArgs()[0];
  Value rows = prefillRows(head, first, valid, destination);
  Value firstHead = affine(d0 * group, head);
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  tensor::ParallelInsertSliceOp::create(
      b, b.getLoc(), rows, destination,
      ArrayRef<OpFoldResult>{first, firstHead, zero},
      ArrayRef<OpFoldResult>{valid, b.getIndexAttr(group),
                             b.getIndexAttr(size)},
      ArrayRef<OpFoldResult>{one, one, one});
  return loop.getResult(0);
}

Value cria::lowerAttention(LinalgBuilder &b, AttentionOperands operands,
                           GQAOp op, RankedTensorType type) {
  Attention attention(b, operands, op, type);
  return type.getDimSize(0) == 1 ? attention.decode() : attention.prefill();
}
