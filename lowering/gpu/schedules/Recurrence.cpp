/// A matrix whose columns each token updates, as the delta rule does:
///
///   scf.forall (head, part of the columns) {
///     %first = elementwise(a part of a state)             (D, W)
///     scf.for token iter_args(%matrix = %first, %rows) {
///       %sums = product(%x, %matrix)                      (M, D), (M, W)
///       %row = elementwise(%sums, numbers of the token)   (W)
///       %next = elementwise(%matrix, %row, %x, ...)       (D, W)
///       yield %next, %row inserted in %rows } }
///
/// In a batch each token has states of its own: its matrix begins as a part of
/// one state, and is inserted into another state.
///
/// A block computes one iteration of scf.forall, or some of its columns. In a
/// batch it computes the tokens of one chain (Chains.h), one after the other.
/// The matrix stays in registers of half of the block's warps: four
/// neighbouring lanes have a column, and add their sums by shuffles. The other
/// warps copy what tokens read to shared memory, some tokens ahead, and compute
/// what is read of it: the norms of keys, for example. They fill one half of a
/// buffer while the other half is read. The schedule knows no formula: it
/// clones payloads.
#include "lowering/gpu/schedules/Chains.h"
#include "lowering/gpu/schedules/Choose.h"
#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/gpu/schedules/Schedules.h"
#include "lowering/gpu/schedules/Tuning.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;
using linalg::GenericOp;

/// Lanes of a column, and neighbouring rows that a lane has: 16 bytes.
static constexpr int64_t kLanes = 4, kRows = 4;
/// Columns of a warp, and the most columns of a block.
static constexpr int64_t kColumns = kWarp / kLanes, kMostColumns = kWarp;
/// The most rows of a matrix: a lane has a quarter of them in registers.
static constexpr int64_t kMostRows = 256;

namespace {
/// The loops of elements: tokens, heads, parts of the columns, a column of a
/// part, and a row of the matrix.
enum Loop : unsigned { Token, Head, Band, Column, Row, kLoops };

bool dependsOn(const Element &element, Loop loop) {
  return llvm::any_of(element.at,
                      [&](AffineExpr at) { return at.isFunctionOfDim(loop); });
}

/// An element that a token reads, from outside of the loops.
struct Input {
  Element element;
  bool ofRow, ofColumn;
  int64_t place; ///< in what shared memory has of a token
};

class Recurrence {
public:
  Recurrence(KernelFunction &of, const RecurrenceSizes &sizes,
             scf::ForallOp loop, StringRef &reason)
      : of(of), sizes(sizes), elements(of.elements), loop(loop),
        reason(reason) {}
  bool read();
  bool emit();

private:
  bool fail(StringRef why) {
    reason = why;
    return false;
  }
  bool readLoops();
  template <typename Insert> bool readState(Insert insert);
  bool readStates(tensor::ParallelInsertSliceOp store,
                  tensor::InsertSliceOp insert);
  bool readMatrix();
  bool readResult();
  bool collect(const Element &element);
  bool collectPayload(const Elements::Definition &made);
  bool addInput(const Element &given);
  const Input *find(const Element &element);
  bool isKnown(const Element &element, ArrayRef<Size> box);
  Element at(Value tensor, ArrayRef<OpFoldResult> offsets,
             ArrayRef<AffineExpr> places);
  bool isInside(Value value) {
    return loop.getRegion().isAncestor(value.getParentRegion());
  }

  /// The values of the loops, for the lane's column.
  SmallVector<Value> loops(Value token, Value row) {
    return {token, head, band, column, row};
  }
  Value statistic(const Element &element, ValueRange loops, int64_t lanes);
  void produce(Value token, Value slot);
  Value load(const Input &input, Value slot, int64_t group);
  SmallVector<Value> consume(Value token, Value slot, ValueRange matrix);
  SmallVector<Value> start(Value token);
  void finish(Value token, ValueRange matrix);
  SmallVector<Value> nothing();
  void emitText(int64_t tokens);
  void emitChain();
  Value rowAt(int64_t group);

  KernelFunction &of;
  const RecurrenceSizes &sizes;
  Elements &elements;
  scf::ForallOp loop;
  StringRef &reason;

