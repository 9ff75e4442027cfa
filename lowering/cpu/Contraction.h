/// Products of matrices on memrefs, in vectors: the schedules that the pass
/// lower-contractions chooses from. Each is one file.
#pragma once

#include "lowering/cpu/VectorUnit.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cria {

/// c[m, n] += sum_k a[m, k] * b[n, k], or with b[k, n], or with a[k, m].
struct Contraction {
  mlir::Value a, b, c;
  /// a is (k, m).
  bool aTransposed = false;
  /// b is (k, n), n innermost; else (n, k).
  bool bOuter = false;
  /// c holds zeros before, and need not be read.
  bool fromZero = false;

  /// The contraction a linalg op on memrefs is, if it is one of these.
  static std::optional<Contraction> match(mlir::linalg::LinalgOp op);

  /// Extents, dynamic or not.
  int64_t m() const;
  int64_t n() const;
  int64_t k() const;
  mlir::Type aType() const;
  mlir::Type bType() const;
};

/// Builds vector code at one location.
class VectorBuilder : public mlir::ImplicitLocOpBuilder {
public:
  VectorBuilder(mlir::Location loc, mlir::OpBuilder &builder,
                const VectorUnit &unit)
      : ImplicitLocOpBuilder(loc, builder), unit(unit) {}

  const VectorUnit &unit;

  mlir::Value index(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value mul(mlir::Value a, int64_t b);
  /// a / b and a % b for a non-negative a.
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::VectorType vectorType(int64_t lanes, mlir::Type element);
  mlir::Value zero(int64_t lanes);
  mlir::Value load(mlir::Value memref, mlir::ValueRange at, int64_t lanes);
  /// A load of 16-bit or 32-bit floats as f32.
  mlir::Value loadWide(mlir::Value memref, mlir::ValueRange at, int64_t lanes);
  void store(mlir::Value vector, mlir::Value memref, mlir::ValueRange at);
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// acc[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1], of bf16.
  mlir::Value dotPairs(mlir::Value a, mlir::Value b, mlir::Value acc);
  /// f32 of the element memref[at], in every lane.
  mlir::Value splat(mlir::Value memref, mlir::ValueRange at, int64_t lanes);
  /// The size of a memref's dimension, constant where it is static.
  mlir::Value size(mlir::Value memref, unsigned dim);

  /// for i = first to end by step, carrying `init`.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value first, mlir::Value end, int64_t step, mlir::ValueRange init,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);
  void loop(mlir::Value first, mlir::Value end, int64_t step,
            llvm::function_ref<void(mlir::Value)> body);
  /// The same with parallel iterations 0 to end.
  void parallel(mlir::Value end, llvm::function_ref<void(mlir::Value)> body);
  void when(mlir::Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = nullptr);
  mlir::Value less(mlir::Value a, mlir::Value b);
};

/// One dot product along k per result (Dot.cpp): b (n, k). `oneRow` is known of
/// a; `parallel` spreads rows of b over threads.
void emitDot(VectorBuilder &b, const Contraction &c, bool oneRow,
             bool parallel);

/// Outer products, vectors along n (Outer.cpp): b (k, n), static extents.
void emitOuter(VectorBuilder &b, const Contraction &c);

/// Rows of b broadcast against panels of packed a, vectors along m (Panel.cpp):
/// b (n, k), at most `maxRows` rows of a.
void emitPanel(VectorBuilder &b, const Contraction &c, int64_t maxRows);

} // namespace cria
