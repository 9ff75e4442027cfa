/// product, linalg.softmax, product  =>  scf.forall { online softmax }
///
/// Attention as an online softmax (Milakov and Gimelshein 2018, as in
/// FlashAttention). A row is a query of one head and one token. Keys are read
/// block by block. Each row keeps a running maximum m, the sum l of exp(s - m),
/// and the unnormalized output o. A new block rescales l and o by alpha =
/// exp(m_old - m_new). A sink is the first m, of a row with l = 1 and o = 0.
///
/// All rows of one KV head share its keys and values, so one iteration of the
/// parallel loop is one KV head. There are two forms. They differ in the
/// innermost dimension, which becomes the vector:
///
///   one token    rows are few (heads per KV head, or some of them if there
///                are many): scores s are (rows, keys),
///                each a dot product along the head size, which is innermost
///                in the cache; outputs o are (rows, head size).
///   more tokens  rows are many (tokens of a block times heads per KV head):
///                everything is transposed, s (keys, rows) and o (head size,
///                rows). Softmax is then elementwise over vectors of rows, and
///                both products broadcast cache elements against rows.
///
/// For more tokens, bf16 is multiplied if the CPU multiplies tiles or pairs of
/// it, and the weights of values are rounded to it.
///
/// Keys and values in quantized blocks are widened first, to f32, or to bf16
/// for such products: 64 keys at a time, so that the widened keys stay in the
/// L1 cache.
///
/// If the cache is paged, one token reads one page at a time, in place. More
/// tokens read blocks of 64 keys, which are gathered from pages in the type of
/// the computation. If each token has its own pages, the form for one token is
/// used: an iteration is one KV head of one token, and reads up to the token's
/// last page.
///
/// A ring has whole blocks: block n is at block n mod the ring's number of
/// them. A block has the same positions as in other caches, so results are the
/// same.
///
/// Blocks of keys that no row of the iteration may see are skipped. The ops on
/// scores, such as the mask, are cloned from linalg. A softmax of another form
/// is decomposed into loops over all scores, with a missed-optimization remark.
#include "lowering/Passes.h"
#include "lowering/cpu/VectorUnit.h"
#include "lowering/kernel/Attention.h"
#include "lowering/kernel/LinalgBuilder.h"
#include "lowering/kernel/Softmax.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/RegionUtils.h"
#include <numeric>

namespace cria {
#define GEN_PASS_DEF_FLASHATTENTION
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

using Values = LinalgBuilder::Values;

/// For one token: the most queries of a KV head that stay together, and the
/// parts into which more are divided, so that threads share them.
static constexpr int64_t kMostQueries = 8, kQueries = 4;

namespace {
/// m, l and o of the rows of one iteration.
struct Softmax {
  Value maximum, sum, output;
};

/// The schedule of one attention.
class FlashAttention {
public:
  FlashAttention(LinalgBuilder &b, const Attention &attention,
                 bool hasBf16Products);
  /// The output, (T, KVH, G, E), in `out`.
  Value emit(Value out);

private:
  Value add(Value a, Value c) { return arith::AddIOp::create(b, a, c); }
  Value affine(AffineExpr expr, ArrayRef<OpFoldResult> operands);
  Value cacheBlock(Value cache, linalg::GenericOp widened, Value head,
                   Value block);
  Value widenBlock(Value cache, linalg::GenericOp op, Value head, Value first);
  Value widen(linalg::GenericOp op, ArrayRef<Value> inputs, int64_t keys);
  Value pageNumber(Value page);
  Value pagePart(Value cache, Value page, Value head, int64_t from,
                 int64_t count);
  Value pageTile(Value cache, linalg::GenericOp widened, Value page,
                 Value head);
  Value gatheredBlock(Value cache, linalg::GenericOp widened, Value head,
                      Value block);
  Value positionOf(Value positions);
  std::pair<Value, Value> blocks(Value firstToken, Value endToken);
  Value score(Value scores, Value block, Value head, Value tokens);
  Value tokensOfRows(Value firstToken, int64_t rows);
  Value step(Softmax &state, Value scores);
  Softmax overBlocks(Value query, int64_t rows, Value head, Value firstToken,
                     Value endToken);
  Value update(Value out, AffineMap outMap, Value in, AffineMap inMap,
               llvm::function_ref<Value(Value, Value)> payload);
  Value queryBlock(Value head, Value first, Value valid);
  Value prefillRows(Value head, Value first, Value valid, Value out);
  Value queryOf(Value row);
  Value decodeRows(Value head, Value token, Value out);
  Value rowsOf(Value tensor, Value head, OpFoldResult first,
               OpFoldResult valid);
  SmallVector<Value> result(Value output, Value sum);

