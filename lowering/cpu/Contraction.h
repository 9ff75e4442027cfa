/// Products of matrices on memrefs, in vectors: the schedules that the pass
/// lower-contractions chooses from. Each is one file.
#pragma once

#include "lowering/cpu/VectorBuilder.h"
#include "lowering/kernel/BlockProduct.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace cria {

/// The rows (t, s) of a product with experts, sorted by expert. A part is at
/// most some number of rows of one expert, which are in adjacent places.
struct ExpertRows {
  mlir::Value order;  // (places) i32: t * S + s; negative where no row is
  mlir::Value parts;  // (parts, 3) i32: expert, first place, end of the places
  mlir::Value places; // how many there are
  mlir::Value count;  // of parts
  int64_t chosen;     // S

  int64_t maxPlaces() const;
  /// These rows if `condition` holds, else none.
  ExpertRows onlyIf(VectorBuilder &b, mlir::Value condition) const;
  /// The row at a place, t * S + s, or a negative number.
  mlir::Value rowAt(VectorBuilder &b, mlir::Value place) const;
  /// The first indices of a row in a memref: t and, `ofExperts`, s.
  llvm::SmallVector<mlir::Value> indices(VectorBuilder &b, mlir::Value row,
                                         bool ofExperts) const;
};

/// A part of the rows, and the matrix of `matrices` (E, ...) that multiplies
/// it.
struct ExpertPart {
  ExpertPart(VectorBuilder &b, const ExpertRows &rows, mlir::Value matrices,
             mlir::Value number);

  mlir::Value matrix;
  mlir::Value begin, end; // places
};

/// c[m, n] += sum_k a[m, k] * b[n, k]. b may also be b[k, n], and a may be a[k,
/// m].
struct Contraction {
  mlir::Value a, b, c;
  /// a is (k, m).
  bool aTransposed = false;
  /// b is (k, n), n innermost; else (n, k).
  bool bOuter = false;
  /// a and b are f32, and each number is the sum of two of bf16: aLow * b + a *
  /// b + a * bLow.
  bool inParts = false;
  /// b is the matrix in blocks of this product, (N, B, bytes of a block). Its
  /// numbers are widened to `bType`.
  std::optional<BlockProduct> blocks;
  /// c counts as zero before the product, and is not read.
  bool fromZero = false;
  /// The terms of a row are added in the same order for any number of rows.
  bool invariant = false;
  /// Of a product with experts that is multiplied part by part, the parts. Then
  /// a is (T(, S), K), b is (E, N, K), and c is (T, S, N).
  std::optional<ExpertRows> experts;

  /// The contraction that a linalg op on memrefs is, if a schedule supports it.
  /// If no schedule does, `reason` says why.
  static std::optional<Contraction> match(mlir::linalg::LinalgOp op,
                                          llvm::StringRef &reason);
  /// The same of a product with widened weights.
  static Contraction of(const BlockProduct &blocks);

  /// Extents, dynamic or not.
  int64_t m() const;
  int64_t n() const;
  int64_t k() const;
  mlir::Type aType() const;
  /// Of blocks, the type of a if their numbers are rounded to it, else f32.
  mlir::Type bType() const;
  /// Whether b is in blocks of integers.
  bool widensIntegers() const { return blocks && !blocks->isFloat; }
  /// Whether one instruction multiplies and adds pairs of bf16: two neighbours
  /// of k then share a lane.
  bool hasPairs(const VectorUnit &unit) const;

  /// The row at a place: without experts the place itself, with experts t * S +
  /// s. Negative where no row is.
  mlir::Value rowAt(VectorBuilder &b, mlir::Value place) const;
  /// The indices of a row in a and in c.
  llvm::SmallVector<mlir::Value> rowOfA(VectorBuilder &b,
                                        mlir::Value row) const;
  llvm::SmallVector<mlir::Value> rowOfC(VectorBuilder &b,
                                        mlir::Value row) const;
};

/// y[t, s, n] += sum_k x[t(, s), k] * weight[experts[t, s], n, k].
struct ExpertProduct {
  mlir::Value experts, x, weight, y;
  /// y counts as zero before the product, and is not read.
  bool fromZero = false;
  /// The terms of a row are added in the same order for any number of tokens.
  bool invariant = false;

  /// The product that a linalg op on memrefs is, if a schedule supports it. If
  /// the op is such a product and no schedule supports it, `reason` says why.
  static std::optional<ExpertProduct> match(mlir::linalg::LinalgOp op,
                                            llvm::StringRef &reason);

