/// Kernel functions made of products, statistics of rows and elementwise ops.
///
/// A part is one result, or several that one unit of work stores. If a part's
/// products can be computed with it, the part is their epilogue. Statistics of
/// a product, and products that a unit cannot hold, are computed from memory
/// that other launches have stored. So is the products' input, if it is not in
/// memory and a block cannot hold it.
#include "lowering/gpu/schedules/Choose.h"
#include "lowering/gpu/schedules/Preconditions.h"
#include "lowering/gpu/schedules/Schedules.h"
#include "lowering/gpu/schedules/Tokens.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringMap.h"
#include <numeric>

using namespace mlir;
using namespace cria;
using namespace cria::simt;

/// The most products of a unit; with many rows, two columns of one product.
static constexpr size_t kSums = 2, kGemvSums = 4, kChosenSums = 16;

/// The place of an element in memory, if it is an element of memory.
static std::optional<Element> inMemory(Elements &elements, Element element,
                                       ArrayRef<Size> box) {
  Element origin = elements.origin(element, box);
  return elements.isStored(origin.tensor) ? std::optional(origin)
                                          : std::nullopt;
}

namespace {
/// What elements are computed from.
struct Ingredients {
  /// Products that stores read, and products that statistics read.
  SmallVector<Element> sums, sumsBelow;
  Statistics statistics;
  /// Elements read from memory; and elements that statistics read, over a whole
  /// row.
  SmallVector<Element> reads, rowReads;
};

class PartsSchedule {
public:
  PartsSchedule(KernelFunction &function, const Choose &choose,
                StringRef &reason)
      : function(function), elements(function.elements), choose(choose),
        reason(reason) {}
  bool run();

private:
  bool fail(StringRef why) {
    reason = why;
    return false;
  }
  void remarkFurther(StringRef why);
  bool emit(SmallVector<Part> parts, StringRef suffix);
  bool collect(const Part &part, Ingredients &made);
  bool collect(const Element &element, ArrayRef<Size> box, Ingredients &made,
               std::optional<unsigned> term);
  bool addStatistic(const Element &leaf, ArrayRef<Size> box, Ingredients &made);
  std::optional<Work> workOf(const Part &part, ArrayRef<Element> sums);
  bool setLoops(Work &work);
  bool isGemv(const Work &work);
  StringRef refusal(const Work &work);
  StringRef refusal(const Work &work, const Dot &dot);
  bool fitOneGrid(const Work &a, const Work &b);
  std::optional<Work> paired(const Work &work);
  void pairColumns(MutableArrayRef<Work> works);
  bool emitProducts(ArrayRef<Work> works, StringRef suffix);
  bool emitRest(const Part &part, StringRef suffix);
  Part partOf(Value tensor);
  Part inputOf(const Dot &dot);
  bool store(const Part &part);
  bool storeWeights(ArrayRef<Element> sums, ArrayRef<Size> box);
  bool reads(ArrayRef<Element> reads, const Part &part,
             llvm::function_ref<bool(const Element &, const Element &)> fits);
  void wrote(const Part &part);
  bool areRowsInMemory(const Dot &dot, const Element &element,
                       ArrayRef<Size> box);
  bool haveSameInput(const Work &a, const Work &b);
  std::string name(StringRef base);

  KernelFunction &function;
  Elements &elements;
  const Choose &choose;
  StringRef &reason;
  /// Why the products that were tried last are none of a unit.
  StringRef misfit;
  llvm::StringMap<unsigned> names;
  llvm::DenseSet<Value> written;
};
} // namespace

/// Reports why the function needs another launch.
void PartsSchedule::remarkFurther(StringRef why) {
  remark::analysis(function.kernel.getLoc(),
                   remark::RemarkOpts::name("further-launch")
                       .category("convert-linalg-to-gpu")
                       .function(function.kernel.getName()))
      << remark::reason("{0}", why.str());
}

std::string PartsSchedule::name(StringRef base) {
  unsigned count = names[base]++;
  return count ? (base + "_" + Twine(count)).str() : base.str();
}

