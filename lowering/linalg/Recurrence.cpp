/// Lowers the delta rule and the selective scan to linalg: a loop over tokens,
/// or over chunks of tokens.
#include "dialect/Attributes.h"
#include "lowering/linalg/Lowering.h"
#include "lowering/linalg/States.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

/// x / |x| * scale for each head, heads first: (KH, T, D) in f32.
Value FunctionLowering::unitRows(Value x, llvm::APFloat eps, double scale) {
  Value sums = rowSum(x, [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], v[0], b.sumFlags())};
  });
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  std::swap(sizes[0], sizes[1]);
  return b.generic(
      3, {x, sums}, {b.empty(sizes, b.getF32Type())},
      {b.select(3, {0, 1, 2}), b.select(3, {0, 1}), b.select(3, {1, 0, 2})},
      [&](Values v) -> SmallVector<Value> {
        Value sum = arith::AddFOp::create(b, b.getLoc(), v[1],
                                          b.f32(eps.convertToDouble()));
        Value y = arith::MulFOp::create(
            b, b.getLoc(), v[0], math::RsqrtOp::create(b, b.getLoc(), sum));
        if (scale != 1)
          y = arith::MulFOp::create(b, b.getLoc(), y, b.f32(scale));
        return {y};
      })[0];
}

namespace {
/// A matrix, or its transpose.
struct Matrix {
  Value rows;
  bool turned = false;
};

/// The delta rule, or the selective scan, on some columns of each head's matrix
/// S. A column needs no other one, so iterations share them.
struct Recurrence {
  LinalgBuilder &b;
  StateLayer of;
  int64_t tokens;        // of a chunk; 1: a loop over tokens
  bool inParts;          // products of a chunk: see `multiply`
  Value pairs;           // (KH, T, 2, D): keys and queries, in f32
  Value products;        // (KH, T): of the two
  Value values;          // (T, H, V)
  Value decay, share;    // (T, H): factors of S, and of what is added to it
  Value skip;            // (H) in f32; null: the delta rule
  RankedTensorType type; // of the result: (T, H, V)

  Value head = {}, keyHead = {}, column = {}; // of the iteration

  int64_t size() { return tensorType(pairs).getDimSize(3); }
  int64_t heads() { return type.getDimSize(1); }
  /// The columns W of an iteration. For tokens, S is to fit the L1 cache. What
  /// a chunk computes of its tokens alone, each iteration computes again.
  int64_t width() {
    return columnsOf(type.getDimSize(2), tokens == 1 ? 32 : 128);
  }
  std::pair<Value, Value> emit(Value state);
  Value matrixOfState();
  Value start(Value state, Value token, Value own);
  SmallVector<OpFoldResult> first();
  std::pair<Value, Value> step(Value token, Value matrix, Value rows);
  SmallVector<Value> overTokens(Value from, ValueRange carried);
  Value row(Value matrix, OpFoldResult row);
  Value mul(Value x, Value y) {
    return arith::MulFOp::create(b, x, y, b.sumFlags());
  }
  Value add(Value x, Value y) {
    return arith::AddFOp::create(b, x, y, b.sumFlags());
  }
  Value ofChunk(Value numbers, Value first);
  Value rowsOfChunk(Value first, int64_t which, int64_t count = 1);
  Value everyOther(Value rows, int64_t which);
  Value multiply(Matrix x, Matrix y, bool split = false, Value sums = {});
  Value decaysSince(Value decays);
  Value corrected(Value pairs, Value since, Value portions, Value wanted);
  std::pair<Value, Value> chunk(Value first, Value matrix, Value rows);
};
} // namespace

/// A row of a matrix, as a vector.
Value Recurrence::row(Value matrix, OpFoldResult row) {
  RankedTensorType type = tensorType(matrix);
  int64_t count = type.getDimSize(1);
  return b.slice(matrix, {row, b.getIndexAttr(0)},
                 {b.getIndexAttr(1), b.getIndexAttr(count)},
                 RankedTensorType::get({count}, type.getElementType()));
}

/// Where S begins in a layer.
SmallVector<OpFoldResult> Recurrence::first() {
  return {OpFoldResult(Places{b}.mul(head, size())), OpFoldResult(column)};
}

