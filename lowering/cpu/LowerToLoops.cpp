/// linalg.generic on memrefs  =>  scf.for { load; payload; store }
///
/// What upstream's linalg-to-loops does, with two differences that let LLVM
/// vectorize and threads share the work: an innermost reduction is carried in a
/// register, and the loop over tokens is parallel. A missed-optimization remark
/// names each sum that LLVM may not vectorize, since no flag lets it reorder
/// the terms. (Contractions that come here have a remark of their own.)
#include "lowering/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

namespace cria {
#define GEN_PASS_DEF_LOWERTOLOOPS
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;

namespace {
class LoopNest {
public:
  LoopNest(OpBuilder &builder, linalg::LinalgOp op)
      : b(op.getLoc(), builder), op(op),
        ranges(op.createLoopRanges(b, op.getLoc())) {
    unsigned last = op.getNumLoops() - 1;
    carried =
        op.getNumLoops() > 0 &&
        op.getIteratorTypesArray()[last] == utils::IteratorType::reduction &&
        llvm::none_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
          return op.getMatchingIndexingMap(&init).isFunctionOfDim(last);
        });
  }
  void emit() {
    if (op.getNumLoops() == 0) {
      payload(initial());
      return;
    }
    emit(0);
  }

private:
  Value value(OpFoldResult size) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), size);
  }
  void emit(unsigned dim);
  void emitCarried(unsigned dim);
  bool isParallel(unsigned dim);
  SmallVector<Value> initial();
  SmallVector<Value> indices(OpOperand &operand);
  SmallVector<Value> payload(ValueRange accumulators);
  void storeAll(ValueRange results);

  ImplicitLocOpBuilder b;
  linalg::LinalgOp op;
  SmallVector<Range> ranges;
  SmallVector<Value> ivs;
  bool carried = false;
};
} // namespace

SmallVector<Value> LoopNest::indices(OpOperand &operand) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  return llvm::map_to_vector(map.getResults(), [&](AffineExpr expr) -> Value {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      return ivs[dim.getPosition()];
    return affine::makeComposedAffineApply(
        b, b.getLoc(), AffineMap::get(map.getNumDims(), 0, expr),
        getAsOpFoldResult(ivs));
  });
}

/// Each output's current element, null where the payload does not read it.
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

/// The payload at the current indices; returns what it yields.
SmallVector<Value> LoopNest::payload(ValueRange accumulators) {
  IRMapping mapping;
  for (OpOperand *input : op.getDpsInputOperands()) {
    BlockArgument arg = op.getMatchingBlockArgument(input);
    if (arg.use_empty())
      continue;
    Value element = input->get();
    if (isa<MemRefType>(element.getType()))
      element = memref::LoadOp::create(b, element, indices(*input));
    mapping.map(arg, element);
  }
  for (auto [init, value] : llvm::zip(op.getDpsInitsMutable(), accumulators))
    mapping.map(op.getMatchingBlockArgument(&init), value);
  for (Operation &nested : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(nested))
      mapping.map(index.getResult(), ivs[index.getDim()]);
    else
      b.clone(nested, mapping);
  }
  return llvm::map_to_vector(
      op.getBlock()->getTerminator()->getOperands(),
      [&](Value value) { return mapping.lookupOrDefault(value); });
}

void LoopNest::storeAll(ValueRange results) {
  for (auto [init, result] : llvm::zip(op.getDpsInitsMutable(), results))
    memref::StoreOp::create(b, result, init.get(), indices(init));
}

/// The token loop: outermost, of dynamic extent, not inside another.
bool LoopNest::isParallel(unsigned dim) {
  return dim == 0 && !getConstantIntValue(ranges[0].size) &&
         op.getIteratorTypesArray()[0] == utils::IteratorType::parallel &&
         !op->getParentOfType<scf::ForallOp>();
}

void LoopNest::emitCarried(unsigned dim) {
  auto loop =
      scf::ForOp::create(b, value(ranges[dim].offset), value(ranges[dim].size),
                         value(b.getIndexAttr(1)), initial());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    ivs.push_back(loop.getInductionVar());
    auto yielded = payload(loop.getRegionIterArgs());
    scf::YieldOp::create(b, yielded);
    ivs.pop_back();
  }
  ivs.push_back(Value()); // No output depends on it.
  storeAll(loop.getResults());
  ivs.pop_back();
}

void LoopNest::emit(unsigned dim) {
  if (dim == op.getNumLoops())
    return storeAll(payload(initial()));
  if (carried && dim + 1 == op.getNumLoops())
    return emitCarried(dim);
  OpBuilder::InsertionGuard guard(b);
  if (isParallel(dim)) {
    auto loop =
        scf::ForallOp::create(b, ArrayRef<OpFoldResult>{ranges[dim].size},
                              ValueRange{}, std::nullopt);
    b.setInsertionPoint(loop.getTerminator());
    ivs.push_back(loop.getInductionVar(0));
  } else {
    auto loop =
        scf::ForOp::create(b, value(ranges[dim].offset),
                           value(ranges[dim].size), value(b.getIndexAttr(1)));
    b.setInsertionPoint(loop.getBody()->getTerminator());
    ivs.push_back(loop.getInductionVar());
  }
  emit(dim + 1);
  ivs.pop_back();
}

/// Whether the innermost loop adds floats one after the other.
static bool isOrderedSum(linalg::LinalgOp op) {
  if (op.getNumReductionLoops() == 0 || linalg::isaContractionOpInterface(op) ||
      op.getIteratorTypesArray().back() != utils::IteratorType::reduction)
    return false;
  return llvm::any_of(op.getRegionOutputArgs(), [](BlockArgument sum) {
    return llvm::any_of(sum.getUsers(), [](Operation *user) {
      auto add = dyn_cast<arith::AddFOp>(user);
      return add && !bitEnumContainsAll(add.getFastmath(),
                                        arith::FastMathFlags::reassoc);
    });
  });
}

namespace {
struct LowerToLoops : cria::impl::LowerToLoopsBase<LowerToLoops> {
  void runOnOperation() override {
    SmallVector<memref::CopyOp> copies;
    getOperation().walk([&](memref::CopyOp op) { copies.push_back(op); });
    for (memref::CopyOp copy : copies) {
      OpBuilder b(copy);
      linalg::makeMemRefCopyOp(b, copy.getLoc(), copy.getSource(),
                               copy.getTarget());
      copy.erase();
    }
    SmallVector<linalg::LinalgOp> ops;
    getOperation().walk([&](linalg::LinalgOp op) { ops.push_back(op); });
    for (linalg::LinalgOp op : ops) {
      OpBuilder b(op);
      if (isOrderedSum(op))
        remark::missed(op.getLoc(), remark::RemarkOpts::name("scalar-sum")
                                        .category(getArgument())
                                        .function(getOperation().getName()))
            << remark::metric("Op", op->getName().getStringRef().str())
            << remark::reason("its terms may not be added in another order");
      LoopNest(b, op).emit();
      op.erase();
    }
  }
};
} // namespace
