/// Reads from linalg and tensor ops how an element of a tensor is computed, and
/// which elements a kernel stores, and where. This code works on linalg from
/// any source.
///
/// A place is an affine expression for each dimension of a tensor. Its dims are
/// the loops of a box. A symbol is a number among the kernel's arguments; a
/// number of a turn: a loop around an insertion computes it from its counter,
/// for example the number of a page from a table; or a chosen number, which is
/// itself an element: the number of the expert that a token chose.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AffineExpr.h"

namespace cria {

struct BlockProduct;
struct ChosenBlockProduct;

/// An element of a tensor.
struct Element {
  mlir::Value tensor;
  llvm::SmallVector<mlir::AffineExpr> at;

  bool operator==(const Element &other) const {
    return tensor == other.tensor && at == other.at;
  }
};

/// The number of iterations of a loop: a constant, an index, or, with `dim`,
/// the size of a tensor among the kernel's arguments.
struct Size {
  int64_t constant = mlir::ShapedType::kDynamic;
  mlir::Value value = {};
  int64_t dim = -1;

  bool isConstant() const { return !mlir::ShapedType::isDynamic(constant); }
  bool operator==(const Size &other) const {
    return constant == other.constant && value == other.value &&
           dim == other.dim;
  }
};
using Box = llvm::SmallVector<Size>;

/// The dimension whose size the op reads; nothing if it is not known, or the
/// tensor has no such dimension.
std::optional<int64_t> dimensionOf(mlir::tensor::DimOp op);
/// The size of a tensor, from the ops that made it.
Size sizeOf(mlir::Value tensor, unsigned dim);
Box sizesOf(mlir::Value tensor);

/// For each place of the box: an element, and the place in an argument where
/// the element is stored.
struct Store {
  Element value, into;
};

/// Stores that are made in one loop nest, because they read the same elements.
struct Part {
  Box box;
  llvm::SmallVector<Store> stores;
};

/// A dot product of a row of `x` and a row of `w`. Both are elements over the
/// part's loops and over one more loop, `k`.
struct Dot {
  Element x, w;
  Size terms;
  /// The element that is the first place of `w`, a chosen number, if `w` is a
  /// row of one of several matrices; else its tensor is null.
  Element chosen = {};
  /// The bits of a number of `w`, if `w` is a matrix in blocks
  /// (BlockProduct.h), else 0. Then `w` is the first byte of a row, `x` is the
  /// first code of a row, and `scale` is the scale of the first block of x's
  /// row. If rows choose one of several matrices, x may have a row for each
  /// choice. With widened weights `x` is element `k` of a row, and there is no
  /// `scale`; `isFloat` and `rounds` are as in BlockProduct.
  int64_t bits = 0;
  Element scale = {};
  bool isFloat = false, rounds = false;
  bool isWidened() const { return bits && !scale.tensor; }
};

/// A reduction of a row: each iteration of the loop `k`, which follows the
/// part's loops, adds a term or combines it by the op's payload.
struct Reduction {
  mlir::linalg::GenericOp op;
  /// For each loop of the op, its place.
  llvm::SmallVector<mlir::AffineExpr> loops;
  Size terms;
};

/// Looks through reshapes that keep the last dimension: the result has the same
/// rows as `tensor`, in the same order.
mlir::Value withRows(mlir::Value tensor);

/// Whether a number is computed from elements of tensors.
bool readsTensor(mlir::Operation *op);

/// Reads the elements of one function's tensors.
class Elements {
public:
  explicit Elements(mlir::MLIRContext *context) : context(context) {}

  /// How an element is computed:
  /// - Leaf: it is an argument's, or no payload makes it element by element.
  /// - Same: it equals the element `same`.
  /// - Payload: the payload of `op` makes it at `loops`.
  /// - Fold: the payload of `op` makes it at `loops`, in a few turns of a loop,
  ///   in order. The loop is null.
  /// - Undefined: its tensor is not initialized.
  /// - Undecided: it depends on whether the loop `cut` is below `below`; or, if
  ///   `step` is not 1, on the remainder of the loop by `step`.
  struct Definition {
    enum Kind { Leaf, Same, Payload, Fold, Undefined, Undecided } kind = Leaf;
    Element same = {};
    mlir::linalg::LinalgOp op = {};
    unsigned result = 0;
    llvm::SmallVector<mlir::AffineExpr> loops = {};
    unsigned cut = 0;
    int64_t below = 0, step = 1;
  };
  Definition define(const Element &element, llvm::ArrayRef<Size> box);
  /// The payloads that make an element: one, each turn of a fold, or none.
  llvm::SmallVector<Definition> payloads(const Definition &made) const;

  /// The element that an element is a copy of, after following all copies.
  Element origin(Element element, llvm::ArrayRef<Size> box);

  /// Calls `leaf` with all elements from which an element is computed. Elements
  /// that a payload selects by number are leaves at unknown places: null
  /// expressions. False if an element is undecided or undefined.
  bool leaves(const Element &element, llvm::ArrayRef<Size> box,
              llvm::function_ref<void(const Element &)> leaf);

  /// An operand of an op as an element, at its loops.
  Element operand(mlir::linalg::LinalgOp op, mlir::OpOperand &operand,
                  llvm::ArrayRef<mlir::AffineExpr> loops,
                  llvm::ArrayRef<Size> box);
  /// The elements that a payload reads.
  llvm::SmallVector<Element> operands(const Definition &payload,
                                      llvm::ArrayRef<Size> box);

