#include "lowering/linalg/Pages.h"

#include "lowering/linalg/Blocks.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;

using Values = LinalgBuilder::Values;

bool PagedCache::isOfTokens() const {
  return pages && tensorType(pages).getRank() == 2;
}

static Value toIndex(LinalgBuilder &b, Value number) {
  return arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(), number);
}

static Value element(LinalgBuilder &b, Value tensor, ValueRange at) {
  return tensor::ExtractOp::create(b, b.getLoc(), tensor, at);
}

namespace {
/// The place of a position's row: a page, and a position in the page. A ring
/// has no page.
struct PagedRow {
  Value page, place;

  /// In front of a place's other coordinates: the page, and the layer.
  SmallVector<Value> with(Value layer) const {
    return page ? SmallVector<Value>{page, layer} : SmallVector<Value>{layer};
  }
};
} // namespace

/// The dimension of the cache's storage that is places.
static unsigned placesOf(const PagedCache &cache) {
  return cache.pages ? 3 : 2;
}

/// The place of a position of a token.
static PagedRow placeOf(LinalgBuilder &b, const PagedCache &cache, Value token,
                        Value position) {
  Value size = b.index(tensorType(cache.cache).getDimSize(placesOf(cache)));
  Value place = b.createOrFold<arith::RemUIOp>(b.getLoc(), position, size);
  if (!cache.pages)
    return {Value(), place};
  SmallVector<Value> at = {
      arith::DivUIOp::create(b, b.getLoc(), position, size)};
  if (cache.isOfTokens())
    at.insert(at.begin(), token);
  return {toIndex(b, element(b, cache.pages, at)), place};
}

/// The position of a token.
static Value positionOf(LinalgBuilder &b, const PagedCache &cache,
                        Value token) {
  if (cache.isOfTokens())
    return toIndex(b, element(b, cache.position, token));
  return b.createOrFold<arith::AddIOp>(b.getLoc(), cache.position, token);
}

/// Writes row `token` of `rows` (T, KVH, ...) to a place of the cache; in the
/// last dimension, from `first` on. Returns the cache.
static Value put(LinalgBuilder &b, const PagedCache &cache, Value rows,
                 Value token, PagedRow at, int64_t first) {
  SmallVector<OpFoldResult> sizes = b.sizes(rows);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0));
  offsets[0] = token;
  sizes[0] = b.getIndexAttr(1);
  Value row = b.slice(rows, offsets, sizes);
  // (1, KVH, ...)  =>  (1, 1, KVH, 1, ...), or (1, KVH, 1, ...) in a ring
  auto rank = static_cast<int64_t>(sizes.size());
  unsigned places = placesOf(cache);
  OpFoldResult one = b.getIndexAttr(1), zero = b.getIndexAttr(0);
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  SmallVector<int64_t> shape(tensorType(row).getShape());
  if (at.page) {
    groups = {{0, 1}, {2, 3}};
    sizes.insert(sizes.begin(), one);
    shape.insert(shape.begin(), 1);
  }
  for (int64_t dim = 2; dim < rank; ++dim)
    groups.push_back({dim + places - 1});
  sizes.insert(sizes.begin() + places, one);
  shape.insert(shape.begin() + places, 1);
  row = tensor::ExpandShapeOp::create(
      b, b.getLoc(), tensorType(row).clone(shape), row, groups);
  SmallVector<OpFoldResult> place = getAsOpFoldResult(at.with(cache.layer));
  place.append({zero, at.place});
  place.resize(sizes.size(), zero);
  place.back() = b.getIndexAttr(first);
  return b.insert(row, cache.cache, place, sizes);
}

Value cria::appendToPages(LinalgBuilder &b, Value rows, PagedCache cache) {
  SmallVector<StoredPart> parts = {{rows, 0}};
  // The numbers of a row, or blocks and their bytes.
  if (tensorType(cache.cache).getRank() == placesOf(cache) + 3)
    parts = storedParts(b, rows);
  Value tokens =
      getValueOrCreateConstantIndexOp(b, b.getLoc(), b.sizes(rows)[0]);
  auto loop = scf::ForOp::create(
      b, b.getLoc(), b.index(0), tokens, b.index(1), cache.cache,
      [&](OpBuilder &, Location, Value token, ValueRange carried) {
        PagedCache now = cache;
        now.cache = carried[0];
        PagedRow at = placeOf(b, now, token, positionOf(b, now, token));
        for (auto [part, first] : parts)
          now.cache = put(b, now, part, token, at, first);
        scf::YieldOp::create(b, b.getLoc(), now.cache);
      });
  return loop.getResult(0);
}

/// The loops are ((t,) h, s, ...).
Value cria::gatherPages(LinalgBuilder &b, PagedCache cache, OpFoldResult first,
                        OpFoldResult keys) {
  RankedTensorType type = tensorType(cache.cache);
  bool ofTokens = cache.isOfTokens();
  unsigned places = placesOf(cache);
  SmallVector<OpFoldResult> sizes = {
      b.getIndexAttr(type.getDimSize(places - 1)), keys};
  for (int64_t size : type.getShape().drop_front(places + 1))
    sizes.push_back(b.getIndexAttr(size));
  if (ofTokens)
    sizes.insert(sizes.begin(), b.sizes(cache.position)[0]);
  auto loops = static_cast<unsigned>(sizes.size());
  return b.generic(
      loops, {}, {b.empty(sizes, type.getElementType())},
      {b.getMultiDimIdentityMap(loops)}, [&](Values) -> SmallVector<Value> {
        SmallVector<Value> at;
        for (unsigned loop = 0; loop < loops; ++loop)
          at.push_back(linalg::IndexOp::create(b, b.getLoc(), loop));
        Value token = ofTokens ? at[0] : Value();
        auto rest = ArrayRef(at).drop_front(ofTokens ? 1 : 0);
        Value key = rest[1];
        if (!isConstantIntValue(first, 0))
          key = arith::AddIOp::create(
              b, b.getLoc(), key,
              getValueOrCreateConstantIndexOp(b, b.getLoc(), first));
        if (ofTokens)
          key = arith::MinUIOp::create(b, b.getLoc(), key,
                                       positionOf(b, cache, token));
        PagedRow place = placeOf(b, cache, token, key);
        SmallVector<Value> source = place.with(cache.layer);
        source.append({rest[0], place.place});
        llvm::append_range(source, rest.drop_front(2));
        return {element(b, cache.cache, source)};
      })[0];
}
