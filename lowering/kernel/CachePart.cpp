#include "lowering/kernel/CachePart.h"
#include "lowering/kernel/Elements.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using linalg::GenericOp;

GenericOp cria::elementwise(Operation *op) {
  auto generic = dyn_cast_or_null<GenericOp>(op);
  bool fits = generic && generic.getNumReductionLoops() == 0 &&
              generic.getNumDpsInits() == 1 &&
              generic.getMatchingIndexingMap(generic.getDpsInitOperand(0))
                  .isIdentity() &&
              generic.getRegionOutputArgs()[0].use_empty() &&
              llvm::all_of(generic.getIndexingMapsArray(), [](AffineMap map) {
                return map.isProjectedPermutation();
              });
  return fits ? generic : nullptr;
}

static bool isF32(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType().isF32();
}

/// A slice of a layer's keys, with all KV heads. If `isWhole`, it must have all
/// elements of each key.
static tensor::ExtractSliceOp cacheSlice(Value value, bool isWhole) {
  auto slice = value.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || slice.getSourceType().getRank() < 4 ||
      slice.getType().getRank() < 3 || !slice.hasUnitStride())
    return nullptr;
  auto offsets = slice.getMixedOffsets(), sizes = slice.getMixedSizes();
  auto whole = [&](unsigned dim) {
    return isConstantIntValue(offsets[dim], 0) &&
           isConstantIntValue(sizes[dim],
                              slice.getSourceType().getDimSize(dim));
  };
  bool fits = isConstantIntValue(sizes[0], 1) && whole(1) &&
              slice.getType().getShape().take_front(2) ==
                  slice.getStaticSizes().slice(1, 2);
  if (isWhole)
    fits = fits && slice.getSourceType().getRank() == 4 && whole(3);
  return fits ? slice : nullptr;
}

/// Whether a value is `of` divided by a constant, or the remainder of this
/// division.
template <typename Op>
static bool isOverSize(Value value, Value of, int64_t by) {
  auto op = value.getDefiningOp<Op>();
  return op && op.getLhs() == of && getConstantIntValue(op.getRhs()) == by;
}

/// The tensor that an index, cast from i32, is an element of. `at` receives the
/// element's place.
static Value readAt(Value index, SmallVectorImpl<Value> &at) {
  auto cast = index.getDefiningOp<arith::IndexCastOp>();
  auto read = cast ? cast.getIn().getDefiningOp<tensor::ExtractOp>()
                   : tensor::ExtractOp();
  if (!read || read->getParentOp() != index.getDefiningOp()->getParentOp())
    return {};
  at.assign(read.getIndices().begin(), read.getIndices().end());
  return read.getTensor();
}

namespace {
/// Reads ((t,) h, s, ...)  =>  cache[pages[(t,) key / P], layer, h, key mod P,
/// ...], where key is first + s. With a loop t over tokens, key is at most the
/// token's position. Of a ring: (h, s, ...)  =>  cache[layer, h, key mod R,
/// ...].
class Gather {
public:
  explicit Gather(GenericOp op) : op(op) {}
  CachePart read();

private:
  bool readKey(Value key);
  bool readPages(Value page, Value key, int64_t size);

  GenericOp op;
  CachePart part;
  unsigned lead = 0; // the number of loops over tokens: 0 or 1
};
} // namespace

bool Gather::readKey(Value key) {
  if (auto least = key.getDefiningOp<arith::MinUIOp>()) {
    SmallVector<Value> at;
    part.positions = readAt(least.getRhs(), at);
    if (!part.positions || at.size() != 1 || !isLoop(at[0], 0))
      return false;
    lead = 1;
    key = least.getLhs();
  }
  part.first = Builder(op).getIndexAttr(0);
  if (auto sum = key.getDefiningOp<arith::AddIOp>()) {
    part.first = getAsOpFoldResult(sum.getRhs());
    key = sum.getLhs();
  }
  return isLoop(key, lead + 1);
}

bool Gather::readPages(Value page, Value key, int64_t size) {
  SmallVector<Value> at;
  part.pages = readAt(page, at);
  return part.pages && at.size() == 1 + lead && (!lead || isLoop(at[0], 0)) &&
         isOverSize<arith::DivUIOp>(at.back(), key, size);
}

