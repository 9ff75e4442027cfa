/// math.exp2 %x  =>  llvm.call_intrinsic "llvm.exp2"(%x)
///
/// Upstream's conversion to NVVM turns functions, also those of arith and of
/// LLVM's dialect, into calls of NVIDIA's libdevice, which is not at hand.
/// Calls of intrinsics it leaves alone.
#include "lowering/Passes.h"

#include "mlir/Conversion/ArithCommon/AttrToLLVMConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

namespace cria {
#define GEN_PASS_DEF_MATHTOINTRINSICS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

/// Of a function for which a GPU has instructions; else null.
static const char *intrinsicOf(Operation *op) {
  return TypeSwitch<Operation *, const char *>(op)
      .Case([](arith::MaxNumFOp) { return "llvm.maxnum"; })
      .Case([](arith::MinNumFOp) { return "llvm.minnum"; })
      .Case([](math::AbsFOp) { return "llvm.fabs"; })
      .Case([](math::CopySignOp) { return "llvm.copysign"; })
      .Case([](math::Exp2Op) { return "llvm.exp2"; })
      .Case([](math::FmaOp) { return "llvm.fma"; })
      .Case([](math::SqrtOp) { return "llvm.sqrt"; })
      .Default([](Operation *) { return nullptr; });
}

static bool isFunction(Operation *op) {
  return isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
         isa<arith::MaxNumFOp, arith::MinNumFOp, arith::RemFOp>(op);
}

static LogicalResult toIntrinsic(Operation *op) {
  const char *name = intrinsicOf(op);
  if (!name)
    return op->emitOpError("expected a function that has an instruction on a "
                           "GPU: math.absf, copysign, exp2, fma or sqrt, "
                           "arith.maxnumf or minnumf");
  OpBuilder b(op);
  auto flags = cast<arith::ArithFastMathInterface>(op).getFastMathFlagsAttr();
  auto call =
      LLVM::CallIntrinsicOp::create(b, op->getLoc(), op->getResult(0).getType(),
                                    b.getStringAttr(name), op->getOperands());
  call.setFastmathFlagsAttr(arith::convertArithFastMathAttrToLLVM(flags));
  op->replaceAllUsesWith(call);
  op->erase();
  return success();
}

namespace {
struct MathToIntrinsics : cria::impl::MathToIntrinsicsBase<MathToIntrinsics> {
  void runOnOperation() override {
    auto result = getOperation().walk([](Operation *op) {
      if (isFunction(op) && failed(toIntrinsic(op)))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
