/// The experts that a token chose, one product after the other:
///
///   linalg.generic { load %w[%experts[t, s], n, k]; mulf; addf }
///     =>  for t, s {
///           %e = load %experts[t, s]
///           linalg.generic { mulf; addf } ins(%x[t], %w[%e]) outs(%y[t, s])
///         }
///
/// The inner products are then lowered as products of one row are. With one
/// token, threads share the rows of an expert; with several, they share tokens
/// and experts.
#include "lowering/cpu/Contraction.h"
#include "lowering/kernel/LinalgBuilder.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;

namespace {
/// y[t, s, n] += sum_k x[t(, s), k] * weight[experts[t, s], n, k].
struct ExpertProduct {
  Value experts, x, weight, y;

  static std::optional<ExpertProduct> match(linalg::GenericOp op);
};
} // namespace

/// The value that is widened, or the value itself.
static Value unwidened(Value value) {
  auto wide = value.getDefiningOp<arith::ExtFOp>();
  return wide ? wide.getIn() : value;
}

/// Whether `value` is the number of loop `dim`.
static bool isIndex(Value value, uint64_t dim) {
  auto index = value.getDefiningOp<linalg::IndexOp>();
  return index && index.getDim() == dim;
}

std::optional<ExpertProduct> ExpertProduct::match(linalg::GenericOp op) {
  using Dims = SmallVector<unsigned>;
  if (!op.hasPureBufferSemantics() || op.getNumLoops() != 4 ||
      op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 ||
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
      !isIndex(load.getIndices()[1], 2) || !isIndex(load.getIndices()[2], 3))
    return std::nullopt;
  return ExpertProduct{op.getDpsInputs()[0], op.getDpsInputs()[1],
                       load.getMemRef(), op.getDpsInits()[0]};
}

/// source[at..., :] as a matrix: of one row, or of all rows of an expert.
static Value rowsAt(LinalgBuilder &b, Value source, ArrayRef<Value> at) {
  auto type = cast<MemRefType>(source.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), b.getIndexAttr(0)),
      sizes(type.getRank(), b.getIndexAttr(1)),
      strides(type.getRank(), b.getIndexAttr(1));
  for (auto [offset, index] : llvm::zip(offsets, at))
    offset = index;
  SmallVector<int64_t> shape(2, 1);
  for (size_t i = at.size(); i < offsets.size(); ++i) {
    shape[i + 2 - offsets.size()] = type.getDimSize(i);
    sizes[i] = b.getIndexAttr(type.getDimSize(i));
  }
  MemRefType reduced = memref::SubViewOp::inferRankReducedResultType(
      shape, type, offsets, sizes, strides);
  return memref::SubViewOp::create(b, b.getLoc(), reduced, source, offsets,
                                   sizes, strides);
}

/// The product of token `t` with the expert that it chose as `s`.
static void multiply(LinalgBuilder &b, const ExpertProduct &product, Value t,
                     Value s) {
  Value number =
      memref::LoadOp::create(b, b.getLoc(), product.experts, ValueRange{t, s});
  Value expert =
      arith::IndexCastOp::create(b, b.getLoc(), b.getIndexType(), number);
  bool isOfExperts = cast<MemRefType>(product.x.getType()).getRank() == 3;
  SmallVector<Value> row = {t};
  if (isOfExperts)
    row.push_back(s);
  Value x = rowsAt(b, product.x, row), w = rowsAt(b, product.weight, expert),
        y = rowsAt(b, product.y, {t, s});
  AffineMap maps[] = {b.select(3, {0, 2}), b.select(3, {1, 2}),
                      b.select(3, {0, 1})};
  using utils::IteratorType;
  linalg::GenericOp::create(
      b, b.getLoc(), ValueRange{x, w}, ValueRange{y}, maps,
      {IteratorType::parallel, IteratorType::parallel, IteratorType::reduction},
      [](OpBuilder &nested, Location loc, ValueRange v) {
        LinalgBuilder body(loc, nested);
        Value term = arith::MulFOp::create(body, loc, body.widen(v[0]),
                                           body.widen(v[1]), body.sumFlags());
        Value sum =
            arith::AddFOp::create(body, loc, v[2], term, body.sumFlags());
        linalg::YieldOp::create(body, loc, sum);
      });
}

void cria::separateExperts(func::FuncOp function) {
  SmallVector<linalg::GenericOp> ops;
  function.walk([&](linalg::GenericOp op) { ops.push_back(op); });
  for (linalg::GenericOp op : ops) {
    std::optional<ExpertProduct> product = ExpertProduct::match(op);
    if (!product)
      continue;
    LinalgBuilder b(op.getLoc(), op);
    auto type = cast<MemRefType>(product->experts.getType());
    Value zero = b.index(0), one = b.index(1),
          chosen = b.index(type.getDimSize(1));
    if (type.getDimSize(0) == 1) {
      auto loop = scf::ForOp::create(b, b.getLoc(), zero, chosen, one);
      b.setInsertionPoint(loop.getBody()->getTerminator());
      multiply(b, *product, zero, loop.getInductionVar());
    } else {
      OpFoldResult tokens =
          memref::getMixedSize(b, b.getLoc(), product->experts, 0);
      auto loop = scf::ForallOp::create(
          b, b.getLoc(),
          ArrayRef<OpFoldResult>{tokens, b.getIndexAttr(type.getDimSize(1))},
          ValueRange(), std::nullopt);
      b.setInsertionPoint(loop.getTerminator());
      multiply(b, *product, loop.getInductionVar(0), loop.getInductionVar(1));
    }
    op.erase();
  }
}
