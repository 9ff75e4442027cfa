/// linalg.generic { mulf, addf }  =>  loops over vectors
///
/// Chooses a schedule for each product. The schedules are in Outer.cpp,
/// Dot.cpp, Panel.cpp and Amx.cpp, for products with blocks of integers in
/// BlockDot.cpp and BlockPanel.cpp, and for one row and blocks of floats in
/// WidenedDot.cpp. Products with the experts that tokens chose are made of the
/// same parts, in Experts.cpp; those with experts in blocks are separated into
/// products with one expert, in ExpertBlocks.cpp, and products of each head
/// into products of matrices, in Heads.cpp. Other products are left to
/// lower-linalg-to-loops, with a missed-optimization remark.
#include "dialect/Attributes.h"
#include "lowering/Passes.h"
#include "lowering/cpu/BlockProducts.h"
#include "lowering/cpu/Contraction.h"
#include "lowering/cpu/Heads.h"
#include "lowering/entry/Entry.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/AMX/AMXDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/X86Vector/X86VectorDialect.h"
#include "mlir/IR/Remarks.h"

namespace cria {
#define GEN_PASS_DEF_LOWERCONTRACTIONS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

/// Removes the fill with zero before `op`, if there is one. Returns whether
/// there was.
static bool takeZeroFill(linalg::LinalgOp op) {
  Value acc = op.getDpsInitOperand(0)->get();
  Operation *fill = op->getPrevNode();
  Value begin = filledWith(fill);
  if (!begin || cast<linalg::LinalgOp>(fill).getDpsInits()[0] != acc ||
      !matchPattern(begin, m_AnyZeroFloat()))
    return false;
  fill->erase();
  return true;
}

/// The memref that a memref is a view of.
static Value baseOf(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  return memref;
}

/// Whether an op from `first` on, before `last`, may write to the memory that
/// `memref` views.
static bool isWrittenBefore(Operation *first, Operation *last, Value memref) {
  for (Operation *op = first; op != last; op = op->getNextNode()) {
    auto effects = getEffectsRecursively(op);
    if (!effects || llvm::any_of(*effects, [&](auto &effect) {
          Value written = effect.getValue();
          return isa<MemoryEffects::Write>(effect.getEffect()) &&
                 (!written || baseOf(written) == baseOf(memref));
        }))
      return true;
  }
  return false;
}

/// The most rows for which an invariant product multiplies row by row.
static constexpr int64_t kFewRows = 64;

/// The most rows that are multiplied with weights in blocks in lanes: panels of
/// more rows take no longer. Of experts it is the average.
static constexpr int64_t kColumnRows = 32;

/// The most tokens of a call of `chunk` tokens whose rows, sorted by expert,
/// are multiplied where they are, and not packed: each of `count` experts has
/// then at most `rows` / 2 rows on average. Each token chooses `chosen`
/// experts.
static int64_t fewTokens(int64_t rows, int64_t count, int64_t chosen,
                         bool invariant, int64_t chunk) {
  if (invariant)
    return chunk <= kFewRows ? chunk : 0;
  return count * rows / 2 / chosen;
}

/// `rows` if there are at most `few` tokens of `chunk`, else none; and `rows`
/// if there are more.
static std::pair<ExpertRows, ExpertRows> byTokens(VectorBuilder &b,
                                                  const ExpertRows &rows,
                                                  Value tokens, int64_t few,
                                                  int64_t chunk) {
  if (few <= 0 || few >= chunk)
    return {rows, rows};
  return {rows.onlyIf(b, b.less(tokens, b.index(few + 1))),
          rows.onlyIf(b, b.less(b.index(few), tokens))};
}

/// Whether several rows are multiplied in tiles.
static bool takesTiles(const VectorUnit &unit, const Contraction &c) {
  return unit.amx && c.aType().isBF16() && c.bType().isBF16() && c.n() >= 32;
}

/// Whether two products with the same rows pack them in the same form, and in
/// the same calls.
static bool isPackedAlike(const VectorUnit &unit, const Contraction &x,
                          const Contraction &y) {
  bool tiles = takesTiles(unit, x);
  if (tiles != takesTiles(unit, y) || x.widensIntegers() != y.widensIntegers())
    return false;
  return tiles || (x.bType() == y.bType() && !x.blocks == !y.blocks);
}

namespace {
/// A product with rows of a matrix, and the first product that reads the same
/// rows: both share the packed rows.
struct Sharing {
  Contraction product;
  Operation *first;
  PackedRows packed = {}; // set for the first only
};

/// A product with blocks, and the first product of as many bits that reads the
/// same rows: both share the packed rows, whose sums depend on the bits.
struct Packing {
  BlockProduct product;
  Operation *first;
  std::optional<BlockPanels> packed = std::nullopt; // set for the first only
};

/// A product with experts, and the first product with as many matrices of the
/// same form that reads the same rows: both share the sorted, packed rows.
struct Sorting {
  ExpertProduct product;
  Operation *first;
  // Set for the first only: the rows that are multiplied in place, and those
  // that are packed.
  std::optional<ExpertRows> dots = std::nullopt, rows = std::nullopt;
  PackedRows packed = {};
};

struct LowerContractions
    : cria::impl::LowerContractionsBase<LowerContractions> {
  using LowerContractionsBase::LowerContractionsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    FailureOr<VectorUnit> unit = VectorUnit::of(function);
    if (failed(unit))
      return signalPassFailure();
    std::optional<int64_t> chunk = chunkOf(function);
    SmallVector<ExpertBlocks> experts = separateExpertBlocks(function);
    separateHeads(function);
    SmallVector<linalg::LinalgOp> ops;
    function.walk([&](linalg::LinalgOp op) {
      if (op.hasPureBufferSemantics())
        ops.push_back(op);
    });
    Packings packings = findPackings(ops, /*isBounded=*/chunk.has_value());
    Sortings sortings = findSortings(ops);
    Sharings sharings =
        findSharings(ops, *unit, /*isBounded=*/chunk.has_value());
    for (const ExpertBlocks &product : experts)
      if (chunk && packings.contains(product.row))
        lowerSorted(product, *chunk, *unit);
    for (linalg::LinalgOp op : ops) {
      OpBuilder builder(op);
      VectorBuilder b(op.getLoc(), builder, *unit);
      if (packings.contains(op)) {
        lower(b, op, chunk.value_or(0), packings);
        continue;
      }
      if (sortings.contains(op)) {
        lower(b, op, chunk.value_or(0), sortings);
        continue;
      }
      if (sharings.contains(op))
        lower(b, op, chunk.value_or(0), sharings);
    }
  }

private:
  /// Emits a remark that says why a contraction becomes loops of scalars.
  void missed(linalg::LinalgOp op, StringRef reason) {
    remark::missed(op.getLoc(), remark::RemarkOpts::name("scalar-loops")
                                    .category(getArgument())
                                    .function(getOperation().getName()))
        << remark::metric("Op", op->getName().getStringRef().str())
        << remark::reason("{0}", reason.str());
  }

