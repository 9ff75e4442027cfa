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

/// The layer of a state that tokens read and write.
struct StateLayer {
  LinalgBuilder &b;
  Value states; // the numbers of states; null if there is one state
  Value layer, position;

  /// Whether each token has a position and states.
  bool isOfTokens() const {
    return states && tensorType(states).getRank() == 2;
  }
  Value positionOf(Value token) const {
    return isOfTokens() ? element(position, {token}) : position;
  }
  /// What a token reads, or writes: the coordinates in front of the row.
  SmallVector<Value> read(Value token = {}) const { return place(token, 0); }
  SmallVector<Value> written(Value token = {}) const { return place(token, 1); }

private:
  Value element(Value numbers, ValueRange at) const {
    Value number = tensor::ExtractOp::create(b, b.getLoc(), numbers, at);
    return arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(), number);
  }
  SmallVector<Value> place(Value token, int64_t which) const {
    if (!states)
      return {layer};
    SmallVector<Value> at = {b.index(which)};
    if (isOfTokens())
      at.insert(at.begin(), token);
    return {element(states, at), layer};
  }
};
} // namespace

/// Some rows and columns of a state, from `first` on: a matrix.
static Value partOf(LinalgBuilder &b, Value state, ArrayRef<Value> place,
                    ArrayRef<OpFoldResult> first, ArrayRef<int64_t> shape) {
  SmallVector<OpFoldResult> at = getAsOpFoldResult(place),
                            sizes(place.size(), b.getIndexAttr(1));
  llvm::append_range(at, first);
  llvm::append_range(sizes, getAsIndexOpFoldResult(b.getContext(), shape));
  return b.slice(state, at, sizes, tensorType(state).clone(shape));
}

/// A matrix in memory of its own. Bufferization would give a tensor.empty that
/// becomes a part of a state the memory of this part, which may still be read.
static Value ownMatrix(LinalgBuilder &b, int64_t rows, int64_t columns,
                       Type element) {
  return bufferization::AllocTensorOp::create(
      b, RankedTensorType::get({rows, columns}, element), ValueRange());
}

/// The state with another matrix there.
static Value withPart(LinalgBuilder &b, Value state, ArrayRef<Value> place,
                      ArrayRef<OpFoldResult> first, Value part) {
  SmallVector<OpFoldResult> at = getAsOpFoldResult(place),
                            sizes(place.size(), b.getIndexAttr(1));
  llvm::append_range(at, first);
  llvm::append_range(sizes, b.sizes(part));
  return b.insert(part, state, at, sizes);
}

namespace {
/// What an iteration updates of a tensor: a slice of `whole`.
struct Updated {
  Value whole;
  SmallVector<OpFoldResult> offsets, sizes;
  RankedTensorType type = {}; ///< of the slice; null: of the tensor's rank
};
} // namespace

/// Tensors after iterations that each update a slice of their own. A single
/// iteration is no loop, and updates the whole: its slice would be put into the
/// tensor as it was before, which bufferization then had to copy. A tensor that
/// is new gets its memory here, for its loop over tokens to write to.
static SmallVector<Value>
inParallel(LinalgBuilder &b, ArrayRef<int64_t> counts, ValueRange tensors,
           function_ref<SmallVector<Updated>(ValueRange at, ValueRange tensors)>
               body) {
  if (llvm::all_of(counts, [](int64_t count) { return count == 1; })) {
    SmallVector<Value> first(counts.size(), b.index(0)), own(tensors);
    for (Value &tensor : own)
      if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
        tensor = bufferization::AllocTensorOp::create(b, empty.getType(),
                                                      empty.getDynamicSizes());
    return llvm::map_to_vector(body(first, own),
                               [](const Updated &part) { return part.whole; });
  }
  auto loop = scf::ForallOp::create(
      b, getAsIndexOpFoldResult(b.getContext(), counts), tensors, std::nullopt);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Updated> made =
      body(loop.getInductionVars(), loop.getRegionIterArgs());
  auto slices = llvm::map_to_vector(made, [&](const Updated &part) {
    return part.type ? b.slice(part.whole, part.offsets, part.sizes, part.type)
                     : b.slice(part.whole, part.offsets, part.sizes);
  });
  b.setInsertionPointToEnd(loop.getTerminator().getBody());
  for (auto [slice, part, tensor] :
       llvm::zip(slices, made, loop.getRegionIterArgs()))
    tensor::ParallelInsertSliceOp::create(
        b, slice, tensor, part.offsets, part.sizes,
        SmallVector<OpFoldResult>(part.sizes.size(), b.getIndexAttr(1)));
  return llvm::to_vector<2>(ValueRange(loop.getResults()));
}

/// The columns of an iteration, at most `most`.
static int64_t columnsOf(int64_t all, int64_t most) {
  return all % most ? all : most;
}

