#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"

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
  return linalg::isaContractionOpInterface(op) &&
         llvm::all_of(op.getBlock()->without_terminator(), [](Operation &op) {
           return isa<arith::MulFOp, arith::AddFOp, arith::ExtFOp>(op);
         });
}
