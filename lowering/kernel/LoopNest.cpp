#include "lowering/kernel/LoopNest.h"
#include "lowering/kernel/Payload.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace cria;

LoopNest::LoopNest(OpBuilder &builder, linalg::LinalgOp op)
    : b(op.getLoc(), builder), op(op),
      ranges(op.createLoopRanges(b, op.getLoc())), ivs(op.getNumLoops()) {}

Value LoopNest::size(unsigned loop) {
  return getValueOrCreateConstantIndexOp(b, b.getLoc(), ranges[loop].size);
}

/// Whether the loop is a reduction that no output's place depends on.
bool LoopNest::isCarried(unsigned loop) {
  return op.getIteratorTypesArray()[loop] == utils::IteratorType::reduction &&
         llvm::none_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
           return op.getMatchingIndexingMap(&init).isFunctionOfDim(loop);
         });
}

void LoopNest::emitVectors() {
  vectors = true;
  emit(llvm::to_vector(llvm::seq<unsigned>(0, op.getNumLoops())),
       /*parallel=*/true);
}

void LoopNest::emit(bool parallel) {
  SmallVector<unsigned> loops;
  for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
    if (!ivs[loop])
      loops.push_back(loop);
  // In a whole nest only the innermost loop is carried, so that LLVM has one
  // loop to vectorize.
  size_t most = loops.size() == op.getNumLoops() ? 1 : loops.size();
  for (unsigned loop : llvm::reverse(loops)) {
    if (carried == most || !isCarried(loop))
      break;
    ++carried;
  }
  emit(loops, parallel);
}

SmallVector<Value> LoopNest::indices(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  return llvm::map_to_vector(map.getResults(), [&](AffineExpr expr) -> Value {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      return ivs[dim.getPosition()];
    // A map that only has the loops which the expression uses.
    SmallVector<Value> used;
    SmallVector<AffineExpr> dims(map.getNumDims());
    for (unsigned i = 0; i < map.getNumDims(); ++i)
      if (expr.isFunctionOfDim(i)) {
        dims[i] = b.getAffineDimExpr(used.size());
        used.push_back(ivs[i]);
      } else {
        dims[i] = b.getAffineConstantExpr(0);
      }
    return affine::makeComposedAffineApply(
        b, b.getLoc(), AffineMap::get(used.size(), 0, expr.replaceDims(dims)),
        getAsOpFoldResult(used));
  });
}

/// The current element of each output; null if the payload does not read it.
SmallVector<Value> LoopNest::initial() {
  SmallVector<Value> values;
  for (OpOperand &init : op.getDpsInitsMutable()) {
    bool read = !op.getMatchingBlockArgument(&init).use_empty();
    values.push_back(
        read ? memref::LoadOp::create(b, init.get(), indices(init)).getResult()
             : Value());
  }
  return values;
}

/// Emits the payload at the current indices. Returns the values that it yields.
SmallVector<Value> LoopNest::payload(ValueRange accumulators) {
  IRMapping mapping;
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(input);
    if (arg.use_empty())
      continue;
    mapping.map(arg, load(*input));
  }
  for (auto [init, value] : llvm::zip(op.getDpsInitsMutable(), accumulators))
    mapping.map(op.getMatchingBlockArgument(&init), value);
  for (Operation &nested : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(nested))
      mapping.map(index.getResult(), ivs[index.getDim()]);
    else
      cloneOnVectors(b, nested, mapping, lanes());
  }
  return llvm::map_to_vector(
      op.getBlock()->getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

int64_t LoopNest::lanes() {
  return ranges.empty() ? 0
                        : getConstantIntValue(ranges.back().size).value_or(0);
}

bool LoopNest::isOfBlocks() {
  constexpr int64_t least = 8, most = 64;
  unsigned last = op.getNumLoops() - 1;
  if (op.getNumReductionLoops() || lanes() < least || lanes() > most)
    return false;
  // Elements are adjacent along the last loop, or the same for all of the loop.
  auto isAlong = [&](OpOperand &operand) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    return map.isProjectedPermutation() &&
           map.isFunctionOfDim(last) ==
               (type && type.isLastDimUnitStride() && map.getNumResults() &&
                map.getResults().back() == b.getAffineDimExpr(last));
  };
  auto isInteger = [](unsigned bits) {
    return [bits](OpOperand &operand) {
      return getElementTypeOrSelf(operand.get().getType()).isInteger(bits);
    };
  };
  auto operands = op->getOpOperands();
  return llvm::any_of(operands, isInteger(8)) &&
         llvm::none_of(operands, isInteger(1)) && // vectors pack bits
         llvm::all_of(operands, isAlong) &&
         llvm::all_of(op.getRegionOutputArgs(),
                      [](BlockArgument out) { return out.use_empty(); }) &&
         llvm::all_of(op.getBlock()->without_terminator(), [](Operation &each) {
           return OpTrait::hasElementwiseMappableTraits(&each);
         });
}