/// `sum`, or zero, and the numbers of a column's filter, each times its term.
static Value filtered(LinalgBuilder &b, Value weight, Value column, Value sum,
                      function_ref<Value(int64_t)> term) {
  for (int64_t j = 0; j < tensorType(weight).getDimSize(1); ++j) {
    Value each = term(j),
          factor = Places{b}.element(weight, {column, b.index(j)});
    each = arith::MulFOp::create(b, b.getLoc(), factor, each);
    sum = sum ? arith::AddFOp::create(b, b.getLoc(), sum, each) : each;
  }
  return sum;
}

namespace {
/// A convolution of tokens that each have a state, some columns of it.
struct ConvOfTokens {
  LinalgBuilder &b;
  StateLayer of;
  Value x, weight, bias; // (T, C), (C, K), (C) or null
  int64_t kept;          // K - 1
  RankedTensorType type; // of the result

  int64_t width() const { return columnsOf(type.getDimSize(1), 64); }
  std::pair<Value, Value> emit(Value state);
  Value result(Value token, Value column, Value state);
  Value rows(Value token, Value column, Value state);
};
} // namespace

/// One token's sums.
Value ConvOfTokens::result(Value token, Value column, Value state) {
  Value out = b.empty({b.getIndexAttr(width())}, type.getElementType());
  SmallVector<Value> place = of.read(token);
  Value position = of.positionOf(token);
  return b.generic(
      1, {}, {out}, {b.select(1, {0})}, [&](Values) -> SmallVector<Value> {
        Places p{b};
        Value at = p.add(column, p.loop(0));
        return {filtered(b, weight, at, bias ? p.element(bias, {at}) : Value(),
                         [&](int64_t j) {
                           if (j == kept)
                             return p.element(x, {token, at});
                           Value row = p.add(position, b.index(j)),
                                 isBefore = p.less(row, b.index(kept));
                           SmallVector<Value> from = place;
                           from.append({p.rem(row, kept), at});
                           Value old = p.element(state, from);
                           return p.select(isBefore, b.f32(0), old);
                         })};
      })[0];
}

/// The state's rows after one token.
Value ConvOfTokens::rows(Value token, Value column, Value state) {
  Value old = partOf(b, state, of.read(token), {b.getIndexAttr(0), column},
                     {kept, width()});
  Places p{b};
  Value own = p.rem(of.positionOf(token), kept);
  AffineMap all = b.select(2, {0, 1});
  return b.generic(
      2, {old}, {ownMatrix(b, kept, width(), tensorType(old).getElementType())},
      {all, all}, [&](Values v) -> SmallVector<Value> {
        Value isOwn = arith::CmpIOp::create(
            b, b.getLoc(), arith::CmpIPredicate::eq, p.loop(0), own);
        Value at = p.add(column, p.loop(1));
        return {p.select(isOwn, p.element(x, {token, at}), v[0])};
      })[0];
}

/// The result and the states after all tokens.
std::pair<Value, Value> ConvOfTokens::emit(Value state) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               w = b.getIndexAttr(width()), tokens = b.sizes(x)[0];
  auto made = inParallel(
      b, {type.getDimSize(1) / width()},
      {b.empty(b.sizes(x), type.getElementType()), state},
      [&](ValueRange at, ValueRange outs) -> SmallVector<Updated> {
        Value column = Places{b}.mul(at[0], width());
        auto turns = scf::ForOp::create(
            b, b.index(0),
            getValueOrCreateConstantIndexOp(b, b.getLoc(), tokens), b.index(1),
            outs, [&](OpBuilder &, Location, Value token, ValueRange now) {
              Value made = result(token, column, now[1]),
                    kept = rows(token, column, now[1]);
              Value row = b.insert(made, now[0], {token, column}, {one, w});
              Value next =
                  withPart(b, now[1], of.written(token), {zero, column}, kept);
              scf::YieldOp::create(b, ValueRange{row, next});
            });
        SmallVector<OpFoldResult> ofStates = b.sizes(state);
        ofStates[1] = one;
        ofStates[3] = w;
        return {{turns.getResult(0), {zero, column}, {tokens, w}},
                {turns.getResult(1), {zero, of.layer, zero, column}, ofStates}};
      });
  return {made[0], made[1]};
}

