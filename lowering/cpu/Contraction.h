/// Products of matrices on memrefs, in vectors: the schedules that the pass
/// lower-contractions chooses from. Each is one file.
#pragma once

#include "lowering/cpu/VectorBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// c[m, n] += sum_k a[m, k] * b[n, k]. b may also be b[k, n], and a may be a[k,
/// m].
struct Contraction {
  mlir::Value a, b, c;
  /// a is (k, m).
  bool aTransposed = false;
  /// b is (k, n), n innermost; else (n, k).
  bool bOuter = false;
  /// c counts as zero before the product, and is not read.
  bool fromZero = false;
  /// The terms of a row are added in the same order for any number of rows.
  bool invariant = false;

  /// The contraction that a linalg op on memrefs is, if a schedule supports it.
  /// If no schedule does, `reason` says why.
  static std::optional<Contraction> match(mlir::linalg::LinalgOp op,
                                          llvm::StringRef &reason);

  /// Extents, dynamic or not.
  int64_t m() const;
  int64_t n() const;
  int64_t k() const;
  mlir::Type aType() const;
  mlir::Type bType() const;
};

/// Makes products with experts that each token chose a loop of products with
/// one expert each (Experts.cpp).
void separateExperts(mlir::func::FuncOp function);

/// One dot product along k for each result (Dot.cpp): b (n, k). `oneRow` says
/// that a has one row. `parallel` distributes the rows of b over threads.
void emitDot(VectorBuilder &b, const Contraction &c, bool oneRow,
             bool parallel);

/// Dot products for one or a few rows of a; each row's result is the same as if
/// the row were alone (Dot.cpp). Rows of b are read from memory once.
void emitFewDots(VectorBuilder &b, const Contraction &c);

/// Outer products, vectors along n (Outer.cpp): b (k, n), static extents.
void emitOuter(VectorBuilder &b, const Contraction &c);

/// Rows of b broadcast against panels of packed a, vectors along m (Panel.cpp):
/// b (n, k), at most `maxRows` rows of a.
void emitPanel(VectorBuilder &b, const Contraction &c, int64_t maxRows);

/// Tiles of 32 rows of b times tiles of packed a, on AMX (Amx.cpp): bf16, b (n,
/// k) with at least 32 rows, at most `maxRows` rows of a.
void emitAmx(VectorBuilder &b, const Contraction &c, int64_t maxRows);

/// Outer products on AMX (AmxOuter.cpp): bf16, b (k, n), static extents, m and
/// n multiples of 16, k of 32.
bool fitsAmxOuter(const Contraction &c);
void emitAmxOuter(VectorBuilder &b, const Contraction &c);

} // namespace cria
