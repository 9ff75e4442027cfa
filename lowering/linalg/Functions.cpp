#include "lowering/linalg/Functions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;

namespace {
/// Arithmetic on one builder, short enough to read as formulas.
struct Scalars {
  LinalgBuilder &b;

  Value add(Value x, Value y) {
    return arith::AddFOp::create(b, b.getLoc(), x, y);
  }
  Value add(Value x, double y) { return add(x, b.f32(y)); }
  Value mul(Value x, Value y) {
    return arith::MulFOp::create(b, b.getLoc(), x, y);
  }
  Value mul(Value x, double y) { return mul(x, b.f32(y)); }
  Value div(Value x, Value y) {
    return arith::DivFOp::create(b, b.getLoc(), x, y);
  }
  Value exp(Value x) { return math::ExpOp::create(b, b.getLoc(), x); }
  Value relu(Value x) {
    return arith::MaximumFOp::create(b, b.getLoc(), x, b.f32(0));
  }
  Value tanh(Value x);
  Value erf(Value x);
};
} // namespace

/// 1 - 2 / (e^2x + 1). The absolute error is an ulp of 1. The result is also
/// correct if e^2x is 0 or infinite.
Value Scalars::tanh(Value x) {
  Value below = div(b.f32(-2), add(exp(mul(x, 2)), 1));
  return add(below, 1);
}

/// Abramowitz and Stegun 7.1.26: 1 - (a1 t + ... + a5 t^5) e^-x^2 with t = 1 /
/// (1 + p |x|). The absolute error is at most 1.5e-7.
Value Scalars::erf(Value x) {
  Value size = math::AbsFOp::create(b, b.getLoc(), x);
  Value t = div(b.f32(1), add(mul(size, 0.3275911), 1));
  Value sum = b.f32(1.061405429);
  for (double a : {-1.453152027, 1.421413741, -0.284496736, 0.254829592})
    sum = add(mul(sum, t), a);
  Value rest = mul(mul(sum, t), exp(mul(mul(x, x), -1)));
  return math::CopySignOp::create(b, b.getLoc(), add(mul(rest, -1), 1), x);
}

Value cria::softcap(LinalgBuilder &b, Value x, llvm::APFloat cap) {
  Scalars s{b};
  double most = cap.convertToDouble();
  return s.mul(s.tanh(s.mul(x, 1 / most)), most);
}

Value cria::activate(LinalgBuilder &b, Activation activation, Value x) {
  Scalars s{b};
  switch (activation) {
  case Activation::Silu: {
    Value negative = arith::NegFOp::create(b, b.getLoc(), x);
    return s.div(x, s.add(s.exp(negative), 1));
  }
  case Activation::QuickGelu:
    return s.div(x, s.add(s.exp(s.mul(x, -1.702)), 1));
  case Activation::GeluTanh: {
    Value cube = s.mul(s.mul(s.mul(x, x), x), 0.044715);
    Value inner = s.mul(s.add(x, cube), 0.7978845608028654); // sqrt(2 / pi)
    return s.mul(s.mul(x, 0.5), s.add(s.tanh(inner), 1));
  }
  case Activation::Gelu: {
    Value erf = s.erf(s.mul(x, 0.7071067811865476)); // sqrt(1 / 2)
    return s.mul(s.mul(x, 0.5), s.add(erf, 1));
  }
  case Activation::Relu:
    return s.relu(x);
  case Activation::Relu2: {
    Value positive = s.relu(x);
    return s.mul(positive, positive);
  }
  case Activation::Identity:
    return x;
  case Activation::Softplus: {
    // max(x, 0) + log(1 + e^-|x|) overflows nowhere.
    Value size = math::AbsFOp::create(b, b.getLoc(), x);
    Value rest =
        math::LogOp::create(b, b.getLoc(), s.add(s.exp(s.mul(size, -1)), 1));
    return s.add(s.relu(x), rest);
  }
  case Activation::Sigmoid:
    return s.div(b.f32(1),
                 s.add(s.exp(arith::NegFOp::create(b, b.getLoc(), x)), 1));
  }
  llvm_unreachable("unknown activation");
}
