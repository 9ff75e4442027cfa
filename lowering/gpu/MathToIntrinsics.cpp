/// math.exp2 %x                =>  llvm.call_intrinsic "llvm.exp2"(%x)
/// math.exp2 %x fastmath<afn>  =>
///                           llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%x)
///
/// The second form, for f32, is one instruction. Without ftz it would be four
/// instructions, which keep results below 2^-126.
///
/// In kernels with products by warpgroups, of f32:
///
///   arith.divf %x, %y  =>  llvm.call_intrinsic "llvm.nvvm.div.full"
///   math.sqrt %x       =>  llvm.call_intrinsic "llvm.nvvm.sqrt.approx.f"
///
/// The exact instructions call functions for rare operands. A compiler that
/// sees calls may run such products one after the other (C7509 of ptxas). The
/// results are at most 2 units in the last place away, and then become 16 bits.
///
/// Upstream's conversion to NVVM turns functions, also those of arith and of
/// LLVM's dialect, into calls of NVIDIA's libdevice, which is not available. It
/// does not change calls of intrinsics.
#include "lowering/Passes.h"

#include "mlir/Conversion/ArithCommon/AttrToLLVMConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

namespace cria {
#define GEN_PASS_DEF_MATHTOINTRINSICS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

namespace {
/// An intrinsic, and the constant that it takes after the operands, unless that
/// is negative.
struct Intrinsic {
  const char *name;
  int64_t last = -1;
  unsigned lastBits = 1;
};
} // namespace

/// The intrinsic of a function that a GPU computes with one or few
/// instructions; else null.
static std::optional<Intrinsic> intrinsicOf(Operation *op) {
  using Result = std::optional<Intrinsic>;
  // LLVM's classes of floats.
  auto classes = [](int64_t mask) {
    return Intrinsic{"llvm.is.fpclass", mask, 32};
  };
  return TypeSwitch<Operation *, Result>(op)
      .Case([](arith::MaxNumFOp) { return Intrinsic{"llvm.maxnum"}; })
      .Case([](arith::MinNumFOp) { return Intrinsic{"llvm.minnum"}; })
      .Case([](math::AbsFOp) { return Intrinsic{"llvm.fabs"}; })
      .Case([](math::AbsIOp) {
        return Intrinsic{"llvm.abs", 0};
      })
      .Case([](math::CeilOp) { return Intrinsic{"llvm.ceil"}; })
      .Case([](math::CopySignOp) { return Intrinsic{"llvm.copysign"}; })
      .Case([](math::CountLeadingZerosOp) {
        return Intrinsic{"llvm.ctlz", 0};
      })
      .Case([](math::CountTrailingZerosOp) {
        return Intrinsic{"llvm.cttz", 0};
      })
      .Case([](math::CtPopOp) { return Intrinsic{"llvm.ctpop"}; })
      .Case([](math::Exp2Op op) -> Result {
        bool fast =
            op.getType().isF32() &&
            bitEnumContainsAny(op.getFastmath(), arith::FastMathFlags::afn);
        return Intrinsic{fast ? "llvm.nvvm.ex2.approx.ftz" : "llvm.exp2"};
      })
      .Case([](math::FloorOp) { return Intrinsic{"llvm.floor"}; })
      .Case([](math::FmaOp) { return Intrinsic{"llvm.fma"}; })
      .Case([&](math::IsFiniteOp) { return classes(0x1f8); })
      .Case([&](math::IsInfOp) { return classes(0x204); })
      .Case([&](math::IsNaNOp) { return classes(0x003); })
      .Case([&](math::IsNormalOp) { return classes(0x108); })
      .Case([](math::RoundOp) { return Intrinsic{"llvm.round"}; })
      .Case([](math::RoundEvenOp) { return Intrinsic{"llvm.roundeven"}; })
      .Case([](math::SqrtOp) { return Intrinsic{"llvm.sqrt"}; })
      .Case([](math::TruncOp) { return Intrinsic{"llvm.trunc"}; })
      .Default([](Operation *) { return Result(); });
}

static bool isFunction(Operation *op) {
  return isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
         isa<arith::MaxNumFOp, arith::MinNumFOp, arith::RemFOp>(op);
}

/// The instruction of f32 without calls that is nearly exact; else null.
static const char *nearlyExact(Operation *op) {
  if (op->getNumResults() != 1 ||
      !getElementTypeOrSelf(op->getResult(0)).isF32())
    return nullptr;
  if (isa<arith::DivFOp>(op))
    return "llvm.nvvm.div.full";
  if (isa<math::SqrtOp>(op))
    return "llvm.nvvm.sqrt.approx.f";
  return nullptr;
}

/// Replaces an op by calls of an intrinsic that takes no vectors.
static void toScalars(Operation *op, const char *name) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  Type type = op->getResult(0).getType();
  auto call = [&](ValueRange operands) -> Value {
    return LLVM::CallIntrinsicOp::create(b, loc, b.getF32Type(),
                                         b.getStringAttr(name), operands)
        .getResult(0);
  };
  Value result;
  if (auto vector = dyn_cast<VectorType>(type)) {
    result = LLVM::PoisonOp::create(b, loc, type);
    for (int64_t i = 0; i < vector.getNumElements(); ++i) {
      SmallVector<Value> elements;
      for (Value operand : op->getOperands())
        elements.push_back(vector::ExtractOp::create(b, loc, operand, i));
      result = vector::InsertOp::create(b, loc, call(elements), result, i);
    }
  } else {
    result = call(op->getOperands());
  }
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
}

static LogicalResult toIntrinsic(Operation *op) {
  std::optional<Intrinsic> intrinsic = intrinsicOf(op);
  if (!intrinsic)
    return op->emitOpError(
        "expected a function that has an instruction on a GPU: of the math "
        "dialect one that rounds, tests or counts, or absf, absi, copysign, "
        "exp2, fma or sqrt, or arith.maxnumf or minnumf");
  OpBuilder b(op);
  SmallVector<Value> operands = op->getOperands();
  if (intrinsic->last >= 0)
    operands.push_back(LLVM::ConstantOp::create(
        b, op->getLoc(), b.getIntegerType(intrinsic->lastBits),
        intrinsic->last));
  auto call =
      LLVM::CallIntrinsicOp::create(b, op->getLoc(), op->getResult(0).getType(),
                                    b.getStringAttr(intrinsic->name), operands);
  if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op))
    call.setFastmathFlagsAttr(
        arith::convertArithFastMathAttrToLLVM(fast.getFastMathFlagsAttr()));
  op->replaceAllUsesWith(call);
  op->erase();
  return success();
}

namespace {
struct MathToIntrinsics : cria::impl::MathToIntrinsicsBase<MathToIntrinsics> {
  void runOnOperation() override {
    // Products by warpgroups are committed in groups.
    bool hasWgmma = getOperation()
                        .walk([](NVVM::WgmmaGroupSyncAlignedOp) {
                          return WalkResult::interrupt();
                        })
                        .wasInterrupted();
    auto result = getOperation().walk([&](Operation *op) {
      if (const char *name = hasWgmma ? nearlyExact(op) : nullptr)
        toScalars(op, name);
      else if (isFunction(op) && failed(toIntrinsic(op)))
        return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
