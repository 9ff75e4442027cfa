/// linalg.softmax  =>  its parts, if no schedule launches the kernel
#include "lowering/Passes.h"
#include "lowering/kernel/Launches.h"
#include "lowering/kernel/Softmax.h"

#include "mlir/IR/Remarks.h"

namespace cria {
#define GEN_PASS_DEF_DECOMPOSESOFTMAX
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
struct DecomposeSoftmax : cria::impl::DecomposeSoftmaxBase<DecomposeSoftmax> {
  void runOnOperation() override {
    SmallVector<linalg::SoftmaxOp> ops;
    getOperation().walk([&](linalg::SoftmaxOp op) { ops.push_back(op); });
    SymbolTable symbols(getOperation());
    for (linalg::SoftmaxOp op : ops) {
      auto function = op->getParentOfType<func::FuncOp>();
      if (!simt::launchesOf(symbols, function))
        remark::missed(op.getLoc(), remark::RemarkOpts::name("scores-stored")
                                        .category(getArgument())
                                        .function(function.getName()))
            << remark::metric("Op", op->getName().getStringRef().str())
            << remark::reason("no fast schedule takes it");
      if (failed(takeApart(op)))
        return signalPassFailure();
      op.erase();
    }
  }
};
} // namespace