  /// The first product that packs what `op` reads: one of `earlier` that has
  /// the same form, if nothing is written in between, or `op` itself.
  template <typename Shared, typename IsOfForm>
  static Operation *
  firstToPack(const llvm::MapVector<Operation *, Shared> &earlier,
              linalg::LinalgOp op, ArrayRef<Value> reads, IsOfForm isOfForm) {
    Operation *first = op;
    for (const auto &[other, shared] : earlier)
      if (isOfForm(shared.product) && other->getBlock() == op->getBlock() &&
          llvm::none_of(reads, [&, other = other](Value read) {
            return isWrittenBefore(other, op, read);
          }))
        first = shared.first;
    return first;
  }

  /// Whether a product that was matched has a schedule. If `reason` says why it
  /// has none, emits a remark.
  template <typename Product>
  bool isTaken(linalg::LinalgOp op, const std::optional<Product> &product,
               StringRef reason) {
    if (!reason.empty())
      missed(op, reason);
    return product && reason.empty();
  }

  using Sharings = llvm::MapVector<Operation *, Sharing>;

  /// The products without blocks or experts among `ops`, in order. `isBounded`:
  /// the number of rows has an upper bound, which packing needs.
  Sharings findSharings(ArrayRef<linalg::LinalgOp> ops, const VectorUnit &unit,
                        bool isBounded) {
    Sharings sharings;
    for (linalg::LinalgOp op : ops) {
      // Why an op is no product with blocks, findPackings has said.
      StringRef reason, ofBlocks;
      std::optional<Contraction> product = Contraction::match(op, reason);
      if (auto blocks = BlockProduct::match(op, ofBlocks);
          blocks && blocks->rows)
        product = Contraction::of(*blocks);
      if (product && ShapedType::isDynamic(product->m()) && !isBounded)
        reason = "its number of rows has no upper bound";
      if (product && product->widensIntegers() &&
          (!takesTiles(unit, *product) || op->getParentOfType<scf::ForallOp>()))
        reason = "only tiles of AMX multiply widened integers";
      if (product && product->inParts && !(unit.amx && fitsAmxOuter(*product)))
        reason = "only whole tiles of AMX multiply numbers in parts";
      if (!isTaken(op, product, reason))
        continue;
      Operation *first =
          firstToPack(sharings, op, product->a, [&](const Contraction &other) {
            return other.a == product->a &&
                   isPackedAlike(unit, other, *product);
          });
      sharings.insert({op, {*product, first}});
    }
    return sharings;
  }

