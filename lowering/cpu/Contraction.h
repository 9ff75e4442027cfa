/// Products of matrices on memrefs, in vectors: the schedules that the pass
/// lower-contractions chooses from. Each is one file.
#pragma once

#include "lowering/cpu/VectorBuilder.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

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
  /// A row's terms are added in one order, however many rows there are.
  bool invariant = false;

  /// The contraction that a linalg op on memrefs is, if a schedule takes it.
  /// Of a contraction that none takes, `reason` says why.
  static std::optional<Contraction> match(mlir::linalg::LinalgOp op,
                                          llvm::StringRef &reason);

  /// Extents, dynamic or not.
  int64_t m() const;
  int64_t n() const;
  int64_t k() const;
  mlir::Type aType() const;
  mlir::Type bType() const;
};

/// One dot product along k per result (Dot.cpp): b (n, k). `oneRow` is known of
/// a; `parallel` spreads rows of b over threads.
void emitDot(VectorBuilder &b, const Contraction &c, bool oneRow,
             bool parallel);

/// The same for one row of a or a few, each as if it were alone (Dot.cpp): rows
/// of b are read from memory once.
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
