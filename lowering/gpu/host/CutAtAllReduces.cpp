/// func @k(%x, %w, %r) {              func @k(%x, %w, %r) {
///   %a = product(%x, %w)               %a = call @k_partial(%x, %w, empty)
///   %s = mpi.allreduce %a        =>    %s = mpi.allreduce %a
///   %y = add(%s, %r)                   %y = call @k_rest(%r, %s)
///   return %y                          return %y
/// }                                  }
///
/// No kernel computes a sum over ranks: the host enqueues it between two
/// kernels. So the ops before the sum and the ops after it become two
/// functions, which schedules take like any other.
#include "lowering/Passes.h"
#include "lowering/entry/Entry.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/MPI/IR/MPI.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

namespace cria {
#define GEN_PASS_DEF_CUTATALLREDUCES
#include "lowering/Passes.h.inc"
} // namespace cria

using namespace mlir;
using namespace cria;

namespace {
/// A sum over ranks of a flat buffer, as the linalg phase has it.
struct Sum {
  tensor::CollapseShapeOp flat; ///< flattens this rank's part
  tensor::ExpandShapeOp whole;  ///< gives the sum its shape
};

/// The ops that compute some values from arguments of a function, and maybe
/// from the sum.
struct Slice {
  llvm::SetVector<Operation *> ops; // in program order
  SmallVector<Value> inputs;        // the arguments in order, then the sum
};
} // namespace

static FailureOr<Sum> sumOf(mpi::AllReduceOp op) {
  Sum sum;
  auto buffer = op.getSendbuf().getDefiningOp<bufferization::ToBufferOp>();
  if (buffer && op.getRecvbuf() == buffer)
    sum.flat = buffer.getTensor().getDefiningOp<tensor::CollapseShapeOp>();
  for (Operation *user : buffer ? buffer->getUsers() : op->getUsers())
    if (auto tensor = dyn_cast<bufferization::ToTensorOp>(user);
        tensor && tensor->hasOneUse())
      sum.whole = dyn_cast<tensor::ExpandShapeOp>(*tensor->user_begin());
  if (sum.flat && sum.whole && sum.flat.getSrcType() == sum.whole.getType())
    return sum;
  return op.emitOpError("expected the sum in place of a tensor that is "
                        "collapsed before and expanded after it");
}

/// The ops that compute `values`. If `sum` is given, only those after it.
static Slice sliceOf(ValueRange values, Operation *sum) {
  Slice slice;
  BackwardSliceOptions options;
  options.omitUsesFromAbove = false;
  options.inclusive = true;
  options.filter = [&](Operation *op) {
    return op != sum && !isa<func::FuncOp>(op);
  };
  for (Value value : values)
    (void)getBackwardSlice(value, &slice.ops, options);
  slice.ops = topologicalSort(slice.ops);
  llvm::SetVector<Value> used(values.begin(), values.end());
  for (Operation *op : slice.ops) {
    used.insert(op->operand_begin(), op->operand_end());
    getUsedValuesDefinedAbove(op->getRegions(), used);
  }
  for (Value value : used)
    if (isa<BlockArgument>(value))
      slice.inputs.push_back(value);
  llvm::sort(slice.inputs, [](Value a, Value b) {
    return cast<BlockArgument>(a).getArgNumber() <
           cast<BlockArgument>(b).getArgNumber();
  });
  if (sum && used.contains(sum->getResult(0)))
    slice.inputs.push_back(sum->getResult(0));
  return slice;
}

/// Makes a function from a slice, and puts it before `kernel`. The function
/// takes the slice's inputs and then arguments of the types `added`. `results`
/// are the copies of `values` in it.
static func::FuncOp makeFunction(func::FuncOp kernel, StringRef suffix,
                                 const Slice &slice, TypeRange added,
                                 ValueRange values,
                                 SmallVector<Value> &results) {
  OpBuilder b(kernel);
  SmallVector<Type> types(ValueRange(slice.inputs).getTypes());
  llvm::append_range(types, added);
  std::string name = (kernel.getName() + suffix).str();
  auto function = func::FuncOp::create(
      b, kernel.getLoc(), name, b.getFunctionType(types, values.getTypes()));
  function.setPrivate();
  function->setDiscardableAttrs(kernel->getDiscardableAttrDictionary());
  Block *body = function.addEntryBlock();
  IRMapping mapping;
  for (auto [input, argument] : llvm::zip(slice.inputs, body->getArguments()))
    mapping.map(input, argument);
  b.setInsertionPointToEnd(body);
  for (Operation *op : slice.ops)
    b.clone(*op, mapping);
  for (Value value : values)
    results.push_back(mapping.lookup(value));
  return function;
}

static ValueRange call(OpBuilder &b, Location loc, func::FuncOp function,
                       ValueRange arguments) {
  return func::CallOp::create(b, loc, function, arguments).getResults();
}

/// Cuts a kernel function that has one sum, `op`.
static LogicalResult cut(func::FuncOp kernel, mpi::AllReduceOp op) {
  FailureOr<Sum> sum = sumOf(op);
  if (failed(sum))
    return failure();
  Operation *ret = kernel.front().getTerminator();
  Location loc = op.getLoc();
  Value part = sum->flat.getSrc();
  Slice before = sliceOf(part, nullptr),
        after = sliceOf(ret->getOperands(), sum->whole);
  SmallVector<Value> made, results;
  func::FuncOp partial =
      makeFunction(kernel, "_partial", before, part.getType(), part, made);
  OpBuilder b = OpBuilder::atBlockEnd(&partial.front());
  Value into = partial.getArguments().back();
  Value stored = bufferization::MaterializeInDestinationOp::create(
                     b, loc, into.getType(), made.front(), into)
                     .getResult();
  func::ReturnOp::create(b, loc, stored);
  func::FuncOp rest =
      makeFunction(kernel, "_rest", after, {}, ret->getOperands(), results);
  b.setInsertionPointToEnd(&rest.front());
  func::ReturnOp::create(b, loc, results);

  b.setInsertionPoint(sum->flat);
  SmallVector<OpFoldResult> sizes = sum->whole.getMixedOutputShape();
  auto type = cast<RankedTensorType>(part.getType());
  SmallVector<Value> arguments(before.inputs);
  arguments.push_back(
      tensor::EmptyOp::create(b, loc, sizes, type.getElementType()));
  sum->flat.getSrcMutable().assign(call(b, loc, partial, arguments).front());
  b.setInsertionPoint(ret);
  ret->setOperands(call(b, loc, rest, after.inputs));
  SmallVector<Operation *> ops;
  for (Operation &each : kernel.front().without_terminator())
    ops.push_back(&each);
  for (Operation *each : llvm::reverse(ops))
    if (isOpTriviallyDead(each))
      each->erase();
  return success();
}

namespace {
struct CutAtAllReduces : cria::impl::CutAtAllReducesBase<CutAtAllReduces> {
  void runOnOperation() override {
    for (auto kernel : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      SmallVector<mpi::AllReduceOp> sums;
      kernel.walk([&](mpi::AllReduceOp sum) { sums.push_back(sum); });
      if (sums.empty())
        continue;
      if (sums.size() > 1 || !kernel.getBody().hasOneBlock() ||
          sums[0]->getBlock() != &kernel.front()) {
        kernel.emitOpError("expected one sum over ranks in its only block");
        return signalPassFailure();
      }
      if (failed(cut(kernel, sums[0])))
        return signalPassFailure();
    }
  }
};
} // namespace
