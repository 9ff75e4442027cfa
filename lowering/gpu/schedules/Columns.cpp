/// Columns of a state that each token overwrites, as a convolution over the
/// last tokens does:
///
///   scf.forall (part of the columns) {
///     scf.for token iter_args(%rows, %state) {
///       %row = elementwise(%state, numbers of the token)     (W)
///       %kept = elementwise(%state, numbers of the token)    (K, W)
///       yield %row inserted in %rows, %kept inserted in %state } }
///
/// A thread computes a column, of the tokens of one chain (Chains.h). The
/// schedule knows no formula: it clones payloads.
#include "lowering/gpu/build/Evaluator.h"
#include "lowering/gpu/schedules/Chains.h"
#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/gpu/schedules/Schedules.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kThreads = 128;
/// The most rows of a state: a thread has its column in registers.
static constexpr int64_t kMostRows = 16;

namespace {
/// The loops of elements: tokens, parts of the columns, a column of a part, and
/// a row of the state.
enum Loop : unsigned { Token, Part, Column, Row, kLoops };

class Columns {
public:
  Columns(KernelFunction &of, scf::ForOp turns, StringRef &reason)
      : of(of), elements(of.elements), turns(turns), reason(reason),
        box(kLoops, {1}) {}
  bool read();
  bool emit();

private:
  bool fail(StringRef why) {
    reason = why;
    return false;
  }
  bool readParts();
  bool readResult();
  bool readPayload(const Element &element);
  bool readState(ArrayRef<AffineExpr> at);
  AffineExpr placeIn(const Elements::Definition &payload, Value index);
  Element place(Value memory, tensor::InsertSliceOp insert,
                ArrayRef<AffineExpr> places);

  KernelFunction &of;
  Elements &elements;
  scf::ForOp turns;
  StringRef &reason;

  Box box;
  tensor::InsertSliceOp row, kept;
  Value rows, states;  // results of the loops
  Value state, result; // memory
  Element made, next;  // what a token stores
  Element into, stateAt;
  AffineExpr from; // the number of the state that a token reads
};
} // namespace

/// The element at `places` of what an op inserts, in `memory`.
Element Columns::place(Value memory, tensor::InsertSliceOp insert,
                       ArrayRef<AffineExpr> places) {
  Element element{memory, {}};
  for (OpFoldResult offset : insert.getMixedOffsets())
    element.at.push_back(elements.expr(offset));
  for (auto [i, place] : llvm::enumerate(llvm::reverse(places))) {
    AffineExpr &last = element.at[element.at.size() - 1 - i];
    last = last + place;
  }
  return element;
}

/// Whether an iteration stores all that its turns insert: in each dimension the
/// same places, or all that `whole` has.
static bool storesAll(Elements &elements, tensor::ParallelInsertSliceOp store,
                      tensor::InsertSliceOp insert, Value whole) {
  auto slice = store.getSource().getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || slice.getMixedOffsets() != store.getMixedOffsets() ||
      slice.getMixedSizes() != store.getMixedSizes() ||
      !slice.hasUnitStride() || !store.hasUnitStride())
    return false;
  for (auto [dim, size] : llvm::enumerate(store.getMixedSizes())) {
    OpFoldResult offset = store.getMixedOffsets()[dim];
    bool isWhole = isConstantIntValue(offset, 0) &&
                   sizeOf(slice.getResult(), dim) == sizeOf(whole, dim);
    bool isSame =
        elements.expr(offset) == elements.expr(insert.getMixedOffsets()[dim]) &&
        size == insert.getMixedSizes()[dim];
    if (!isWhole && !isSame)
      return false;
  }
  return true;
}

