/// Products with the experts that tokens chose:
///
///   y[t, s, n] += sum_k x[t(, s), k] * weight[experts[t, s], n, k]
///
/// Of one token, each row (t, s) is multiplied alone. If a CPU reads fastest
/// from several far rows of weights, these are rows of several experts:
///
///   for t, n, in parallel: row n of all experts of t
///
/// Of several tokens, rows (t, s) are sorted by expert:
///
///   for t, s: count[experts[t, s]] += 1
///   for e:    next[e] = count[0] + ... + count[e - 1]
///   for t, s: order[next[experts[t, s]]++] = t * S + s
///
/// The rows of an expert are then a product with one matrix, and weights are
/// read once for all tokens. If experts have few rows, Dot.cpp reads the rows
/// where they are. If they have more, Panel.cpp and Amx.cpp pack the rows in
/// this order, and store results back where the rows are from. A vector or a
/// tile holds several rows, and these must be of one expert. So the places of
/// an expert begin at a multiple of their number.
#include "lowering/cpu/Contraction.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <numeric>

using namespace mlir;
using namespace cria;

static MemRefType type(Value memref) {
  return cast<MemRefType>(memref.getType());
}

int64_t ExpertProduct::tokens() const { return type(experts).getDimSize(0); }
int64_t ExpertProduct::chosen() const { return type(experts).getDimSize(1); }
int64_t ExpertProduct::count() const { return type(weight).getDimSize(0); }

/// The value that is widened, or the value itself.
static Value unwidened(Value value) {
  auto wide = value.getDefiningOp<arith::ExtFOp>();
  return wide ? wide.getIn() : value;
}

std::optional<ExpertProduct> ExpertProduct::match(linalg::LinalgOp op,
                                                  StringRef &reason) {
  using Dims = SmallVector<unsigned>;
  if (!isa<linalg::GenericOp>(op) || !op.hasPureBufferSemantics() ||
      op.getNumLoops() != 4 || op.getNumDpsInputs() != 2 ||
      op.getNumDpsInits() != 1 ||
      !llvm::all_of(op.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isProjectedPermutation(); }))
    return std::nullopt;
  auto maps = llvm::map_to_vector(op.getIndexingMapsArray(), loops);
  if (maps[0] != Dims{0, 1} ||
      (maps[1] != Dims{0, 3} && maps[1] != Dims{0, 1, 3}) ||
      maps[2] != Dims{0, 1, 2} || !mayReorder(op))
    return std::nullopt;
  Block &block = *op.getBlock();
  auto add =
      block.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  auto product = add.getRhs().getDefiningOp<arith::MulFOp>();
  auto load = product
                  ? unwidened(product.getRhs()).getDefiningOp<memref::LoadOp>()
                  : memref::LoadOp();
  if (add.getLhs() != block.getArgument(2) || !load || !add.getType().isF32() ||
      load.getIndices().size() != 3 ||
      unwidened(product.getLhs()) != block.getArgument(1))
    return std::nullopt;
  auto expert = load.getIndices()[0].getDefiningOp<arith::IndexCastOp>();
  if (!expert || expert.getIn() != block.getArgument(0) ||
      !isLoop(load.getIndices()[1], 2) || !isLoop(load.getIndices()[2], 3))
    return std::nullopt;
  ExpertProduct result{op.getDpsInputs()[0], op.getDpsInputs()[1],
                       load.getMemRef(), op.getDpsInits()[0]};
  auto isStorage = [](Value matrix) {
    Type element = type(matrix).getElementType();
    return element.isF32() || element.isF16() || element.isBF16();
  };
  if (!isStorage(result.x) || !isStorage(result.weight)) {
    reason = "it does not add products of f32, f16 or bf16 in f32";
    return std::nullopt;
  }
  if (!type(result.weight).hasStaticShape() ||
      ShapedType::isDynamic(result.chosen())) {
    reason = "a size other than the number of rows is dynamic";
    return std::nullopt;
  }
  if (llvm::is_contained(type(result.weight).getShape(), 0)) {
    reason = "a size is 0";
    return std::nullopt;
  }
  if (!result.chosen()) {
    reason = "tokens choose no expert";
    return std::nullopt;
  }
  if (!llvm::all_of(
          ArrayRef{result.x, result.weight, result.y},
          [](Value matrix) { return type(matrix).isLastDimUnitStride(); })) {
    reason = "the elements of a row are not adjacent in memory";
    return std::nullopt;
  }
  return result;
}