  LinalgBuilder &b;
  const Attention &in;
  RankedTensorType type; // of the query
  bool oneToken;
  bool ofBf16;     // whether both products multiply bf16
  unsigned keyDim; // the dimension of scores that is the keys
  int64_t kvHeads, group, size, keys, tokensPerBlock;
  int64_t valueSize; // the numbers of a value, and of an output
  int64_t queries;   // for one token: the rows of an iteration
  int64_t pageKeys;  // keys of a page; 0 if the caches are not paged
  Value tokens, firstKey, endKey;
  /// Where the iteration's queries begin among the queries of its KV head; null
  /// if an iteration has all of them.
  Value firstQuery;
  /// If tokens have their own pages: the token of the iteration, and its
  /// position as an i32.
  Value ownToken, ownPosition;
  // Sizes of slices: 0, 1, G, D and the numbers of a value.
  OpFoldResult zero, one, heads, d, e;
};
} // namespace

FlashAttention::FlashAttention(LinalgBuilder &b, const Attention &attention,
                               bool hasBf16Products)
    : b(b), in(attention),
      type(cast<RankedTensorType>(attention.query.getType())) {
  oneToken = type.getDimSize(0) == 1 || in.positions;
  keyDim = oneToken ? 1 : 0;
  kvHeads = type.getDimSize(1);
  group = type.getDimSize(2);
  size = type.getDimSize(3);
  valueSize = in.valueSize;
  // A block of keys ends within the cache: the number of positions is a
  // multiple of the block. A block of a paged cache is whole pages.
  auto cache = cast<RankedTensorType>(in.keys.getType());
  pageKeys = in.pages ? cache.getDimSize(3) : 0;
  if (!in.pages)
    keys = std::gcd<int64_t>(cache.getDimSize(2), 64);
  else
    keys = pageKeys * (oneToken ? 1 : std::max<int64_t>(1, 64 / pageKeys));
  // The number of rows is a multiple of 16, a vector, and at least 64 if
  // possible. Where a KV head has many queries, few tokens make enough rows.
  tokensPerBlock = std::max<int64_t>(16, 64 / llvm::PowerOf2Ceil(group));
  while (group >= 16 && tokensPerBlock % 2 == 0 &&
         tokensPerBlock / 2 * group % 16 == 0 &&
         tokensPerBlock / 2 * group >= 64)
    tokensPerBlock /= 2;
  queries = group;
  while (group > kMostQueries && queries > kQueries && queries % 2 == 0)
    queries /= 2;
  auto isBf16 = [](Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getElementType().isBF16();
  };
  bool areBf16 = in.widenedKeys || (isBf16(in.keys) && isBf16(in.values));
  ofBf16 = hasBf16Products && !oneToken && isBf16(in.query) && areBf16 &&
           size % 32 == 0 && valueSize % 32 == 0 && keys % 32 == 0;
  auto value = [&](OpFoldResult size) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), size);
  };
  tokens = value(b.sizes(in.query)[0]);
  firstKey = value(in.firstKey);
  endKey = add(firstKey, value(in.keyCount));
  zero = b.getIndexAttr(0);
  one = b.getIndexAttr(1);
  heads = b.getIndexAttr(group);
  e = b.getIndexAttr(valueSize);
  d = b.getIndexAttr(size);
}

Value FlashAttention::affine(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
  return affine::makeComposedAffineApply(b, b.getLoc(), expr, operands);
}