/// Each token's sum reads rows of the call's tokens and, before these, of the
/// state: the tokens of a prompt do not wait for one another.
void FunctionLowering::lower(CausalConvOp op) {
  Value x = stored(op.getInput()), weight = stored(op.getWeight()),
        state = writable(op.getState()), position = stored(op.getPosition());
  StateLayer of{b, op.getStates() ? stored(op.getStates()) : Value(),
                stored(op.getLayer()), position};
  int64_t kept = op.getWeight().getType().getDimSize(1) - 1;
  if (of.isOfTokens()) {
    ConvOfTokens conv{b,
                      of,
                      x,
                      weight,
                      op.getBias() ? stored(op.getBias()) : Value(),
                      kept,
                      op.getResult().getType()};
    auto [made, next] = conv.emit(state);
    storedForm[op.getResult()] = made;
    storedForm[op.getNext()] = next;
    return;
  }
  SmallVector<Value> read = of.read(), written = of.written();
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
        return {filtered(
            b, weight, column, op.getBias() ? v[1] : Value(), [&](int64_t j) {
              if (j == kept)
                return v[0];
              // The row of the call with number row - kept, if not negative.
              Value row = p.add(token, b.index(j)), first = p.less(row, most),
                    from = p.select(first, zero, p.sub(row, most)),
                    place = p.rem(p.add(position, row), kept),
                    isBefore = p.less(p.add(position, row), most);
              SmallVector<Value> at = read;
              at.append({place, column});
              Value old = p.select(isBefore, b.f32(0), p.element(state, at));
              return p.select(first, old, p.element(x, {from, column}));
            })};
      })[0];
  SmallVector<OpFoldResult> first(2, b.getIndexAttr(0));
  Value old =
      partOf(b, state, read, first, {kept, tensorType(x).getDimSize(1)});
  SmallVector<Value> before, rowsOf = {old};
  if (of.states) { // the rows go to another state
    before = {old};
    rowsOf = {ownMatrix(b, kept, tensorType(old).getDimSize(1),
                        tensorType(old).getElementType())};
  }
  Value rows = b.generic(
      2, before, rowsOf, SmallVector<AffineMap>(before.size() + 1, all),
      [&](Values v) -> SmallVector<Value> {
        // The last token whose row has this place is `back` before the last.
        Value end = p.add(position, p.add(tokens, b.index(kept - 1))),
              back = p.rem(p.sub(end, p.loop(0)), kept),
              isNew = p.less(back, tokens), last = p.sub(tokens, b.index(1)),
              from = p.select(isNew, p.sub(last, back), zero);
        return {p.select(isNew, p.element(x, {from, p.loop(1)}), v[0])};
      })[0];
  storedForm[op.getNext()] = withPart(b, state, written, first, rows);
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
  StateLayer of;
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
  int64_t width() { return columnsOf(type.getDimSize(2), 32); }
  std::pair<Value, Value> emit(Value state);
  Value start(Value state, Value token, Value own);
  SmallVector<OpFoldResult> first();
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

/// Where S begins in a layer.
SmallVector<OpFoldResult> Recurrence::first() {
  return {OpFoldResult(Places{b}.mul(head, size())), OpFoldResult(column)};
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
std::pair<Value, Value> Recurrence::emit(Value state) {
  OpFoldResult zero = b.getIndexAttr(0), one = b.getIndexAttr(1),
               w = b.getIndexAttr(width()), tokens = b.sizes(values)[0];
  auto made = inParallel(
      b, {heads(), type.getDimSize(2) / width()},
      {b.empty(b.sizes(values), type.getElementType()), state},
      [&](ValueRange at, ValueRange outs) -> SmallVector<Updated> {
        Places p{b};
        head = at[0];
        keyHead = p.div(head, heads() / tensorType(pairs).getDimSize(1));
        column = p.mul(at[1], width());
        Value own = ownMatrix(b, size(), width(), b.getF32Type());
        SmallVector<Value> inits = {own, outs[0]};
        if (of.isOfTokens())
          inits.push_back(outs[1]);
        else
          inits[0] = start(outs[1], Value(), own);
        SmallVector<OpFoldResult> place = first();
        auto turns = scf::ForOp::create(
            b, b.index(0),
            getValueOrCreateConstantIndexOp(b, b.getLoc(), tokens), b.index(1),
            inits, [&](OpBuilder &, Location, Value token, ValueRange carried) {
              SmallVector<Value> now = llvm::to_vector(carried);
              if (of.isOfTokens())
                now[0] = start(now[2], token, now[0]);
              std::tie(now[0], now[1]) = step(token, now[0], now[1]);
              if (of.isOfTokens())
                now[2] = withPart(b, now[2], of.written(token), place, now[0]);
              scf::YieldOp::create(b, now);
            });
        Updated rows = {turns.getResult(1),
                        {zero, head, column},
                        {tokens, one, w}},
                states = {Value(), {zero, of.layer}, b.sizes(state)};
        if (of.isOfTokens()) {
          states.whole = turns.getResult(2);
          states.sizes[1] = one;
        } else {
          states.whole =
              withPart(b, outs[1], of.written(), place, turns.getResult(0));
          states.offsets = getAsOpFoldResult(of.written());
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
  StateLayer of{b, op.getStates() ? stored(op.getStates()) : Value(),
                stored(op.getLayer()), stored(op.getPosition())};
  Recurrence recurrence{b,
                        of,
                        pairs,
                        products,
                        any(op.getValue()),
                        decay,
                        share,
                        skip,
                        op.getResult().getType()};
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
  auto widened = [&](Value x) {
    return b.map({any(x)}, b.getF32Type(),
                 [](Values v) -> SmallVector<Value> { return {v[0]}; });
  };
  Value query = widened(op.getQuery()), key = widened(op.getKey()),
        skip = widened(op.getSkip());
  lowerRecurrence(op, query, key, stored(op.getStep()), skip);
}