/// Memory for S. The distance between rows is no power of two, so that a column
/// has room in the L1 cache.
Value Recurrence::matrixOfState() {
  Value whole =
      ownMatrix(b, size(), width() + (tokens == 1 ? 0 : 16), b.getF32Type());
  OpFoldResult zero = b.getIndexAttr(0);
  return b.slice(whole, {zero, zero},
                 {b.getIndexAttr(size()), b.getIndexAttr(width())});
}

/// S before a token, (D, W), in `own`, memory of its own: in the state its rows
/// are far apart.
Value Recurrence::start(Value state, Value token, Value own) {
  SmallVector<Value> place = of.read(token);
  Value old = partOf(b, state, place, first(), {size(), width()});
  Places p{b};
  Value position = of.positionOf(token);
  AffineMap all = b.select(2, {0, 1});
  return b.generic(2, {old}, {own}, {all, all},
                   [&](Values v) -> SmallVector<Value> {
                     Value isFirst = p.less(position, b.index(1));
                     return {p.select(isFirst, b.f32(0), v[0])};
                   })[0];
}

/// S and the result after one token. The query is multiplied by the old S, and
/// so is the key if S corrects the value. What the update adds to the query's
/// result follows from the product of query and key.
std::pair<Value, Value> Recurrence::step(Value token, Value matrix,
                                         Value rows) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               two = b.getIndexAttr(2), w = b.getIndexAttr(width());
  Value pair = b.slice(pairs, {keyHead, token, zero, zero},
                       {one, one, two, b.getIndexAttr(size())},
                       RankedTensorType::get({2, size()}, b.getF32Type()));
  Value read = pair;
  if (skip)
    read = b.slice(pair, {one, zero}, {one, b.getIndexAttr(size())});
  Value made = multiply({read}, {matrix});
  SmallVector<OpFoldResult> at = {token, head, column}, sizes = {one, one, w};
  Value value = b.slice(
      values, at, sizes,
      RankedTensorType::get({width()}, tensorType(values).getElementType()));
  Places p{b};
  Value factor = p.element(decay, {token, head}),
        portion = p.element(share, {token, head}),
        product = p.element(products, {keyHead, token});
  Value update, mixed;
  if (skip) {
    Value through = p.element(skip, {head});
    update = b.map({value}, b.getF32Type(), [&](Values v) {
      return SmallVector<Value>{mul(portion, v[0])};
    });
    mixed = b.map({row(made, zero), update, value}, type.getElementType(),
                  [&](Values v) -> SmallVector<Value> {
                    Value sum = add(mul(factor, v[0]), mul(product, v[1]));
                    return {add(sum, mul(through, v[2]))};
                  });
  } else {
    update =
        b.map({value, row(made, zero)}, b.getF32Type(),
              [&](Values v) -> SmallVector<Value> {
                Value known = mul(factor, v[1]);
                return {mul(portion, arith::SubFOp::create(b, v[0], known))};
              });
    mixed = b.map({row(made, one), update}, type.getElementType(),
                  [&](Values v) -> SmallVector<Value> {
                    return {add(mul(factor, v[0]), mul(product, v[1]))};
                  });
  }
  matrix = b.generic(2, {row(pair, zero), update}, {matrix},
                     {b.select(2, {0}), b.select(2, {1}), b.select(2, {0, 1})},
                     [&](Values v) -> SmallVector<Value> {
                       return {add(mul(factor, v[2]), mul(v[0], v[1]))};
                     })[0];
  return {matrix, b.insert(mixed, rows, at, sizes)};
}

/// S, the result and, if each token has states, these after the tokens from
/// `from` on, token by token.
SmallVector<Value> Recurrence::overTokens(Value from, ValueRange carried) {
  Value end =
      getValueOrCreateConstantIndexOp(b, b.getLoc(), b.sizes(values)[0]);
  auto turns = scf::ForOp::create(
      b, from, end, b.index(1), carried,
      [&](OpBuilder &, Location, Value token, ValueRange carried) {
        SmallVector<Value> now = llvm::to_vector(carried);
        if (of.isOfTokens())
          now[0] = start(now[2], token, now[0]);
        std::tie(now[0], now[1]) = step(token, now[0], now[1]);
        if (of.isOfTokens())
          now[2] = withPart(b, now[2], of.written(token), first(), now[0]);
        scf::YieldOp::create(b, now);
      });
  return llvm::to_vector<3>(ValueRange(turns.getResults()));
}

