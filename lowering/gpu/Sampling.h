/// What the two kernels that draw an id share.
#pragma once

#include "lowering/gpu/Launch.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cstddef>

namespace cria::cuda {

/// Ids of a block of `sample_scores`, and its threads; scores are padded to
/// whole blocks.
inline constexpr int64_t kTile = 1024, kScoreThreads = 256;

/// Arithmetic that both kernels need.
class SamplingKernel {
public:
  SamplingKernel(Launch &launch, const Rows &scores, const Rows &best)
      : launch(launch), b(launch.b), scores(scores), best(best) {}

protected:
  mlir::Value i64(int64_t value) {
    return b.create<mlir::arith::ConstantIntOp>(b.getI64Type(), value);
  }
  mlir::Value sampling(size_t offset, mlir::Type type) {
    return launch.field(offsetof(CriaStepState, sampling) + offset, type);
  }
  mlir::Value unsignedLess(mlir::Value x, mlir::Value y) {
    return b.create<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::ult, x, y);
  }
  mlir::Value bitsOf(mlir::Value score) {
    return b.create<mlir::arith::BitcastOp>(b.getI32Type(), score);
  }
  /// Scores in the order of signed integers; its own inverse, but that -0 is 0.
  mlir::Value ordered(mlir::Value bits) {
    mlir::Value sign = b.create<mlir::arith::ShRSIOp>(bits, b.i32(31));
    return b.exclusiveOr(bits, b.both(sign, b.i32(INT32_MAX)));
  }
  mlir::Value orderOf(mlir::Value score) {
    return ordered(bitsOf(b.create<mlir::arith::AddFOp>(score, b.f32(0))));
  }
  /// The largest over the block of a value each thread has.
  mlir::Value blockMax(mlir::Value x, const Rows &scratch) {
    return b.blockReduce(
        x, scratch, [&](mlir::Value x, mlir::Value y) { return b.max(x, y); });
  }

  Launch &launch;
  KernelBuilder &b;
  Rows scores, best; // (padded ids) f32; (blocks) i64: order and ~id
};

/// Computes the scores, and the best of each kTile of them.
mlir::DictionaryAttr emitScores(Launch &launch, const Rows &scores,
                                const Rows &best, const Rows &logits,
                                const Rows &seen, int64_t vocab);

} // namespace cria::cuda
