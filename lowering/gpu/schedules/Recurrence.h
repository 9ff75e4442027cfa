/// A matrix whose columns each token updates, as linalg has it:
///
///   scf.forall (head, part of the columns) {
///     %first = elementwise(a part of a state)             (D, W)
///     scf.for token iter_args(%matrix = %first, %rows) {
///       %sums = product(%x, %matrix)                      (M, D), (M, W)
///       %row = elementwise(%sums, numbers of the token)   (W)
///       %next = elementwise(%matrix, %row, %x, ...)       (D, W)
///       yield %next, %row inserted in %rows } }
///
/// In a batch each token has states of its own: its matrix begins as a part of
/// one state, and is inserted into another state.
#pragma once

#include "lowering/gpu/build/Evaluator.h"
#include "lowering/gpu/schedules/Linear.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace cria::simt {

struct Tuning;

class Recurrence {
public:
  /// `reason` says why a function is not taken.
  Recurrence(KernelFunction &of, mlir::scf::ForallOp loop,
             llvm::StringRef &reason)
      : of(of), elements(of.elements), reason(reason), loop(loop) {}
  /// Whether the function is such a recurrence.
  bool read();
  bool fail(llvm::StringRef why) {
    reason = why;
    return false;
  }

  /// The loops of elements: tokens, heads, parts of the columns, a column of a
  /// part, and a row of the matrix.
  enum Loop : unsigned { Token, Head, Band, Column, Row, kLoops };

  /// An element that a token reads, from outside of the loops.
  struct Input {
    Element element;
    bool ofRow, ofColumn;
  };
  /// The input that an element is; null if it is none.
  const Input *find(const Element &element) const;
  /// The element of a product's sums for the lane's column.
  Element sumOf(unsigned row) const;
  /// The matrix after a token, at its loops.
  Element updated() const;

  /// Whether each lane of a warp can read its part of a row.
  bool hasWideRows(Launch &launch);

  /// What a token does, if all of it is linear: with the matrix S before it,
  ///
  ///   u = added + corrected S^T x
  ///   o = own + read S^T q + mixed u
  ///   S' = decay S + y u^T
  ///
  /// x, q and y are inputs of rows; x is null if `corrected` is. `added` and
  /// `own` may differ between columns, the other formulas do not.
  struct Step {
    const Input *x = nullptr, *q = nullptr, *y = nullptr;
    FormulaRef added, corrected, own, read, mixed, decay;
  };
  /// Nothing if it is not; `reason` then says what is not linear.
  std::optional<Step> step();

  // In a kernel: `at` are the values of the loops.
  /// Inputs as f32; each lane of a warp has `lanes` neighbours of a row. Sums
  /// over rows that several inputs read are added up once.
  llvm::SmallVector<mlir::Value> bring(Launch &launch,
                                       llvm::ArrayRef<const Input *> inputs,
                                       mlir::ValueRange at,
                                       int64_t lanes) const;
  /// An element of the matrix before the first token.
  mlir::Value start(Launch &launch, mlir::ValueRange at) const;

  KernelFunction &of;
  Elements &elements;
  llvm::StringRef &reason;
  Box box;
  int64_t rows = 0;
  mlir::Value carried;                ///< the matrix before a token
  mlir::linalg::GenericOp next;       ///< the matrix after it
  Element row, into;                  ///< the result, and where it is stored
  Element readAt, stateAt;            ///< the part of a state, before and after
  bool ofTokens = false;              ///< each token has states
  llvm::SmallVector<Element> factors; ///< rows of the product's left operand
  std::vector<Input> inputs;

private:
  bool readLoops();
  template <typename Insert> bool readState(Insert insert);
  bool readStates(mlir::tensor::ParallelInsertSliceOp store,
                  mlir::tensor::InsertSliceOp insert);
  bool readMatrix();
  bool readResult();
  bool collect(const Element &element);
  bool collectPayload(const Elements::Definition &made);
  bool addInput(const Element &given);
  bool isKnown(const Element &element, llvm::ArrayRef<Size> box);
  Element at(mlir::Value tensor, llvm::ArrayRef<mlir::OpFoldResult> offsets,
             llvm::ArrayRef<mlir::AffineExpr> places);
  bool isInside(mlir::Value value) const;

  mlir::scf::ForallOp loop;
  mlir::Block *body = nullptr;                  // of a token
  mlir::Value state, carriedState, carriedRows; // arguments
  mlir::Value first; // the matrix before the first token
  mlir::linalg::GenericOp product;
};

/// Whether an element depends on a loop.
bool dependsOn(const Element &element, Recurrence::Loop loop);

/// Computes it token by token (RecurrenceLoop.cpp).
bool emitRecurrenceLoop(Recurrence &in, const Tuning &tuning);

} // namespace cria::simt
