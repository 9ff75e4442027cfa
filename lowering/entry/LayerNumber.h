/// The layers that an op of a program reads: a constant, or the induction
/// variable of a loop with constant bounds. Constants may be added to it, and
/// multiply it or divide it without a rest: layers of one kind have caches of
/// their own. verifyProgram refuses other layers, and layers that do not exist;
/// nothing checks later.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/CheckedArithmetic.h"

namespace cria {

struct LayerNumber {
  int64_t first = 0;
  /// Layers from one iteration to the next; 0 outside of loops.
  int64_t step = 0;
  /// The layer of the last iteration.
  int64_t last = 0;
};

/// The layers that the induction variable `layer` counts; nothing if `layer` is
/// not the induction variable of a loop with constant bounds.
inline std::optional<LayerNumber> loopNumber(mlir::Value layer) {
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(layer);
  auto loop = argument ? llvm::dyn_cast_or_null<mlir::scf::ForOp>(
                             argument.getOwner()->getParentOp())
                       : mlir::scf::ForOp();
  if (!loop || layer != loop.getInductionVar())
    return std::nullopt;
  std::optional<int64_t> first = getConstantIntValue(loop.getLowerBound()),
                         step = getConstantIntValue(loop.getStep());
  std::optional<llvm::APInt> turns = loop.getStaticTripCount();
  if (!first || !step || !turns || turns->getActiveBits() > 32)
    return std::nullopt;
  auto count = static_cast<int64_t>(turns->getZExtValue());
  std::optional<int64_t> last =
      llvm::checkedMulAdd(*step, count - (count > 0), *first);
  if (!last)
    return std::nullopt;
  return LayerNumber{*first, *step, *last};
}

/// What `op` makes of a number: a sum, a product or a quotient with the
/// constant `by`; nothing if a product has a negative factor, or a quotient a
/// rest.
inline std::optional<int64_t> applied(mlir::Operation *op, int64_t number,
                                      int64_t by) {
  if (llvm::isa<mlir::arith::AddIOp>(op))
    return llvm::checkedAdd(number, by);
  if (llvm::isa<mlir::arith::MulIOp>(op))
    return by < 0 ? std::nullopt : llvm::checkedMul(number, by);
  if (by < 1 || number < 0 || number % by)
    return std::nullopt;
  return number / by;
}

/// The layers that `layer` stands for; nothing if it is not as described above.
inline std::optional<LayerNumber> layerNumber(mlir::Value layer) {
  llvm::SmallVector<std::pair<mlir::Operation *, int64_t>> steps;
  mlir::Operation *op = layer.getDefiningOp();
  while (llvm::isa_and_nonnull<mlir::arith::AddIOp, mlir::arith::MulIOp,
                               mlir::arith::DivUIOp>(op)) {
    std::optional<int64_t> by = getConstantIntValue(op->getOperand(1));
    if (!by)
      return std::nullopt;
    steps.emplace_back(op, *by);
    layer = op->getOperand(0);
    op = layer.getDefiningOp();
  }
  std::optional<LayerNumber> number;
  if (std::optional<int64_t> known = getConstantIntValue(layer))
    number = LayerNumber{*known, 0, *known};
  else
    number = loopNumber(layer);
  for (auto [op, by] : llvm::reverse(steps)) {
    if (!number)
      return std::nullopt;
    bool isSum = llvm::isa<mlir::arith::AddIOp>(op);
    std::optional<int64_t> first = applied(op, number->first, by),
                           step = isSum ? number->step
                                        : applied(op, number->step, by),
                           last = applied(op, number->last, by);
    if (!first || !step || !last)
      return std::nullopt;
    number = LayerNumber{*first, *step, *last};
  }
  return number;
}

/// Reports an error if `layer` of `op` is not as described above, or not below
/// `count`.
inline llvm::LogicalResult verifyLayer(mlir::Operation *op, mlir::Value layer,
                                       int64_t count) {
  std::optional<LayerNumber> number = layerNumber(layer);
  if (!number)
    return op->emitOpError("expected a constant layer, or one that a loop with "
                           "constant bounds counts");
  if (number->first < 0 || number->last >= count)
    return op->emitOpError("expected layers below ")
           << count << ", got " << number->first << " to " << number->last;
  return mlir::success();
}

} // namespace cria