  using Packings = llvm::MapVector<Operation *, Packing>;

  /// The products with blocks among `ops`, in order. `isBounded`: the number of
  /// rows has an upper bound.
  Packings findPackings(ArrayRef<linalg::LinalgOp> ops, bool isBounded) {
    Packings packings;
    for (linalg::LinalgOp op : ops) {
      StringRef reason;
      std::optional<BlockProduct> product = BlockProduct::match(op, reason);
      if (product && product->isDynamic() && !isBounded)
        reason = "its number of rows has no upper bound";
      if (product && product->count() != 1 &&
          op->getParentOfType<scf::ForallOp>())
        reason = "it is inside a parallel loop";
      if (!isTaken(op, product, reason) || product->rows)
        continue;
      Operation *first =
          firstToPack(packings, op, {product->codes, product->scales},
                      [&](const BlockProduct &other) {
                        return other.bits == product->bits &&
                               other.codes == product->codes &&
                               other.scales == product->scales;
                      });
      packings.insert({op, {*product, first}});
    }
    return packings;
  }

  void lower(VectorBuilder &b, linalg::LinalgOp op, int64_t chunk,
             Packings &packings) {
    const Packing &packing = packings.find(op)->second;
    const BlockProduct &product = packing.product;
    bool fromZero = takeZeroFill(op);
    bool invariant = getOperation()->hasAttr(kInvariantAttribute);
    if (product.count() == 1) {
      emitBlockDot(b, product, fromZero,
                   /*parallel=*/!op->getParentOfType<scf::ForallOp>());
    } else if (invariant && chunk <= kFewRows &&
               !takesBlockColumns(b.unit, product)) {
      emitFewBlockDots(b, product, fromZero, chunk);
    } else {
      lowerRows(b, product, fromZero,
                product.isDynamic() ? chunk : product.count(),
                packings.find(packing.first)->second.packed);
    }
    op.erase();
  }

  /// Multiplies up to `few` rows where they lie, and more rows, at most
  /// `maxRows`, in panels. Makes the panels if they are not `packed` yet.
  void lowerRows(VectorBuilder &b, const BlockProduct &product, bool fromZero,
                 int64_t maxRows, std::optional<BlockPanels> &packed) {
    Value rows = b.size(product.out, 0);
    bool columns = takesBlockColumns(b.unit, product);
    bool invariant = getOperation()->hasAttr(kInvariantAttribute);
    // Dot products add in another order than panels, so an invariant product
    // has none.
    int64_t few = columns ? std::min(maxRows, kColumnRows) : invariant ? 0 : 1;
    auto multiplyFew = [&] { // without rows no weights are read
      auto one = [&] { emitBlockDot(b, product, fromZero, /*parallel=*/true); };
      auto several = [&](int64_t minRows) {
        emitBlockColumns(b, product, fromZero, minRows, few);
      };
      if (columns && !invariant)
        return b.byRows(rows, one, [&] { several(2); });
      b.when(b.less(b.index(0), rows), [&] { columns ? several(1) : one(); });
    };
    if (few == maxRows)
      return multiplyFew();
    Value isFew = b.less(rows, b.index(few + 1));
    if (!packed)
      packed = packBlocks(b, product,
                          b.create<arith::SelectOp>(isFew, b.index(0), rows),
                          maxRows);
    auto multiplyMany = [&] { emitBlockPanel(b, product, *packed, fromZero); };
    if (few)
      b.when(isFew, multiplyFew, multiplyMany);
    else
      multiplyMany();
  }