/// The loops, and the results that leave them.
bool Columns::readParts() {
  if (!isConstantIntValue(turns.getLowerBound(), 0) ||
      !isConstantIntValue(turns.getStep(), 1))
    return fail("its loop over tokens does not count from 0 by 1");
  Value end = turns.getUpperBound();
  box[Token] = {getConstantIntValue(end).value_or(ShapedType::kDynamic), end};
  elements.setLoop(turns.getInductionVar(), Token);
  rows = turns.getResult(0);
  states = turns.getResult(1);
  state = turns.getInitArgs()[1];
  auto loop = dyn_cast<scf::ForallOp>(turns->getParentOp());
  if (!loop)
    return true;
  auto stores = llvm::to_vector(
      loop.getTerminator().getOps<tensor::ParallelInsertSliceOp>());
  std::optional<int64_t> parts =
      loop.getRank() == 1 && loop.isNormalized() && stores.size() == 2
          ? getConstantIntValue(loop.getMixedUpperBound()[0])
          : std::nullopt;
  if (!parts)
    return fail("its parallel loop is not over parts of the columns");
  box[Part] = {*parts};
  elements.setLoop(loop.getInductionVar(0), Part);
  tensor::InsertSliceOp inserts[] = {row, kept};
  for (auto [i, insert] : llvm::enumerate(inserts)) {
    auto slice = stores[i].getSource().getDefiningOp<tensor::ExtractSliceOp>();
    if (!slice || slice.getSource() != turns.getResult(i) ||
        turns.getInitArgs()[i] != loop.getRegionIterArgs()[i] ||
        stores[i].getDest() != loop.getRegionIterArgs()[i] ||
        !storesAll(elements, stores[i], insert, loop.getOutputs()[i]))
      return fail("its iterations do not store what their tokens insert");
  }
  state = loop.getOutputs()[1];
  rows = loop.getResult(0);
  states = loop.getResult(1);
  return true;
}

/// The memory in which a token stores its row and the rows of its state.
bool Columns::readResult() {
  bufferization::MaterializeInDestinationOp stored;
  for (Operation *user : rows.getUsers())
    stored = dyn_cast<bufferization::MaterializeInDestinationOp>(user);
  if (!stored || !rows.hasOneUse() || !isa<BlockArgument>(stored.getDest()) ||
      !hasMemory(stored.getDest()) || stored.getSource() != rows)
    return fail("its rows are not stored as they are");
  result = stored.getDest();
  for (Operation *user : result.getUsers())
    if (user != stored && !isa<tensor::DimOp>(user))
      return fail("it reads what it overwrites");
  for (Value value : of.kernel.front().getTerminator()->getOperands())
    if (value != stored->getResult(0) && value != states)
      return fail("it has another result than the state and the rows");
  RankedTensorType ofRow = row.getSourceType(), ofState = kept.getSourceType();
  if (!isa<BlockArgument>(state) || !hasMemory(state) ||
      llvm::count_if(
          state.getUsers(),
          [](Operation *user) { return !isa<tensor::DimOp>(user); }) != 1 ||
      kept.getDestType().getRank() != 4 || ofState.getRank() != 2 ||
      !ofState.hasStaticShape() || ofState.getDimSize(0) > kMostRows ||
      ofRow.getShape() != ofState.getShape().drop_front() ||
      row.getDestType().getRank() != 2 || !row.hasUnitStride() ||
      !kept.hasUnitStride())
    return fail("its tokens do not each store a row, and a few rows of a "
                "state of as many columns");
  box[Column] = {ofState.getDimSize(1)};
  box[Row] = {ofState.getDimSize(0)};
  of.setMemory(turns.getRegionIterArg(1), state);
  AffineExpr column = elements.dim(Column), line = elements.dim(Row);
  made = {row.getSource(), {column}};
  next = {kept.getSource(), {line, column}};
  into = place(result, row, {column});
  stateAt = place(state, kept, {line, column});
  if (into.at[0] != elements.dim(Token) || into.at[1] != stateAt.at[3] ||
      stateAt.at[2] != line)
    return fail("a token does not store its own row");
  return true;
}

/// Whether a token reads at a place of the state what its thread wrote there.
bool Columns::readState(ArrayRef<AffineExpr> at) {
  if (!from)
    from = at[0];
  return at[0] == from && at[1] == stateAt.at[1] && at[3] == stateAt.at[3]
             ? true
             : fail("a token reads other columns of the state than it writes");
}