  /// The results of a kernel as stores into arguments. Nothing if a result
  /// cannot be read in this way.
  std::optional<llvm::SmallVector<Part>> parts(mlir::func::FuncOp kernel);

  /// The dot product that a leaf is, if its terms are added to zero in any
  /// order.
  std::optional<Dot> dot(const Element &leaf, llvm::ArrayRef<Size> box);
  /// The reduction that a leaf is, over one loop.
  std::optional<Reduction> reduction(const Element &leaf,
                                     llvm::ArrayRef<Size> box);

  /// Whether no place of one box gives an element that a place of the other
  /// gives, too. True only if that is sure.
  bool areApart(const Element &a, llvm::ArrayRef<Size> boxOfA, const Element &b,
                llvm::ArrayRef<Size> boxOfB) const;

  /// Whether two elements at the same loops are in the same place, or in the
  /// same place of two states whose numbers only a call knows. Then no unit
  /// reads at `a` what another one writes at `b`.
  bool isOwnPlace(const Element &a, const Element &b) const;

  /// From this call on the tensor is in memory, and its elements are leaves.
  void setStored(mlir::Value tensor) { inMemory.insert(tensor); }
  bool isStored(mlir::Value tensor) const {
    return mlir::isa<mlir::BlockArgument>(tensor) || inMemory.contains(tensor);
  }

  mlir::AffineExpr dim(unsigned loop) const {
    return mlir::getAffineDimExpr(loop, context);
  }
  mlir::AffineExpr constant(int64_t value) const {
    return mlir::getAffineConstantExpr(value, context);
  }
  mlir::AffineExpr expr(mlir::OpFoldResult number);
  /// From this call on, `counter` is a loop of all boxes, in what is computed
  /// from it by multiplications and divisions, too.
  void setLoop(mlir::Value counter, unsigned loop) {
    loops[counter] = counters[counter] = loop;
  }
  /// Whether a number is a number of a turn: it is computed from the loop's
  /// counter, from elements of arguments, and from numbers outside of the loop.
  bool isOfTurn(mlir::Value number) const;
  /// The element that an op extracts.
  Element extracted(mlir::tensor::ExtractOp op);
  /// The value that a symbol stands for; null for a chosen number.
  mlir::Value symbol(unsigned number) const { return symbols[number].value; }
  /// The element that a symbol stands for; its tensor is null for other values.
  const Element &chosen(unsigned number) const {
    return symbols[number].element;
  }
  /// The loop of a box whose counter is `value`.
  std::optional<unsigned> counter(mlir::Value value) const {
    auto found = counters.find(value);
    return found == counters.end() ? std::nullopt
                                   : std::optional(found->second);
  }
  /// The expression without divisions that are redundant given the sizes of
  /// loops.
  mlir::AffineExpr simplify(mlir::AffineExpr expr,
                            llvm::ArrayRef<Size> box) const;

private:
  Dot blockDot(const BlockProduct &product, const Element &leaf,
               llvm::ArrayRef<Size> box);
  std::optional<Dot> blockDot(const ChosenBlockProduct &product,
                              const Element &leaf);
  std::optional<Dot> chosenDot(mlir::linalg::GenericOp op, const Element &leaf,
                               llvm::ArrayRef<Size> box);
  mlir::AffineExpr symbolOf(mlir::Value value, const Element &element);
  mlir::AffineExpr ofLoop(mlir::Value number) const;
  struct Range {
    std::optional<int64_t> least, most;
  };
  Range rangeOf(mlir::AffineExpr expr, llvm::ArrayRef<Size> box) const;
  mlir::AffineExpr divide(mlir::AffineExpr expr, int64_t by, bool remainder,
                          llvm::ArrayRef<Size> box) const;
  Definition defineInserted(const Element &element, llvm::ArrayRef<Size> box);
  std::optional<Element> reshaped(const Element &element,
                                  llvm::ArrayRef<Size> box);
  std::optional<Element> memory(const Element &element,
                                llvm::ArrayRef<Size> box);
  bool collect(mlir::Value result, llvm::SmallVectorImpl<Part> &parts);
  bool collectTurns(mlir::scf::ForOp loop, llvm::SmallVectorImpl<Part> &parts);
  bool addRow(mlir::tensor::InsertSliceOp insert, mlir::scf::ForOp loop,
              llvm::SmallVectorImpl<Part> &parts);
  bool isOfFunction(mlir::Value number) const;
  bool isOutsideOfTurns(mlir::AffineExpr at) const;
  bool addStore(mlir::Value value, const Element &into, Box box,
                llvm::SmallVectorImpl<Part> &parts);
  bool cut(Part part, llvm::SmallVectorImpl<Part> &parts);
  bool cutBySteps(const Part &part, unsigned loop, int64_t step,
                  llvm::SmallVectorImpl<Part> &parts);

  /// What a symbol stands for: one of both.
  struct Symbol {
    mlir::Value value;
    Element element;
  };

  mlir::MLIRContext *context;
  llvm::SmallVector<Symbol> symbols;
  llvm::DenseMap<mlir::Value, unsigned> counters, loops;
  llvm::DenseSet<mlir::Value> inMemory;
};

/// The value that the payload of an op yields for one element.
inline mlir::Value yielded(mlir::linalg::LinalgOp op, unsigned result = 0) {
  return op.getBlock()->getTerminator()->getOperand(result);
}

} // namespace cria