/// One block of keys or values of one head, (keys, D), in the form that the
/// products take.
Value FlashAttention::cacheBlock(Value cache, linalg::GenericOp widened,
                                 Value head, Value block) {
  if (pageKeys && keys == pageKeys && oneToken)
    return pageTile(cache, widened, block, head);
  if (pageKeys)
    return gatheredBlock(cache, widened, head, block);
  auto cacheType = cast<RankedTensorType>(cache.getType());
  AffineExpr place = b.getAffineDimExpr(0);
  if (in.areRings)
    place = place % (cacheType.getDimSize(2) / keys);
  Value first = affine(place * keys, {block});
  if (widened)
    return widenBlock(cache, widened, head, first);
  Value tile =
      b.slice(cache, {in.layer, head, first, zero},
              {one, one, b.getIndexAttr(keys), b.getIndexAttr(size)},
              RankedTensorType::get({keys, size}, cacheType.getElementType()));
  if (oneToken || ofBf16 || cacheType.getElementType().isF32())
    return tile;
  return b.map({tile}, b.getF32Type(),
               [](Values v) -> SmallVector<Value> { return {v[0]}; });
}

/// The number, in the cache, of the page at index `page` of a text's pages.
Value FlashAttention::pageNumber(Value page) {
  SmallVector<Value> at = {page};
  if (ownToken)
    at.insert(at.begin(), ownToken);
  return arith::IndexCastOp::create(b, b.getIndexType(),
                                    tensor::ExtractOp::create(b, in.pages, at));
}

/// One head's rows of a page, (P, D). If the cache is in quantized blocks: the
/// bytes [from, from + count) of each block, (P, D / 32, count), or (P, D / 32)
/// if `count` is 1.
Value FlashAttention::pagePart(Value cache, Value page, Value head,
                               int64_t from, int64_t count) {
  auto type = cast<RankedTensorType>(cache.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), zero),
      sizes(type.getRank(), one);
  offsets[0] = page;
  offsets[1] = in.layer;
  offsets[2] = head;
  SmallVector<int64_t> shape(type.getShape().drop_front(3));
  for (auto [dim, size] : llvm::enumerate(shape))
    sizes[3 + dim] = b.getIndexAttr(size);
  if (shape.size() == 3) {
    offsets.back() = b.getIndexAttr(from);
    sizes.back() = b.getIndexAttr(count);
    shape.back() = count;
    if (count == 1)
      shape.pop_back();
  }
  return b.slice(cache, offsets, sizes,
                 RankedTensorType::get(shape, type.getElementType()));
}

/// One head's numbers (P, D) of a text's page, as they are stored, or widened
/// by `widened`.
Value FlashAttention::pageTile(Value cache, linalg::GenericOp widened,
                               Value page, Value head) {
  Value number = pageNumber(page);
  if (!widened)
    return pagePart(cache, number, head, 0, 0);
  SmallVector<Value> inputs;
  for (OpOperand *input : widened.getDpsInputOperands()) {
    auto slice = input->get().getDefiningOp<tensor::ExtractSliceOp>();
    inputs.push_back(
        pagePart(cache, number, head,
                 *getConstantIntValue(slice.getMixedOffsets().back()),
                 *getConstantIntValue(slice.getMixedSizes().back())));
  }
  return widen(widened, inputs, pageKeys);
}

/// Gathers the numbers (keys, D) of a block from its pages. The numbers of the
/// pages after the page with the text's last key are undefined, so this page is
/// read instead of them.
Value FlashAttention::gatheredBlock(Value cache, linalg::GenericOp widened,
                                    Value head, Value block) {
  int64_t pages = keys / pageKeys;
  Value first = affine(b.getAffineDimExpr(0) * pages, {block});
  Value last = affine((b.getAffineDimExpr(0) - 1).floorDiv(pageKeys), {endKey});
  Type element = ofBf16 ? Type(b.getBF16Type()) : b.getF32Type();
  OpFoldResult places = b.getIndexAttr(pageKeys);
  auto body = [&](OpBuilder &, Location, Value i, ValueRange carried) {
    Value page = arith::MinSIOp::create(b, add(first, i), last);
    Value tile = pageTile(cache, widened, page, head);
    SmallVector<OpFoldResult> offsets = {
        affine(b.getAffineDimExpr(0) * pageKeys, {i}), zero};
    Value place = b.slice(carried[0], offsets, {places, d});
    AffineMap all = b.select(2, {0, 1});
    Value put = b.generic(2, {tile}, {place}, {all, all},
                          [](Values v) { return SmallVector<Value>{v[0]}; })[0];
    scf::YieldOp::create(b, b.insert(put, carried[0], offsets, {places, d}));
  };
  return scf::ForOp::create(b, b.index(0), b.index(pages), b.index(1),
                            b.empty({b.getIndexAttr(keys), d}, element), body)
      .getResult(0);
}

