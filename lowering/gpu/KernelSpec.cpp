#include "lowering/gpu/KernelSpec.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;
using namespace cria::llama;

/// A tensor as (rows, everything else), through reshapes that only split or
/// join the rest.
static Value flat(Value tensor) {
  while (true) {
    Operation *op = tensor.getDefiningOp();
    if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op))
      tensor = expand.getSrc();
    else if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op))
      tensor = collapse.getSrc();
    else
      return tensor;
  }
}

Value cuda::weightOf(Operation *product) {
  if (auto linear = dyn_cast<LinearOp>(product))
    return linear.getWeight();
  return cast<HeadOp>(product).getWeight();
}

Value cuda::biasOf(Operation *product) {
  auto linear = dyn_cast<LinearOp>(product);
  return linear ? linear.getBias() : Value();
}

Value Output::column(KernelBuilder &b, Value unit, int64_t index) const {
  if (!rope)
    return unit;
  RopeOp op = rope;
  int64_t half = op.getType().getDimSize(2) / 2;
  Value head = b.div(unit, half), i = b.rem(unit, half);
  return b.add(b.add(b.mul(head, 2 * half), i), index * half);
}

/// Collects the products an expression is made of; fails on other ops.
static LogicalResult collect(KernelOp kernel, Value tensor,
                             SmallVectorImpl<Operation *> &products) {
  tensor = flat(tensor);
  Operation *op = tensor.getDefiningOp();
  if (!op || op->getParentOp() != kernel)
    return success();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<LinearOp, HeadOp>([&](auto) {
        if (!is_contained(products, op))
          products.push_back(op);
        return success();
      })
      .Case<SwiGLUOp, ResidualOp>([&](auto) {
        for (Value operand : op->getOperands())
          if (failed(collect(kernel, operand, products)))
            return failure();
        return success();
      })
      .Case<RMSNormOp, LayerNormOp>([&](auto) { return success(); })
      .Default([](Operation *other) {
        return other->emitOpError("has no kernel on the cuda target here");
      });
}

static FailureOr<Output> readOutput(KernelOp kernel, Value yielded) {
  Output output;
  output.result = yielded;
  Value tensor = yielded;
  if (auto append = tensor.getDefiningOp<KVAppendOp>()) {
    output.append = append;
    tensor = append.getRows();
  }
  tensor = flat(tensor);
  if (auto rope = tensor.getDefiningOp<RopeOp>();
      rope && rope->getParentOp() == kernel) {
    output.rope = rope;
    tensor = flat(rope.getInput());
  }
  output.expression = tensor;
  if (failed(collect(kernel, tensor, output.products)))
    return failure();
  return output;
}

static Type elementOf(Operation *product) {
  return cast<RankedTensorType>(weightOf(product).getType()).getElementType();
}

/// A kernel has one norm at most: what all its products read and nothing else
/// does, or all that it computes.
static LogicalResult readNorm(KernelOp kernel, KernelSpec &spec) {
  for (Operation &op : kernel.getBody().front()) {
    if (!isa<RMSNormOp, LayerNormOp>(op))
      continue;
    const Output &first = spec.outputs.front();
    bool feeds = spec.input == op.getResult(0) &&
                 llvm::all_of(op.getUsers(), llvm::IsaPred<LinearOp, HeadOp>);
    bool alone = !spec.input && spec.outputs.size() == 1 && !first.rope &&
                 !first.append && first.expression == op.getResult(0);
    if (spec.norm || !(feeds || alone))
      return op.emitOpError("is not what all products of its kernel read; the "
                            "cuda target takes no other norm in one");
    spec.norm = &op;
  }
  return success();
}

