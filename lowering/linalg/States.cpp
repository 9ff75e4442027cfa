/// Lowers convolutions with a state to linalg. An op of a state reads what it
/// needs of the old state before it overwrites the layer, so that the state is
/// updated in place.
#include "lowering/linalg/States.h"
#include "lowering/linalg/Lowering.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

using Values = LinalgBuilder::Values;

Value cria::partOf(LinalgBuilder &b, Value state, ArrayRef<Value> place,
                   ArrayRef<OpFoldResult> first, ArrayRef<int64_t> shape) {
  SmallVector<OpFoldResult> at = getAsOpFoldResult(place),
                            sizes(place.size(), b.getIndexAttr(1));
  llvm::append_range(at, first);
  llvm::append_range(sizes, getAsIndexOpFoldResult(b.getContext(), shape));
  return b.slice(state, at, sizes, tensorType(state).clone(shape));
}

Value cria::ownMatrix(LinalgBuilder &b, int64_t rows, int64_t columns,
                      Type element) {
  return bufferization::AllocTensorOp::create(
      b, RankedTensorType::get({rows, columns}, element), ValueRange());
}

Value cria::withPart(LinalgBuilder &b, Value state, ArrayRef<Value> place,
                     ArrayRef<OpFoldResult> first, Value part) {
  SmallVector<OpFoldResult> at = getAsOpFoldResult(place),
                            sizes(place.size(), b.getIndexAttr(1));
  llvm::append_range(at, first);
  llvm::append_range(sizes, b.sizes(part));
  return b.insert(part, state, at, sizes);
}

SmallVector<Value> cria::inParallel(
    LinalgBuilder &b, ArrayRef<int64_t> counts, ValueRange tensors,
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
  Value result(Value token, Value column, Value state, ArrayRef<Value> place,
               Value position);
  Value rows(Value token, Value column, Value state, ArrayRef<Value> place,
             Value position);
};
} // namespace

/// One token's sums.
Value ConvOfTokens::result(Value token, Value column, Value state,
                           ArrayRef<Value> place, Value position) {
  Value out = b.empty({b.getIndexAttr(width())}, type.getElementType());
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
                           SmallVector<Value> from(place);
                           from.append({p.rem(row, kept), at});
                           Value old = p.element(state, from);
                           return p.select(isBefore, b.f32(0), old);
                         })};
      })[0];
}

/// The state's rows after one token.
Value ConvOfTokens::rows(Value token, Value column, Value state,
                         ArrayRef<Value> place, Value position) {
  Value old =
      partOf(b, state, place, {b.getIndexAttr(0), column}, {kept, width()});
  Places p{b};
  Value own = p.rem(position, kept);
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
              SmallVector<Value> from = of.read(token);
              Value position = of.positionOf(token),
                    made = result(token, column, now[1], from, position),
                    kept = rows(token, column, now[1], from, position);
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