/// Applies the widening `op` to the keys [first, first + keys) of a head. Of a
/// ring, the inputs of `op` are slices of rows that were gathered from `cache`.
Value FlashAttention::widenBlock(Value cache, linalg::GenericOp op, Value head,
                                 Value first) {
  SmallVector<Value> inputs;
  for (OpOperand *input : op.getDpsInputOperands()) {
    auto slice = input->get().getDefiningOp<tensor::ExtractSliceOp>();
    auto offsets = slice.getMixedOffsets(), sizes = slice.getMixedSizes();
    if (in.areRings) {
      offsets.insert(offsets.begin(), in.layer);
      sizes.insert(sizes.begin(), one);
    }
    offsets[1] = head;
    offsets[2] = first;
    sizes[1] = one;
    sizes[2] = b.getIndexAttr(keys);
    SmallVector<int64_t> shape(slice.getType().getShape().drop_front());
    shape[0] = keys;
    inputs.push_back(
        b.slice(cache, offsets, sizes, slice.getType().clone(shape)));
  }
  return widen(op, inputs, keys);
}

/// Applies the widening `op` to `inputs`: the slices of its inputs with `keys`
/// keys of one head.
Value FlashAttention::widen(linalg::GenericOp op, ArrayRef<Value> inputs,
                            int64_t keys) {
  // The last three loops of the op are over keys, blocks and numbers. The loops
  // before them are over heads or tokens.
  unsigned before = op.getNumLoops() - 3;
  SmallVector<AffineMap> maps;
  for (OpOperand *input : op.getDpsInputOperands())
    maps.push_back(b.select(
        3, llvm::map_to_vector(
               op.getMatchingIndexingMap(input).getResults().drop_front(before),
               [&](AffineExpr loop) {
                 return cast<AffineDimExpr>(loop).getPosition() - before;
               })));
  Type element = ofBf16 ? Type(b.getBF16Type()) : b.getF32Type();
  auto made = cast<RankedTensorType>(op.getResultTypes()[0]);
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(keys)};
  for (int64_t size : made.getShape().take_back(2))
    sizes.push_back(b.getIndexAttr(size));
  maps.push_back(b.select(3, {0, 1, 2}));
  Value out = b.empty(sizes, element);
  SmallVector<utils::IteratorType> loops(3, utils::IteratorType::parallel);
  auto tile = linalg::GenericOp::create(
      b, b.getLoc(), out.getType(), inputs, out, maps, loops,
      [&](OpBuilder &nested, Location loc, ValueRange elements) {
        Block *payload = op.getBlock();
        IRMapping mapping;
        mapping.map(payload->getArguments(), elements);
        for (Operation &each : payload->without_terminator())
          nested.clone(each, mapping);
        Value number =
            mapping.lookupOrDefault(payload->getTerminator()->getOperand(0));
        LinalgBuilder body(loc, nested);
        linalg::YieldOp::create(nested, loc, body.round(number, element));
      });
  return tensor::CollapseShapeOp::create(
      b, tile.getResult(0), ArrayRef<ReassociationIndices>{{0}, {1, 2}});
}

/// The element of `positions` for the iteration's token, as an index.
Value FlashAttention::positionOf(Value positions) {
  Value position = positions == in.positions
                       ? ownPosition
                       : tensor::ExtractOp::create(b, positions, ownToken);
  return arith::IndexCastOp::create(b, b.getIndexType(), position);
}

