#include "lowering/gpu/schedules/Rows.h"
#include "lowering/gpu/schedules/Work.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kRowThreads = 128, kMostThreads = 256;
/// Registers of a thread for the elements of a row.
static constexpr int64_t kHeldRegisters = 32;
/// The most lanes of a vector.
static constexpr int64_t kLanes = 8;

/// Whether an element's place depends on a loop.
static bool dependsOn(const Element &element, unsigned loop) {
  return llvm::any_of(element.at,
                      [&](AffineExpr at) { return at.isFunctionOfDim(loop); });
}

/// How many of the last statistics cover only a few neighbours in a row, over
/// the part's last loop: the scales of blocks. The lanes that have the elements
/// of such a group compute its statistics, in registers.
static size_t groupsOf(const Part &part, const Statistics &statistics) {
  unsigned last = part.box.size() - 1;
  size_t count = 0;
  if (!llvm::all_of(ArrayRef(part.box).drop_front(),
                    [](const Size &size) { return size.isConstant(); }))
    return 0;
  for (auto [leaf, reduction] :
       llvm::reverse(llvm::zip(statistics.leaves, statistics.reductions))) {
    bool isGroup = last >= 2 && reduction.terms == part.box[last] &&
                   reduction.terms.constant <= kWarp &&
                   llvm::isPowerOf2_64(reduction.terms.constant) &&
                   dependsOn(leaf, last - 1) && !dependsOn(leaf, last);
    if (!isGroup)
      break;
    ++count;
  }
  return count;
}

/// The width of the vectors that compute a row.
static int64_t rowWidth(Launch &launch, const Part &part,
                        ArrayRef<Reduction> groups) {
  unsigned last = part.box.size() - 1;
  auto lanes = std::gcd<int64_t>(part.box.back().constant, kLanes);
  for (const Store &store : part.stores) {
    lanes = vectorWidth(launch, store.value, part.box, lanes);
    if (launch.of.memory(store.into.tensor) && dependsOn(store.into, last))
      lanes = accessWidth(launch.place(store.into), last, lanes);
  }
  for (const Reduction &group : groups)
    lanes = termsWidth(launch, group, part.box, lanes);
  return lanes;
}

namespace {
/// The elements of a row that are read from memory, in registers: all of a
/// thread's loads are in flight at once, before the statistics, and each
/// element is loaded once. A row has `turns` vectors for each thread.
class HeldRow {
public:
  HeldRow(Launch &launch, const Part &part, const Statistics &statistics,
          int64_t lanes)
      : launch(launch), b(launch.b), part(part), statistics(statistics),
        lanes(lanes), units(part.box.back().constant),
        turns(llvm::divideCeil(units, launch.b.threads() * lanes)) {}

  /// Whether all statistics read only the row's own elements, in vectors of
  /// this width, and registers are enough for a row.
  bool fits();
  /// Loads the elements at `loops`, whose last loop is the row's.
  void load(ValueRange loops);
  SmallVector<RowVector> vectors(const Evaluator::Leaf &known) const;

private:
  void collect(const Element &element, ArrayRef<Size> box);
  Element inRow(Element element) const;
  Value find(const Element &element, size_t turn) const;

  Launch &launch;
  KernelBuilder &b;
  const Part &part;
  const Statistics &statistics;
  int64_t lanes, units, turns;
  SmallVector<Element> elements;
  SmallVector<RowVector> places;
  std::vector<SmallVector<Value>> values; // of each turn, of each element
};
} // namespace

/// An element of a term of a statistic as an element of the row.
Element HeldRow::inRow(Element element) const {
  Elements &all = launch.of.elements;
  AffineExpr term = all.dim(part.box.size()),
             own = all.dim(part.box.size() - 1);
  for (AffineExpr &at : element.at)
    at = at ? at.replace(term, own) : at;
  return element;
}

/// Adds the elements in memory that an element is computed from.
void HeldRow::collect(const Element &element, ArrayRef<Size> box) {
  if (llvm::is_contained(statistics.leaves, element))
    return;
  auto made = launch.of.elements.define(element, box);
  if (made.kind == Elements::Definition::Same)
    return collect(made.same, box);
  for (const auto &payload : launch.of.elements.payloads(made))
    for (const Element &read : launch.of.elements.operands(payload, box))
      collect(read, box);
  Element own = inRow(element);
  if (made.kind == Elements::Definition::Leaf &&
      dependsOn(own, part.box.size() - 1) && !llvm::is_contained(elements, own))
    elements.push_back(own);
}

bool HeldRow::fits() {
  Box longer(part.box);
  longer.push_back(part.box.back());
  for (const Reduction &reduction : statistics.reductions) {
    if (!(reduction.terms == part.box.back()) ||
        termsWidth(launch, reduction, part.box, lanes) != lanes)
      return false;
    linalg::GenericOp op = reduction.op;
    for (OpOperand *input : op.getDpsInputOperands())
      if (isa<RankedTensorType>(input->get().getType()))
        collect(launch.of.elements.operand(op, *input, reduction.loops, longer),
                longer);
  }
  for (const Store &store : part.stores)
    collect(store.value, part.box);
  int64_t bits = 0;
  for (const Element &element : elements)
    bits += cast<RankedTensorType>(element.tensor.getType())
                .getElementTypeBitWidth();
  return turns * lanes * bits <= 32 * kHeldRegisters;
}

