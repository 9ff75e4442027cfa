/// Launches without products: single elements of a part, or rows with their
/// statistics.
#include "lowering/gpu/Parts.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

static constexpr int64_t kRowThreads = 128, kMostThreads = 256;
/// The most lanes of a vector.
static constexpr int64_t kLanes = 8;

void simt::split(KernelBuilder &b, ArrayRef<Size> box, ArrayRef<unsigned> loops,
                 Value unit, MutableArrayRef<Value> values) {
  for (unsigned loop : llvm::reverse(loops)) {
    int64_t size = box[loop].constant;
    bool outermost = loop == loops.front();
    values[loop] = outermost ? unit : b.rem(unit, size);
    if (!outermost)
      unit = b.div(unit, size);
  }
}

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