/// The blocks [first, end) of the cache that tokens [firstToken, endToken) may
/// see.
std::pair<Value, Value> FlashAttention::blocks(Value firstToken,
                                               Value endToken) {
  Attention::Bounds bounds = in.keysSeen();
  SmallVector<OpFoldResult> operands = {firstToken, endToken};
  for (Value symbol : bounds.symbols)
    operands.push_back(symbol.getType().isIndex() ? symbol
                                                  : positionOf(symbol));
  auto at = [&](AffineExpr bound) -> Value {
    return affine::makeComposedAffineApply(
        b, b.getLoc(), AffineMap::get(2, bounds.symbols.size(), bound),
        operands);
  };
  Value first = b.index(0);
  for (AffineExpr bound : bounds.first)
    first = arith::MaxSIOp::create(b, first, at(bound));
  Value end = getValueOrCreateConstantIndexOp(b, b.getLoc(), in.keyCount);
  for (AffineExpr bound : bounds.end)
    end = arith::MinSIOp::create(b, end, at(bound));
  AffineExpr sum = b.getAffineDimExpr(0) + b.getAffineDimExpr(1);
  return {affine(sum.floorDiv(keys), {first, firstKey}),
          affine(sum.ceilDiv(keys), {end, firstKey})};
}

/// The token of each row, as i32: row r has the token firstToken + r / group.
Value FlashAttention::tokensOfRows(Value firstToken, int64_t rows) {
  Value out = b.empty({b.getIndexAttr(rows)}, b.getI32Type());
  return b.generic(1, {}, {out}, {b.select(1, {0})}, [&](Values) {
    Value row = linalg::IndexOp::create(b, 0);
    Value token = arith::DivUIOp::create(b, row, b.index(group));
    return SmallVector<Value>{
        arith::IndexCastOp::create(b, b.getI32Type(), add(firstToken, token))};
  })[0];
}

/// Which of its KV head's queries a row is.
Value FlashAttention::queryOf(Value row) {
  return firstQuery
             ? add(firstQuery, row)
             : arith::RemUIOp::create(b, row, b.index(group)).getResult();
}

/// Turns the products of a block into the softmax's input, in place. A block is
/// always read whole, so keys that the text does not have are hidden.
Value FlashAttention::score(Value scores, Value block, Value head,
                            Value tokens) {
  Value first = affine(b.getAffineDimExpr(0) * keys, {block});
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value c) {
    return arith::CmpIOp::create(b, predicate, a, c);
  };
  Value hidden = b.f32(-std::numeric_limits<double>::infinity());
  return b.generic(
      2, {tokens}, {scores}, {b.select(2, {1 - keyDim}), b.select(2, {0, 1})},
      [&](Values v) -> SmallVector<Value> {
        Value key = add(linalg::IndexOp::create(b, keyDim), first);
        Value row = linalg::IndexOp::create(b, 1 - keyDim);
        Value place[] = {head, queryOf(row),
                         arith::IndexCastOp::create(b, b.getIndexType(), v[0]),
                         arith::SubIOp::create(b, key, firstKey)};
        Value score = in.emitScore(b, place, v[1], ownPosition);
        if (ownToken) // The mask hides all keys after the token's position.
          return {score};
        Value exists = compare(arith::CmpIPredicate::slt, key, endKey);
        if (!isConstantIntValue(in.firstKey, 0))
          exists = arith::AndIOp::create(
              b, exists, compare(arith::CmpIPredicate::sge, key, firstKey));
        return {arith::SelectOp::create(b, exists, score, hidden)};
      })[0];
}

/// In a payload: an element of the output. A row that saw no keys is zero.
SmallVector<Value> FlashAttention::result(Value output, Value sum) {
  Value least = b.f32(std::numeric_limits<float>::min());
  Value divisor = arith::MaxNumFOp::create(b, sum, least);
  return {in.emitResult(b, arith::DivFOp::create(b, output, divisor))};
}

/// out = payload(out, in) for each element of the larger of the two, in place.
Value FlashAttention::update(Value out, AffineMap outMap, Value in,
                             AffineMap inMap,
                             llvm::function_ref<Value(Value, Value)> payload) {
  return b.generic(
      outMap.getNumDims(), {in}, {out}, {inMap, outMap},
      [&](Values v) -> SmallVector<Value> { return {payload(v[1], v[0])}; })[0];
}