void HeldRow::load(ValueRange loops) {
  int64_t turn = b.threads() * lanes;
  SmallVector<Value> own(loops);
  values.resize(turns);
  for (int64_t i = 0; i < turns; ++i) {
    Value at = b.add(b.mul(b.thread(), lanes), i * turn), exists;
    if ((i + 1) * turn > units) {
      exists = b.less(at, b.i32(units));
      at = b.min(at, b.i32(units - lanes));
    }
    places.push_back({at, exists, {}});
    own.back() = at;
    for (const Element &element : elements)
      values[i].push_back(launch.load(element, own, lanes));
  }
}

Value HeldRow::find(const Element &element, size_t turn) const {
  const Element *found = llvm::find(elements, inRow(element));
  return found == elements.end() ? Value()
                                 : values[turn][found - elements.begin()];
}

SmallVector<RowVector> HeldRow::vectors(const Evaluator::Leaf &known) const {
  SmallVector<RowVector> result(places);
  for (auto [turn, vector] : llvm::enumerate(result))
    vector.leaf = [this, known, turn = turn](const Element &element) {
      Value value = known(element);
      return value ? value : find(element, turn);
    };
  return result;
}

/// computeRow for a row that is held.
static void computeHeld(Launch &launch, const Part &part,
                        const Statistics &statistics, HeldRow &row,
                        SmallVector<Value> loops, int64_t lanes, Sink sink) {
  KernelBuilder &b = launch.b;
  row.load(loops);
  SmallVector<Value> known;
  SmallVector<RowVector> vectors = row.vectors([&](const Element &element) {
    size_t i =
        llvm::find(statistics.leaves, element) - statistics.leaves.begin();
    return i < known.size() ? known[i] : Value();
  });
  for (const Reduction &reduction : statistics.reductions)
    known.push_back(
        reduceVectors(launch, reduction, part.box, loops, lanes, vectors));
  for (const RowVector &vector : vectors) {
    loops.back() = vector.at;
    Evaluator evaluate(launch, part.box, loops, lanes, vector.leaf);
    SmallVector<Value> values;
    for (const Store &store : part.stores) {
      Value value = evaluate(store.value);
      values.push_back(
          isa<VectorType>(value.getType()) ? value : b.splat(value, lanes));
    }
    if (vector.exists)
      b.when(vector.exists, [&] { sink(loops, lanes, values); });
    else
      sink(loops, lanes, values);
  }
}

void simt::computeRow(Launch &launch, const Part &part,
                      const Statistics &statistics, ValueRange rows,
                      Sink sink) {
  KernelBuilder &b = launch.b;
  SmallVector<Value> known;
  auto leaf = [&](const Element &element) {
    const auto *found = llvm::find(statistics.leaves, element);
    size_t i = found - statistics.leaves.begin();
    return i < known.size() ? known[i] : Value();
  };
  SmallVector<Value> loops(part.box.size());
  llvm::copy(rows, loops.begin());
  ArrayRef<Reduction> all(statistics.reductions);
  ArrayRef<Reduction> groups = all.take_back(groupsOf(part, statistics));
  if (!all.empty() && groups.empty() && rows.size() + 1 == part.box.size()) {
    int64_t lanes = rowWidth(launch, part, groups);
    HeldRow row(launch, part, statistics, lanes);
    if (row.fits())
      return computeHeld(launch, part, statistics, row, std::move(loops), lanes,
                         sink);
  }
  for (const Reduction &reduction : all.drop_back(groups.size()))
    known.push_back(reduce(launch, reduction, part.box, loops, leaf));
  SmallVector<unsigned> inner =
      llvm::to_vector(llvm::seq<unsigned>(rows.size(), part.box.size()));
  int64_t units = 1, lanes = inner.empty() ? 1 : rowWidth(launch, part, groups);
  for (unsigned loop : inner)
    units *= part.box[loop].constant;
  auto body = [&](Value unit) {
    split(b, part.box, inner, unit, loops);
    for (const Reduction &group : groups)
      known.push_back(reduceGroup(launch, group, part.box, loops, lanes, leaf));
    Evaluator evaluate(launch, part.box, loops, lanes, leaf);
    SmallVector<Value> values;
    for (const Store &store : part.stores) {
      Value value = evaluate(store.value);
      values.push_back(
          isa<VectorType>(value.getType()) ? value : b.splat(value, lanes));
    }
    return values;
  };
  // Lanes of a group must be together, so all lanes of a warp make the same
  // turns.
  int64_t turn = groups.empty() ? lanes : kWarp * lanes;
  b.loop(b.mul(b.thread(), lanes), b.i32(llvm::alignTo(units, turn)),
         b.threads() * lanes, [&](Value unit) {
           if (units % turn == 0)
             return sink(loops, lanes, body(unit));
           SmallVector<Value> values = body(b.min(unit, b.i32(units - lanes)));
           b.when(b.less(unit, b.i32(units)),
                  [&] { sink(loops, lanes, values); });
         });
}