/// Adds a reduction, and before it the statistics that it reads.
bool PartsSchedule::addStatistic(const Element &leaf, ArrayRef<Size> box,
                                 Ingredients &made) {
  auto reduction = elements.reduction(leaf, box);
  if (!reduction)
    return fail("it reads an op that is neither a product nor a reduction "
                "of rows");
  if (!filledWith(reduction->op.getDpsInits()[0].getDefiningOp()))
    return fail("a reduction begins with other values than one constant");
  if (!canReduce(elements, *reduction, box))
    return fail("a reduction may not be computed in any order");
  Box longer(box);
  longer.push_back(reduction->terms);
  for (OpOperand *input : reduction->op.getDpsInputOperands())
    if (isa<RankedTensorType>(input->get().getType()) &&
        !collect(
            elements.operand(reduction->op, *input, reduction->loops, longer),
            longer, made, /*term=*/box.size()))
      return false;
  made.statistics.leaves.push_back(leaf);
  made.statistics.reductions.push_back(*reduction);
  return true;
}

/// Adds what an element is computed from. `term` is the box's last loop if the
/// element is a term of a statistic.
bool PartsSchedule::collect(const Element &element, ArrayRef<Size> box,
                            Ingredients &made, std::optional<unsigned> term) {
  if (!canEvaluate(elements, element, box))
    return fail("a result is made by ops that no kernel can compute element "
                "by element");
  SmallVector<Element> leaves;
  if (!elements.leaves(element, box,
                       [&](const Element &leaf) { leaves.push_back(leaf); }))
    return fail("a result has elements of several origins");
  for (const Element &leaf : leaves) {
    bool isStored = elements.isStored(leaf.tensor);
    if (isStored ? !hasMemory(leaf.tensor) : !isOfBytes(leaf.tensor))
      return fail(kNoMemory);
    if (isStored) {
      (term ? made.rowReads : made.reads).push_back(leaf);
      continue;
    }
    if (elements.dot(leaf, box)) {
      auto &sums = term ? made.sumsBelow : made.sums;
      if (!llvm::is_contained(sums, leaf))
        sums.push_back(leaf);
      continue;
    }
    if (llvm::is_contained(made.statistics.leaves, leaf))
      continue;
    if (term && !isOfOwnRow(leaf, *term))
      return fail(kNotOfOwnRow);
    if (!addStatistic(leaf, term ? box.drop_back() : box, made))
      return false;
  }
  return true;
}

bool PartsSchedule::collect(const Part &part, Ingredients &made) {
  for (const Store &store : part.stores)
    if (!hasMemory(store.into.tensor))
      return fail(kNoMemory);
  return llvm::all_of(part.stores, [&](const Store &store) {
    return collect(store.value, part.box, made, /*term=*/{});
  });
}

/// Bytes of shared memory that hold the rows which products read.
static int64_t sharedBytes(const Work &work) {
  const Dot &dot = work.dots[0];
  int64_t numbers = gemvRows(work) * dot.terms.constant;
  if (dot.isWidened())
    return widenedGemvBytes(numbers);
  if (dot.bits)
    return blockGemvBytes(numbers, dot.bits);
  auto type = cast<RankedTensorType>(dot.x.tensor.getType());
  return numbers * type.getElementTypeBitWidth() / 8;
}

/// Whether an operand's rows lie in memory as kernels of products read them.
bool PartsSchedule::areRowsInMemory(const Dot &dot, const Element &element,
                                    ArrayRef<Size> box) {
  size_t inner = element.tensor == dot.scale.tensor ? 1 : 2;
  if (dot.bits && !(dot.isWidened() && element == dot.x))
    return areBlockRows(elements, element, box, inner);
  return rowInMemory(elements, element, box) &&
         (!dot.isWidened() || beginsAtWord(elements, element, box));
}