  int64_t tokens() const; // dynamic or not
  int64_t chosen() const; // S
  int64_t count() const;  // E
};

/// source[at..., :] without the dimensions of `at`, or with one of them, of
/// size 1, as the row of a matrix (Experts.cpp).
mlir::Value viewAt(mlir::ImplicitLocOpBuilder &b, mlir::Value source,
                   mlir::ValueRange at, bool hasRow);

/// The most blocks of rows of weights that one iteration reads. With experts it
/// then rarely looks up where the rows of its experts are.
inline constexpr int64_t kExpertBlocks = 16;

/// Multiplies the rows of tokens [0, tokens) one by one (Experts.cpp).
void emitExpertDots(VectorBuilder &b, const ExpertProduct &product,
                    mlir::Value tokens);

/// Sorts the rows of tokens [first, T), at most `maxTokens`, of a tensor of
/// experts (T, S), each less than `count`. The first place of each part is a
/// multiple of `alignment`, as is `mostRows`, the most rows of a part
/// (Experts.cpp).
ExpertRows sortRows(VectorBuilder &b, mlir::Value experts, int64_t count,
                    mlir::Value first, int64_t maxTokens, int64_t alignment,
                    int64_t mostRows);

/// A column of c, which is a row of b (n, k).
struct Column {
  const Contraction *product;
  mlir::Value n;
  /// Of b in blocks, widened rows, and which of them is the column's.
  mlir::Value copy = {}, copied = {};
};
/// One dot product for each column, of products of one row (Dot.cpp).
void emitDotTile(VectorBuilder &b, llvm::ArrayRef<Column> columns);

/// How many rows of weights are best read together: a row of each far stream,
/// or, of f16 with AVX-512, four neighbours, which is measured to be faster
/// (docs/performance/epyc-zen5.md): they need a converted only once, and are
/// fetched ahead.
int64_t columnsOfDot(const VectorUnit &unit, mlir::Type weights);

/// One dot product along k for each result (Dot.cpp): b (n, k), and a of one
/// row. `parallel` distributes the rows of b over threads.
void emitDot(VectorBuilder &b, const Contraction &c, bool parallel);

/// The same for several rows of a.
void emitDots(VectorBuilder &b, const Contraction &c, bool parallel);

/// Dot products for one or a few rows of a; each row's result is the same as if
/// the row were alone (Dot.cpp). Rows of b are read from memory once.
void emitFewDots(VectorBuilder &b, const Contraction &c);

/// The same with experts: rows of an expert's matrix are read from memory once
/// (Dot.cpp).
void emitSortedDots(VectorBuilder &b, const Contraction &c);

/// Outer products, vectors along n (Outer.cpp): b (k, n), static extents.
void emitOuter(VectorBuilder &b, const Contraction &c);

/// Packed rows of a, in each form that a schedule reads. Products with the same
/// a, of matrices with elements of the same type, share them.
using PackedRows = llvm::SmallVector<mlir::Value, 2>;

/// Rows of b broadcast against panels of packed a, vectors along m (Panel.cpp):
/// b (n, k), at most `maxRows` rows of a, or of each part with experts, of
/// which the first `rows` rows, or places, are packed.
PackedRows packPanels(VectorBuilder &b, const Contraction &c, int64_t maxRows,
                      mlir::Value rows);
void emitPanel(VectorBuilder &b, const Contraction &c, int64_t maxRows,
               const PackedRows &packed);
/// The best number of rows of a part.
int64_t mostPanelRows(const VectorUnit &unit, const Contraction &c,
                      int64_t maxRows);

/// Tiles of 32 rows of b times tiles of packed a, on AMX (Amx.cpp): bf16, or b
/// in blocks; b (n, k) with at least 32 rows. Parts begin at multiples of 32.
PackedRows packTiles(VectorBuilder &b, const Contraction &c, int64_t maxRows,
                     mlir::Value rows);
void emitTiles(VectorBuilder &b, const Contraction &c, int64_t maxRows,
               const PackedRows &packed);

/// Products on AMX whose matrices are both new (AmxOuter.cpp): bf16 and b (k,
/// n), or in parts; static extents, m and n multiples of 16, k of 32.
bool fitsAmxOuter(const Contraction &c);
void emitAmxOuter(VectorBuilder &b, const Contraction &c);

} // namespace cria
