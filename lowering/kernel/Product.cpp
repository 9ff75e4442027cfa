#include "lowering/kernel/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"

using namespace mlir;

bool cria::isProduct(linalg::LinalgOp op) {
  return linalg::isaContractionOpInterface(op) &&
         llvm::all_of(op.getBlock()->without_terminator(), [](Operation &op) {
           return isa<arith::MulFOp, arith::AddFOp, arith::ExtFOp>(op);
         });
}