/// x (M, K) y (K, N), added to `sums` if there are some. Split, each number is
/// the sum of two of bf16. The product of the two low parts is left out: it is
/// no larger than what the parts lack.
Value Recurrence::multiply(Matrix x, Matrix y, bool split, Value sums) {
  if (!sums)
    sums = b.filled({b.sizes(x.rows)[x.turned], b.sizes(y.rows)[!y.turned]}, 0);
  AffineMap ofX = x.turned ? b.select(3, {2, 0}) : b.select(3, {0, 2}),
            ofY = y.turned ? b.select(3, {1, 2}) : b.select(3, {2, 1}),
            ofSums = b.select(3, {0, 1});
  if (!split)
    return b.contract({x.rows, ofX}, {y.rows, ofY}, ofSums, sums);
  auto rounded = [&](Value number) {
    return b.widen(b.round(number, b.getBF16Type()));
  };
  return b.generic(3, {x.rows, y.rows}, {sums}, {ofX, ofY, ofSums},
                   [&](Values v) -> SmallVector<Value> {
                     Value x = rounded(v[0]), y = rounded(v[1]),
                           xLow = rounded(arith::SubFOp::create(b, v[0], x)),
                           yLow = rounded(arith::SubFOp::create(b, v[1], y)),
                           sum = add(add(v[2], mul(xLow, y)), mul(x, y));
                     return {add(sum, mul(x, yLow))};
                   })[0];
}

/// The numbers (C) of the head and of the chunk from `first` on.
Value Recurrence::ofChunk(Value numbers, Value first) {
  return b.slice(numbers, {first, head},
                 {b.getIndexAttr(tokens), b.getIndexAttr(1)},
                 RankedTensorType::get({tokens}, b.getF32Type()));
}

/// The keys (C, D) of the chunk from `first` on, or the queries; or both (2 C,
/// D), a key and a query alternately.
Value Recurrence::rowsOfChunk(Value first, int64_t which, int64_t count) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  SmallVector<int64_t> shape = {tokens, size()};
  if (count > 1)
    shape.insert(shape.begin() + 1, count);
  Value rows = b.slice(pairs, {keyHead, first, b.getIndexAttr(which), zero},
                       {one, b.getIndexAttr(tokens), b.getIndexAttr(count),
                        b.getIndexAttr(size())},
                       tensorType(pairs).clone(shape));
  if (count == 1)
    return rows;
  return tensor::CollapseShapeOp::create(
      b, rows, ArrayRef<ReassociationIndices>{{0, 1}, {2}});
}

/// The rows (C, N) of the keys, `which` = 0, or of the queries, 1. The rows (2
/// C, N) alternate between the two.
Value Recurrence::everyOther(Value rows, int64_t which) {
  OpFoldResult zero = b.getIndexAttr(0);
  SmallVector<int64_t> shape = {tokens, tensorType(rows).getDimSize(1)};
  RankedTensorType type = tensorType(rows).clone(shape);
  shape.insert(shape.begin() + 1, 2);
  Value pairs = tensor::ExpandShapeOp::create(
      b, type.clone(shape), rows, ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  SmallVector<OpFoldResult> sizes = b.sizes(pairs);
  sizes[1] = b.getIndexAttr(1);
  return b.slice(pairs, {zero, b.getIndexAttr(which), zero}, sizes, type);
}

/// The products (C, C) of the decays of tokens j + 1 to i, at [i, j]; at j >=
/// i, 1.
Value Recurrence::decaysSince(Value decays) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               c = b.getIndexAttr(tokens);
  auto rows = scf::ForOp::create(
      b, b.index(1), b.index(tokens), b.index(1), b.filled({c, c}, 1),
      [&](OpBuilder &, Location, Value i, ValueRange carried) {
        Places p{b};
        Value factor = p.element(decays, {i}), before = p.sub(i, b.index(1));
        Value row = b.generic(
            2, {b.slice(carried[0], {before, zero}, {one, c})},
            {b.empty({one, c}, b.getF32Type())},
            SmallVector<AffineMap>(2, b.select(2, {0, 1})),
            [&](Values v) -> SmallVector<Value> {
              Value isBefore = p.less(p.loop(1), i);
              return {p.select(isBefore, mul(factor, v[0]), b.f32(1))};
            })[0];
        Value next = b.insert(row, carried[0], {i, zero}, {one, c});
        scf::YieldOp::create(b, next);
      });
  return rows.getResult(0);
}