/// Adds a block's scores to the state: updates m and l, and rescales o. Returns
/// p. The rows are the dimension of the scores that is not the keys.
Value FlashAttention::step(Softmax &state, Value scores) {
  AffineMap row = b.select(1, {0}), all = b.select(2, {0, 1}),
            rows = b.select(2, {1 - keyDim});
  using Flags = arith::FastMathFlags;
  auto fast = Flags::nnan | Flags::nsz | Flags::reassoc;
  auto expOfDifference = [&](Value a, Value c) -> Value {
    return math::ExpOp::create(b, arith::SubFOp::create(b, a, c));
  };
  auto larger = [&](Value a, Value c) -> Value {
    return arith::MaxNumFOp::create(b, a, c, fast);
  };
  // The maximum of the block is computed first. Then alpha can be computed
  // before m changes, and m can be updated in place.
  Value block = update(b.filled(b.sizes(state.maximum), -1e30), rows, scores,
                       all, larger);
  Value alpha = b.map({state.maximum, block}, b.getF32Type(), [&](Values v) {
    return SmallVector<Value>{expOfDifference(v[0], larger(v[0], v[1]))};
  });
  state.maximum = update(state.maximum, row, block, row, larger);
  Value p = update(scores, all, state.maximum, rows, expOfDifference);
  auto product = [&](Value a, Value c) -> Value {
    return arith::MulFOp::create(b, a, c);
  };
  auto sum = [&](Value a, Value c) -> Value {
    return arith::AddFOp::create(b, a, c, Flags::reassoc);
  };
  state.sum = update(state.sum, row, alpha, row, product);
  state.sum = update(state.sum, rows, p, all, sum);
  state.output = update(state.output, all, alpha, rows, product);
  return p;
}