/// The value that the payload reads from an input: an element, or a vector of
/// elements.
Value LoopNest::load(OpOperand &operand) {
  Value memref = operand.get();
  auto type = dyn_cast<MemRefType>(memref.getType());
  if (!type)
    return memref;
  unsigned last = op.getNumLoops() - 1;
  bool isVector =
      vectors && op.getMatchingIndexingMap(&operand).isFunctionOfDim(last);
  if (!isVector)
    return memref::LoadOp::create(b, memref, indices(operand));
  auto vector = VectorType::get(lanes(), type.getElementType());
  return vector::LoadOp::create(b, vector, memref, indices(operand));
}

/// Computes and stores the elements of all turns of the innermost loop.
void LoopNest::storeVectors() {
  ivs.back() = arith::ConstantIndexOp::create(b, 0);
  SmallVector<Value> results = payload(SmallVector<Value>(op.getNumDpsInits()));
  for (auto [init, result] : llvm::zip(op.getDpsInitsMutable(), results))
    vector::StoreOp::create(b, asVector(b, result, lanes()), init.get(),
                            indices(init));
  ivs.back() = Value();
}

void LoopNest::storeAll(ValueRange results) {
  for (auto [init, result] : llvm::zip(op.getDpsInitsMutable(), results))
    memref::StoreOp::create(b, result, init.get(), indices(init));
}

bool LoopNest::isTokens(unsigned loop) {
  return loop == 0 && !getConstantIntValue(ranges[0].size) &&
         op.getIteratorTypesArray()[0] == utils::IteratorType::parallel &&
         !op->getParentOfType<scf::ForallOp>();
}

/// Emits loops that carry the outputs' elements. Returns the final elements.
SmallVector<Value> LoopNest::emitCarried(ArrayRef<unsigned> loops,
                                         ValueRange sums) {
  if (loops.empty())
    return payload(sums);
  unsigned dim = loops.front();
  Value zero = arith::ConstantIndexOp::create(b, 0);
  Value one = arith::ConstantIndexOp::create(b, 1);
  auto loop = scf::ForOp::create(b, zero, size(dim), one, sums);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  ivs[dim] = loop.getInductionVar();
  auto yielded = emitCarried(loops.drop_front(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, yielded);
  ivs[dim] = Value(); // No output depends on this loop.
  return SmallVector<Value>(loop.getResults());
}

void LoopNest::emit(ArrayRef<unsigned> loops, bool parallel) {
  if (vectors && loops.size() == 1)
    return storeVectors();
  if (loops.size() == carried)
    return storeAll(emitCarried(loops, initial()));
  unsigned dim = loops.front();
  OpBuilder::InsertionGuard guard(b);
  if (parallel && isTokens(dim)) {
    auto loop =
        scf::ForallOp::create(b, ArrayRef<OpFoldResult>{ranges[dim].size},
                              ValueRange{}, std::nullopt);
    b.setInsertionPoint(loop.getTerminator());
    ivs[dim] = loop.getInductionVar(0);
  } else {
    Value zero = arith::ConstantIndexOp::create(b, 0);
    Value one = arith::ConstantIndexOp::create(b, 1);
    auto loop = scf::ForOp::create(b, zero, size(dim), one);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    ivs[dim] = loop.getInductionVar();
  }
  emit(loops.drop_front(), parallel);
  ivs[dim] = Value();
}

void cria::copiesToLinalg(Operation *root) {
  SmallVector<memref::CopyOp> copies;
  root->walk([&](memref::CopyOp op) {
    if (llvm::all_of(op->getOperandTypes(), llvm::IsaPred<MemRefType>))
      copies.push_back(op);
  });
  for (memref::CopyOp copy : copies) {
    OpBuilder b(copy);
    linalg::makeMemRefCopyOp(b, copy.getLoc(), copy.getSource(),
                             copy.getTarget());
    copy.erase();
  }
}
