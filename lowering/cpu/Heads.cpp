/// A product of each head with a matrix of its own, as products of matrices:
///
///   linalg.generic { y[t, h, n] += x[t, h, k] * w[h, n, k] }
///     =>  for h { linalg.generic ins(%x[:, h], %w[h]) outs(%y[:, h]) }
///
/// With one token, threads share the heads, and each product is on one thread.
/// With more, the heads are one after the other, and threads share the rows of
/// each product. The matrices may lie transposed, w[h, k, n]. One token reads
/// them as they lie; for more tokens, they are transposed first.
#include "lowering/cpu/Heads.h"

#include "lowering/kernel/LinalgBuilder.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;

using Dims = SmallVector<unsigned>;

static MemRefType type(Value memref) {
  return cast<MemRefType>(memref.getType());
}

/// Whether the op is a product of each head, of sizes that are known but for
/// the number of tokens. `transposed` says how the matrices lie.
static bool isProductOfHeads(linalg::GenericOp op, bool &transposed) {
  if (!op.hasPureBufferSemantics() || op.getNumLoops() != 4 || !isProduct(op) ||
      !mayReorder(op))
    return false;
  auto maps = llvm::map_to_vector(op.getIndexingMapsArray(), loops);
  transposed = maps[1] == Dims{1, 3, 2};
  return maps[0] == Dims{0, 1, 3} && maps[2] == Dims{0, 1, 2} &&
         (transposed || maps[1] == Dims{1, 2, 3}) &&
         type(op.getDpsInputs()[1]).hasStaticShape();
}

/// The part of a memref at index `head` of dimension `dim`, which it loses.
static Value ofHead(LinalgBuilder &b, Value memref, Value head, unsigned dim) {
  SmallVector<OpFoldResult> sizes =
                                memref::getMixedSizes(b, b.getLoc(), memref),
                            from(sizes.size(), b.getIndexAttr(0)),
                            steps(sizes.size(), b.getIndexAttr(1));
  from[dim] = head;
  sizes[dim] = b.getIndexAttr(1);
  SmallVector<int64_t> shape(type(memref).getShape());
  shape.erase(shape.begin() + dim);
  MemRefType part = memref::SubViewOp::inferRankReducedResultType(
      shape, type(memref), from, sizes, steps);
  return memref::SubViewOp::create(b, b.getLoc(), part, memref, from, sizes,
                                   steps);
}

/// Matrices (H, K, N) as (H, N, K), in memory of their own.
static Value transposedMatrices(LinalgBuilder &b, Value matrices) {
  ArrayRef<int64_t> shape = type(matrices).getShape();
  Value made =
      memref::AllocOp::create(b, b.getLoc(),
                              MemRefType::get({shape[0], shape[2], shape[1]},
                                              type(matrices).getElementType()));
  SmallVector<AffineMap> maps = {b.select(3, {0, 2, 1}),
                                 b.select(3, {0, 1, 2})};
  SmallVector<utils::IteratorType> parallel(3, utils::IteratorType::parallel);
  linalg::GenericOp::create(b, b.getLoc(), matrices, made, maps, parallel,
                            [](OpBuilder &nested, Location loc, ValueRange v) {
                              linalg::YieldOp::create(nested, loc, v[0]);
                            });
  return made;
}

/// The product of one head. If `begin` is given, it is added to that instead of
/// to what `y` has.
static void multiplyHead(LinalgBuilder &b, linalg::GenericOp op,
                         ArrayRef<Value> operands, bool transposed, Value begin,
                         Value head) {
  Value x = ofHead(b, operands[0], head, 1),
        w = ofHead(b, operands[1], head, 0),
        y = ofHead(b, operands[2], head, 1);
  if (begin)
    linalg::FillOp::create(b, b.getLoc(), begin, y);
  AffineMap rows = transposed ? b.select(3, {2, 1}) : b.select(3, {1, 2});
  SmallVector<AffineMap> maps = {b.select(3, {0, 2}), rows,
                                 b.select(3, {0, 1})};
  using utils::IteratorType;
  SmallVector<IteratorType> iterators = {
      IteratorType::parallel, IteratorType::parallel, IteratorType::reduction};
  auto made =
      linalg::GenericOp::create(b, b.getLoc(), TypeRange(), ValueRange{x, w},
                                ValueRange{y}, maps, iterators);
  IRMapping mapping;
  op.getRegion().cloneInto(&made.getRegion(), mapping);
}

static void separate(linalg::GenericOp op, bool transposed) {
  OpBuilder builder(op);
  LinalgBuilder b(op.getLoc(), builder);
  SmallVector<Value> operands(op->getOperands());
  Operation *fill = op->getPrevNode();
  Value begin = filledWith(fill);
  if (begin && cast<linalg::LinalgOp>(fill).getDpsInits()[0] == operands[2])
    fill->erase();
  else
    begin = {};
  Value heads = b.index(type(operands[1]).getDimSize(0));
  bool isOneToken = type(operands[0]).getDimSize(0) == 1;
  auto body = [&](Value head) {
    multiplyHead(b, op, operands, transposed, begin, head);
  };
  if (isOneToken) {
    auto loop = scf::ForallOp::create(
        b, b.getLoc(), ArrayRef<OpFoldResult>{getAsOpFoldResult(heads)},
        ValueRange(), std::nullopt);
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar(0));
  } else {
    if (transposed)
      operands[1] = transposedMatrices(b, operands[1]);
    transposed = false;
    auto loop =
        scf::ForOp::create(b, b.getLoc(), b.index(0), heads, b.index(1));
    b.setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }
  op.erase();
}

void cria::separateHeads(func::FuncOp function) {
  SmallVector<linalg::GenericOp> ops;
  function.walk([&](linalg::GenericOp op) { ops.push_back(op); });
  for (linalg::GenericOp op : ops)
    if (bool transposed = false; isProductOfHeads(op, transposed))
      separate(op, transposed);
}