/// Sets the loop over rows and the loops of units. False if they are not one
/// loop over rows and constant loops of units.
bool PartsSchedule::setLoops(Work &work) {
  // A row that chooses its weights may have several rows of the input.
  ArrayRef<AffineExpr> row = work.dots[0].x.at;
  if (work.isChosen())
    row = row.take_front();
  for (auto [loop, size] : llvm::enumerate(work.part.box)) {
    if (llvm::any_of(row, [loop = loop](AffineExpr at) {
          return at.isFunctionOfDim(loop);
        })) {
      if (work.row)
        return false;
      work.row = loop;
    } else if (!size.isConstant()) {
      return false;
    } else {
      work.unitLoops.push_back(loop);
      work.units *= size.constant;
    }
  }
  return true;
}

/// Why no kernel takes the operands of one of a work's products; empty if one
/// does.
StringRef PartsSchedule::refusal(const Work &work, const Dot &dot) {
  Box box = work.longBox();
  auto isFloat = [](const Element &element) {
    return isa<Float32Type, BFloat16Type, Float16Type>(
        getElementTypeOrSelf(element.tensor.getType()));
  };
  if ((!dot.scale.tensor && !isFloat(dot.x)) || (!dot.bits && !isFloat(dot.w)))
    return "a product is not of f32, bf16 or f16";
  if (dot.isWidened() && !dot.rounds &&
      !isOwnRow(elements, dot.x, box, work.row))
    return kNoOwnRow;
  if (dot.scale.tensor) {
    Element first{dot.x.tensor, {dot.x.at[0], elements.dim(box.size() - 1)}};
    if (!isOwnRow(elements, first, box, work.row))
      return kNoOwnRow;
  } else if (!areRowsInMemory(dot, dot.x, box) &&
             !isOwnRow(elements, dot.x, box, work.row)) {
    return dot.x.at.size() == 2 && dot.x.at[1] == elements.dim(box.size() - 1)
               ? kNoOwnRow
               : kNoRow;
  }
  if (!areRowsInMemory(dot, dot.w, box))
    return dot.bits ? kNoBlockRows : kNoRow;
  for (const Element &element : {dot.x, dot.w})
    if (Element read = elements.origin(element, box);
        elements.isStored(read.tensor) && !hasMemory(read.tensor))
      return kNoMemory;
  return {};
}

/// Whether products have few rows, and a block can hold these if it must. Those
/// with rounded weights are tiled.
bool PartsSchedule::isGemv(const Work &work) {
  const Dot &dot = work.dots[0];
  int64_t most = dot.isWidened() ? kWidenedGemvShared : kGemvShared;
  return choose.hasFewRows(function, work) && !dot.rounds &&
         (!dot.bits || sharedBytes(work) <= most);
}

/// Why a unit cannot hold the products; empty if it can.
StringRef PartsSchedule::refusal(const Work &work) {
  const Dot &first = work.dots[0];
  StringRef cannotHold = "a unit cannot hold the products that it is made of";
  bool few = isGemv(work);
  size_t most = !few ? kSums : work.isChosen() ? kChosenSums : kGemvSums;
  if (work.dots.size() > most || !first.terms.isConstant() ||
      (work.isChosen() && !few && !canGroup(function, work)))
    return cannotHold;
  if (!few && !roundsWeights(first))
    return kNotRounded;
  for (const Dot &dot : work.dots) {
    bool isOfRow = llvm::any_of(dot.w.at, [&](AffineExpr at) {
      return work.row && at.isFunctionOfDim(*work.row);
    });
    bool hasInput = dot.x == first.x;
    if (work.isChosen() && dot.bits)
      hasInput |= few && dot.x.tensor == first.x.tensor;
    else if (work.isChosen())
      hasInput |= rowInMemory(elements, dot.x, work.longBox()) &&
                  rowInMemory(elements, first.x, work.longBox());
    if (isOfRow || !hasInput || !(dot.terms == first.terms) ||
        dot.bits != first.bits || dot.isFloat != first.isFloat ||
        dot.rounds != first.rounds || dot.scale.tensor != first.scale.tensor ||
        !dot.chosen.tensor == work.isChosen())
      return cannotHold;
    if (StringRef why = refusal(work, dot); !why.empty())
      return why;
    if (!areOfOneForm(elements, work, first, work, dot))
      return kNotOneForm;
  }
  return {};
}