unsigned simt::rowLoops(const Part &part, const Statistics &statistics) {
  size_t groups = groupsOf(part, statistics);
  unsigned count = groups ? 1 : 0;
  for (const Element &statistic : ArrayRef(statistics.leaves).drop_back(groups))
    for (unsigned loop = count; loop < part.box.size(); ++loop)
      if (dependsOn(statistic, loop))
        count = loop + 1;
  return count;
}

/// Stores a vector along the last loop. A value that does not depend on that
/// loop is stored once, at its start.
static void storeOnce(Launch &launch, const Element &into, ValueRange loops,
                      Value value) {
  KernelBuilder &b = launch.b;
  if (dependsOn(into, loops.size() - 1))
    return launch.store(value, into, loops);
  b.when(b.equal(loops.back(), b.i32(0)),
         [&] { launch.store(b.extract(value, 0), into, loops); });
}

/// Blocks (i, j): i is the dynamic loop, or else the first loop; j is the
/// others.
bool simt::emitRows(KernelFunction &function, const Twine &suffix,
                    const Part &part, const Statistics &statistics) {
  unsigned count = rowLoops(part, statistics);
  unsigned first = 0;
  for (unsigned loop = 0; loop < count; ++loop)
    if (!part.box[loop].isConstant()) {
      if (!part.box[first].isConstant() && first != loop)
        return false;
      first = loop;
    }
  SmallVector<unsigned> others;
  int64_t rest = 1;
  for (unsigned loop = 0; loop < part.box.size(); ++loop) {
    if (loop == first && count)
      continue;
    if (!part.box[loop].isConstant())
      return false;
    if (loop < count) {
      others.push_back(loop);
      rest *= part.box[loop].constant;
    }
  }
  Launch launch(function, suffix, kRowThreads);
  KernelBuilder &b = launch.b;
  SmallVector<Value> rows(count);
  if (count)
    rows[first] = b.block(0);
  if (!others.empty())
    split(b, part.box, others, b.block(1), rows);
  computeRow(launch, part, statistics, rows,
             [&](ValueRange loops, int64_t, ArrayRef<Value> values) {
               for (auto [store, value] : llvm::zip(part.stores, values))
                 storeOnce(launch, store.into, loops, value);
             });
  launch.finish(
      {count ? function.blocks(part.box[first], 1) : function.constant(1),
       function.constant(rest)});
  return true;
}

/// Blocks (i, j): i is units of the constant loops; j is the dynamic loop.
bool simt::emitPointwise(KernelFunction &function, const Twine &suffix,
                         const Part &part) {
  std::optional<unsigned> dynamic;
  SmallVector<unsigned> inner;
  int64_t units = 1;
  for (auto [loop, size] : llvm::enumerate(part.box)) {
    if (size.isConstant()) {
      inner.push_back(loop);
      units *= size.constant;
    } else if (dynamic) {
      return false;
    } else {
      dynamic = loop;
    }
  }
  // As many threads as there are vectors, if they are few.
  bool vectors = !inner.empty() && inner.back() + 1 == part.box.size();
  int64_t lanes =
      vectors ? std::gcd<int64_t>(part.box.back().constant, kLanes) : 1;
  int64_t threads = std::min<int64_t>(
      llvm::alignTo(llvm::divideCeil(units, lanes), kWarp), kMostThreads);
  Launch launch(function, suffix, threads);
  KernelBuilder &b = launch.b;
  for (const Store &store : part.stores) {
    lanes = vectorWidth(launch, store.value, part.box, lanes);
    if (vectors)
      lanes = accessWidth(launch.place(store.into), inner.back(), lanes);
  }
  Value index = b.add(b.mul(b.block(0), threads), b.thread());
  Value unit = b.mul(index, lanes);
  b.when(b.less(unit, b.i32(units)), [&] {
    SmallVector<Value> loops(part.box.size()), values;
    split(b, part.box, inner, unit, loops);
    if (dynamic)
      loops[*dynamic] = b.block(1);
    Evaluator evaluate(launch, part.box, loops, lanes);
    for (const Store &store : part.stores)
      values.push_back(evaluate(store.value));
    for (auto [store, value] : llvm::zip(part.stores, values))
      launch.store(isa<VectorType>(value.getType()) ? value
                                                    : b.splat(value, lanes),
                   store.into, loops);
  });
  int64_t blocks = llvm::divideCeil(units, threads * lanes);
  launch.finish({function.constant(blocks),
                 dynamic ? function.blocks(part.box[*dynamic], 1)
                         : function.constant(1)});
  return true;
}
