/// Builds linalg on tensors, with arithmetic in f32, for what lowers to linalg
/// and for schedules in linalg.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

namespace cria {

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Builds ops at one location.
class LinalgBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using mlir::ImplicitLocOpBuilder::ImplicitLocOpBuilder;
  using Values = llvm::ArrayRef<mlir::Value>;
  using Payload = llvm::function_ref<llvm::SmallVector<mlir::Value>(Values)>;

  mlir::Value index(int64_t value);
  mlir::Value f32(double value);

  /// The sizes of a tensor. Static sizes are constants.
  llvm::SmallVector<mlir::OpFoldResult> sizes(mlir::Value tensor);
  /// An uninitialized tensor.
  mlir::Value empty(llvm::ArrayRef<mlir::OpFoldResult> sizes, mlir::Type type);
  /// A tensor with one value in all elements, of f32 or another float type.
  mlir::Value filled(llvm::ArrayRef<mlir::OpFoldResult> sizes, double value,
                     mlir::Type type = {});

  /// A linalg.generic over `dims` loops. Each operand has a map. The payload
  /// gets the f32 values of all operands, outputs last, and returns one f32
  /// value for each output, which is rounded to the output's type. Loops that
  /// are in no output's map are reductions.
  llvm::SmallVector<mlir::Value> generic(unsigned dims, Values inputs,
                                         Values outputs,
                                         llvm::ArrayRef<mlir::AffineMap> maps,
                                         Payload payload);

  /// Elementwise over tensors of one shape into a new tensor of `type`.
  mlir::Value map(Values inputs, mlir::Type type, Payload payload);

  /// A map of `dims` loops that selects `results`.
  mlir::AffineMap select(unsigned dims, llvm::ArrayRef<unsigned> results);

  /// A tensor, and where a loop nest reads it.
  struct Operand {
    mlir::Value tensor;
    mlir::AffineMap map;
  };
  /// acc[accMap] += a * b, in f32. Loops that are not in `accMap` are summed
  /// over. The terms may be added in any order and with fused products.
  mlir::Value contract(Operand a, Operand b, mlir::AffineMap accMap,
                       mlir::Value acc);
  /// acc[m, n] += sum_k a[m, k] * b[n, k].
  mlir::Value contractTransposed(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// Flags that allow sums in any order, and fused products.
  mlir::arith::FastMathFlagsAttr sumFlags();

  /// source[offsets][sizes], without the unit dimensions that `type` lacks; of
  /// the last dimension, each `step`-th element.
  mlir::Value slice(mlir::Value source,
                    llvm::ArrayRef<mlir::OpFoldResult> offsets,
                    llvm::ArrayRef<mlir::OpFoldResult> sizes,
                    mlir::RankedTensorType type = {}, int64_t step = 1);
  /// dest with [offsets][sizes] replaced by `source`.
  mlir::Value insert(mlir::Value source, mlir::Value dest,
                     llvm::ArrayRef<mlir::OpFoldResult> offsets,
                     llvm::ArrayRef<mlir::OpFoldResult> sizes,
                     int64_t step = 1);

  /// Converts a scalar of any storage type to f32, and back.
  mlir::Value widen(mlir::Value scalar);
  mlir::Value round(mlir::Value scalar, mlir::Type type);

private:
  llvm::SmallVector<mlir::OpFoldResult>
  sizesOf(mlir::tensor::CollapseShapeOp collapse);
};

} // namespace cria
