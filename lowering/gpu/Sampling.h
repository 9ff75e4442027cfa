/// What the two kernels that draw an id share.
#pragma once

#include "lowering/gpu/Launch.h"
#include "runtime/Abi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cstddef>

namespace cria::simt {

/// Ids of a block of `sample_scores`, and its threads; scores are padded to
/// whole blocks.
inline constexpr int64_t kTile = 1024, kScoreThreads = 256;

/// Memory that both kernels see, on the host: the entry's arguments and what is
/// between the kernels.
struct SamplingMemory {
  mlir::Value logits, seen, sampled, state;
  mlir::Value scores, best; // (padded ids) f32; (blocks) i64: order and ~id
  int64_t vocab, tiles;
};

/// Arithmetic that both kernels need.
class SamplingKernel {
protected:
  SamplingKernel(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                 llvm::StringRef name, int64_t threads,
                 const SamplingMemory &in)
      : host(host), launch(host, kernels, name, threads), b(launch.b), in(in),
        scores(rows(in.scores)), best(rows(in.best)) {}

  /// Memory as one row.
  Rows rows(mlir::Value memory) { return launch.rows(memory, 0); }
  mlir::Value i64(int64_t value) {
    return b.create<mlir::arith::ConstantIntOp>(b.getI64Type(), value);
  }
  mlir::Value sampling(size_t offset, mlir::Type type) {
    return b.loadField(launch.param(in.state),
                       offsetof(CriaStepState, sampling) + offset, type);
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

  mlir::ImplicitLocOpBuilder &host;
  KernelLaunch launch;
  KernelBuilder &b;
  const SamplingMemory &in;
  Rows scores, best;
};

/// Computes the scores, and the best of each kTile of them.
void emitScores(mlir::ImplicitLocOpBuilder &host, mlir::Block &kernels,
                const SamplingMemory &in);

} // namespace cria::simt