Value cria::viewAt(ImplicitLocOpBuilder &b, Value source, ValueRange at,
                   bool hasRow) {
  MemRefType type = ::type(source);
  SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0)),
      sizes(type.getRank(), b.getIndexAttr(1)),
      strides(type.getRank(), b.getIndexAttr(1));
  SmallVector<int64_t> shape(hasRow, 1);
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (i < static_cast<int64_t>(at.size())) {
      offsets[i] = at[i];
      continue;
    }
    shape.push_back(type.getDimSize(i));
    sizes[i] = b.getIndexAttr(type.getDimSize(i));
  }
  MemRefType reduced = memref::SubViewOp::inferRankReducedResultType(
      shape, type, offsets, sizes, strides);
  return b.create<memref::SubViewOp>(reduced, source, offsets, sizes, strides);
}

/// The number in a table of i32, as an index.
static Value numberAt(VectorBuilder &b, Value table, ValueRange at) {
  return b.create<arith::IndexCastOp>(b.getIndexType(),
                                      b.create<memref::LoadOp>(table, at));
}

static void setNumber(VectorBuilder &b, Value number, Value table,
                      ValueRange at) {
  b.create<memref::StoreOp>(
      b.create<arith::IndexCastOp>(b.getI32Type(), number), table, at);
}

int64_t ExpertRows::maxPlaces() const { return type(order).getDimSize(0); }

ExpertRows ExpertRows::onlyIf(VectorBuilder &b, Value condition) const {
  ExpertRows result(*this);
  for (Value *number : {&result.places, &result.count})
    *number = b.create<arith::SelectOp>(condition, *number, b.index(0));
  return result;
}

Value ExpertRows::rowAt(VectorBuilder &b, Value place) const {
  return numberAt(b, order, place);
}

SmallVector<Value> ExpertRows::indices(VectorBuilder &b, Value row,
                                       bool ofExperts) const {
  SmallVector<Value> at = {b.div(row, chosen)};
  if (ofExperts)
    at.push_back(b.rem(row, chosen));
  return at;
}

ExpertPart::ExpertPart(VectorBuilder &b, const ExpertRows &rows, Value matrices,
                       Value number) {
  auto get = [&](int64_t i) {
    return numberAt(b, rows.parts, {number, b.index(i)});
  };
  matrix = viewAt(b, matrices, get(0), /*hasRow=*/false);
  begin = get(1);
  end = get(2);
}

