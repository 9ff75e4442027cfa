/// The projector, which follows a vision tower or is a model of its own.
#include "lowering/import/forward/Forward.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The widths of a projector: of its input, and of each linear's result.
static SmallVector<int64_t> widthsOf(const ModelConfig &c) {
  int64_t in = c.projectorIn, out = c.projectorOut;
  if (c.projector->linears[1].empty())
    return {in, out};
  if (c.projector->linears[2].empty())
    return {in, out, out};
  return {in, c.projector->widening * in, out, out};
}

/// The symbols of the norm and of a linear.
static constexpr llvm::StringLiteral normSymbol = "projector_norm";
static std::string linearSymbol(size_t index) {
  return "projector_" + std::to_string(index + 1);
}

void forward::declareProjector(ModelBuilder &b) {
  const ModelConfig &c = b.config;
  const ProjectorModules &names = *c.projector;
  SmallVector<int64_t> widths = widthsOf(c);
  if (!names.norm.empty())
    b.declare(names.norm, "weight", {c.projectorIn}, {}, normSymbol);
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    SmallVector<int64_t> shape = {widths[i + 1], widths[i]};
    std::string symbol = linearSymbol(i);
    if (names.isTransposed)
      b.declareTensor(names.linears[i], shape, {}, symbol).setTransposed(true);
    else
      b.declareLinear(symbol, names.linears[i], shape[0], shape[1],
                      c.projectorBias, {});
  }
}

Value forward::project(ModelBuilder &b, Value x) {
  const ModelConfig &c = b.config;
  const ProjectorModules &names = *c.projector;
  if (!names.norm.empty()) {
    b.at(names.norm);
    x = RMSNormOp::create(b, x, b.weight(normSymbol), /*squares=*/Value(),
                          llvm::APFloat(c.normEps), /*round_once=*/true,
                          /*unit_offset=*/true, /*column=*/0,
                          /*size=*/IntegerAttr());
  }
  for (size_t i = 0, count = widthsOf(c).size() - 1; i < count; ++i) {
    x = b.linear(linearSymbol(i), x);
    if (i + 1 < count)
      x = ActivateOp::create(b, static_cast<Activation>(c.projectorGate), x);
  }
  return x;
}
