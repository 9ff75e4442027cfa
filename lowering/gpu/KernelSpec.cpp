#include "lowering/gpu/KernelSpec.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cria;
using namespace cria::cuda;
using namespace cria::llama;

bool cuda::keepsRows(Operation *reshape) {
  SmallVector<ReassociationIndices> groups;
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(reshape))
    groups = expand.getReassociationIndices();
  else
    groups = cast<tensor::CollapseShapeOp>(reshape).getReassociationIndices();
  return !groups.empty() && groups.front().size() == 1;
}

Value cuda::flatten(Value tensor) {
  while (Operation *op = tensor.getDefiningOp()) {
    if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op) ||
        !keepsRows(op))
      break;
    tensor = op->getOperand(0);
  }
  return tensor;
}

Value cuda::weightOf(Operation *product) {
  if (auto linear = dyn_cast<LinearOp>(product))
    return linear.getWeight();
  return cast<HeadOp>(product).getWeight();
}

Value cuda::biasOf(Operation *product) {
  if (auto linear = dyn_cast<LinearOp>(product))
    return linear.getBias();
  auto head = dyn_cast<HeadOp>(product);
  return head ? head.getBias() : Value();
}

/// The pairs of a head, and how many of them are rotated.
static std::pair<int64_t, int64_t> pairsOf(RopeOp op) {
  return {op.getType().getDimSize(2) / 2, op.getCos().getType().getDimSize(1)};
}

/// RoPE rotates pairs of columns. Pair i < R is (i, i + R). The other columns
/// (2R and up) are not rotated; they are paired only so that a thread handles
/// two.
Value Output::column(KernelBuilder &b, Value unit, int64_t index) const {
  if (!rope)
    return unit;
  auto [pairs, rotated] = pairsOf(rope);
  Value head = b.div(unit, pairs), i = b.rem(unit, pairs);
  Value start = b.mul(head, 2 * pairs);
  if (pairs == rotated)
    return b.add(b.add(start, i), index * pairs);
  Value turns = b.less(i, b.i32(rotated));
  Value from = b.select(turns, b.i32(index * rotated),
                        b.i32(rotated + index * (pairs - rotated)));
  return b.add(b.add(start, i), from);
}

/// The linear of the same kernel whose rows, or heads, a norm normalizes.
static LinearOp normalizedProduct(Operation *norm) {
  auto linear = flatten(norm->getOperand(0)).getDefiningOp<LinearOp>();
  return linear && linear->getParentOp() == norm->getParentOp() ? linear
                                                                : LinearOp();
}

/// Collects the products an expression is made of; fails on other ops.
static LogicalResult collect(KernelOp kernel, Value tensor,
                             SmallVectorImpl<Operation *> &products) {
  tensor = flatten(tensor);
  Operation *op = tensor.getDefiningOp();
  if (!op || op->getParentOp() != kernel)
    return success();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<LinearOp, HeadOp>([&](auto) {
        if (!is_contained(products, op))
          products.push_back(op);
        return success();
      })
      .Case<AddRowsOp>([&](AddRowsOp add) {
        return collect(kernel, add.getInput(), products);
      })
      .Case<SwiGLUOp, ActivateOp, ResidualOp>([&](auto) {
        for (Value operand : op->getOperands())
          if (failed(collect(kernel, operand, products)))
            return failure();
        return success();
      })
      .Case<RMSNormOp, LayerNormOp>([&](auto) {
        if (normalizedProduct(op))
          products.push_back(op);
        return success();
      })
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
  tensor = flatten(tensor);
  if (auto rope = tensor.getDefiningOp<RopeOp>();
      rope && rope->getParentOp() == kernel) {
    output.rope = rope;
    tensor = flatten(rope.getInput());
  }
  output.expression = tensor;
  if (failed(collect(kernel, tensor, output.products)))
    return failure();
  return output;
}

static Type elementOf(Operation *product) {
  return cast<RankedTensorType>(weightOf(product).getType()).getElementType();
}

static bool isFinished(const KernelSpec &spec, Operation *norm) {
  return llvm::any_of(spec.finished, [&](const Output &output) {
    return output.products[0] == norm;
  });
}

/// An output that reads a norm of a product becomes two: the product, stored to
/// a place of its own, and what is made of its norm.
static LogicalResult splitNorms(KernelSpec &spec) {
  for (Output &output : spec.outputs) {
    bool hasNorm = llvm::any_of(output.products, [](Operation *op) {
      return isa<RMSNormOp, LayerNormOp>(op);
    });
    if (!hasNorm)
      continue;
    Operation *norm = output.products[0];
    if (output.products.size() != 1)
      return norm->emitOpError("normalizes one of several products of an "
                               "output; the cuda target takes one");
    auto normed = cast<RankedTensorType>(norm->getResult(0).getType());
    if (output.rope &&
        normed.getShape().back() % output.rope.getType().getDimSize(2) != 0)
      return norm->emitOpError("expected to normalize whole heads of the "
                               "llama.rope that reads it");
    spec.finished.push_back(output);
    LinearOp linear = normalizedProduct(norm);
    output = Output();
    output.expression = output.result = linear;
    output.products.push_back(linear);
  }
  return success();
}

