/// Lowers the ops of states to linalg. An op reads what it needs of the old
/// state before it overwrites the layer, so that the state is updated in place.
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

namespace {
/// Arithmetic of places and comparisons, short enough to read as formulas.
struct Places {
  LinalgBuilder &b;

  Value add(Value x, Value y) {
    return arith::AddIOp::create(b, b.getLoc(), x, y);
  }
  Value sub(Value x, Value y) {
    return arith::SubIOp::create(b, b.getLoc(), x, y);
  }
  Value mul(Value x, int64_t y) {
    return arith::MulIOp::create(b, b.getLoc(), x, b.index(y));
  }
  Value div(Value x, int64_t y) {
    return arith::DivUIOp::create(b, b.getLoc(), x, b.index(y));
  }
  Value rem(Value x, int64_t y) {
    return arith::RemUIOp::create(b, b.getLoc(), x, b.index(y));
  }
  Value less(Value x, Value y) {
    return arith::CmpIOp::create(b, b.getLoc(), arith::CmpIPredicate::ult, x,
                                 y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, b.getLoc(), condition, x, y);
  }
  Value loop(int64_t dim) {
    return linalg::IndexOp::create(b, b.getLoc(), static_cast<uint64_t>(dim));
  }
  /// An element in f32.
  Value element(Value tensor, ValueRange at) {
    return b.widen(tensor::ExtractOp::create(b, b.getLoc(), tensor, at));
  }
};
} // namespace

/// One layer of a state: (rows, numbers).
static Value layerOf(LinalgBuilder &b, Value state, Value layer) {
  RankedTensorType type = tensorType(state);
  OpFoldResult zero = b.getIndexAttr(0);
  return b.slice(state, {layer, zero, zero},
                 {b.getIndexAttr(1), b.getIndexAttr(type.getDimSize(1)),
                  b.getIndexAttr(type.getDimSize(2))},
                 type.clone(type.getShape().drop_front()));
}

/// The state with another layer (rows, numbers).
static Value withLayer(LinalgBuilder &b, Value state, Value layer, Value rows) {
  OpFoldResult zero = b.getIndexAttr(0);
  SmallVector<OpFoldResult> sizes = b.sizes(rows);
  sizes.insert(sizes.begin(), b.getIndexAttr(1));
  return b.insert(rows, state, {layer, zero, zero}, sizes);
}

/// Each token's sum reads rows of the call's tokens and, before these, of the
/// state: the tokens of a prompt do not wait for one another.
void FunctionLowering::lower(CausalConvOp op) {
  Value x = stored(op.getInput()), weight = stored(op.getWeight()),
        state = writable(op.getState()), layer = stored(op.getLayer()),
        position = stored(op.getPosition());
  int64_t kept = op.getState().getType().getDimSize(1);
  SmallVector<OpFoldResult> sizes = b.sizes(x);
  Value tokens = getValueOrCreateConstantIndexOp(b, b.getLoc(), sizes[0]),
        zero = b.index(0), most = b.index(kept);
  Places p{b};
  AffineMap all = b.select(2, {0, 1});
  SmallVector<Value> inputs = {x};
  SmallVector<AffineMap> maps = {all};
  if (op.getBias()) {
    inputs.push_back(stored(op.getBias()));
    maps.push_back(b.select(2, {1}));
  }
  maps.push_back(all);
  storedForm[op.getResult()] = b.generic(
      2, inputs, {b.empty(sizes, op.getResult().getType().getElementType())},
      maps, [&](Values v) -> SmallVector<Value> {
        Value token = p.loop(0), column = p.loop(1);
        Value sum = op.getBias() ? v[1] : Value();
        for (int64_t j = 0; j <= kept; ++j) {
          Value term = v[0];
          if (j < kept) {
            // The row of the call with number row - kept, if not negative.
            Value row = p.add(token, b.index(j)), first = p.less(row, most),
                  from = p.select(first, zero, p.sub(row, most)),
                  place = p.rem(p.add(position, row), kept),
                  isBefore = p.less(p.add(position, row), most);
            Value old = p.select(isBefore, b.f32(0),
                                 p.element(state, {layer, place, column}));
            term = p.select(first, old, p.element(x, {from, column}));
          }
          Value factor = p.element(weight, {column, b.index(j)});
          term = arith::MulFOp::create(b, b.getLoc(), factor, term);
          sum = sum ? arith::AddFOp::create(b, b.getLoc(), sum, term) : term;
        }
        return {sum};
      })[0];
  Value rows = b.generic(
      2, {}, {layerOf(b, state, layer)}, {all},
      [&](Values v) -> SmallVector<Value> {
        // The last token whose row has this place is `back` before the last.
        Value end = p.add(position, p.add(tokens, b.index(kept - 1))),
              back = p.rem(p.sub(end, p.loop(0)), kept),
              isNew = p.less(back, tokens), last = p.sub(tokens, b.index(1)),
              from = p.select(isNew, p.sub(last, back), zero);
        return {p.select(isNew, p.element(x, {from, p.loop(1)}), v[0])};
      })[0];
  storedForm[op.getNext()] = withLayer(b, state, layer, rows);
}