void cria::emitExpertDots(VectorBuilder &b, const ExpertProduct &product,
                          Value tokens) {
  // `together` experts of a token, and `rows` of each, are read together. An
  // invariant product has one set of accumulators, so it needs several rows.
  int64_t most = columnsOfDot(b.unit, type(product.weight).getElementType());
  int64_t all = product.invariant ? std::max<int64_t>(most, 4) : most;
  int64_t together = std::gcd(all, product.chosen()), rows = all / together;
  int64_t columns = type(product.y).getDimSize(2), blocks = columns / rows;
  bool isOfExperts = type(product.x).getRank() == 3;
  // The products of a token with `count` experts, from s on.
  auto productsOf = [&](Value t, Value s, int64_t count) {
    SmallVector<Contraction> products(count);
    for (auto [i, each] : llvm::enumerate(products)) {
      Value slot = b.add(s, static_cast<int64_t>(i));
      SmallVector<Value> place = {t, slot};
      each.a = !isOfExperts && i
                   ? products[0].a
                   : viewAt(b, product.x,
                            ArrayRef(place).take_front(1 + isOfExperts),
                            /*hasRow=*/true);
      each.b = viewAt(b, product.weight, numberAt(b, product.experts, place),
                      /*hasRow=*/false);
      each.c = viewAt(b, product.y, place, /*hasRow=*/true);
      each.fromZero = product.fromZero;
      each.invariant = product.invariant;
    }
    return products;
  };
  auto forRows = [&](int64_t experts, int64_t blocks, auto body) {
    int64_t groups = product.chosen() / experts;
    int64_t units = llvm::divideCeil(blocks, kExpertBlocks);
    b.parallel(b.mul(tokens, groups * units), [&](Value i) {
      Value of = b.div(i, units), first = b.mul(b.rem(i, units), kExpertBlocks);
      Value t = b.div(of, groups), s = b.mul(b.rem(of, groups), experts);
      auto products = productsOf(t, s, experts);
      Value end = b.min(b.add(first, kExpertBlocks), b.index(blocks));
      b.loop(first, end, 1, [&](Value n) { body(products, n); });
    });
  };
  if (blocks)
    forRows(together, blocks, [&](ArrayRef<Contraction> products, Value n) {
      SmallVector<Column> tile;
      for (const Contraction &each : products)
        for (int64_t row = 0; row < rows; ++row)
          tile.push_back({&each, b.add(n, row * blocks)});
      emitDotTile(b, tile);
    });
  if (int64_t left = columns - blocks * rows)
    forRows(1, left, [&](ArrayRef<Contraction> products, Value n) {
      emitDotTile(b, Column{&products[0], b.add(n, blocks * rows)});
    });
}

ExpertRows cria::sortRows(VectorBuilder &b, Value experts, int64_t count,
                          Value first, int64_t maxTokens, int64_t alignment,
                          int64_t mostRows) {
  int64_t chosen = type(experts).getDimSize(1);
  int64_t maxRows = maxTokens * chosen, used = std::min(count, maxRows);
  auto table = [&](ArrayRef<int64_t> shape) -> Value {
    return b.create<memref::AllocOp>(MemRefType::get(shape, b.getI32Type()),
                                     b.getI64IntegerAttr(64));
  };
  Value zero = b.index(0), end = b.index(count);
  Value next = table({count}); // first the number of rows, then a place
  ExpertRows sorted;
  sorted.chosen = chosen;
  int64_t units = llvm::divideCeil(maxRows + used * (alignment - 1), alignment);
  sorted.order = table({units * alignment});
  sorted.parts = table({used + maxRows / mostRows, 3});
  auto forRows = [&](auto body) {
    b.loop(first, b.size(experts, 0), 1, [&](Value t) {
      b.loop(zero, b.index(chosen), 1, [&](Value s) {
        Value expert = numberAt(b, experts, {t, s});
        Value number = numberAt(b, next, expert);
        setNumber(b, b.add(number, 1), next, expert);
        body(number, b.add(b.mul(t, chosen), s));
      });
    });
  };
  b.loop(zero, end, 1, [&](Value e) { setNumber(b, zero, next, e); });
  forRows([](Value, Value) {});
  SmallVector<Value> ends =
      b.loop(zero, end, 1, {zero, zero}, [&](Value e, ValueRange carried) {
        Value begin = carried[0], rows = numberAt(b, next, e);
        setNumber(b, begin, next, e);
        SmallVector<Value> part = b.loop(
            zero, rows, mostRows, carried[1], [&](Value done, ValueRange part) {
              Value last = b.min(b.add(done, mostRows), rows);
              Value numbers[] = {e, b.add(begin, done), b.add(begin, last)};
              for (auto [i, number] : llvm::enumerate(numbers))
                setNumber(b, number, sorted.parts, {part[0], b.index(i)});
              return SmallVector<Value>{b.add(part[0], 1)};
            });
        Value stop = b.add(begin, rows);
        Value after = b.mul(b.ceilDiv(stop, alignment), alignment);
        b.loop(stop, after, 1, [&](Value place) {
          setNumber(b, b.index(-1), sorted.order, place);
        });
        return SmallVector<Value>{after, part[0]};
      });
  forRows(
      [&](Value place, Value row) { setNumber(b, row, sorted.order, place); });
  sorted.places = ends[0];
  sorted.count = ends[1];
  return sorted;
}