/// A kernel has one norm at most: what all its products read and nothing else
/// does, or all that it computes.
static LogicalResult readNorm(KernelOp kernel, KernelSpec &spec) {
  for (Operation &op : kernel.getBody().front()) {
    if (!isa<RMSNormOp, LayerNormOp>(op) || isFinished(spec, &op))
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
  if (failed(splitNorms(spec)))
    return failure();
  for (Output &output : spec.outputs) {
    // A thread holds the sums of whole units: two side by side, no more.
    if (output.unitSums() > 2)
      return output.products.back()->emitOpError("is one of ")
             << output.products.size() << " products of an output"
             << (output.rope ? " that is rotated" : "")
             << "; the cuda target supports " << (output.rope ? "one" : "two");
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
  }
  if (failed(readNorm(kernel, spec)))
    return failure();
  return spec;
}

Value cuda::scaled(KernelBuilder &b, Value x, llvm::APFloat scale) {
  double factor = scale.convertToDouble();
  return factor == 1 ? x : b.fmul(x, b.f32(factor));
}

Value cuda::softcap(KernelBuilder &b, Value x, llvm::APFloat cap, double unit) {
  double most = cap.convertToDouble();
  return b.fmul(b.tanh(b.fmul(x, b.f32(unit / most))), b.f32(most / unit));
}

/// See llama.swiglu.
static Value activate(KernelBuilder &b, Activation activation, Value x) {
  auto half = [&](Value f) {
    return b.fmul(b.fmul(x, b.f32(0.5)), b.fadd(f, b.f32(1)));
  };
  switch (activation) {
  case Activation::Silu:
    return b.fmul(x, b.sigmoid(x));
  case Activation::GeluTanh: {
    Value cube = b.fmul(b.fmul(b.fmul(x, x), x), b.f32(0.044715));
    return half(b.tanh(b.fmul(b.fadd(x, cube), b.f32(0.7978845608028654))));
  }
  case Activation::Gelu:
    return half(b.erf(b.fmul(x, b.f32(0.7071067811865476))));
  case Activation::Relu:
    return b.fmax(x, b.f32(0));
  }
  llvm_unreachable("unknown activation");
}

Value cuda::evaluate(Launch &launch, Value tensor, Value row, Value column,
                     function_ref<Value(Operation *)> sum) {
  KernelBuilder &b = launch.b;
  tensor = flatten(tensor);
  Operation *op = tensor.getDefiningOp();
  auto operand = [&](unsigned i) {
    return evaluate(launch, op->getOperand(i), row, column, sum);
  };
  if (!op || !isa<KernelOp>(op->getParentOp()))
    return b.loadWide(launch.rows(tensor), row, column);
  if (auto residual = dyn_cast<ResidualOp>(op)) {
    Value stream = operand(0);
    return b.fadd(stream, scaled(b, operand(1), residual.getScale()));
  }
  if (auto swiglu = dyn_cast<SwiGLUOp>(op)) {
    Value gate = operand(0), up = operand(1);
    return b.fmul(activate(b, swiglu.getActivation(), gate), up);
  }
  if (auto activation = dyn_cast<ActivateOp>(op))
    return activate(b, activation.getActivation(), operand(0));
  auto fromTable = [&](Value table, Value at) {
    return b.loadWide(launch.rows(table), at, column, 1, Access::ReadOnly);
  };
  if (auto add = dyn_cast<AddRowsOp>(op)) {
    Value at = add.getPosition() ? b.add(launch.position(), row) : b.i32(0);
    Value own = fromTable(add.getTable(), at);
    return b.fadd(operand(0), own);
  }
  auto head = dyn_cast<HeadOp>(op);
  Value value = sum(op);
  if (head)
    value = scaled(b, value, head.getScale());
  if (Value bias = biasOf(op))
    value = b.fadd(value, fromTable(bias, b.i32(0)));
  if (head && head.getSoftcap())
    value = softcap(b, value, *head.getSoftcap());
  return value;
}

/// A pair of a head, rotated by the row's angle, if it is one that turns.
static std::pair<Value, Value> rotate(Launch &launch, RopeOp rope, Value row,
                                      Value unit, Value first, Value second) {
  KernelBuilder &b = launch.b;
  auto [pairs, rotated] = pairsOf(rope);
  Value at = b.add(launch.position(), row), i = b.rem(unit, pairs);
  Value turns = pairs == rotated ? Value() : b.less(i, b.i32(rotated));
  if (turns)
    i = b.select(turns, i, b.i32(0));
  auto table = [&](Value tensor) {
    return b.load(launch.rows(tensor), at, i, 1, Access::ReadOnly);
  };
  Value cos = table(rope.getCos()), sin = table(rope.getSin());
  if (turns) {
    cos = b.select(turns, cos, b.f32(1));
    sin = b.select(turns, sin, b.f32(0));
  }
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
        rotate(launch, output.rope, row, unit, values[0], values[1]);
  for (auto [column, value] : llvm::zip(columns, values))
    storeElement(launch, output, row, column, value);
}