/// The part with its products, if a unit can hold them; otherwise sets
/// `misfit`.
std::optional<Work> PartsSchedule::workOf(const Part &part,
                                          ArrayRef<Element> sums) {
  Work work;
  work.part = part;
  llvm::append_range(work.sums, sums);
  for (const Element &sum : sums)
    work.dots.push_back(*elements.dot(sum, part.box));
  misfit = setLoops(work) ? refusal(work)
                          : "a product has several loops over rows, or more "
                            "than one size that is not constant";
  return misfit.empty() ? std::optional(work) : std::nullopt;
}

/// A part that stores all of a tensor, into its own memory.
Part PartsSchedule::partOf(Value tensor) {
  Part part{sizesOf(tensor), {}};
  Element element{tensor, {}};
  for (unsigned loop = 0; loop < part.box.size(); ++loop)
    element.at.push_back(elements.dim(loop));
  part.stores.push_back({element, element});
  return part;
}

/// The rows that a product reads, if no memory has them: all of a tensor; for
/// blocks, all codes and their scales.
Part PartsSchedule::inputOf(const Dot &dot) {
  Part part = partOf(dot.x.tensor);
  if (dot.scale.tensor) {
    Element scale{dot.scale.tensor, part.stores[0].value.at};
    scale.at.pop_back();
    part.stores.push_back({scale, scale});
  }
  return part;
}

/// Fails if memory that is read has been overwritten, or if this part
/// overwrites it and an element that is read does not fit the one that is
/// written.
bool PartsSchedule::reads(
    ArrayRef<Element> reads, const Part &part,
    llvm::function_ref<bool(const Element &, const Element &)> fits) {
  for (const Element &read : reads) {
    if (written.contains(read.tensor))
      return fail("it reads a tensor that it has overwritten");
    for (const Store &store : part.stores)
      if (store.into.tensor == read.tensor && isa<BlockArgument>(read.tensor) &&
          !fits(read, store.into))
        return fail("it reads other elements of a tensor that it overwrites");
  }
  return true;
}

static bool never(const Element &, const Element &) { return false; }
static bool isSame(const Element &read, const Element &written) {
  return read == written;
}

void PartsSchedule::wrote(const Part &part) {
  for (const Store &store : part.stores)
    if (isa<BlockArgument>(store.into.tensor))
      written.insert(store.into.tensor);
}

/// Computes all of a part's tensors into memory of their own.
bool PartsSchedule::store(const Part &part) {
  Part left{part.box, {}};
  for (const Store &store : part.stores)
    if (!elements.isStored(store.into.tensor))
      left.stores.push_back(store);
  if (left.stores.empty())
    return true;
  for (const Store &store : left.stores) {
    if (!hasMemory(store.into.tensor))
      return fail(kNoMemory);
    function.allocate(store.into.tensor);
  }
  if (!emit({left}, "_input"))
    return false;
  for (const Store &store : left.stores)
    elements.setStored(store.into.tensor);
  return true;
}

/// Stores weights that a payload computes, such as dequantized ones, and slices
/// of weights whose rows do not lie side by side.
bool PartsSchedule::storeWeights(ArrayRef<Element> sums, ArrayRef<Size> box) {
  for (const Element &sum : sums) {
    Dot dot = *elements.dot(sum, box);
    Box longer(box);
    longer.push_back(dot.terms);
    auto made = elements.define(elements.origin(dot.w, longer), longer);
    if (made.kind == Elements::Definition::Payload) {
      remarkFurther("its products' weights are computed");
      if (!store(partOf(made.op->getResult(made.result))))
        return false;
    }
    bool hasRows = !elements.isStored(dot.w.tensor) &&
                   (dot.bits || dot.w.at.back() == elements.dim(box.size()));
    if (!hasRows || areRowsInMemory(dot, dot.w, longer))
      continue;
    remarkFurther(dot.bits ? kNoBlockRows : kNoRow);
    if (!store(partOf(dot.w.tensor)))
      return false;
  }
  return true;
}