/// The rows u (C, W) of a chunk, which do not add again what the rows before
/// them already added to S:
///
///   u[i] = wanted[i] - portions[i] sum_{j < i} since[i, j] pairs[i, j] u[j]
///
/// A triangular system, solved row by row.
Value Recurrence::corrected(Value pairs, Value since, Value portions,
                            Value wanted) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               c = b.getIndexAttr(tokens), w = b.getIndexAttr(width());
  AffineMap all = b.select(2, {0, 1});
  Value factors = b.generic(
      2, {pairs, since, portions}, {b.empty({c, c}, b.getF32Type())},
      {all, all, b.select(2, {0}), all}, [&](Values v) -> SmallVector<Value> {
        Places p{b};
        Value isBefore = p.less(p.loop(1), p.loop(0));
        return {p.select(isBefore, mul(v[2], mul(v[0], v[1])), b.f32(0))};
      })[0];
  auto solved = scf::ForOp::create(
      b, b.index(0), b.index(tokens), b.index(1), b.filled({c, w}, 0),
      [&](OpBuilder &, Location, Value i, ValueRange carried) {
        Value known =
            multiply({b.slice(factors, {i, zero}, {one, c})}, {carried[0]});
        Value made = b.map({b.slice(wanted, {i, zero}, {one, w}), known},
                           b.getF32Type(), [&](Values v) -> SmallVector<Value> {
                             return {arith::SubFOp::create(b, v[0], v[1])};
                           });
        Value next = b.insert(made, carried[0], {i, zero}, {one, w});
        scf::YieldOp::create(b, next);
      });
  return solved.getResult(0);
}

