/// Lowers llama.kernel to a private function of its own and a call.
///
///   %y = llama.kernel "k" {            %o = tensor.empty
///     ... reads %x               =>    %y = call @k_decode(%x, %o)
///     yield %z
///   }                                  func private @k_decode(%x, %o)
#include "dialect/Attributes.h"
#include "dialect/Signature.h"
#include "lowering/linalg/Lowering.h"
#include "lowering/linalg/Pages.h"
#include "lowering/memory/Bounds.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// Collects the operands of a kernel into `operands`. Views and constants
/// become no operands: `inside` has the ops that make them, which are cloned
/// into the kernel.
static void collectOperands(Value value, llvm::SetVector<Operation *> &inside,
                            llvm::SetVector<Value> &operands) {
  Operation *op = value.getDefiningOp();
  if (!op || !(matchPattern(op, m_Constant()) ||
               isa<tensor::ExtractSliceOp, tensor::ExpandShapeOp,
                   tensor::CollapseShapeOp, tensor::SplatOp>(op))) {
    operands.insert(value);
    return;
  }
  // A dimension that a reshape keeps has the size of the source's dimension, so
  // the operands for sizes are not needed.
  ValueRange read = op->getOperands();
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    if (llvm::all_of(expand.getReassociationIndices(), [&](const auto &group) {
          return group.size() == 1 || llvm::none_of(group, [&](int64_t dim) {
                   return expand.getType().isDynamicDim(dim);
                 });
        }))
      read = op->getOperands().take_front(1);
  for (Value operand : read)
    collectOperands(operand, inside, operands);
  inside.insert(op);
}

/// The argument that a value is an update of, in place; null if it is none.
static BlockArgument updatedArgument(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    if (auto loop = dyn_cast<scf::ForOp>(result.getOwner()))
      value = loop.getTiedLoopInit(result)->get();
    else if (auto op = dyn_cast<DestinationStyleOpInterface>(result.getOwner()))
      value = op.getTiedOpOperand(result)->get();
    else
      break;
  }
  return dyn_cast<BlockArgument>(value);
}

/// Stores `value` in `destination`. If `value` is put together from slices, the
/// slices are inserted into `destination` directly. A collapsed value is stored
/// in the shape in which it was computed.
static Value store(LinalgBuilder &b, Value value, Value destination) {
  Value root = value;
  while (auto insert = root.getDefiningOp<tensor::InsertSliceOp>())
    root = insert.getDest();
  if (root != value && root.getDefiningOp<tensor::EmptyOp>() &&
      isa<BlockArgument>(destination)) {
    root.replaceAllUsesWith(destination);
    return value;
  }
  auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
  if (!collapse)
    return bufferization::MaterializeInDestinationOp::create(b, b.getLoc(),
                                                             value, destination)
        .getResult();
  Value source = collapse.getSrc();
  auto groups = collapse.getReassociationIndices();
  Value expanded = tensor::ExpandShapeOp::create(
      b, b.getLoc(), source.getType(), destination, groups, b.sizes(source));
  return tensor::CollapseShapeOp::create(b, b.getLoc(), value.getType(),
                                         store(b, source, expanded), groups);
}

/// Computes a size of a tensor in a kernel, which follows from the kernel's
/// arguments, from the operands of the kernel's call. `outside` maps arguments
/// to operands.
static OpFoldResult computeOutside(LinalgBuilder &b, OpFoldResult size,
                                   IRMapping &outside) {
  auto value = dyn_cast<Value>(size);
  if (!value || outside.contains(value))
    return value ? OpFoldResult(outside.lookup(value)) : size;
  if (auto dim = value.getDefiningOp<tensor::DimOp>())
    if (Value tensor = outside.lookupOrNull(dim.getSource()))
      return b.sizes(tensor)[*dim.getConstantIndex()];
  Operation *op = value.getDefiningOp();
  for (Value operand : op->getOperands()) {
    OpFoldResult computed = computeOutside(b, operand, outside);
    outside.map(operand,
                getValueOrCreateConstantIndexOp(b, b.getLoc(), computed));
  }
  b.clone(*op, outside);
  return outside.lookup(value);
}