FailureOr<KernelSpec> KernelSpec::read(KernelOp kernel) {
  KernelSpec spec(kernel.getLoc());
  Operation *yield = kernel.getBody().front().getTerminator();
  for (auto [value, result] :
       llvm::zip(yield->getOperands(), kernel.getResults())) {
    FailureOr<Output> output = readOutput(kernel, value);
    if (failed(output))
      return failure();
    output->result = result;
    spec.outputs.push_back(*output);
  }
  for (Output &output : spec.outputs)
    for (Operation *product : output.products) {
      if (elementOf(product) != elementOf(output.products[0]))
        return product->emitOpError(
            "has weights of another type than the product before it in one "
            "kernel; the cuda target takes one");
      Value input = product->getOperand(0);
      if (spec.input && spec.input != input)
        return product->emitOpError(
            "has another input than the product before it in one kernel; the "
            "cuda target takes one");
      spec.input = input;
    }
  if (failed(readNorm(kernel, spec)))
    return failure();
  return spec;
}

Value cuda::evaluate(Launch &launch, Value tensor, Value row, Value column,
                     function_ref<Value(Operation *)> sum) {
  KernelBuilder &b = launch.b;
  tensor = flat(tensor);
  Operation *op = tensor.getDefiningOp();
  auto operand = [&](unsigned i) {
    return evaluate(launch, op->getOperand(i), row, column, sum);
  };
  if (!op || !isa<KernelOp>(op->getParentOp()))
    return b.loadWide(launch.rows(tensor), row, column);
  if (isa<ResidualOp>(op)) {
    Value stream = operand(0);
    return b.fadd(stream, operand(1));
  }
  if (isa<SwiGLUOp>(op)) {
    Value gate = operand(0), up = operand(1);
    return b.fmul(b.fmul(gate, b.sigmoid(gate)), up);
  }
  Value value = sum(op);
  if (Value bias = biasOf(op))
    value = b.fadd(value, b.loadWide(launch.rows(bias), b.i32(0), column, 1,
                                     Access::ReadOnly));
  return value;
}

/// Columns c and c + D/2 of a head, rotated by the row's angle.
static std::pair<Value, Value> rotate(Launch &launch, RopeOp rope, Value row,
                                      Value column, Value first, Value second) {
  KernelBuilder &b = launch.b;
  int64_t size = rope.getType().getDimSize(2);
  Value at = b.add(launch.position(), row), i = b.rem(column, size);
  auto table = [&](Value tensor) {
    return b.load(launch.rows(tensor), at, i, 1, Access::ReadOnly);
  };
  Value cos = table(rope.getCos()), sin = table(rope.getSin());
  return {b.fsub(b.fmul(first, cos), b.fmul(second, sin)),
          b.fadd(b.fmul(second, cos), b.fmul(first, sin))};
}

static void storeElement(Launch &launch, const Output &output, Value row,
                         Value column, Value value) {
  KernelBuilder &b = launch.b;
  if (!output.append)
    return b.store(value, launch.rows(output.result), row, column);
  KVAppendOp append = output.append;
  int64_t size = append.getType().getDimSize(3);
  int64_t positions = append.getType().getDimSize(2);
  Rows cache = launch.cache(append.getCache(), append.getLayer());
  Value at = b.add(b.mul(b.div(column, size), positions),
                   b.add(launch.position(), row));
  b.store(value, cache, at, b.rem(column, size));
}

void cuda::storeUnit(Launch &launch, const Output &output, Value row,
                     Value unit, function_ref<Value(int64_t, int64_t)> sum) {
  KernelBuilder &b = launch.b;
  SmallVector<Value> columns, values;
  for (int64_t c = 0; c < output.unitColumns(); ++c) {
    columns.push_back(output.column(b, unit, c));
    values.push_back(evaluate(
        launch, output.expression, row, columns[c], [&](Operation *product) {
          return sum(c, llvm::find(output.products, product) -
                            output.products.begin());
        }));
  }
  if (output.rope)
    std::tie(values[0], values[1]) =
        rotate(launch, output.rope, row, columns[0], values[0], values[1]);
  for (auto [column, value] : llvm::zip(columns, values))
    storeElement(launch, output, row, column, value);
}
