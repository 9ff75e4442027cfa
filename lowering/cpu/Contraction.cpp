#include "lowering/cpu/Contraction.h"
#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace cria;

static MemRefType type(Value memref) {
  return cast<MemRefType>(memref.getType());
}

int64_t Contraction::m() const { return type(c).getDimSize(0); }
int64_t Contraction::n() const { return type(c).getShape().back(); }
int64_t Contraction::k() const {
  if (blocks)
    return blocks->blocks() * BlockProduct::kNumbers;
  return bOuter ? type(b).getDimSize(0) : type(b).getShape().back();
}
Type Contraction::aType() const { return type(a).getElementType(); }
Type Contraction::bType() const {
  if (!blocks)
    return type(b).getElementType();
  return blocks->rounds ? aType() : Float32Type::get(a.getContext());
}
bool Contraction::hasPairs(const VectorUnit &unit) const {
  return unit.dotBf16 && aType().isBF16() && bType().isBF16();
}

Contraction Contraction::of(const BlockProduct &blocks) {
  Contraction result;
  result.a = blocks.rows;
  result.b = blocks.weights;
  result.c = blocks.out;
  result.blocks = blocks;
  return result;
}

/// The row of a memref (M, K), or the row t * S + s of one (T, S, K) or (T, K).
static SmallVector<Value> placeOf(VectorBuilder &b, const Contraction &product,
                                  Value memref, Value row) {
  if (!product.experts)
    return {row};
  return product.experts->indices(b, row, type(memref).getRank() == 3);
}

Value Contraction::rowAt(VectorBuilder &b, Value place) const {
  return experts ? experts->rowAt(b, place) : place;
}

SmallVector<Value> Contraction::rowOfA(VectorBuilder &b, Value row) const {
  return placeOf(b, *this, a, row);
}

SmallVector<Value> Contraction::rowOfC(VectorBuilder &b, Value row) const {
  return placeOf(b, *this, c, row);
}

/// Whether an op is a product in parts: see Contraction::inParts.
static bool isProductOfParts(linalg::LinalgOp op) {
  if (!isa<linalg::GenericOp>(op) || op.getNumDpsInputs() != 2 ||
      op.getNumDpsInits() != 1 ||
      !llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) {
        return map.getNumResults() == 2 && map.isProjectedPermutation();
      }))
    return false;
  using namespace arith;
  using matchers::m_Val;
  auto high = [](Value x) { return m_Op<ExtFOp>(m_Op<TruncFOp>(m_Val(x))); };
  auto low = [&](Value x) {
    return m_Op<ExtFOp>(m_Op<TruncFOp>(m_Op<SubFOp>(m_Val(x), high(x))));
  };
  Block *payload = op.getBlock();
  Value a = payload->getArgument(0), b = payload->getArgument(1),
        sum = payload->getArgument(2);
  auto first = m_Op<AddFOp>(m_Val(sum), m_Op<MulFOp>(low(a), high(b)));
  auto second = m_Op<AddFOp>(first, m_Op<MulFOp>(high(a), high(b)));
  auto all = m_Op<AddFOp>(second, m_Op<MulFOp>(high(a), low(b)));
  return matchPattern(payload->getTerminator()->getOperand(0), all) &&
         llvm::all_of(payload->getOps<TruncFOp>(), [](TruncFOp rounded) {
           return rounded.getType().isBF16();
         });
}

std::optional<Contraction> Contraction::match(linalg::LinalgOp op,
                                              StringRef &reason) {
  using Dims = SmallVector<unsigned>;
  auto fail = [&](StringRef why) {
    reason = why;
    return std::nullopt;
  };
  // A contraction's maps are projected permutations.
  bool inParts = isProductOfParts(op);
  if (!op.hasPureBufferSemantics() ||
      !(inParts || linalg::isaContractionOpInterface(op)))
    return std::nullopt;
  auto maps = op.getIndexingMapsArray();
  if (op.getNumLoops() != 3)
    return fail("it is not a product of two matrices");
  if (loops(maps[2]) != Dims{0, 1})
    return fail("its result is not indexed by the two outer loops");
  Dims a = loops(maps[0]), b = loops(maps[1]);
  if (a == b) // No number is read twice: LLVM vectorizes the sums of rows.
    return std::nullopt;
  Contraction result;
  result.a = op.getDpsInputOperand(0)->get();
  result.b = op.getDpsInputOperand(1)->get();
  result.c = op.getDpsInitOperand(0)->get();
  result.inParts = inParts;
  result.aTransposed = a == Dims{2, 0};
  result.bOuter = b == Dims{2, 1};
  bool known = (result.aTransposed || a == Dims{0, 2}) &&
               (result.bOuter || b == Dims{1, 2}) &&
               !(result.aTransposed && !result.bOuter);
  if (!inParts && !isProduct(op))
    return fail("it does more than multiply and add floats");
  if (!mayReorder(op))
    return fail("its terms may not be added in another order");
  auto isStorage = [](Type t) { return t.isF32() || t.isF16() || t.isBF16(); };
  if (!known)
    return fail("no schedule accepts how its operands are transposed");
  bool types = type(result.c).getElementType().isF32() &&
               isStorage(result.aType()) && isStorage(result.bType());
  bool dynamic = ShapedType::isDynamic(result.n()) ||
                 ShapedType::isDynamic(result.k()) ||
                 (result.bOuter && ShapedType::isDynamic(result.m()));
  if (!types)
    return fail("it does not add products of f32, f16 or bf16 in f32");
  if (dynamic)
    return fail("a size other than the number of rows is dynamic");
  if (!result.m() || !result.n() || !result.k())
    return fail("a size is 0");
  // Rows are read and written as vectors, except the rows of a in outer
  // products.
  auto hasVectors = [](Value matrix) {
    return type(matrix).isLastDimUnitStride();
  };
  if (!hasVectors(result.b) || !hasVectors(result.c) ||
      !(result.bOuter || hasVectors(result.a)))
    return fail("the elements of a row are not adjacent in memory");
  return result;
}