/// The numbers of rows of the tensors that a kernel computes, outside of the
/// kernel. Other shapes of the same memory, such as the flat one of a sum over
/// ranks, do not count.
static SmallVector<Value> rowsOf(LinalgBuilder &b, LinalgBuilder &inner,
                                 func::FuncOp kernel, ValueRange operands) {
  IRMapping outside;
  outside.map(kernel.getArguments(), operands);
  llvm::SetVector<Value> rows;
  for (Operation &op : llvm::make_early_inc_range(kernel.front())) {
    if (isa<tensor::CollapseShapeOp, bufferization::ToTensorOp>(op))
      continue;
    for (Value result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      // Tensors of higher rank are paged caches (in blocks, of rank 6), whose
      // first dimension is the number of pages.
      if (!type || !type.getRank() || !type.isDynamicDim(0) ||
          type.getRank() > 4)
        continue;
      OpFoldResult size = computeOutside(b, inner.sizes(result)[0], outside);
      if (auto value = dyn_cast<Value>(size))
        rows.insert(value);
    }
  }
  return rows.takeVector();
}

void FunctionLowering::boundKernels() {
  for (auto &[kernel, rows] : kernels) {
    int64_t most =
        function->getAttrOfType<IntegerAttr>(kChunkAttribute).getInt();
    for (Value value : rows)
      most = std::max(most, Bounds(function).most(value).value_or(most));
    kernel->setAttr(kChunkAttribute, b.getIndexAttr(most));
  }
}

/// Makes a private function named after the kernel and the entry, and appends
/// the operands of its call to `operands`. The function takes the values that
/// it reads. For each result that does not update an argument in place, the
/// function also takes a tensor into which the result is written. A kernel with
/// the head also takes the logits; a kernel with the last norm also takes the
/// hidden states.
func::FuncOp FunctionLowering::lowerKernel(KernelOp op,
                                           SmallVectorImpl<Value> &operands) {
  llvm::SetVector<Value> captured, taken;
  llvm::SetVector<Operation *> inside;
  getUsedValuesDefinedAbove(op.getBody(), captured);
  for (Value value : captured)
    collectOperands(value, inside, taken);
  for (Value value : taken)
    operands.push_back(stored(value));
  Outputs written = {};
  for (Operation &inner : op.getBody().front())
    if (writesOutput(&inner)) {
      Output output = isa<HeadOp>(inner) ? Logits : Hidden;
      written[output] = outputs[output];
      operands.push_back(outputs[output]);
    }

  auto kernel = func::FuncOp::create(
      op.getLoc(), (op.getKernelName() + "_" + entry).str(),
      b.getFunctionType(TypeRange(ValueRange(operands)), {}));
  kernel.setPrivate();
  // A kernel is compiled as a whole; inlined, it would be many.
  kernel.setNoInline(true);
  // The caller chooses how many logits of a prompt are computed, so a kernel
  // that writes a prompt's logits is not invariant.
  if (Attribute invariant = function->getAttr(kInvariantAttribute);
      invariant && (!written[Logits] || entry == "batch"))
    kernel->setAttr(kInvariantAttribute, invariant);
  SymbolTable(function->getParentOp()).insert(kernel, function->getIterator());
  Block *body = kernel.addEntryBlock();
  LinalgBuilder inner(op.getLoc(), b.getContext());
  inner.setInsertionPointToStart(body);
  for (Value &output : written)
    if (output)
      output =
          body->getArgument(llvm::find(operands, output) - operands.begin());
  FunctionLowering lowering(inner, kernel, entry, written, prompt);
  for (auto [value, argument] : llvm::zip(taken, body->getArguments()))
    lowering.set(value, argument);
  for (Operation *view : inside)
    lowering.lower(view);
  lowering.lowerBlock(op.getBody().front());

  inner.setLoc(op.getLoc());
  SmallVector<Value> results;
  for (Value old : op.getBody().front().getTerminator()->getOperands()) {
    Value value = lowering.writable(old);
    if (!updatedArgument(value)) {
      auto type = cast<RankedTensorType>(value.getType());
      IRMapping outside;
      outside.map(body->getArguments(), operands);
      auto sizes = llvm::map_to_vector(inner.sizes(value), [&](auto size) {
        return computeOutside(b, size, outside);
      });
      Value destination = body->addArgument(type, op.getLoc());
      value = store(inner, value, destination);
      operands.push_back(b.empty(sizes, type.getElementType()));
    }
    results.push_back(value);
  }
  kernels.push_back({kernel, rowsOf(b, inner, kernel, operands)});
  func::ReturnOp::create(inner, op.getLoc(), results);
  kernel.setType(b.getFunctionType(body->getArgumentTypes(),
                                   TypeRange(ValueRange(results))));
  return kernel;
}

void FunctionLowering::lower(KernelOp op) {
  SmallVector<Value> operands;
  func::FuncOp kernel = lowerKernel(op, operands);
  auto call = func::CallOp::create(b, b.getLoc(), kernel, operands);
  for (auto [old, value] : llvm::zip(op.getResults(), call.getResults()))
    storedForm[old] = value;
}
