/// What a fused kernel computes, read off the ops in its region: an optional
/// norm, products of its rows with weights, and outputs, each an expression
/// over products and tensors from outside. A product may be normalized on the
/// way: then it is finished by a launch of its own, which sees whole rows.
#pragma once

#include "lowering/gpu/Launch.h"

#include "dialect/Dialect.h"

namespace cria::cuda {

/// One result of a kernel, or one append to a KV cache.
struct Output {
  /// (rows, columns): what is stored, before it is rotated.
  mlir::Value expression;
  /// If set, what is stored is rotated by this op.
  llama::RopeOp rope;
  /// If set, it is stored in this op's cache, else at the place of `result`.
  llama::KVAppendOp append;
  mlir::Value result;
  /// The linears and heads that the expression reads, in order; or, instead,
  /// the one norm of a linear that it reads.
  llvm::SmallVector<mlir::Operation *> products;

  int64_t columns() const { return rowSize(expression); }
  /// Columns that one unit of work computes: a pair of a rotated head, or one.
  int64_t unitColumns() const { return rope ? 2 : 1; }
  int64_t units() const { return columns() / unitColumns(); }
  /// Rows of weights, and sums, of a unit.
  int64_t unitSums() const {
    return unitColumns() * static_cast<int64_t>(products.size());
  }
  /// Column `index` of a unit.
  mlir::Value column(KernelBuilder &b, mlir::Value unit, int64_t index) const;
};

struct KernelSpec {
  explicit KernelSpec(mlir::Location loc) : loc(loc) {}

  mlir::Location loc;
  /// The norm that all products read, or, without products, the norm that is
  /// the kernel's result.
  mlir::Operation *norm = nullptr;
  /// The input of all products, null without products.
  mlir::Value input;
  llvm::SmallVector<Output> outputs;
  /// Outputs that read a norm of a matmul's result. The matmul is launched
  /// first and stores its result.
  llvm::SmallVector<Output> finished;

  /// Fails after an error on an op that no emitter supports.
  static mlir::FailureOr<KernelSpec> read(llama::KernelOp kernel);
};

/// Whether a reshape leaves the first dimension, which counts rows, as it is.
bool keepsRows(mlir::Operation *reshape);

/// A tensor as (rows, everything else): the source of the reshapes that only
/// split or join the rest.
mlir::Value flatten(mlir::Value tensor);

/// The weight of a linear or a head, and its bias, if any.
mlir::Value weightOf(mlir::Operation *product);
mlir::Value biasOf(mlir::Operation *product);

/// x, times the scale where it is not 1.
mlir::Value scaled(KernelBuilder &b, mlir::Value x, llvm::APFloat scale);

/// cap * tanh(x / cap), for x and the result in units of `unit`.
mlir::Value softcap(KernelBuilder &b, mlir::Value x, llvm::APFloat cap,
                    double unit = 1);

/// The value of `output` at (row, column) in f32. `sum` gives a product there,
/// without its bias.
mlir::Value evaluate(Launch &launch, mlir::Value tensor, mlir::Value row,
                     mlir::Value column,
                     llvm::function_ref<mlir::Value(mlir::Operation *)> sum);

/// Evaluates a unit of an output, rotates it and stores it. `sum` gives product
/// p at the unit's column c.
void storeUnit(Launch &launch, const Output &output, mlir::Value row,
               mlir::Value unit,
               llvm::function_ref<mlir::Value(int64_t c, int64_t p)> sum);

} // namespace cria::cuda
