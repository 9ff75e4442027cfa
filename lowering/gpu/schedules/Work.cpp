#include "lowering/gpu/schedules/Work.h"

#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

SmallVector<Size> Work::longBox() const {
  Box box = part.box;
  box.push_back(dots[0].terms);
  return box;
}

SmallVector<Value> Work::loops(KernelBuilder &b, Value row, Value unit) const {
  SmallVector<Value> values(part.box.size());
  split(b, part.box, unitLoops, unit, values);
  if (choice) {
    int64_t choices = part.box[*choice].constant;
    values[*choice] = b.rem(row, choices);
    row = b.div(row, choices);
  }
  if (this->row)
    values[*this->row] = row;
  return values;
}

int64_t Work::width(Launch &launch, int64_t most) const {
  unsigned last = part.box.size() - 1;
  if (unitLoops.empty() || unitLoops.back() != last)
    return 1;
  most = std::gcd(most, part.box[last].constant);
  for (const Store &store : part.stores) {
    most = vectorWidth(launch, store.value, part.box, most, sums);
    most = accessWidth(launch.place(store.into), last, most);
  }
  return most;
}

SmallVector<Value> Work::compute(Launch &launch, Value row, Value unit,
                                 ValueRange products, int64_t width) const {
  SmallVector<Value> loops = this->loops(launch.b, row, unit), values;
  Evaluator evaluate(
      launch, part.box, loops, width, [&](const Element &element) {
        const auto *found = llvm::find(sums, element);
        return found == sums.end() ? Value() : products[found - sums.begin()];
      });
  for (const Store &store : part.stores)
    values.push_back(evaluate(store.value));
  return values;
}

void Work::store(Launch &launch, Value row, Value unit, ValueRange values,
                 int64_t width) const {
  SmallVector<Value> loops = this->loops(launch.b, row, unit);
  for (auto [store, value] : llvm::zip(part.stores, values))
    launch.store(
        isa<VectorType>(value.getType()) ? value : launch.b.splat(value, width),
        store.into, loops);
}

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

void simt::branch(KernelBuilder &b, ArrayRef<int64_t> sizes, Value place,
                  llvm::function_ref<void(size_t, Value)> body, size_t first) {
  if (first + 1 == sizes.size())
    return body(first, place);
  Value size = b.i32(sizes[first]);
  b.when(
      b.less(place, size), [&] { body(first, place); },
      [&] { branch(b, sizes, b.sub(place, size), body, first + 1); });
}

Operand Operand::of(Launch &launch, const Work &work, const Element &element,
                    int64_t terms) {
  SmallVector<Size> box = work.longBox();
  Element read = launch.of.elements.origin(element, box);
  Launch::Place place = launch.place(read);
  unsigned k = box.size() - 1;
  AffineExpr zero = launch.of.elements.constant(0);
  return {place.rows, place.row,
          place.column.replace(launch.of.elements.dim(k), zero),
          accessWidth(place, k, terms)};
}