/// The softmax of `rows` rows of one KV head, over the blocks of keys that
/// tokens [firstToken, endToken) may see. For one token the query is (rows, D)
/// and the output (rows, E), else (D, rows) and (E, rows), where a value has E
/// numbers.
Softmax FlashAttention::overBlocks(Value query, int64_t rows, Value head,
                                   Value firstToken, Value endToken) {
  Value rowTokens = tokensOfRows(firstToken, rows);
  OpFoldResult row = b.getIndexAttr(rows);
  SmallVector<OpFoldResult> scoreShape = {b.getIndexAttr(keys), row},
                            shape = {e, row};
  if (oneToken) {
    std::swap(scoreShape[0], scoreShape[1]);
    std::swap(shape[0], shape[1]);
  }
  auto [first, end] = blocks(firstToken, endToken);
  // The initial maximum is not -inf: exp(-inf - -inf) would be a NaN in a block
  // that has no visible key. A score below the initial maximum counts as
  // hidden.
  Value lowest = b.filled(row, -1.0e30);
  SmallVector<Value> init = {lowest, b.filled(row, in.sinks ? 1 : 0),
                             b.filled(shape, 0)};
  if (in.sinks)
    init[0] = b.generic(1, {}, {lowest}, {b.select(1, {0})},
                        [&](Values v) -> SmallVector<Value> {
                          Value query = queryOf(linalg::IndexOp::create(b, 0));
                          return {arith::MaxNumFOp::create(
                              b, in.emitSink(b, head, query), v[0])};
                        })[0];
  AffineMap all = b.select(3, {0, 1}), left = b.select(3, {0, 2}),
            right = b.select(3, {2, 1});
  auto body = [&](OpBuilder &, Location, Value block, ValueRange carried) {
    Softmax state{carried[0], carried[1], carried[2]};
    Value k = cacheBlock(in.keys, in.widenedKeys, head, block);
    Value v = in.keys == in.values
                  ? k
                  : cacheBlock(in.values, in.widenedValues, head, block);
    if (valueSize != size)
      v = b.slice(v, {zero, zero}, {b.getIndexAttr(keys), e});
    Value scores = b.filled(scoreShape, 0);
    scores = oneToken ? b.contractTransposed(query, k, scores)
                      : b.contract({k, left}, {query, right}, all, scores);
    Value p = step(state, score(scores, block, head, rowTokens));
    if (ofBf16)
      p = b.map({p}, b.getBF16Type(),
                [](Values v) -> SmallVector<Value> { return {v[0]}; });
    state.output = oneToken
                       ? b.contract({p, left}, {v, right}, all, state.output)
                       : b.contract({v, b.select(3, {2, 0})}, {p, right}, all,
                                    state.output);
    scf::YieldOp::create(b, ValueRange{state.maximum, state.sum, state.output});
  };
  auto loop = scf::ForOp::create(b, first, end, b.index(1), init, body);
  return {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
}

/// The rows of one KV head for `valid` tokens from `first` on, sliced from a
/// tensor (T, KVH, G, N): (valid, G, N), or, for one token, (Q, N) of the
/// queries of the iteration.
Value FlashAttention::rowsOf(Value tensor, Value head, OpFoldResult first,
                             OpFoldResult valid) {
  auto all = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape = {oneToken ? queries : group, all.getDimSize(3)};
  OpFoldResult query = firstQuery ? OpFoldResult(firstQuery) : zero,
               count = b.getIndexAttr(shape[0]);
  if (!oneToken)
    shape.insert(shape.begin(), ShapedType::kDynamic);
  return b.slice(tensor, {first, head, query, zero},
                 {valid, one, count, b.getIndexAttr(shape.back())},
                 RankedTensorType::get(shape, all.getElementType()));
}

/// Computes rows of one KV head for one token, (queries, E), in their slice
/// of `out`.
Value FlashAttention::decodeRows(Value head, Value token, Value out) {
  OpFoldResult first = getAsOpFoldResult(token);
  if (in.positions) {
    ownToken = token;
    ownPosition = tensor::ExtractOp::create(b, in.positions, token);
  }
  Value query = rowsOf(in.query, head, first, one);
  query = b.map({query}, b.getF32Type(),
                [](Values v) { return SmallVector<Value>{v[0]}; });
  Value next = b.createOrFold<arith::AddIOp>(token, b.index(1));
  Softmax end = overBlocks(query, queries, head, token, next);
  AffineMap all = b.select(2, {0, 1});
  return b.generic(2, {end.output, end.sum}, {rowsOf(out, head, first, one)},
                   {all, b.select(2, {0}), all},
                   [&](Values v) { return result(v[0], v[1]); })[0];
}

/// Queries (D, tokensPerBlock, group). Tokens past the last have zeros.
Value FlashAttention::queryBlock(Value head, Value first, Value valid) {
  Value query = rowsOf(in.query, head, first, valid);
  Value block = b.filled({d, b.getIndexAttr(tokensPerBlock), heads}, 0,
                         ofBf16 ? b.getBF16Type() : Type());
  Value rows = b.generic(
      3, {query}, {b.slice(block, {zero, zero, zero}, {d, valid, heads})},
      {b.select(3, {1, 2, 0}), b.select(3, {0, 1, 2})},
      [](Values v) { return SmallVector<Value>{v[0]}; })[0];
  return b.insert(rows, block, {zero, zero, zero}, {d, valid, heads});
}

/// Computes the rows of one KV head for tokens [first, first + valid), in their
/// slice of `out`.
Value FlashAttention::prefillRows(Value head, Value first, Value valid,
                                  Value out) {
  Value query = tensor::CollapseShapeOp::create(
      b, queryBlock(head, first, valid),
      ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  Softmax end =
      overBlocks(query, tokensPerBlock * group, head, first, add(first, valid));
  auto expand = [&](Value value, ArrayRef<ReassociationIndices> groups,
                    ArrayRef<int64_t> shape) -> Value {
    auto type = RankedTensorType::get(shape, b.getF32Type());
    return tensor::ExpandShapeOp::create(b, type, value, groups);
  };
  Value output = b.slice(
      expand(end.output, {{0}, {1, 2}}, {valueSize, tokensPerBlock, group}),
      {zero, zero, zero}, {e, valid, heads});
  Value sum = b.slice(expand(end.sum, {{0, 1}}, {tokensPerBlock, group}),
                      {zero, zero}, {valid, heads});
  return b.generic(
      3, {output, sum}, {rowsOf(out, head, first, valid)},
      {b.select(3, {2, 0, 1}), b.select(3, {0, 1}), b.select(3, {0, 1, 2})},
      [&](Values v) { return result(v[0], v[1]); })[0];
}

Value FlashAttention::emit(Value out) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  SmallVector<OpFoldResult> grid = {b.getIndexAttr(kvHeads)};
  if (in.positions)
    grid.insert(grid.begin(), tokens);
  if (!oneToken)
    grid.push_back(affine(d0.ceilDiv(tokensPerBlock), {tokens}));
  else if (queries < group)
    grid.push_back(b.getIndexAttr(group / queries));
  auto loop = scf::ForallOp::create(b, grid, ValueRange{out}, std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value head = loop.getInductionVar(in.positions ? 1 : 0), rows;
  Value destination = loop.getRegionIterArgs()[0];
  OpFoldResult first = zero, valid = one, query = zero, count = heads;
  if (oneToken && queries < group) {
    firstQuery = affine(d0 * queries, {loop.getInductionVars().back()});
    query = firstQuery;
    count = b.getIndexAttr(queries);
  }
  if (oneToken) {
    Value token = in.positions ? loop.getInductionVar(0) : b.index(0);
    rows = decodeRows(head, token, destination);
    first = getAsOpFoldResult(token);
  } else {
    Value firstToken = affine(d0 * tokensPerBlock, {loop.getInductionVar(1)});
    Value count = affine::makeComposedAffineMin(
        b, b.getLoc(),
        AffineMap::get(2, 0, {d0 - d1, b.getAffineConstantExpr(tokensPerBlock)},
                       b.getContext()),
        getAsOpFoldResult(ValueRange{tokens, firstToken}));
    rows = prefillRows(head, firstToken, count, destination);
    first = firstToken;
    valid = count;
  }
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  tensor::ParallelInsertSliceOp::create(
      b, rows, destination, ArrayRef<OpFoldResult>{first, head, query, zero},
      ArrayRef<OpFoldResult>{valid, one, count, e},
      ArrayRef<OpFoldResult>{one, one, one, one});
  return loop.getResult(0);
}

/// Replaces the attention's output by the schedule's. If the output is only
/// materialized in a destination, the schedule computes it there, and else in a
/// new tensor.
static void replace(const Attention &attention, bool hasBf16Products) {
  Value output = attention.output();
  OpBuilder builder(output.getContext());
  builder.setInsertionPointAfterValue(output);
  LinalgBuilder b(output.getLoc(), builder);
  Value out;
  auto into =
      dyn_cast<bufferization::MaterializeInDestinationOp>(*output.user_begin());
  if (into && output.hasOneUse()) {
    b.setInsertionPoint(into);
    out = into.getDest();
  } else {
    SmallVector<OpFoldResult> sizes = b.sizes(attention.query);
    sizes.back() = b.getIndexAttr(attention.valueSize);
    out = b.empty(sizes,
                  cast<RankedTensorType>(output.getType()).getElementType());
  }
  output.replaceAllUsesWith(
      FlashAttention(b, attention, hasBf16Products).emit(out));
}

namespace {
struct FlashAttentionPass : cria::impl::FlashAttentionBase<FlashAttentionPass> {
  using FlashAttentionBase::FlashAttentionBase;

  void runOnOperation() override {
    FailureOr<VectorUnit> unit = VectorUnit::of(getOperation());
    if (failed(unit))
      return signalPassFailure();
    SmallVector<linalg::SoftmaxOp> ops;
    getOperation().walk([&](linalg::SoftmaxOp op) { ops.push_back(op); });
    for (linalg::SoftmaxOp op : ops) {
      StringRef reason;
      if (auto attention = Attention::match(op, reason)) {
        replace(*attention, unit->amx || (unit->dotBf16 && !unit->neon));
        continue;
      }
      remark::missed(op.getLoc(), remark::RemarkOpts::name("scores-stored")
                                      .category(getArgument())
                                      .function(getOperation().getName()))
          << remark::metric("Op", op->getName().getStringRef().str())
          << remark::reason("{0}", reason.str());
      if (failed(takeApart(op)))
        return signalPassFailure();
    }
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, getOperation()->getRegions());
  }
};
} // namespace