  using Sortings = llvm::MapVector<Operation *, Sorting>;

  /// The products with experts among `ops`, in order.
  Sortings findSortings(ArrayRef<linalg::LinalgOp> ops) {
    Sortings sortings;
    for (linalg::LinalgOp op : ops) {
      StringRef reason;
      std::optional<ExpertProduct> product = ExpertProduct::match(op, reason);
      if (!isTaken(op, product, reason))
        continue;
      Operation *first = firstToPack(
          sortings, op, {product->experts, product->x},
          [&](const ExpertProduct &other) {
            return other.experts == product->experts && other.x == product->x &&
                   other.weight.getType() == product->weight.getType();
          });
      sortings.insert({op, {*product, first}});
    }
    return sortings;
  }

  /// Multiplies the rows of one token one by one, and the rows of more tokens
  /// sorted by expert. Where only a call knows how many tokens there are, all
  /// loops are emitted, and all but one get no tokens.
  void lower(VectorBuilder &b, linalg::LinalgOp op, int64_t chunk,
             Sortings &sortings) {
    const Sorting &sorting = sortings.find(op)->second;
    ExpertProduct product = sorting.product;
    product.fromZero = takeZeroFill(op);
    product.invariant = getOperation()->hasAttr(kInvariantAttribute);
    Value tokens = b.size(product.experts, 0), one = b.index(0);
    if (!chunk || !ShapedType::isDynamic(product.tokens())) {
      emitExpertDots(b, product, tokens);
    } else {
      if (!product.invariant || chunk <= kFewRows) {
        Value several = b.less(b.index(1), tokens);
        one = b.create<arith::SelectOp>(several, b.index(0), tokens);
        emitExpertDots(b, product, one);
      }
      lowerSorted(b, product, one, chunk, sortings.find(sorting.first)->second);
    }
    op.erase();
  }

  /// Multiplies the rows of all tokens from `begin` on, sorted by expert.
  void lowerSorted(VectorBuilder &b, const ExpertProduct &product, Value begin,
                   int64_t chunk, Sorting &first) {
    Contraction c;
    c.a = product.x;
    c.b = product.weight;
    c.c = product.y;
    c.fromZero = product.fromZero;
    c.invariant = product.invariant;
    bool tiles = takesTiles(b.unit, c);
    int64_t alignment = tiles ? 32 : b.unit.lanes;
    int64_t most = tiles ? llvm::alignTo(chunk, alignment)
                         : mostPanelRows(b.unit, c, chunk);
    // Tiles take no longer than dot products if many experts have a second row,
    // vectors of rows if half of their lanes are filled.
    int64_t few = fewTokens(tiles ? 1 : b.unit.lanes, product.count(),
                            product.chosen(), c.invariant, chunk);
    if (!first.rows) {
      ExpertRows all = sortRows(b, product.experts, product.count(), begin,
                                chunk, alignment, most);
      std::tie(first.dots, first.rows) =
          byTokens(b, all, b.size(product.experts, 0), few, chunk);
    }
    if (few) {
      c.experts = first.dots;
      emitSortedDots(b, c);
    }
    if (few >= chunk)
      return;
    c.experts = first.rows;
    if (first.packed.empty())
      first.packed = pack(b, c, most, first.rows->places);
    multiply(b, c, most, first.packed);
  }