/// x / |x| * scale for each head: (T, KH, D) in f32.
Value FunctionLowering::unitRows(Value x, llvm::APFloat eps, double scale) {
  Value sums = rowSum(x, [&](Values v) -> SmallVector<Value> {
    return {arith::MulFOp::create(b, b.getLoc(), v[0], v[0], b.sumFlags())};
  });
  AffineMap all = b.select(3, {0, 1, 2});
  return b.generic(
      3, {x, sums}, {b.empty(b.sizes(x), b.getF32Type())},
      {all, b.select(3, {0, 1}), all}, [&](Values v) -> SmallVector<Value> {
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
/// The delta rule, or the selective scan, on some columns of each head's matrix
/// S. A column needs no other one, so iterations share them.
struct Recurrence {
  LinalgBuilder &b;
  Value pairs;           // (T, KH, 2, D): keys and queries, in f32
  Value products;        // (T, KH): of the two
  Value values;          // (T, H, V)
  Value decay, share;    // (T, H): factors of S, and of what is added to it
  Value skip;            // (H) in f32; null: the delta rule
  RankedTensorType type; // of the result: (T, H, V)

  Value head = {}, keyHead = {}, column = {}; // of the iteration

  int64_t size() { return tensorType(pairs).getDimSize(3); }
  int64_t heads() { return type.getDimSize(1); }
  /// The columns W of an iteration: S is to fit the L1 cache.
  int64_t width() {
    constexpr int64_t most = 32;
    int64_t all = type.getDimSize(2);
    return all % most ? all : most;
  }
  std::pair<Value, Value> emit(Value state, Value layer, Value position);
  Value start(Value state, ArrayRef<OpFoldResult> at, Value position);
  std::pair<Value, Value> step(Value token, Value matrix, Value rows);
  Value row(Value matrix, int64_t row, int64_t count);
};
} // namespace

/// `count` numbers of row `row` of a matrix.
Value Recurrence::row(Value matrix, int64_t row, int64_t count) {
  return b.slice(
      matrix, {b.getIndexAttr(row), b.getIndexAttr(0)},
      {b.getIndexAttr(1), b.getIndexAttr(count)},
      RankedTensorType::get({count}, tensorType(matrix).getElementType()));
}

/// S before the first token, (D, W), in memory of its own: in the state its
/// rows are far apart.
Value Recurrence::start(Value state, ArrayRef<OpFoldResult> at,
                        Value position) {
  auto part = RankedTensorType::get({size(), width()}, b.getF32Type());
  Value old = b.slice(
      state, at,
      {b.getIndexAttr(1), b.getIndexAttr(size()), b.getIndexAttr(width())},
      part);
  Places p{b};
  Value own = bufferization::AllocTensorOp::create(b, part, ValueRange());
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
  Value pair = b.slice(pairs, {token, keyHead, zero, zero},
                       {one, one, two, b.getIndexAttr(size())},
                       RankedTensorType::get({2, size()}, b.getF32Type()));
  Value read = pair;
  if (skip)
    read = b.slice(pair, {one, zero}, {one, b.getIndexAttr(size())});
  OpFoldResult count = b.sizes(read)[0];
  Value made =
      b.contract({read, b.select(3, {0, 2})}, {matrix, b.select(3, {2, 1})},
                 b.select(3, {0, 1}), b.filled({count, w}, 0));
  SmallVector<OpFoldResult> at = {token, head, column}, sizes = {one, one, w};
  Value value = b.slice(
      values, at, sizes,
      RankedTensorType::get({width()}, tensorType(values).getElementType()));
  Places p{b};
  Value factor = p.element(decay, {token, head}),
        portion = p.element(share, {token, head}),
        product = p.element(products, {token, keyHead});
  auto mul = [&](Value x, Value y) -> Value {
    return arith::MulFOp::create(b, x, y, b.sumFlags());
  };
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(b, x, y, b.sumFlags());
  };
  Value update, mixed;
  if (skip) {
    Value through = p.element(skip, {head});
    update = b.map({value}, b.getF32Type(), [&](Values v) {
      return SmallVector<Value>{mul(portion, v[0])};
    });
    mixed = b.map({row(made, 0, width()), update, value}, type.getElementType(),
                  [&](Values v) -> SmallVector<Value> {
                    Value sum = add(mul(factor, v[0]), mul(product, v[1]));
                    return {add(sum, mul(through, v[2]))};
                  });
  } else {
    update =
        b.map({value, row(made, 0, width())}, b.getF32Type(),
              [&](Values v) -> SmallVector<Value> {
                Value known = mul(factor, v[1]);
                return {mul(portion, arith::SubFOp::create(b, v[0], known))};
              });
    mixed = b.map({row(made, 1, width()), update}, type.getElementType(),
                  [&](Values v) -> SmallVector<Value> {
                    return {add(mul(factor, v[0]), mul(product, v[1]))};
                  });
  }
  matrix = b.generic(2, {row(pair, 0, size()), update}, {matrix},
                     {b.select(2, {0}), b.select(2, {1}), b.select(2, {0, 1})},
                     [&](Values v) -> SmallVector<Value> {
                       return {add(mul(factor, v[2]), mul(v[0], v[1]))};
                     })[0];
  return {matrix, b.insert(mixed, rows, at, sizes)};
}

/// The result and the state after all tokens.
std::pair<Value, Value> Recurrence::emit(Value state, Value layer,
                                         Value position) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               w = b.getIndexAttr(width()), tokens = b.sizes(values)[0];
  auto loop = scf::ForallOp::create(
      b,
      ArrayRef<OpFoldResult>{b.getIndexAttr(heads()),
                             b.getIndexAttr(type.getDimSize(2) / width())},
      ValueRange{b.empty(b.sizes(values), type.getElementType()), state},
      std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Places p{b};
  head = loop.getInductionVar(0);
  keyHead = p.div(head, heads() / tensorType(pairs).getDimSize(1));
  column = p.mul(loop.getInductionVar(1), width());
  Value rows = loop.getRegionIterArgs()[0];
  state = loop.getRegionIterArgs()[1];
  SmallVector<OpFoldResult> place = {layer, p.mul(head, size()), column},
                            part = {one, b.getIndexAttr(size()), w},
                            first = {zero, head, column},
                            all = {tokens, one, w}, steps(3, one);
  auto turns = scf::ForOp::create(
      b, b.index(0), getValueOrCreateConstantIndexOp(b, b.getLoc(), tokens),
      b.index(1), ValueRange{start(state, place, position), rows},
      [&](OpBuilder &, Location, Value token, ValueRange carried) {
        auto [matrix, made] = step(token, carried[0], carried[1]);
        scf::YieldOp::create(b, ValueRange{matrix, made});
      });
  Value made = b.slice(turns.getResult(1), first, all);
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  tensor::ParallelInsertSliceOp::create(b, made, rows, first, all, steps);
  tensor::ParallelInsertSliceOp::create(b, turns.getResult(0), state, place,
                                        part, steps);
  return {loop.getResult(0), loop.getResult(1)};
}

/// Lowers an op whose heads have a matrix. Query and key (T, KH, D) are in f32.
template <typename Op>
void FunctionLowering::lowerRecurrence(Op op, Value query, Value key,
                                       Value share, Value skip) {
  RankedTensorType shape = op.getKey().getType().clone(b.getF32Type());
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1);
  SmallVector<OpFoldResult> sizes = b.sizes(query), ofKeys(4, zero),
                            ofQueries = {zero, zero, one, zero};
  sizes.insert(sizes.begin() + 2, b.getIndexAttr(2));
  Value pairs = b.empty(sizes, b.getF32Type());
  sizes[2] = one;
  pairs = b.insert(key, pairs, ofKeys, sizes);
  pairs = b.insert(query, pairs, ofQueries, sizes);
  AffineMap ofHead = b.select(2, {0, 1}), all = b.select(3, {0, 1, 2});
  Value products = b.contract({b.slice(pairs, ofKeys, sizes, shape), all},
                              {b.slice(pairs, ofQueries, sizes, shape), all},
                              b.select(3, {0, 1}),
                              b.filled(ArrayRef(sizes).take_front(2), 0));
  Value steps = stored(op.getStep());
  Value decay = b.generic(
      2, {steps, stored(op.getLogDecay())},
      {b.empty(b.sizes(steps), b.getF32Type())},
      {ofHead, b.select(2, {1}), ofHead}, [&](Values v) -> SmallVector<Value> {
        Value each = math::ExpOp::create(b, v[1]);
        Value log = arith::MulFOp::create(b, each, v[0]);
        return {math::ExpOp::create(b, arith::NegFOp::create(b, log))};
      })[0];
  Recurrence recurrence{b,     pairs, products, any(op.getValue()),
                        decay, share, skip,     op.getResult().getType()};
  std::tie(storedForm[op.getResult()], storedForm[op.getNext()]) =
      recurrence.emit(writable(op.getState()), stored(op.getLayer()),
                      stored(op.getPosition()));
}

void FunctionLowering::lower(DeltaRuleOp op) {
  Value query = unitRows(any(op.getQuery()), op.getEps(),
                         op.getScale().convertToDouble()),
        key = unitRows(any(op.getKey()), op.getEps(), 1);
  lowerRecurrence(op, query, key, stored(op.getRate()), /*skip=*/Value());
}

void FunctionLowering::lower(SelectiveScanOp op) {
  auto widened = [&](Value x) {
    return b.map({any(x)}, b.getF32Type(),
                 [](Values v) -> SmallVector<Value> { return {v[0]}; });
  };
  Value query = widened(op.getQuery()), key = widened(op.getKey()),
        skip = widened(op.getSkip());
  lowerRecurrence(op, query, key, stored(op.getStep()), skip);
}