CachePart Gather::read() {
  auto read = yielded(op).getDefiningOp<tensor::ExtractOp>();
  if (!read || op.getNumDpsInputs() || read.getIndices().size() < 4)
    return {};
  part.cache = read.getTensor();
  auto type = cast<RankedTensorType>(part.cache.getType());
  ValueRange at = read.getIndices();
  // The place is the remainder. The page, if there is one, is in front.
  unsigned places = at[2].getDefiningOp<arith::RemUIOp>() ? 2 : 3;
  part.isRing = places == 2;
  auto place = at[places].getDefiningOp<arith::RemUIOp>();
  int64_t size = type.getDimSize(places);
  // An index of a loop that runs once is folded.
  auto isLoopOver = [&](unsigned dim, unsigned loop) {
    return isLoop(at[dim], loop) ||
           (type.getDimSize(dim) == 1 && isConstantIntValue(at[dim], 0));
  };
  if (!place || !readKey(place.getLhs()) || (part.isRing && lead) ||
      !isOverSize<arith::RemUIOp>(at[places], place.getLhs(), size) ||
      !(part.isRing || readPages(at[0], place.getLhs(), size)) ||
      !isLoopOver(places - 1, lead) ||
      at.size() + 1 - places + lead != op.getNumLoops())
    return {};
  for (size_t dim = places + 1; dim < at.size(); ++dim)
    if (!isLoopOver(dim, dim + 1 - places + lead))
      return {};
  part.layer = getAsOpFoldResult(at[places - 2]);
  auto made = op.getDpsInitOperand(0)->get().getDefiningOp<tensor::EmptyOp>();
  Operation *layer = at[places - 2].getDefiningOp();
  if (!made || (layer && op->isProperAncestor(layer)))
    return {};
  part.count = made.getMixedSizes()[lead + 1];
  return part;
}

static CachePart gatheredPart(GenericOp op) {
  return op ? Gather(op).read() : CachePart();
}

/// Reads a slice [layer, 0, first, ...] [1, KVH, S, ...] of a cache.
static CachePart slicedPart(Value value, bool isWhole) {
  auto slice = cacheSlice(value, isWhole);
  if (!slice)
    return {};
  auto offsets = slice.getMixedOffsets();
  return {slice.getSource(),        nullptr,    nullptr,
          /*isRing=*/false,         offsets[0], offsets[2],
          slice.getMixedSizes()[2], nullptr};
}

/// The op that gathered the rows, if `value` is a slice of its result that
/// keeps all elements except in the last dimension.
static GenericOp gatheredRows(Value value) {
  auto slice = value.getDefiningOp<tensor::ExtractSliceOp>();
  auto op =
      slice ? elementwise(slice.getSource().getDefiningOp()) : GenericOp();
  auto made =
      op ? op.getDpsInitOperand(0)->get().getDefiningOp<tensor::EmptyOp>()
         : tensor::EmptyOp();
  if (!made || !slice.hasUnitStride())
    return nullptr;
  auto rows = [](SmallVector<OpFoldResult> sizes) {
    sizes.pop_back();
    return sizes;
  };
  bool isWhole =
      llvm::all_of(rows(slice.getMixedOffsets()),
                   [](OpFoldResult at) { return isConstantIntValue(at, 0); }) &&
      llvm::equal(rows(slice.getMixedSizes()), rows(made.getMixedSizes()),
                  isEqualConstantIntOrValue);
  return isWhole ? op : nullptr;
}

/// Reads an op that makes numbers (KVH, S, B, N) from slices of a cache,
/// element by element; if each token has its own pages, numbers (T, KVH, S, B,
/// N).
static CachePart widenedPart(GenericOp op) {
  if (!op || op.hasIndexSemantics() || !isF32(op.getResult(0)))
    return {};
  auto made = cast<RankedTensorType>(op.getResult(0).getType());
  unsigned places = op.getNumLoops() - 2; // before blocks and numbers
  if (places < 2 || places > 3 || made.isDynamicDim(places) ||
      made.isDynamicDim(places + 1))
    return {};
  CachePart part;
  for (OpOperand *input : op.getDpsInputOperands()) {
    CachePart now;
    if (GenericOp gathered = gatheredRows(input->get()))
      now = gatheredPart(gathered);
    else if (places == 2)
      now = slicedPart(input->get(), /*isWhole=*/false);
    auto dims = loops(op.getMatchingIndexingMap(input));
    bool isOrdered =
        dims.size() >= places && llvm::equal(ArrayRef(dims).take_front(places),
                                             llvm::seq<unsigned>(0, places));
    if (!now.cache || !isOrdered || bool(now.positions) != (places == 3) ||
        (part.cache && (now.cache != part.cache || !(now == part))))
      return {};
    part = now;
  }
  part.widened = op;
  return part;
}

CachePart cria::cachePart(Value value) {
  auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
  if (!collapse) {
    CachePart part = slicedPart(value, /*isWhole=*/true);
    return part.cache ? part : gatheredPart(elementwise(value.getDefiningOp()));
  }
  using Groups = SmallVector<ReassociationIndices>;
  Groups groups = collapse.getReassociationIndices();
  bool joinsLast = groups == Groups{{0}, {1}, {2, 3}} ||
                   groups == Groups{{0}, {1}, {2}, {3, 4}};
  return joinsLast ? widenedPart(elementwise(collapse.getSrc().getDefiningOp()))
                   : CachePart();
}