  Box box;
  int64_t rows = 0, columns = 0; // of a block
  int64_t warps = 0;             // that have the columns, and that read ahead
  Block *body = nullptr;         // of a token
  Value state, carriedState, carriedRows; // arguments
  Value carried, first; // the matrix before a token, and before the first one
  GenericOp product, next;
  Element row, into;            // the result, and where it is stored
  Element readAt, stateAt;      // the part of a state, before and after
  bool ofTokens = false;        // each token has states
  SmallVector<Element> factors; // the rows of the product's left operand
  std::vector<Input> inputs;
  int64_t numbers = 0; // of a token in shared memory

  // While a kernel is built: the places of the block, and of the lane.
  Launch *launch = nullptr;
  Value head, band, column, firstColumn, firstRow;
  Rows shared;
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// The element at `places` of the slice of a tensor from `offsets` on. The
/// slice has the last dimensions alone.
Element Recurrence::at(Value tensor, ArrayRef<OpFoldResult> offsets,
                       ArrayRef<AffineExpr> places) {
  Element element{tensor, {}};
  for (OpFoldResult offset : offsets)
    element.at.push_back(elements.expr(offset));
  for (auto [i, place] : llvm::enumerate(llvm::reverse(places))) {
    AffineExpr &last = element.at[offsets.size() - 1 - i];
    last = last + place;
  }
  return element;
}

static bool hasShape(ArrayRef<OpFoldResult> sizes, ArrayRef<int64_t> shape) {
  return llvm::equal(sizes, shape, [](OpFoldResult size, int64_t wanted) {
    return isConstantIntValue(size, wanted);
  });
}

/// The loops, and the results that leave them.
bool Recurrence::readLoops() {
  if (loop.getRank() > 2 || !loop.isNormalized() || loop.getNumResults() != 2)
    return fail("its parallel loop is not over heads and columns");
  box.assign(kLoops, {1}); // a loop of one iteration may be gone
  for (int64_t i = 0; i < loop.getRank(); ++i) {
    std::optional<int64_t> size =
        getConstantIntValue(loop.getMixedUpperBound()[i]);
    if (!size)
      return fail("a size of its parallel loop is not constant");
    box[Head + i] = {*size};
    elements.setLoop(loop.getInductionVar(i), Head + i);
  }
  auto inserts = llvm::to_vector(
      loop.getTerminator().getOps<tensor::ParallelInsertSliceOp>());
  if (inserts.size() != 2)
    return fail("its iterations do not store a matrix and rows");
  // The state is the last result.
  tensor::ParallelInsertSliceOp store = inserts[1];
  carriedRows = loop.getRegionIterArgs()[0];
  carriedState = loop.getRegionIterArgs()[1];
  state = loop.getOutputs()[1];
  if (store.getDest() != carriedState || !isa<BlockArgument>(state) ||
      !hasMemory(state) || !store.hasUnitStride() ||
      llvm::any_of(state.getUsers(), [&](Operation *user) {
        return user != loop && !isa<tensor::DimOp>(user);
      }))
    return fail("its matrix is not a part of a state");
  Value matrix = store.getSource();
  auto part = matrix.getDefiningOp<tensor::ExtractSliceOp>();
  auto turns = (part ? part.getSource() : matrix).getDefiningOp<scf::ForOp>();
  if (!turns) {
    body = loop.getBody();
    box[Token] = {1};
    next = matrix.getDefiningOp<GenericOp>();
    return readState(store) &&
           (next || fail("its matrix is not computed element by element"));
  }
  if (!isConstantIntValue(turns.getLowerBound(), 0) ||
      !isConstantIntValue(turns.getStep(), 1))
    return fail("its loop over tokens does not count from 0 by 1");
  body = turns.getBody();
  elements.setLoop(turns.getInductionVar(), Token);
  Value end = turns.getUpperBound();
  box[Token] = {getConstantIntValue(end).value_or(ShapedType::kDynamic), end};
  for (auto [init, argument] :
       llvm::zip(turns.getInitArgs(), turns.getRegionIterArgs()))
    if (init == carriedRows)
      carriedRows = argument;
  Value stored = part ? part.getSource() : matrix;
  unsigned number = cast<OpResult>(stored).getResultNumber();
  Value argument = turns.getRegionIterArg(number),
        init = turns.getInitArgs()[number];
  matrix = turns.getYieldedValues()[number];
  if (part) {
    auto insert = matrix.getDefiningOp<tensor::InsertSliceOp>();
    if (!insert || init != carriedState || insert.getDest() != argument)
      return fail("its matrix is not a part of a state");
    ofTokens = true;
    carriedState = argument;
    matrix = insert.getSource();
    if (!readStates(store, insert))
      return false;
  } else {
    carried = argument;
    first = init;
    if (!readState(store))
      return false;
  }
  next = matrix.getDefiningOp<GenericOp>();
  return next || fail("its matrix is not computed element by element");
}

/// The place of a matrix in a state of one text; or, after the number of a
/// state, in one of several.
template <typename Insert> bool Recurrence::readState(Insert insert) {
  auto type = insert.getSourceType();
  int64_t rank = insert.getDestType().getRank();
  if (insert.getDest() != carriedState || type.getRank() != 2 || rank < 3 ||
      rank > 4 || !type.hasStaticShape() || !type.getElementType().isF32() ||
      !insert.hasUnitStride())
    return fail("its matrix is not a part of a state");
  SmallVector<int64_t> shape(rank - 2, 1);
  llvm::append_range(shape, type.getShape());
  if (!hasShape(insert.getMixedSizes(), shape))
    return fail("its matrix is not a part of a state");
  rows = type.getDimSize(0);
  box[Column] = {type.getDimSize(1)};
  box[Row] = {rows};
  columns = std::gcd(box[Column].constant, kMostColumns);
  warps = columns / kColumns;
  if (warps == 0 || rows % kWarp || rows > kMostRows)
    return fail("its matrices do not have a multiple of 8 columns, and at most "
                "256 rows, a multiple of 32");
  stateAt = at(state, insert.getMixedOffsets(),
               {elements.dim(Row), elements.dim(Column)});
  return true;
}

/// The places of the tokens' matrices. An iteration stores that part of all
/// states.
bool Recurrence::readStates(tensor::ParallelInsertSliceOp store,
                            tensor::InsertSliceOp insert) {
  auto part = store.getSource().getDefiningOp<tensor::ExtractSliceOp>();
  SmallVector<OpFoldResult> offsets = store.getMixedOffsets();
  if (!readState(insert))
    return false;
  Element stored =
      at(state, offsets, {elements.dim(Row), elements.dim(Column)});
  bool isPart =
      stateAt.at.size() == 4 && part.hasUnitStride() &&
      part.getMixedOffsets() == offsets &&
      part.getMixedSizes() == store.getMixedSizes() &&
      isConstantIntValue(offsets[0], 0) &&
      sizeOf(part, 0) == sizeOf(state, 0) &&
      hasShape(ArrayRef(store.getMixedSizes()).drop_front(),
               {1, rows, box[Column].constant}) &&
      ArrayRef(stored.at).drop_front() == ArrayRef(stateAt.at).drop_front();
  return isPart || fail("its matrix is not a part of a state");
}

/// What a token computes from the matrix.
bool Recurrence::readMatrix() {
  if (!carried)
    carried = first = next.getDpsInits()[0];
  if (next.getDpsInits()[0] != carried)
    return fail("its matrix is not updated in place");
  for (auto op : body->getOps<GenericOp>())
    if (op.getNumReductionLoops()) {
      if (product)
        return fail("a token has more than one product");
      product = op;
    }
  using Dims = SmallVector<unsigned>;
  auto maps =
      product ? llvm::map_to_vector(product.getIndexingMapsArray(), cria::loops)
              : SmallVector<Dims>();
  if (!product || product.getNumLoops() != 3 || !isProduct(product) ||
      !mayReorder(product) || maps[0] != Dims{0, 2} || maps[1] != Dims{2, 1} ||
      maps[2] != Dims{0, 1} || product.getDpsInputs()[1] != carried)
    return fail("a token's product is not one of rows and the matrix");
  Value begin = filledWith(product.getDpsInits()[0].getDefiningOp());
  if (!begin || !matchPattern(begin, m_AnyZeroFloat()))
    return fail("a token's product is not added to zero");
  auto type = cast<RankedTensorType>(product.getDpsInputs()[0].getType());
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    factors.push_back(elements.origin(
        {product.getDpsInputs()[0], {elements.constant(i), elements.dim(Row)}},
        box));
    if (!collect(factors.back()))
      return false;
  }
  Element updated{next.getResult(0), {elements.dim(Row), elements.dim(Column)}},
      started{first, updated.at};
  auto made = elements.define(updated, box);
  if (made.kind != Elements::Definition::Payload || !collectPayload(made))
    return reason.empty() ? fail("its matrix is not updated element by element")
                          : false;
  auto start = elements.define(started, box);
  if (start.kind != Elements::Definition::Payload ||
      !canClone(start.op, elements))
    return fail("its first matrix is not that of a state");
  readAt = stateAt;
  for (const Element &read : elements.operands(start, box)) {
    Element origin = elements.origin(read, box);
    // Of several states, another one may be read than is written.
    bool isPart =
        origin.tensor == carriedState &&
        ArrayRef(origin.at).take_back(3) == ArrayRef(stateAt.at).take_back(3);
    if (!isPart)
      return fail("its first matrix is not that of a state");
    readAt.at = origin.at;
  }
  return true;
}

/// The row that a token stores.
bool Recurrence::readResult() {
  tensor::InsertSliceOp insert;
  for (auto op : body->getOps<tensor::InsertSliceOp>())
    if (op.getDest() == carriedRows)
      insert = op;
  bufferization::MaterializeInDestinationOp stored;
  for (Operation *user : loop.getResult(0).getUsers())
    stored = dyn_cast<bufferization::MaterializeInDestinationOp>(user);
  if (!insert ||
      !hasShape(insert.getMixedSizes(), {1, 1, box[Column].constant}) ||
      !insert.hasUnitStride() || insert.getSourceType().getRank() != 1)
    return fail("a token does not store a row");
  if (!stored || !loop.getResult(0).hasOneUse() ||
      !isa<BlockArgument>(stored.getDest()) || !hasMemory(stored.getDest()) ||
      stored.getSource() != loop.getResult(0))
    return fail("its rows are not stored as they are");
  for (Operation *user : stored.getDest().getUsers())
    if (user != stored && !isa<tensor::DimOp>(user))
      return fail("it reads what it overwrites");
  for (Value result : of.kernel.front().getTerminator()->getOperands())
    if (result != stored->getResult(0) && result != loop.getResult(1))
      return fail("it has another result than the state and the rows");
  row = {insert.getSource(), {elements.dim(Column)}};
  into = at(stored.getDest(), insert.getMixedOffsets(), {elements.dim(Column)});
  if (into.at[0] != elements.dim(Token) && into.at[0] != elements.constant(0))
    return fail("a token does not store its own row");
  return collect(row);
}

/// Whether a kernel can compute an element from memory, and statistics of rows
/// as long as the matrix has rows.
bool Recurrence::isKnown(const Element &element, ArrayRef<Size> box) {
  SmallVector<Element> leaves;
  if (!canEvaluate(elements, element, box) ||
      !elements.leaves(element, box,
                       [&](const Element &leaf) { leaves.push_back(leaf); }))
    return fail("a token reads what no kernel can compute element by element");
  for (const Element &leaf : leaves) {
    if (elements.isStored(leaf.tensor)) {
      if (!hasMemory(leaf.tensor))
        return fail(kNoMemory);
      continue;
    }
    auto reduction = elements.reduction(leaf, box);
    if (box.size() != kLoops || !reduction || !(reduction->terms == box[Row]) ||
        !canReduce(elements, *reduction, box))
      return fail("a token reads a sum of other than rows of the matrix");
    Box longer(box);
    longer.push_back(reduction->terms);
    for (OpOperand *input : reduction->op.getDpsInputOperands()) {
      Element term =
          elements.operand(reduction->op, *input, reduction->loops, longer);
      // Terms may have statistics of their own.
      for (AffineExpr &place : term.at)
        place = place.replace(elements.dim(kLoops), elements.dim(Row));
      if (!isKnown(term, box))
        return false;
    }
  }
  return true;
}

/// The input that an element from outside of the loops is; null if it is none.
const Input *Recurrence::find(const Element &element) {
  if (isInside(element.tensor))
    return nullptr;
  Element origin = elements.origin(element, box);
  for (const Input &input : inputs)
    if (input.element == origin)
      return &input;
  return nullptr;
}

bool Recurrence::addInput(const Element &given) {
  if (find(given))
    return true;
  Element element = elements.origin(given, box);
  Input input{element, dependsOn(element, Row), dependsOn(element, Column), 0};
  Type type = cast<RankedTensorType>(element.tensor.getType()).getElementType();
  if ((input.ofRow && input.ofColumn) || !isa<FloatType>(type) ||
      (input.ofRow && !type.isF32()))
    return fail("a token reads other than f32 for each row, or another matrix");
  if (!isKnown(element, box))
    return false;
  inputs.push_back(input);
  return true;
}

bool Recurrence::collectPayload(const Elements::Definition &made) {
  for (const Element &read : elements.operands(made, box))
    if (!collect(read))
      return false;
  linalg::LinalgOp payload = made.op;
  Block *block = payload.getBlock();
  for (Operation &op : block->without_terminator()) {
    if (!OpTrait::hasElementwiseMappableTraits(&op))
      return fail("a token's numbers are not computed element by element");
    for (Value value : op.getOperands()) {
      if (value.getParentBlock() == block || isNumber(value))
        continue;
      auto number = value.getDefiningOp<tensor::ExtractOp>();
      if (!number || !collect(elements.extracted(number)))
        return reason.empty() ? fail("a token reads a number that is not one "
                                     "of a tensor")
                              : false;
    }
  }
  return true;
}

/// Collects what an element of a token is computed from.
bool Recurrence::collect(const Element &element) {
  if (element.tensor == carried)
    return element.at[0] == elements.dim(Row) &&
                   element.at[1] == elements.dim(Column)
               ? true
               : fail("a token reads other elements of the matrix than it "
                      "writes");
  if (element.tensor == product.getResult(0))
    return isa<AffineConstantExpr>(element.at[0]) &&
                   element.at[1] == elements.dim(Column)
               ? true
               : fail("a column reads the sums of another one");
  if (!isInside(element.tensor))
    return addInput(element);
  auto made = elements.define(element, box);
  if (made.kind == Elements::Definition::Same)
    return collect(made.same);
  if (made.kind == Elements::Definition::Payload)
    return collectPayload(made);
  return fail("a token reads what is not computed element by element");
}

bool Recurrence::read() {
  if (!readLoops() || !readMatrix() || !readResult())
    return false;
  for (bool ofRow : {true, false})
    for (bool ofColumn : {true, false})
      for (Input &input : inputs)
        if (input.ofRow == ofRow && input.ofColumn == ofColumn) {
          input.place = numbers;
          numbers += ofRow ? rows : ofColumn ? columns : 1;
        }
  numbers = llvm::alignTo(numbers, kRows);
  return true;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// The row of the matrix that begins a lane's group `group` of rows.
Value Recurrence::rowAt(int64_t group) {
  return launch->b.add(firstRow, group * kLanes * kRows);
}

/// A sum over a row; each lane of a warp has `lanes` neighbours of the row.
/// Null for other elements.
Value Recurrence::statistic(const Element &element, ValueRange loops,
                            int64_t lanes) {
  auto op = element.tensor.getDefiningOp<GenericOp>();
  if (!op || op.getNumReductionLoops() == 0)
    return {};
  return reduceGroup(
      *launch, *elements.reduction(element, box), box, loops, lanes,
      [&](const Element &read) { return statistic(read, loops, lanes); });
}

/// A warp brings what a token reads to the place `slot` of shared memory.
void Recurrence::produce(Value token, Value slot) {
  KernelBuilder &b = launch->b;
  int64_t lanes = rows / kWarp;
  Value lane = b.lane(), at = b.mul(lane, lanes),
        own = columns < kWarp ? b.min(lane, b.i32(columns - 1)) : lane;
  SmallVector<Value> loops = {token, head, band, b.add(firstColumn, own), at};
  Evaluator evaluate(*launch, box, loops, lanes, [&](const Element &element) {
    return statistic(element, loops, lanes);
  });
  for (const Input &input : inputs) {
    Value value = b.widen(evaluate(input.element));
    auto store = [&](Value place) {
      b.storeTo(value, b.address(shared, slot, b.add(place, input.place)));
    };
    if (input.ofRow)
      store(at);
    else if (input.ofColumn && columns == kWarp)
      store(lane);
    else
      b.when(b.less(lane, b.i32(input.ofColumn ? columns : 1)),
             [&] { store(lane); });
  }
}

/// An input from the place `slot` of shared memory: a number, or one for each
/// row of a group.
Value Recurrence::load(const Input &input, Value slot, int64_t group) {
  KernelBuilder &b = launch->b;
  Value place = input.ofRow      ? rowAt(group)
                : input.ofColumn ? b.sub(column, firstColumn)
                                 : b.i32(0);
  Type type = cast<RankedTensorType>(input.element.tensor.getType());
  return b.narrow(
      b.load(shared, slot, b.add(place, input.place), input.ofRow ? kRows : 1),
      getElementTypeOrSelf(type));
}

/// Updates the matrix by a token whose numbers are at `slot`, and stores the
/// token's row.
SmallVector<Value> Recurrence::consume(Value token, Value slot,
                                       ValueRange matrix) {
  KernelBuilder &b = launch->b;
  SmallVector<Value> at = loops(token, b.i32(0));
  // What all rows of a column share: sums, and what is computed from them.
  SmallVector<std::pair<Element, Value>> known;
  size_t group = 0;
  auto leaf = [&](const Element &element) -> Value {
    if (element.tensor == carried)
      return matrix[group];
    for (auto &[other, value] : known)
      if (other == element)
        return value;
    const Input *input = find(element);
    if (!input)
      return {};
    Value value = load(*input, slot, group);
    if (!input->ofRow)
      known.push_back({element, value});
    return value;
  };
  auto add = [&](Value x, Value y) { return b.fadd(x, y); };
  for (auto [i, factor] : llvm::enumerate(factors)) {
    Value sum = b.zero(matrix[0].getType());
    for (group = 0; group < matrix.size(); ++group)
      sum = b.fma(leaf(factor), matrix[group], sum);
    Element element{product.getResult(0),
                    {elements.constant(i), elements.dim(Column)}};
    known.push_back({element, b.warpSum(b.reduce(sum, add), kLanes)});
  }
  Evaluator evaluate(*launch, box, at, kRows, leaf);
  Element updated{next.getResult(0), {elements.dim(Row), elements.dim(Column)}};
  for (const Element &read :
       elements.operands(elements.define(updated, box), box))
    if (read.tensor != carried && !dependsOn(read, Row))
      known.push_back({read, evaluate(read)});
  Value own = evaluate(row);
  b.when(b.equal(b.rem(b.lane(), kLanes), b.i32(0)),
         [&] { launch->store(own, into, at); });
  SmallVector<Value> result;
  for (group = 0; group < matrix.size(); ++group)
    result.push_back(evaluate(updated));
  return result;
}

/// The matrix before a token: each lane's rows of its column.
SmallVector<Value> Recurrence::start(Value token) {
  KernelBuilder &b = launch->b;
  SmallVector<Value> matrix;
  for (int64_t group = 0; group < rows / (kLanes * kRows); ++group) {
    SmallVector<Value> numbers;
    for (int64_t i = 0; i < kRows; ++i) {
      SmallVector<Value> at = loops(token, b.add(rowAt(group), i));
      Evaluator evaluate(*launch, box, at, 1, [&](const Element &element) {
        return element.tensor == carriedState ? launch->load(readAt, at)
                                              : Value();
      });
      numbers.push_back(
          evaluate({first, {elements.dim(Row), elements.dim(Column)}}));
    }
    matrix.push_back(b.pack(numbers));
  }
  return matrix;
}

void Recurrence::finish(Value token, ValueRange matrix) {
  KernelBuilder &b = launch->b;
  for (auto [group, numbers] : llvm::enumerate(matrix))
    for (int64_t i = 0; i < kRows; ++i)
      launch->store(b.extract(numbers, i), stateAt,
                    loops(token, b.add(rowAt(group), i)));
}

/// The value that warps without a matrix pass on in its place.
SmallVector<Value> Recurrence::nothing() {
  KernelBuilder &b = launch->b;
  Type type = VectorType::get({kRows}, b.getF32Type());
  return SmallVector<Value>(rows / (kLanes * kRows), b.zero(type));
}

/// A chain is short, so a warp copies each token's numbers when it is computed.
void Recurrence::emitChain() {
  KernelBuilder &b = launch->b;
  shared = b.shared(b.getF32Type(), numbers, numbers);
  Value isOwner = b.less(b.warp(), b.i32(warps)), slot = b.i32(0);
  forChain(*launch, {readAt.at[0], stateAt.at[0]}, b.block(2),
           launch->number(box[Token]), [&](Value token) {
             SmallVector<Value> matrix = llvm::to_vector(b.choose(
                 isOwner, [&] { return start(token); },
                 [&] {
                   b.when(b.equal(b.warp(), b.i32(warps)),
                          [&] { produce(token, slot); });
                   return nothing();
                 }));
             b.barrier();
             b.when(isOwner,
                    [&] { finish(token, consume(token, slot, matrix)); });
             b.barrier();
           });
}

/// Blocks (i, j, k): i is the head, j is columns, k is the first row of a
/// chain.
bool Recurrence::emit() {
  Launch made(of, "", 2 * warps * kWarp);
  launch = &made;
  KernelBuilder &b = made.b;
  head = b.block(0);
  int64_t parts = box[Column].constant / columns;
  band = b.div(b.block(1), parts);
  firstColumn = b.mul(b.rem(b.block(1), parts), columns);
  column = b.add(firstColumn,
                 b.add(b.mul(b.warp(), kColumns), b.div(b.lane(), kLanes)));
  firstRow = b.mul(b.rem(b.lane(), kLanes), kRows);
  for (const Input &input : inputs)
    if (input.ofRow &&
        vectorWidth(made, input.element, box, rows / kWarp) != rows / kWarp)
      return fail("the lanes of a warp cannot read a row as vectors");
  int64_t most = kDeclaredMemory / (2 * sizeof(float) * numbers);
  if (most < 1)
    return fail("a token's numbers do not fit shared memory");
  if (ofTokens)
    emitChain();
  else
    emitText(std::min(sizes.tokens, most));
  made.finish({of.constant(box[Head].constant),
               of.constant(box[Band].constant * parts),
               ofTokens ? of.blocks(box[Token], 1) : of.constant(1)});
  return true;
}

/// Half of the warps bring as many as `tokens` tokens ahead.
void Recurrence::emitText(int64_t tokens) {
  KernelBuilder &b = launch->b;
  if (box[Token].isConstant())
    tokens = std::min(tokens, box[Token].constant);
  shared = b.shared(b.getF32Type(), 2 * tokens * numbers, numbers);
  Value count = launch->number(box[Token]),
        isOwner = b.less(b.warp(), b.i32(warps));
  SmallVector<Value> matrix = llvm::to_vector(b.choose(
      isOwner, [&] { return start(b.i32(0)); }, [&] { return nothing(); }));
  // In each turn some warps bring tokens, and the others compute the tokens
  // that the turn before has brought.
  Value end = b.mul(b.add(b.ceilDiv(count, tokens), 1), tokens);
  matrix =
      b.loop(b.i32(0), end, tokens, matrix, [&](Value turn, ValueRange old) {
        Value half = b.mul(b.rem(b.div(turn, tokens), 2), tokens);
        auto next = llvm::to_vector(b.choose(
            isOwner,
            [&] {
              // Nothing in the first turn.
              Value before = b.sub(turn, b.i32(tokens)),
                    other = b.sub(b.i32(tokens), half);
              return b.loop(b.max(before, b.i32(0)), b.min(turn, count), 1, old,
                            [&](Value token, ValueRange matrix) {
                              return consume(token,
                                             b.add(other, b.sub(token, before)),
                                             matrix);
                            });
            },
            [&] {
              b.loop(b.add(turn, b.sub(b.warp(), b.i32(warps))),
                     b.min(b.add(turn, tokens), count), warps,
                     [&](Value token) {
                       produce(token, b.add(half, b.sub(token, turn)));
                     });
              return SmallVector<Value>(old);
            }));
        b.barrier();
        return next;
      });
  b.when(isOwner, [&] { finish(b.i32(0), matrix); });
}

bool simt::emitRecurrence(KernelFunction &function, const Choose &choose,
                          StringRef &reason) {
  auto loops = llvm::to_vector(function.kernel.getOps<scf::ForallOp>());
  if (loops.empty())
    return false;
  if (loops.size() > 1) {
    reason = "it has more than one parallel loop";
    return false;
  }
  Recurrence recurrence(function, choose.recurrence(), loops[0], reason);
  return recurrence.read() && recurrence.emit();
}