/// S (D, W) and the result after the chunk from `first` on. With the products
/// e[i, j] of the decays of tokens j + 1 to i, and begun[i] of all tokens to i,
///
///   S[i] = begun[i] S + sum_{j <= i} e[i, j] k[j] u[j]^T
///   o[i] = begun[i] S^T q[i] + sum_{j <= i} e[i, j] (k[j] q[i]) u[j]
///   u[i] = share[i] (v[i] - decay[i] S[i - 1]^T k[i]), or share[i] v[i]
///
/// so all but the u of the delta rule are products of matrices: Yang, Kautz,
/// Hatamizadeh, "Gated Delta Networks", 2024; Dao, Gu, "Transformers are SSMs",
/// 2024.
std::pair<Value, Value> Recurrence::chunk(Value first, Value matrix,
                                          Value rows) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               c = b.getIndexAttr(tokens), w = b.getIndexAttr(width()),
               d = b.getIndexAttr(size());
  Value key = rowsOfChunk(first, 0), query = rowsOfChunk(first, 1),
        decays = ofChunk(decay, first), portions = ofChunk(share, first);
  SmallVector<OpFoldResult> at = {first, head, column}, sizes = {c, one, w};
  Value value =
      b.slice(values, at, sizes, tensorType(values).clone({tokens, width()}));
  Places p{b};
  AffineMap all = b.select(2, {0, 1}), ofRow = b.select(2, {0});
  auto scaled = [&](Value factors, Value rows) {
    return b.generic(2, {factors, rows}, {b.empty({c, w}, b.getF32Type())},
                     {ofRow, all, all}, [&](Values v) -> SmallVector<Value> {
                       return {mul(v[0], v[1])};
                     })[0];
  };
  Value since = decaysSince(decays);
  Value decay0 = p.element(decays, b.index(0)),
        since0 = b.slice(since, {zero, zero}, {c, one},
                         RankedTensorType::get({tokens}, b.getF32Type())),
        begun = b.map({since0}, b.getF32Type(),
                      [&](Values v) -> SmallVector<Value> {
                        return {mul(decay0, v[0])};
                      });
  Matrix across = {key, /*turned=*/true};
  if (!inParts) // no schedule for f32 reads it so
    across = {b.generic(
        2, {key}, {b.empty({d, c}, b.getF32Type())}, {b.select(2, {1, 0}), all},
        [](Values v) -> SmallVector<Value> { return {v[0]}; })[0]};
  // Keys times y, or queries. In parts one product has both, `made`, so that y
  // is packed once; a scan needs the queries' alone.
  auto times = [&](int64_t which, Matrix y, Value &made) {
    if (!inParts || skip)
      return multiply({which ? query : key}, y, inParts);
    if (!made)
      made = multiply({rowsOfChunk(first, 0, 2)}, y, inParts);
    return everyOther(made, which);
  };
  Value updates, ofState, ofKeys;
  if (skip) {
    updates = scaled(portions, value);
  } else {
    Value wanted = b.generic(
        2, {portions, begun, value, times(0, {matrix}, ofState)},
        {b.empty({c, w}, b.getF32Type())}, {ofRow, ofRow, all, all, all},
        [&](Values v) -> SmallVector<Value> {
          Value known = mul(v[1], v[3]);
          return {mul(v[0], arith::SubFOp::create(b, v[2], known))};
        })[0];
    updates = corrected(times(0, across, ofKeys), since, portions, wanted);
  }
  Value seen = b.generic(
      2, {times(1, across, ofKeys), since}, {b.empty({c, c}, b.getF32Type())},
      {all, all, all}, [&](Values v) -> SmallVector<Value> {
        Value isAhead = p.less(p.loop(0), p.loop(1));
        return {p.select(isAhead, b.f32(0), mul(v[0], v[1]))};
      })[0];
  Value read = scaled(begun, times(1, {matrix}, ofState));
  SmallVector<Value> mixing = {multiply({seen}, {updates}, inParts, read)};
  Value through;
  if (skip) {
    through = p.element(skip, {head});
    mixing.push_back(value);
  }
  Value mixed =
      b.map(mixing, type.getElementType(), [&](Values v) -> SmallVector<Value> {
        return {skip ? add(v[0], mul(through, v[1])) : v[0]};
      });
  int64_t last = tokens - 1;
  Value left = scaled(row(since, b.getIndexAttr(last)), updates),
        whole = p.element(begun, b.index(last));
  matrix =
      b.generic(2, {}, {matrix}, {all}, [&](Values v) -> SmallVector<Value> {
        return {mul(whole, v[0])};
      })[0];
  matrix = multiply({key, /*turned=*/true}, {left}, inParts, matrix);
  return {matrix, b.insert(mixed, rows, at, sizes)};
}

/// The result and the state after all tokens.
std::pair<Value, Value> Recurrence::emit(Value state) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               w = b.getIndexAttr(width()), count = b.sizes(values)[0];
  auto made = inParallel(
      b, {heads(), type.getDimSize(2) / width()},
      {b.empty(b.sizes(values), type.getElementType()), state},
      [&](ValueRange at, ValueRange outs) -> SmallVector<Updated> {
        Places p{b};
        head = at[0];
        keyHead = p.div(head, heads() / tensorType(pairs).getDimSize(0));
        column = p.mul(at[1], width());
        Value own = matrixOfState(), from = b.index(0);
        SmallVector<Value> now = {own, outs[0]};
        if (of.isOfTokens())
          now.push_back(outs[1]);
        else
          now[0] = start(outs[1], Value(), own);
        if (tokens > 1) { // the tokens after the last whole chunk are left
          Value end = getValueOrCreateConstantIndexOp(b, b.getLoc(), count);
          from = p.sub(end, p.rem(end, tokens));
          auto chunks = scf::ForOp::create(
              b, b.index(0), from, b.index(tokens), now,
              [&](OpBuilder &, Location, Value first, ValueRange carried) {
                auto [matrix, rows] = chunk(first, carried[0], carried[1]);
                scf::YieldOp::create(b, ValueRange{matrix, rows});
              });
          now = llvm::to_vector<3>(ValueRange(chunks.getResults()));
        }
        now = overTokens(from, now);
        SmallVector<OpFoldResult> place = first();
        Updated rows = {now[1], {zero, head, column}, {count, one, w}},
                states = {Value(), {zero, of.layer}, b.sizes(state)};
        if (of.isOfTokens()) {
          states.whole = now[2];
          states.sizes[1] = one;
        } else {
          SmallVector<Value> written = of.written();
          states.whole = withPart(b, outs[1], written, place, now[0]);
          states.offsets = getAsOpFoldResult(written);
          std::fill_n(states.sizes.begin(), states.offsets.size(), one);
          states.type = tensorType(own);
        }
        states.sizes[states.offsets.size()] = b.getIndexAttr(size());
        states.sizes.back() = w;
        llvm::append_range(states.offsets, place);
        return {rows, states};
      });
  return {made[0], made[1]};
}