/// The place that an index in a payload is; null if it is computed from more
/// than the payload's loops.
AffineExpr Columns::placeIn(const Elements::Definition &payload, Value index) {
  linalg::LinalgOp op = payload.op;
  if (index.getParentBlock() != op.getBlock())
    return elements.expr(index);
  if (auto loop = index.getDefiningOp<linalg::IndexOp>())
    return payload.loops[loop.getDim()];
  auto sum = index.getDefiningOp<arith::AddIOp>();
  AffineExpr x = sum ? placeIn(payload, sum.getLhs()) : AffineExpr(),
             y = sum ? placeIn(payload, sum.getRhs()) : AffineExpr();
  return x && y ? x + y : AffineExpr();
}

/// What a token's element is computed from: memory, and its column of a state.
bool Columns::readPayload(const Element &element) {
  auto made = elements.define(element, box);
  if (made.kind != Elements::Definition::Payload ||
      !canClone(made.op, elements))
    return fail("a token's numbers are not computed element by element");
  Value carried = turns.getRegionIterArg(1);
  auto isMemory = [&](Value tensor) {
    return of.memory(tensor) && hasMemory(tensor) && tensor != state;
  };
  for (const Element &read : elements.operands(made, box)) {
    Element origin = elements.origin(read, box);
    if (!isMemory(origin.tensor))
      return fail("a token reads what is not in memory");
    if (origin.tensor == carried && !readState(origin.at))
      return false;
  }
  for (auto read : made.op.getBlock()->getOps<tensor::ExtractOp>()) {
    if (!isMemory(withRows(read.getTensor())))
      return fail("a token reads what is not in memory");
    if (read.getTensor() != carried)
      continue;
    auto at = llvm::map_to_vector(
        read.getIndices(), [&](Value index) { return placeIn(made, index); });
    if (!readState(at))
      return false;
  }
  return true;
}

bool Columns::read() {
  row = turns.getYieldedValues()[0].getDefiningOp<tensor::InsertSliceOp>();
  kept = turns.getYieldedValues()[1].getDefiningOp<tensor::InsertSliceOp>();
  if (row.getDest() != turns.getRegionIterArg(0) ||
      kept.getDest() != turns.getRegionIterArg(1))
    return fail("a token stores more than a row and the rows of a state");
  return readParts() && readResult() && readPayload(made) &&
         readPayload(next) && (from ? true : fail("a token reads no state"));
}

/// Blocks (i, j): i is columns, j is the first row of a chain.
bool Columns::emit() {
  Launch launch(of, "", kThreads);
  KernelBuilder &b = launch.b;
  int64_t width = box[Column].constant, columns = box[Part].constant * width;
  Value index = b.add(b.mul(b.block(0), kThreads), b.thread());
  Value part = b.div(index, width), column = b.rem(index, width),
        count = launch.number(box[Token]);
  b.when(b.less(index, b.i32(columns)), [&] {
    forChain(launch, {from, stateAt.at[0]}, b.block(1), count,
             [&](Value token) {
               auto loops = [&](int64_t line) {
                 return SmallVector<Value>{token, part, column, b.i32(line)};
               };
               auto evaluate = [&](const Element &element, int64_t line) {
                 SmallVector<Value> at = loops(line);
                 return Evaluator(launch, box, at)(element);
               };
               Value own = evaluate(made, 0);
               SmallVector<Value> lines;
               for (int64_t line = 0; line < box[Row].constant; ++line)
                 lines.push_back(evaluate(next, line));
               launch.store(own, into, loops(0));
               for (auto [line, value] : llvm::enumerate(lines))
                 launch.store(value, stateAt, loops(line));
             });
  });
  launch.finish({of.constant(llvm::divideCeil(columns, kThreads)),
                 of.blocks(box[Token], 1)});
  return true;
}

bool simt::emitColumns(KernelFunction &function, const Choose &,
                       StringRef &reason) {
  auto foralls = function.kernel.getOps<scf::ForallOp>();
  Block &body =
      foralls.empty() ? function.kernel.front() : *(*foralls.begin()).getBody();
  for (auto turns : body.getOps<scf::ForOp>()) {
    auto yielded = turns.getYieldedValues();
    if (yielded.size() != 2 || !llvm::all_of(yielded, [](Value value) {
          return value.getDefiningOp<tensor::InsertSliceOp>();
        }))
      continue;
    Columns columns(function, turns, reason);
    return columns.read() && columns.emit();
  }
  return false;
}
