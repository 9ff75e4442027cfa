#include "lowering/gpu/schedules/Recurrence.h"
#include "lowering/gpu/schedules/Choose.h"
#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/gpu/schedules/Schedules.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;
using linalg::GenericOp;

/// Columns that a part has a multiple of, and the most rows of a matrix: a lane
/// has a quarter of them in registers.
static constexpr int64_t kColumns = 8, kMostRows = 256;

bool simt::dependsOn(const Element &element, Recurrence::Loop loop) {
  return llvm::any_of(element.at,
                      [&](AffineExpr at) { return at.isFunctionOfDim(loop); });
}

bool Recurrence::isInside(Value value) const {
  return loop->isAncestor(value.getParentRegion()->getParentOp());
}

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
  if (box[Column].constant % kColumns || rows % kWarp || rows > kMostRows)
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
const Recurrence::Input *Recurrence::find(const Element &element) const {
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
  Input input{element, dependsOn(element, Row), dependsOn(element, Column)};
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

bool Recurrence::read() { return readLoops() && readMatrix() && readResult(); }

Element Recurrence::sumOf(unsigned row) const {
  return {product->getResult(0),
          {elements.constant(row), elements.dim(Column)}};
}

Element Recurrence::updated() const {
  return {next->getResult(0), {elements.dim(Row), elements.dim(Column)}};
}

/// Whether the additions and multiplications of a payload may be done in
/// another order.
static bool mayReorderAll(GenericOp op) {
  auto isReordered = [](auto op) {
    return bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::reassoc);
  };
  for (Operation &nested : *op.getBody()) {
    auto add = dyn_cast<arith::AddFOp>(nested);
    auto mul = dyn_cast<arith::MulFOp>(nested);
    if ((add && !isReordered(add)) || (mul && !isReordered(mul)))
      return false;
  }
  return true;
}

std::optional<Recurrence::Step> Recurrence::step() {
  auto isInput = [&](const Element &element) { return find(element); };
  auto isNumber = [&](const FormulaRef &formula) {
    return !reads(formula, [&](const Element &element) {
      const Input *input = find(element);
      return input->ofRow || input->ofColumn || dependsOn(element, Band);
    });
  };
  auto isRow = [&](const Input *input) {
    return input && input->ofRow && !dependsOn(input->element, Band);
  };
  auto isOfColumn = [&](const FormulaRef &formula) {
    return !reads(formula,
                  [&](const Element &element) { return find(element)->ofRow; });
  };
  auto none = [&](StringRef why) {
    fail(why);
    return std::nullopt;
  };
  LinearReader reader(elements, box, isInput);
  // S' is linear in S and in the row u that all rows of S read.
  Element after = updated(), update;
  for (const Element &read :
       elements.operands(elements.define(after, box), box))
    if (read.tensor != carried && !dependsOn(read, Row) &&
        dependsOn(read, Column))
      update = read;
  if (!update.tensor || !mayReorderAll(next))
    return none("its matrix is not updated by a product that may be reordered");
  Step step;
  auto changed = reader.read(after, {{carried, after.at}, update});
  if (!changed || changed->rest || !isNumber(changed->factors[0]) ||
      !changed->factors[1] || changed->factors[1]->kind != Formula::Read)
    return none("its matrix is not updated by a number and one product");
  step.decay = changed->factors[0];
  step.y = find(changed->factors[1]->element);
  // u is linear in one of the product's sums, or in none, and so is o.
  SmallVector<Element> variables;
  for (unsigned i = 0; i < factors.size(); ++i)
    variables.push_back(sumOf(i));
  auto takeSum = [&](const Linear &of, const Input *&row, FormulaRef &factor) {
    for (unsigned i = 0; i < factors.size(); ++i)
      if (of.factors[i]) {
        if (factor || !isNumber(of.factors[i]))
          return false;
        row = find(factors[i]);
        factor = of.factors[i];
      }
    return isOfColumn(of.rest);
  };
  auto added = reader.read(update, variables);
  if (!added || !takeSum(*added, step.x, step.corrected))
    return none("what is added to its matrix is not linear in one sum");
  step.added = added->rest;
  variables.push_back(update);
  auto result = reader.read(row, variables);
  if (!result || !takeSum(*result, step.q, step.read) ||
      !isNumber(result->factors.back()))
    return none("its row is not linear in one sum and in what is added");
  step.own = result->rest;
  step.mixed = result->factors.back();
  if (!isRow(step.y) || !isRow(step.q) || (step.corrected && !isRow(step.x)))
    return none("a factor of its products is not a row for all columns");
  return step;
}

//===----------------------------------------------------------------------===//
// In a kernel
//===----------------------------------------------------------------------===//

SmallVector<Value> Recurrence::bring(Launch &launch,
                                     ArrayRef<const Input *> inputs,
                                     ValueRange at, int64_t lanes) const {
  SmallVector<std::pair<Element, Value>> sums;
  Evaluator::Leaf sum = [&](const Element &element) -> Value {
    auto op = element.tensor.getDefiningOp<GenericOp>();
    if (!op || op.getNumReductionLoops() == 0)
      return {};
    for (auto &[known, value] : sums)
      if (known == element)
        return value;
    Value value = reduceGroup(launch, *elements.reduction(element, box), box,
                              at, lanes, sum);
    sums.push_back({element, value});
    return value;
  };
  Evaluator evaluate(launch, box, at, lanes, sum);
  return llvm::map_to_vector(inputs, [&](const Input *input) {
    return launch.b.widen(evaluate(input->element));
  });
}

Value Recurrence::start(Launch &launch, ValueRange at) const {
  Evaluator evaluate(launch, box, at, 1, [&](const Element &element) {
    return element.tensor == carriedState ? launch.load(readAt, at) : Value();
  });
  return evaluate({first, {elements.dim(Row), elements.dim(Column)}});
}

bool Recurrence::hasWideRows(Launch &launch) {
  int64_t lanes = rows / kWarp;
  for (const Input &input : inputs)
    if (input.ofRow && vectorWidth(launch, input.element, box, lanes) != lanes)
      return fail("the lanes of a warp cannot read a row as vectors");
  return true;
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
  Recurrence recurrence(function, loops[0], reason);
  return recurrence.read() && choose.recurrence(recurrence);
}
