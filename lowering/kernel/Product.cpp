#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

bool cria::mayReorder(linalg::LinalgOp product) {
  if (!isa<linalg::GenericOp>(product))
    return true;
  Operation *yield = product.getBlock()->getTerminator();
  auto add = yield->getOperand(0).getDefiningOp<arith::AddFOp>();
  return add &&
         bitEnumContainsAll(add.getFastmath(), arith::FastMathFlags::reassoc);
}

SmallVector<unsigned> cria::loops(AffineMap map) {
  return llvm::map_to_vector(map.getResults(), [](AffineExpr expr) {
    return cast<AffineDimExpr>(expr).getPosition();
  });
}

bool cria::isProduct(linalg::LinalgOp op) {
  if (!linalg::isaContractionOpInterface(op))
    return false;
  Type sum = getElementTypeOrSelf(op.getDpsInits()[0].getType());
  return llvm::all_of(op.getBlock()->without_terminator(), [&](Operation &op) {
    return isa<arith::MulFOp, arith::AddFOp, arith::ExtFOp>(op) &&
           op.getResult(0).getType() == sum;
  });
}

bool cria::isLoop(Value value, unsigned loop) {
  auto index = value.getDefiningOp<linalg::IndexOp>();
  return index && index.getDim() == loop;
}

Value cria::filledWith(Operation *op) {
  if (auto fill = dyn_cast_or_null<linalg::FillOp>(op))
    return fill.getInputs()[0];
  auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
  if (!generic || generic.getNumDpsInits() != 1)
    return {};
  Value made = generic.getBlock()->getTerminator()->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(made);
  if (argument && argument.getOwner() == generic.getBlock())
    made = generic->getOperand(argument.getArgNumber());
  bool isScalar = !isa<ShapedType>(made.getType()) &&
                  (made.getParentBlock() != generic.getBlock() ||
                   matchPattern(made, m_Constant()));
  return isScalar ? made : Value();
}