/// Divides works into groups. A work joins a group if it `fits` the group's
/// first work.
static std::vector<std::vector<Work>>
grouped(ArrayRef<Work> works,
        llvm::function_ref<bool(const Work &, const Work &)> fits) {
  std::vector<std::vector<Work>> groups;
  for (const Work &work : works) {
    auto group = llvm::find_if(
        groups, [&](ArrayRef<Work> group) { return fits(group[0], work); });
    if (group == groups.end())
      group = groups.emplace(group);
    group->push_back(work);
  }
  return groups;
}

bool PartsSchedule::haveSameInput(const Work &a, const Work &b) {
  const Dot &first = a.dots[0], &second = b.dots[0];
  return first.x.tensor == second.x.tensor && first.terms == second.terms &&
         first.bits == second.bits && first.isFloat == second.isFloat &&
         first.rounds == second.rounds && a.rows() == b.rows() &&
         a.isChosen() == b.isChosen() &&
         areOfOneForm(elements, a, first, b, second, /*ofType=*/true);
}

/// Whether tiles of both works may be in one grid: their units have equally
/// many products, which read the same rows of the input, and their weights have
/// rows of the same form.
bool PartsSchedule::fitOneGrid(const Work &a, const Work &b) {
  return readSameRows(elements, a, b) && a.sums.size() == b.sums.size() &&
         a.dots[0].chosen == b.dots[0].chosen &&
         areOfOneForm(elements, a, a.dots[0], b, b.dots[0]);
}

/// The work with two of its columns in each unit, if a unit can hold them.
std::optional<Work> PartsSchedule::paired(const Work &work) {
  if (work.unitLoops.empty())
    return std::nullopt;
  unsigned loop = work.unitLoops.back();
  int64_t size = work.part.box[loop].constant, half = size / 2;
  if (size % 2)
    return std::nullopt;
  Part part = work.part;
  part.box[loop].constant = half;
  for (Store store : work.part.stores) {
    for (Element *element : {&store.value, &store.into})
      for (AffineExpr &at : element->at)
        at = elements.simplify(
            at.replace(elements.dim(loop), elements.dim(loop) + half),
            part.box);
    part.stores.push_back(store);
  }
  Ingredients made;
  if (!collect(part, made) || !reads(made.reads, part, isSame))
    return std::nullopt;
  return workOf(part, made.sums);
}

/// Columns that RoPE does not rotate become pairs like the columns that it
/// rotates, so that all columns of a product are units of one launch. With many
/// rows, also columns of products of the same input: values with queries and
/// keys.
void PartsSchedule::pairColumns(MutableArrayRef<Work> works) {
  for (Work &single : works) {
    bool besidePairs = llvm::any_of(works, [&](const Work &work) {
      if (single.sums.size() != 1 || work.sums.size() != 2)
        return false;
      return choose.hasFewRows(function, single)
                 ? work.sums[0].tensor == single.sums[0].tensor &&
                       work.sums[1].tensor == single.sums[0].tensor
                 : haveSameInput(work, single);
    });
    if (!besidePairs)
      continue;
    if (auto pairs = paired(single))
      single = *pairs;
  }
}