  /// Leaves the rows of one token to the loop of products of one row, and adds
  /// products of the others, sorted by expert.
  void lowerSorted(ExpertBlocks product, int64_t chunk,
                   const VectorUnit &unit) {
    auto loop = product.row->getParentOfType<scf::ForallOp>();
    OpBuilder builder(loop);
    VectorBuilder b(product.row.getLoc(), builder, unit);
    bool invariant = getOperation()->hasAttr(kInvariantAttribute);
    int64_t count = product.all.type(product.all.weights).getDimSize(0);
    int64_t chosen = product.all.type(product.experts).getDimSize(1);
    // Without columns, vectors of rows take no longer than dot products if half
    // of their lanes are filled, or, with four bits, whose products need no
    // wider integers, a quarter.
    int64_t lanes = unit.lanes, most = llvm::alignTo(chunk, lanes);
    bool columns = takesBlockColumns(unit, product.all) && !unit.amxBytes &&
                   !(invariant && chunk <= kFewRows);
    int64_t full = unit.amxBytes           ? 1
                   : columns               ? 2 * kColumnRows
                   : product.all.bits == 4 ? lanes / 2
                                           : lanes;
    int64_t few = fewTokens(full, count, chosen, invariant && !columns, chunk);
    Value tokens = b.size(product.experts, 0), one = b.index(0);
    if (!invariant || (few && !columns))
      one = b.create<arith::SelectOp>(b.less(b.index(1), tokens), one, tokens);
    loop.getDynamicUpperBoundMutable().assign(one);
    b.setInsertionPointAfter(loop);
    ExpertRows rows =
        sortRows(b, product.experts, count, one, chunk, lanes, most);
    auto [unpacked, panels] = byTokens(b, rows, tokens, few, chunk);
    if (few && columns)
      emitSortedBlockColumns(b, product.all, unpacked,
                             /*minRows=*/invariant ? 1 : 2, most);
    if (few && !(columns && invariant))
      emitSortedBlockDots(b, product.all, unpacked, std::min(few, chunk),
                          columns);
    if (few >= chunk)
      return;
    BlockPanels packed =
        packBlocks(b, product.all, panels.places, chunk, &panels);
    emitBlockPanel(b, product.all, packed, /*fromZero=*/false, &panels);
  }

  void lower(VectorBuilder &b, linalg::LinalgOp op, int64_t chunk,
             Sharings &sharings) {
    const Sharing &sharing = sharings.find(op)->second;
    Contraction c = sharing.product;
    bool isDynamic = ShapedType::isDynamic(c.m());
    c.fromZero = takeZeroFill(op);
    c.invariant = getOperation()->hasAttr(kInvariantAttribute) && isDynamic;
    int64_t maxRows = isDynamic ? chunk : c.m();
    bool parallel = !op->getParentOfType<scf::ForallOp>();
    if ((c.bOuter || c.inParts) && b.unit.amx && fitsAmxOuter(c))
      emitAmxOuter(b, c);
    else if (c.bOuter)
      emitOuter(b, c);
    else if (c.m() == 1 && !c.widensIntegers())
      emitRow(b, c, parallel);
    else if (!parallel)
      emitDots(b, c, parallel);
    else if (c.invariant && maxRows <= kFewRows && !c.widensIntegers())
      emitFewDots(b, c);
    else
      lowerRows(b, c, maxRows, sharings.find(sharing.first)->second.packed);
    op.erase();
  }

  static void emitRow(VectorBuilder &b, const Contraction &c, bool parallel) {
    c.blocks ? emitWidenedDot(b, c, parallel) : emitDot(b, c, parallel);
  }

  /// Multiplies several rows in tiles or panels. Makes these if they are not
  /// `packed` yet.
  void lowerRows(VectorBuilder &b, const Contraction &c, int64_t maxRows,
                 PackedRows &packed) {
    Value rows = b.size(c.a, 0), several = rows;
    bool all = c.invariant || c.widensIntegers();
    if (!all)
      several =
          b.create<arith::SelectOp>(b.less(b.index(1), rows), rows, b.index(0));
    if (packed.empty())
      packed = pack(b, c, maxRows, several);
    auto many = [&] { multiply(b, c, maxRows, packed); };
    if (all && c.blocks) // without rows no weights are widened
      return b.when(b.less(b.index(0), rows), many);
    if (all)
      return many();
    // The head of a prompt usually has one row or none.
    b.byRows(
        rows, [&] { emitRow(b, c, /*parallel=*/true); }, many);
  }

  static PackedRows pack(VectorBuilder &b, const Contraction &c,
                         int64_t maxRows, Value rows) {
    return takesTiles(b.unit, c) ? packTiles(b, c, maxRows, rows)
                                 : packPanels(b, c, maxRows, rows);
  }

  static void multiply(VectorBuilder &b, const Contraction &c, int64_t maxRows,
                       const PackedRows &packed) {
    if (takesTiles(b.unit, c))
      emitTiles(b, c, maxRows, packed);
    else
      emitPanel(b, c, maxRows, packed);
  }
};
} // namespace
