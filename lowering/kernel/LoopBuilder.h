/// Builds loops, branches and index arithmetic, for schedules of both targets.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cria {

class LoopBuilder : public mlir::ImplicitLocOpBuilder {
public:
  /// `overflow` says which integer overflows may be assumed not to happen.
  LoopBuilder(mlir::Location loc, const mlir::OpBuilder &builder,
              mlir::arith::IntegerOverflowFlags overflow = {})
      : ImplicitLocOpBuilder(loc, builder), overflow(overflow) {}

  // Arithmetic of integers of one type, unsigned where it matters. Constants
  // are folded.
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::Value ceilDiv(mlir::Value a, int64_t b);
  mlir::Value rem(mlir::Value a, int64_t b);
  // Signed.
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value equal(mlir::Value a, mlir::Value b);

  /// for i = first to end by step, carrying `init`.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value first, mlir::Value end, int64_t step, mlir::ValueRange init,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);
  void loop(mlir::Value first, mlir::Value end, int64_t step,
            llvm::function_ref<void(mlir::Value)> body);
  void when(mlir::Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = nullptr);

private:
  /// A number of the type of `like`.
  mlir::Value number(int64_t value, mlir::Value like);

  mlir::arith::IntegerOverflowFlags overflow;
};

} // namespace cria