/// Emits works that have the same input, or one work.
bool PartsSchedule::emitProducts(ArrayRef<Work> works, StringRef suffix) {
  const Work &first = works[0];
  SmallVector<Size> box = first.longBox();
  const Dot &dot = first.dots[0];
  bool few = isGemv(first);
  if (dot.bits && !few && !hasEvenBlocks(dot))
    return fail(kOddBlocks);
  Part input;
  Ingredients made;
  bool inBlock = false;
  bool isRead = areRowsInMemory(dot, dot.x, box) &&
                (!dot.scale.tensor || areRowsInMemory(dot, dot.scale, box));
  // The input of products with blocks is laid out again by each block of
  // threads.
  if ((few && dot.bits) || !isRead) {
    input = inputOf(dot);
    bool fits = few && sharedBytes(first) <= kGemvShared;
    if (!collect(input, made))
      return false;
    inBlock = fits && made.sums.empty() && made.sumsBelow.empty() &&
              rowLoops(input, made.statistics) <= 1 &&
              llvm::none_of(llvm::concat<Element>(made.reads, made.rowReads),
                            [&](const Element &read) {
                              return llvm::any_of(works, [&](const Work &work) {
                                return llvm::any_of(
                                    work.part.stores, [&](const Store &s) {
                                      return s.into.tensor == read.tensor;
                                    });
                              });
                            });
    llvm::append_range(made.reads, made.rowReads);
    if (!inBlock) {
      remarkFurther(few ? "a block cannot hold the input of its products"
                        : "many blocks read the input of its products");
      if (!store(input))
        return false;
      made = {};
      inBlock = few && dot.bits;
      if (inBlock && !collect(input, made))
        return false;
    }
  }
  // A launch must not write what its other works read.
  for (const Work &work : works) {
    Ingredients own;
    SmallVector<Element> operands = made.reads;
    if (!collect(work.part, own))
      return false;
    for (const Dot &dot : work.dots) {
      for (const Element &element : {dot.x, dot.w})
        if (auto read = inMemory(elements, element, work.longBox()))
          operands.push_back(*read);
      if (work.isChosen())
        operands.push_back(dot.chosen);
    }
    for (const Work &other : works) {
      if (!reads(own.reads, other.part, &other == &work ? isSame : never) ||
          !reads(operands, other.part, never))
        return false;
    }
  }
  if (few) {
    choose.gemv(function, name(suffix),
                {works, inBlock ? &input : nullptr, made.statistics});
  } else {
    auto launches = grouped(
        works, [&](const Work &a, const Work &b) { return fitOneGrid(a, b); });
    if (launches.size() > 1)
      remarkFurther("its products are stored apart");
    for (ArrayRef<Work> together : launches)
      choose.gemm(function, name(suffix), together);
  }
  for (const Work &work : works)
    wrote(work.part);
  return true;
}

/// A part without products.
bool PartsSchedule::emitRest(const Part &part, StringRef suffix) {
  Ingredients made;
  auto isOwn = [&](const Element &read, const Element &written) {
    return elements.isOwnPlace(read, written);
  };
  if (!collect(part, made) || !reads(made.reads, part, isOwn))
    return false;
  // A block has read its row before it begins to overwrite it.
  unsigned count = rowLoops(part, made.statistics);
  auto isRow = [&](const Element &read, const Element &written) {
    ArrayRef<AffineExpr> row = ArrayRef(written.at).drop_back();
    return ArrayRef(read.at).drop_back() == row &&
           llvm::none_of(row, [&](AffineExpr at) {
             for (unsigned loop = count; loop < part.box.size(); ++loop)
               if (at.isFunctionOfDim(loop))
                 return true;
             return false;
           });
  };
  if (!reads(made.rowReads, part, isRow))
    return false;
  if (!fitsGrid(part, count))
    return fail(kNoGrid);
  bool emitted = made.statistics.leaves.empty()
                     ? emitPointwise(function, name(suffix), part)
                     : emitRows(function, name(suffix), part, made.statistics);
  if (!emitted)
    return fail("it has two numbers of elements that calls decide");
  wrote(part);
  return true;
}

