/// The experts in blocks that a token chose, one product after the other:
///
///   linalg.generic { load %w[%experts[t, s], n, block, byte]; ... }
///     =>  for t, s {
///           %e = load %experts[t, s]
///           linalg.generic ins(%codes[t], %scales[t], bytes of %w[%e])
///               outs(%y[t, s])
///         }
///
/// The inner products are products of one row with a matrix in blocks
/// (BlockProduct.h). With one token, threads share the rows of an expert. Where
/// only a call knows how many tokens there are, they share tokens and experts,
/// and the rows of several tokens are sorted by expert instead (Experts.cpp):
/// an expert's only row is multiplied in place (BlockDot.cpp), several rows
/// with rows of weights in lanes (BlockColumns.cpp), and many as panels
/// (BlockPanel.cpp).
#include "lowering/cpu/BlockProducts.h"
#include "lowering/kernel/LinalgBuilder.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace cria;

using utils::IteratorType;

/// Bytes [first, first + count) of each block of a matrix. If `count` is 1, the
/// result has no dimension for bytes.
static Value bytesOf(LinalgBuilder &b, Value matrix, int64_t first,
                     int64_t count) {
  auto type = cast<MemRefType>(matrix.getType());
  SmallVector<int64_t> sizes(type.getShape()), offsets = {0, 0, first},
                                               strides(3, 1);
  sizes.back() = count;
  ArrayRef<int64_t> shape = sizes;
  if (count == 1)
    shape = shape.drop_back();
  return memref::SubViewOp::create(
      b, b.getLoc(),
      memref::SubViewOp::inferRankReducedResultType(shape, type, offsets, sizes,
                                                    strides),
      matrix, offsets, sizes, strides);
}

/// The body of a product of one row with one expert: the arguments from the
/// third on are what the old body loaded.
static void addBody(OpBuilder &b, Location loc, Block *old,
                    const ChosenBlockProduct &product, ValueRange arguments) {
  IRMapping mapping;
  mapping.map(old->getArgument(1), arguments[0]);
  mapping.map(old->getArgument(2), arguments[1]);
  mapping.map(old->getArgument(3), arguments[5]);
  mapping.map(product.code, arguments[2]);
  mapping.map(product.low, arguments[3]);
  mapping.map(product.high, arguments[4]);
  for (Operation &op : *old) {
    if (auto index = dyn_cast<linalg::IndexOp>(op); index && index.getDim() > 1)
      mapping.map(
          index.getResult(),
          linalg::IndexOp::create(b, loc, index.getDim() - 1).getResult());
    else if (!llvm::is_contained(op.getOperands(), old->getArgument(0)) &&
             !isa<memref::LoadOp>(op))
      b.clone(op, mapping);
  }
}

/// The integers of the row of x at `at`: (1, B, 32), or (1, B, 2, 16).
static Value codesAt(LinalgBuilder &b, Value codes, ValueRange at,
                     bool halves) {
  Value row = viewAt(b, codes, at, /*hasRow=*/true);
  if (!halves)
    return row;
  SmallVector<int64_t> shape(cast<MemRefType>(row.getType()).getShape());
  shape.back() = 2;
  shape.push_back(BlockProduct::kNumbers / 2);
  return memref::ExpandShapeOp::create(
      b, b.getLoc(), shape, row,
      ArrayRef<ReassociationIndices>{{0}, {1}, {2, 3}});
}

/// The product of token `t` with the expert that it chose as `s`.
static linalg::GenericOp multiply(LinalgBuilder &b, Block *body,
                                  const ChosenBlockProduct &product, Value t,
                                  Value s) {
  bool halves = product.hasHalves();
  Value number =
      memref::LoadOp::create(b, b.getLoc(), product.chosen, ValueRange{t, s});
  Value expert =
      arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(), number);
  SmallVector<Value> row = {t};
  if (product.hasRows())
    row.push_back(s);
  int64_t bytes = BlockProduct::kNumbers / (halves ? 2 : 1);
  Value matrix = viewAt(b, product.weights, expert, false);
  SmallVector<Value> inputs = {
      codesAt(b, product.codes, row, halves),
      viewAt(b, product.scales, row, true),
      bytesOf(b, matrix, BlockProduct::kScaleBytes, bytes),
      bytesOf(b, matrix, 0, 1), bytesOf(b, matrix, 1, 1)};
  Value y = viewAt(b, product.out, {t, s}, true);
  unsigned dims = halves ? 5 : 4, byte = dims - 1;
  AffineMap maps[] = {halves ? b.select(dims, {0, 2, 3, byte})
                             : b.select(dims, {0, 2, byte}),
                      b.select(dims, {0, 2}),
                      b.select(dims, {1, 2, byte}),
                      b.select(dims, {1, 2}),
                      b.select(dims, {1, 2}),
                      b.select(dims, {0, 1})};
  SmallVector<IteratorType> iterators(dims, IteratorType::reduction);
  iterators[0] = iterators[1] = IteratorType::parallel;
  return linalg::GenericOp::create(
      b, b.getLoc(), inputs, ValueRange{y}, maps, iterators,
      [&](OpBuilder &nested, Location loc, ValueRange arguments) {
        addBody(nested, loc, body, product, arguments);
      });
}

SmallVector<ExpertBlocks> cria::separateExpertBlocks(func::FuncOp function) {
  SmallVector<ExpertBlocks> separated;
  SmallVector<linalg::GenericOp> ops;
  function.walk([&](linalg::GenericOp op) { ops.push_back(op); });
  for (linalg::GenericOp op : ops) {
    if (!op.hasPureBufferSemantics())
      continue;
    auto product = ChosenBlockProduct::match(op);
    if (!product)
      continue;
    LinalgBuilder b(op.getLoc(), op);
    auto type = cast<MemRefType>(product->chosen.getType());
    Value zero = b.index(0), one = b.index(1),
          chosen = b.index(type.getDimSize(1));
    if (type.getDimSize(0) == 1) {
      auto loop = scf::ForOp::create(b, b.getLoc(), zero, chosen, one);
      b.setInsertionPoint(loop.getBody()->getTerminator());
      multiply(b, op.getBlock(), *product, zero, loop.getInductionVar());
    } else {
      OpFoldResult tokens =
          memref::getMixedSize(b, b.getLoc(), product->chosen, 0);
      auto loop = scf::ForallOp::create(
          b, b.getLoc(),
          ArrayRef<OpFoldResult>{tokens, b.getIndexAttr(type.getDimSize(1))},
          ValueRange(), std::nullopt);
      b.setInsertionPoint(loop.getTerminator());
      auto row = multiply(b, op.getBlock(), *product, loop.getInductionVar(0),
                          loop.getInductionVar(1));
      separated.push_back({row,
                           product->chosen,
                           {product->codes, product->scales, product->weights,
                            product->out, product->bits}});
    }
    op.erase();
  }
  return separated;
}
