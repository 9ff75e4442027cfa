#include "lowering/gpu/schedules/Linear.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace cria;
using namespace cria::simt;

bool simt::reads(const FormulaRef &formula,
                 llvm::function_ref<bool(const Element &)> is) {
  if (!formula)
    return false;
  return formula->kind == Formula::Read
             ? is(formula->element)
             : llvm::any_of(formula->operands, [&](const FormulaRef &operand) {
                 return reads(operand, is);
               });
}

Value simt::evaluate(KernelBuilder &b, const FormulaRef &formula,
                     llvm::function_ref<Value(const Element &)> read) {
  if (!formula)
    return b.f32(0);
  SmallVector<Value> in;
  for (const FormulaRef &operand : formula->operands)
    in.push_back(evaluate(b, operand, read));
  switch (formula->kind) {
  case Formula::One:
    return b.f32(1);
  case Formula::Read:
    return read(formula->element);
  case Formula::Add:
    return b.fadd(in[0], in[1]);
  case Formula::Sub:
    return b.fsub(in[0], in[1]);
  case Formula::Neg:
    return b.fsub(b.f32(0), in[0]);
  case Formula::Mul:
    return b.fmul(in[0], in[1]);
  case Formula::Clone:
    break;
  }
  Operation &op = *formula->op;
  if (isa<arith::ExtFOp>(op))
    return in[0];
  for (auto [value, operand] : llvm::zip_equal(in, op.getOperands()))
    value = b.narrow(value, operand.getType());
  OperationState state(op.getLoc(), op.getName(), in, op.getResultTypes(),
                       op.getAttrs());
  return b.widen(b.create(state)->getResult(0));
}

Linear LinearReader::ofRest(FormulaRef rest) {
  return {std::move(rest), SmallVector<FormulaRef>(variables.size())};
}

std::optional<Linear> LinearReader::read(const Element &element,
                                         ArrayRef<Element> variables) {
  this->variables = variables;
  Payload made = elements.define(element, box);
  if (made.kind != Payload::Payload)
    return read(element);
  Value value = yielded(made.op, made.result);
  if (auto rounded = value.getDefiningOp<arith::TruncFOp>())
    value = rounded.getIn();
  return read(value, made);
}

std::optional<Linear> LinearReader::read(const Element &element) {
  for (auto [i, variable] : llvm::enumerate(variables))
    if (variable == element) {
      Linear result = ofRest(nullptr);
      result.factors[i] = std::make_shared<Formula>(Formula{Formula::One});
      return result;
    }
  if (known(element))
    return ofRest(std::make_shared<Formula>(Formula{Formula::Read, element}));
  Payload made = elements.define(element, box);
  if (made.kind == Payload::Same)
    return read(made.same);
  if (made.kind == Payload::Payload)
    return read(yielded(made.op, made.result), made);
  return std::nullopt;
}

/// An op of formulas, with what is known of zero and one.
static FormulaRef make(Formula::Kind kind, FormulaRef a, FormulaRef b = {}) {
  if (kind == Formula::Mul) {
    if (!a || !b)
      return nullptr;
    if (a->kind == Formula::One || b->kind == Formula::One)
      return a->kind == Formula::One ? b : a;
  } else if (!a || !b) {
    if (!a && !b)
      return nullptr;
    if (kind == Formula::Add)
      return a ? a : b;
    if (kind == Formula::Sub && a)
      return a;
    kind = Formula::Neg;
    a = a ? a : b;
    return std::make_shared<Formula>(Formula{kind, {}, nullptr, {a}});
  }
  return std::make_shared<Formula>(Formula{kind, {}, nullptr, {a, b}});
}

static bool isConstant(const Linear &linear) {
  return llvm::none_of(linear.factors,
                       [](const FormulaRef &it) { return !!it; });
}

/// A value of a payload, or a number from outside of it.
std::optional<Linear> LinearReader::read(Value value, const Payload &of) {
  linalg::LinalgOp payload = of.op;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() != payload.getBlock())
      return std::nullopt;
    OpOperand &operand = payload->getOpOperand(argument.getArgNumber());
    if (!isa<RankedTensorType>(operand.get().getType()))
      return std::nullopt;
    return read(elements.operand(payload, operand, of.loops, box));
  }
  Operation *op = value.getDefiningOp();
  if (auto number = dyn_cast<tensor::ExtractOp>(op))
    return read(elements.extracted(number));
  bool isNumber = matchPattern(op, m_Constant());
  if (!isa<FloatType>(value.getType()) || op->getNumResults() != 1 ||
      (!isNumber && !OpTrait::hasElementwiseMappableTraits(op)))
    return std::nullopt;
  SmallVector<Linear> in;
  for (Value operand : op->getOperands()) {
    std::optional<Linear> read = this->read(operand, of);
    if (!read)
      return std::nullopt;
    in.push_back(*read);
  }
  if (llvm::all_of(in, isConstant)) {
    auto clone = std::make_shared<Formula>(Formula{Formula::Clone, {}, op});
    for (const Linear &operand : in)
      clone->operands.push_back(operand.rest);
    return ofRest(clone);
  }
  auto each = [&](auto combine) {
    Linear result = ofRest(combine(in[0].rest, in.back().rest));
    for (size_t i = 0; i < variables.size(); ++i)
      result.factors[i] = combine(in[0].factors[i], in.back().factors[i]);
    return result;
  };
  if (isa<arith::AddFOp, arith::SubFOp>(op)) {
    auto kind = isa<arith::AddFOp>(op) ? Formula::Add : Formula::Sub;
    return each([&](auto a, auto b) { return make(kind, a, b); });
  }
  if (isa<arith::NegFOp>(op))
    return each([&](auto a, auto) { return make(Formula::Neg, a); });
  if (!isa<arith::MulFOp>(op) || (!isConstant(in[0]) && !isConstant(in[1])))
    return std::nullopt;
  FormulaRef by = in[isConstant(in[0]) ? 0 : 1].rest;
  const Linear &other = in[isConstant(in[0]) ? 1 : 0];
  Linear result = ofRest(make(Formula::Mul, by, other.rest));
  for (auto [factor, old] : llvm::zip_equal(result.factors, other.factors))
    factor = make(Formula::Mul, by, old);
  return result;
}