/// Emits all parts. Names of kernels end with `suffix`.
bool PartsSchedule::emit(SmallVector<Part> parts, StringRef suffix) {
  std::vector<Work> works;
  SmallVector<Part> rest;
  SmallVector<Value> stored;
  TokenOps ofTokens(elements);
  auto addProduct = [&](Value tensor) {
    if (llvm::is_contained(stored, tensor))
      return true;
    function.allocate(tensor);
    stored.push_back(tensor);
    Part product = partOf(tensor);
    auto work = workOf(product, product.stores[0].value);
    if (!work)
      return fail(misfit);
    works.push_back(*work);
    return true;
  };
  for (const Part &part : parts) {
    Ingredients made;
    if (!collect(part, made)) {
      if (!ofTokens.add(part))
        return false;
      continue;
    }
    if (made.statistics.leaves.empty() && !made.sums.empty()) {
      if (!storeWeights(made.sums, part.box))
        return false;
      if (auto work = workOf(part, made.sums)) {
        works.push_back(*work);
        continue;
      }
    }
    if (made.sums.empty() && made.sumsBelow.empty()) {
      rest.push_back(part);
      continue;
    }
    // Its products go to memory first, unless the part itself only stores them.
    StringRef why = made.statistics.leaves.empty()
                        ? misfit
                        : "rows of its products have statistics";
    remarkFurther(why);
    for (const Element &sum :
         llvm::concat<Element>(made.sums, made.sumsBelow)) {
      if (sum == part.stores[0].value)
        return fail(why);
      if (!addProduct(sum.tensor))
        return false;
    }
    rest.push_back(part);
  }
  for (Value product : ofTokens.products()) {
    remarkFurther("blocks compute ops of a token from its products");
    if (!addProduct(product))
      return false;
  }
  pairColumns(works);
  // Products of one input are one launch.
  auto fits = [&](const Work &a, const Work &b) { return haveSameInput(a, b); };
  for (ArrayRef<Work> together : grouped(works, fits))
    if (!emitProducts(together, suffix))
      return false;
  for (Value tensor : stored)
    elements.setStored(tensor);
  std::string last = (suffix + (stored.empty() ? "" : "_finish")).str();
  if (!ofTokens.empty() && !ofTokens.emit(function, name(last)))
    return fail("a block cannot hold what it computes of a token");
  return llvm::all_of(rest,
                      [&](const Part &part) { return emitRest(part, last); });
}

/// Merges parts of equal boxes if their leaves that depend on all loops are the
/// same.
static SmallVector<Part> merged(Elements &elements, ArrayRef<Part> parts) {
  SmallVector<Part> result;
  SmallVector<SmallVector<Element>> leaves;
  for (const Part &part : parts) {
    SmallVector<Element> own;
    elements.leaves(part.stores[0].value, part.box, [&](const Element &leaf) {
      bool all = true;
      for (unsigned loop = 0; loop < part.box.size(); ++loop)
        all &= part.box[loop].constant == 1 ||
               llvm::any_of(leaf.at, [&](AffineExpr at) {
                 return at && at.isFunctionOfDim(loop);
               });
      if (all)
        own.push_back(leaf);
    });
    bool found = false;
    for (auto [i, other] : llvm::enumerate(result)) {
      found = other.box == part.box &&
              llvm::any_of(own, [&, i = i](const Element &leaf) {
                return llvm::is_contained(leaves[i], leaf);
              });
      if (!found)
        continue;
      llvm::append_range(other.stores, part.stores);
      llvm::append_range(leaves[i], own);
      break;
    }
    if (!found) {
      result.push_back(part);
      leaves.push_back(own);
    }
  }
  return result;
}

bool PartsSchedule::run() {
  auto parts = elements.parts(function.kernel);
  if (!parts || parts->empty() ||
      llvm::any_of(*parts, [](const Part &part) { return part.box.empty(); }))
    return fail("a result is not put together from elements");
  if (areApart(elements, *parts))
    return emit(merged(elements, *parts), "");
  remarkFurther("its parts store in the same places, one after the other");
  return llvm::all_of(*parts,
                      [&](const Part &part) { return emit({part}, ""); });
}

bool simt::emitParts(KernelFunction &function, const Choose &choose,
                     StringRef &reason) {
  return PartsSchedule(function, choose, reason).run();
}
