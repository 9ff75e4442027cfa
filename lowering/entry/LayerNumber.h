/// The layers that an op of a program reads: a constant, or the induction
/// variable of a loop with constant bounds, plus a constant. verifyProgram
/// refuses other layers, and layers that do not exist; nothing checks later.
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

/// The layers that `layer` stands for; nothing if it is not as described above.
inline std::optional<LayerNumber> layerNumber(mlir::Value layer) {
  std::optional<int64_t> offset = 0;
  while (auto sum = layer.getDefiningOp<mlir::arith::AddIOp>()) {
    std::optional<int64_t> more = getConstantIntValue(sum.getRhs());
    if (more)
      offset = llvm::checkedAdd(*offset, *more);
    if (!more || !offset)
      return std::nullopt;
    layer = sum.getLhs();
  }
  std::optional<LayerNumber> number;
  if (std::optional<int64_t> known = getConstantIntValue(layer))
    number = LayerNumber{*known, 0, *known};
  else
    number = loopNumber(layer);
  if (!number)
    return std::nullopt;
  std::optional<int64_t> first = llvm::checkedAdd(number->first, *offset),
                         last = llvm::checkedAdd(number->last, *offset);
  if (!first || !last)
    return std::nullopt;
  return LayerNumber{*first, number->step, *last};
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