/// Lowers an op whose heads have a matrix. Query and key (KH, T, D) are in f32.
template <typename Op>
void FunctionLowering::lowerRecurrence(Op op, Value query, Value key,
                                       Value share, Value skip) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  SmallVector<OpFoldResult> sizes = b.sizes(query), ofKeys(4, zero),
                            ofQueries = {zero, zero, one, zero};
  sizes.insert(sizes.begin() + 2, b.getIndexAttr(2));
  Value pairs = b.empty(sizes, b.getF32Type());
  sizes[2] = one;
  pairs = b.insert(key, pairs, ofKeys, sizes);
  pairs = b.insert(query, pairs, ofQueries, sizes);
  AffineMap ofHead = b.select(2, {0, 1}), all = b.select(3, {0, 1, 2});
  Value products = b.contract(
      {b.slice(pairs, ofKeys, sizes, tensorType(key)), all},
      {b.slice(pairs, ofQueries, sizes, tensorType(key)), all},
      b.select(3, {0, 1}), b.filled(ArrayRef(sizes).take_front(2), 0));
  Value steps = stored(op.getStep());
  Value decay = b.generic(
      2, {steps, stored(op.getLogDecay())},
      {b.empty(b.sizes(steps), b.getF32Type())},
      {ofHead, b.select(2, {1}), ofHead}, [&](Values v) -> SmallVector<Value> {
        Value each = math::ExpOp::create(b, v[1]);
        Value log = arith::MulFOp::create(b, each, v[0]);
        return {math::ExpOp::create(b, arith::NegFOp::create(b, log))};
      })[0];
  StateLayer of{b, op.getStates() ? stored(op.getStates()) : Value(),
                stored(op.getLayer()), stored(op.getPosition())};
  // What a token adds must not depend on where a text is cut.
  RankedTensorType type = op.getResult().getType();
  bool isInvariant = function->hasAttr(kInvariantAttribute),
       fits = !prompt.inParts ||
              (!type.getElementType().isF32() &&
               type.getDimSize(2) % kColumnsOfParts == 0 &&
               tensorType(key).getDimSize(2) % kTermsOfParts == 0),
       chunks =
           !of.isOfTokens() && !isInvariant && fits && type.getDimSize(0) != 1;
  Recurrence recurrence{b,
                        of,
                        chunks ? prompt.chunk : 1,
                        chunks && prompt.inParts,
                        pairs,
                        products,
                        any(op.getValue()),
                        decay,
                        share,
                        skip,
                        type};
  std::tie(storedForm[op.getResult()], storedForm[op.getNext()]) =
      recurrence.emit(writable(op.getState()));
}

void FunctionLowering::lower(DeltaRuleOp op) {
  Value query = unitRows(any(op.getQuery()), op.getEps(),
                         op.getScale().convertToDouble()),
        key = unitRows(any(op.getKey()), op.getEps(), 1);
  lowerRecurrence(op, query, key, stored(op.getRate()), /*skip=*/Value());
}

void FunctionLowering::lower(SelectiveScanOp op) {
  auto byHead = [&](Value old) {
    Value x = any(old);
    SmallVector<OpFoldResult> sizes = b.sizes(x);
    std::swap(sizes[0], sizes[1]);
    return b.generic(3, {x}, {b.empty(sizes, b.getF32Type())},
                     {b.select(3, {0, 1, 2}), b.select(3, {1, 0, 2})},
                     [](Values v) -> SmallVector<Value> { return {v[0]}; })[0];
  };
  Value skip = b.map({any(op.getSkip())}, b.getF32Type(),
                     [](Values v) -> SmallVector<Value> { return {v[0]}; });
  lowerRecurrence(op, byHead(op.getQuery()), byHead(op.getKey()),
                  stored(op.getStep()), skip);
}
