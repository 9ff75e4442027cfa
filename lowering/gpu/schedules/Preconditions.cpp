#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/kernel/BlockProduct.h"

#include "llvm/Support/CheckedArithmetic.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static RankedTensorType typeOf(const Element &element) {
  return cast<RankedTensorType>(element.tensor.getType());
}

bool simt::isOfBytes(Value tensor) {
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return element.isIntOrFloat() &&
         llvm::is_contained({8, 16, 32, 64}, element.getIntOrFloatBitWidth());
}

bool simt::hasMemory(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return isOfBytes(tensor) &&
         (type.getRank() == 0 ||
          !ShapedType::isDynamicShape(type.getShape().drop_front()));
}

static bool isOf(AffineExpr at, unsigned loop) {
  return at && at.isFunctionOfDim(loop);
}

std::optional<Element> simt::rowInMemory(Elements &elements,
                                         const Element &element,
                                         ArrayRef<Size> box) {
  unsigned k = box.size() - 1;
  Element read = elements.origin(element, box);
  if (!elements.isStored(read.tensor) || read.at.empty())
    return std::nullopt;
  AffineExpr last = read.at.pop_back_val();
  AffineExpr rest = elements.simplify(last - elements.dim(k), box);
  bool isRow = !isOf(rest, k) && llvm::none_of(read.at, [&](AffineExpr at) {
    return isOf(at, k);
  });
  read.at.push_back(last);
  return isRow ? std::optional(read) : std::nullopt;
}

/// The number of an element among all of its memory.
static AffineExpr elementNumber(const Element &read) {
  AffineExpr number = read.at[0];
  for (auto [at, size] :
       llvm::drop_begin(llvm::zip(read.at, typeOf(read).getShape())))
    number = number * size + at;
  return number;
}

bool simt::beginsAtWord(Elements &elements, const Element &element,
                        ArrayRef<Size> box) {
  Element read = *rowInMemory(elements, element, box);
  AffineExpr first = elementNumber(read).replace(elements.dim(box.size() - 1),
                                                 elements.constant(0));
  unsigned bits = typeOf(read).getElementTypeBitWidth();
  return elements.simplify(first, box).isMultipleOf(32 / std::min(bits, 32u));
}

bool simt::beginAtWords(Elements &elements, const Work &work) {
  Box box = work.longBox();
  return llvm::all_of(work.dots, [&](const Dot &dot) {
    return beginsAtWord(elements, dot.x, box) &&
           beginsAtWord(elements, dot.w, box);
  });
}

bool simt::isOwnRow(const Elements &elements, const Element &element,
                    ArrayRef<Size> box, std::optional<unsigned> row) {
  AffineExpr own = row ? elements.dim(*row) : elements.constant(0);
  return element.at.size() == 2 && element.at[0] == own &&
         element.at[1] == elements.dim(box.size() - 1);
}

bool simt::areBlockRows(Elements &elements, const Element &first,
                        ArrayRef<Size> box, size_t inner) {
  ArrayRef<int64_t> shape = typeOf(first).getShape().take_back(inner);
  if (ShapedType::isDynamicShape(shape))
    return false;
  // An element of the row, by one more loop for each dimension of it.
  Box longer(box);
  Element any = first;
  AffineExpr number = elements.constant(0);
  int64_t length = 1;
  for (auto [at, size] :
       llvm::zip(MutableArrayRef(any.at).take_back(inner), shape)) {
    at = elements.dim(longer.size());
    longer.push_back({size});
    number = number * size + at;
    length *= size;
  }
  Element read = elements.origin(any, longer);
  if (!elements.isStored(read.tensor) || !hasMemory(read.tensor))
    return false;
  AffineExpr begin = elements.simplify(elementNumber(read) - number, longer);
  for (size_t loop = box.size(); loop < longer.size(); ++loop)
    if (isOf(begin, loop))
      return false;
  return begin.isMultipleOf(length);
}

//===----------------------------------------------------------------------===//
// Products of one launch
//===----------------------------------------------------------------------===//

bool simt::hasEvenBlocks(const Dot &dot) {
  return dot.terms.constant / BlockProduct::kNumbers % 2 == 0;
}

bool simt::areOfOneForm(Elements &elements, const Work &a, const Dot &x,
                        const Work &b, const Dot &y, bool ofType) {
  auto first = typeOf(elements.origin(x.w, a.longBox())),
       second = typeOf(elements.origin(y.w, b.longBox()));
  return first.getElementType() == second.getElementType() &&
         (ofType || first.getShape().back() == second.getShape().back());
}

bool simt::readSameRows(Elements &elements, const Work &a, const Work &b) {
  // Elements (row, k) of the input; other loops do not matter.
  auto read = [&](const Work &work) {
    Box box = work.longBox();
    SmallVector<AffineExpr> loops(box.size(), elements.constant(0));
    if (work.row)
      loops[*work.row] = elements.dim(0);
    loops.back() = elements.dim(1);
    Box own = {work.rows(), box.back()};
    Element x = work.dots[0].x;
    for (AffineExpr &at : x.at)
      at = elements.simplify(at.replaceDims(loops), own);
    return x;
  };
  return read(a) == read(b);
}

bool simt::isOfOwnRow(const Element &statistic, unsigned term) {
  return llvm::none_of(statistic.at,
                       [&](AffineExpr at) { return isOf(at, term); });
}

//===----------------------------------------------------------------------===//
// Stores
//===----------------------------------------------------------------------===//

bool simt::fitsGrid(const Part &part, unsigned rows) {
  auto product = [](ArrayRef<Size> sizes) {
    int64_t all = 1;
    for (const Size &size : sizes)
      if (size.isConstant())
        all = llvm::checkedMul(all, size.constant).value_or(INT64_MAX);
    return all;
  };
  // The dynamic loop, or else the first one, is along x.
  ArrayRef<Size> box = part.box, ofRows = box.take_front(rows);
  if (llvm::all_of(ofRows, [](const Size &size) { return size.isConstant(); }))
    ofRows = ofRows.drop_front(rows ? 1 : 0);
  return product(ofRows) <= UINT16_MAX &&
         product(box.drop_front(rows)) <= INT32_MAX / 2;
}

bool simt::areApart(Elements &elements, ArrayRef<Part> parts) {
  for (auto [i, part] : llvm::enumerate(parts))
    for (const Part &before : parts.take_front(i))
      for (const Store &store : part.stores)
        for (const Store &other : before.stores)
          if (!elements.areApart(other.into, before.box, store.into, part.box))
            return false;
  return true;
}
