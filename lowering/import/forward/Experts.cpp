/// A mixture of experts.
#include "lowering/import/forward/Layer.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// Declares a matrix of each expert of some layers. If `fused` is given, it is
/// the rows [row, row + out) of a matrix with twice as many rows.
static void declareExpert(ModelBuilder &b, StringRef symbol, StringRef path,
                          int64_t out, int64_t in, StringRef fused, int64_t row,
                          Layers layers) {
  StringRef module = fused.empty() ? path : fused, tensor = "weight";
  if (b.family.experts.areBare)
    std::tie(module, tensor) = module.rsplit('.');
  WeightOp made =
      b.declare(module, tensor, {b.config.experts, out, in}, layers, symbol);
  made.setExperts(true);
  if (!fused.empty()) {
    made.setFirstRow(row);
    made.setSourceRows(2 * out);
  }
}

/// Declares the matrices and biases of ExpertModules::areTransposed.
static void declareTransposed(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  auto declareBoth = [&](StringRef symbol, StringRef path, int64_t out,
                         int64_t in) {
    auto [module, tensor] = path.rsplit('.');
    WeightOp made =
        b.declare(module, tensor, {c.experts, out, in}, layers, symbol);
    made.setExperts(true);
    made.setTransposed(true);
    b.atLayer(path);
    made->setLoc(b.getLoc());
    b.declare(module, biasSymbol(tensor), {c.experts, out}, layers,
              biasSymbol(symbol));
  };
  const MlpModules &names = b.family.experts.each;
  declareBoth("experts_gate_up", names.fused, 2 * c.expertSize, c.hiddenSize);
  declareBoth("experts_down", names.down, c.hiddenSize, c.expertSize);
}

/// Declares the router and what it chooses with.
static void declareRouter(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  const ExpertModules &names = b.family.experts;
  auto setF32 = [&](WeightOp weight) {
    weight.setType(RankedTensorType::get(weight.getTensorType().getShape(),
                                         b.getF32Type()));
  };
  WeightOp router = b.declareLinear("router", names.router, c.experts,
                                    c.hiddenSize, names.areTransposed, layers);
  if (names.routerIsF32)
    setF32(router);
  // Scores are computed in f32.
  if (!names.correction.empty() && c.correctsScores) {
    auto [path, tensor] = names.correction.rsplit('.');
    SmallVector<int64_t> shape = {c.experts};
    if (names.correctionIsRow)
      shape.insert(shape.begin(), 1);
    setF32(b.declare(path, tensor, shape, layers, "router_correction"));
  }
  b.declareTensor(names.routerNorm, {c.hiddenSize}, layers, "router_norm");
  b.declareTensor(names.factors, {c.experts}, layers, "router_factors");
}

/// The prefix of symbols of the MLP beside the experts.
static constexpr llvm::StringLiteral sharedPrefix = "shared_";

void forward::declareExperts(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  const ExpertModules &names = b.family.experts;
  int64_t hidden = c.hiddenSize, inner = c.expertSize;
  declareRouter(b, layers);
  b.declareNorm(names.norm, hidden, layers);
  b.declareNorm(names.mlpEnd, hidden, layers);
  b.declareNorm(names.end, hidden, layers);
  if (names.areTransposed)
    return declareTransposed(b, layers);
  const MlpModules &each = names.each;
  if (!each.gate.empty() || !each.fused.empty())
    declareExpert(b, "experts_gate", each.gate, inner, hidden, each.fused, 0,
                  layers);
  declareExpert(b, "experts_up", each.up, inner, hidden, each.fused, inner,
                layers);
  declareExpert(b, "experts_down", each.down, hidden, inner, "", 0, layers);
  if (c.sharedSize)
    declareMlp(b, names.shared, sharedPrefix, c.sharedSize, layers);
  if (!names.sharedGate.empty())
    b.declareLinear("shared_factor", names.sharedGate, 1, hidden,
                    /*bias=*/false, layers);
}

/// Chooses the experts of each token.
static RouteOp route(ModelBuilder &b, Value x, Value layer) {
  const ModelConfig &c = b.config;
  const ExpertModules &names = b.family.experts;
  Value logits = b.linearInF32("router", x, layer);
  Value correction = b.optionalWeight("router_correction", layer);
  if (names.correctionIsRow)
    correction = tensor::CollapseShapeOp::create(
        b, RankedTensorType::get({c.experts}, b.getF32Type()), correction,
        ArrayRef<ReassociationIndices>{{0, 1}});
  auto score = names.score == ExpertModules::Softmax   ? Score::Softmax
               : names.score == ExpertModules::Sigmoid ? Score::Sigmoid
                                                       : Score::Logits;
  auto normalize = Normalization::None;
  double floor = 0;
  if (names.weights == ExpertModules::SoftmaxOfChosen) {
    normalize = Normalization::Softmax;
  } else if (names.weights == ExpertModules::SumAtLeast) {
    normalize = Normalization::SumAtLeast;
    floor = c.leastScores;
  } else if (names.weights == ExpertModules::Sum || c.normalizesExperts) {
    normalize = Normalization::Sum;
    floor = names.floor;
  }
  auto route = RouteOp::create(
      b, logits, correction, b.optionalWeight("router_factors", layer),
      static_cast<uint64_t>(c.chosenExperts), score, normalize,
      llvm::APFloat(floor), llvm::APFloat(c.expertScale),
      llvm::APFloat(c.routerScale), /*groups=*/IntegerAttr(),
      /*kept_groups=*/IntegerAttr());
  if (c.expertGroups > 1) {
    route.setGroups(c.expertGroups);
    route.setKeptGroups(c.keptGroups);
    route.setGroupBest(names.groupBest);
  }
  return route;
}

/// Columns of x that lie in turns: every other one from column `first` on.
static Value everyOther(ModelBuilder &b, Value tokens, Value x, int64_t first) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t slots = type.getDimSize(1), half = type.getDimSize(2) / 2;
  SmallVector<OpFoldResult> shape = {tokens, b.getIndexAttr(slots),
                                     b.getIndexAttr(half), b.getIndexAttr(2)};
  Value pairs = tensor::ExpandShapeOp::create(
      b, type.clone({ShapedType::kDynamic, slots, half, 2}), x,
      ArrayRef<ReassociationIndices>{{0}, {1}, {2, 3}}, shape);
  SmallVector<OpFoldResult> from(4, b.getIndexAttr(0)),
      step(4, b.getIndexAttr(1));
  from[3] = b.getIndexAttr(first);
  shape[3] = b.getIndexAttr(1);
  Value columns = tensor::ExtractSliceOp::create(b, pairs, from, shape, step);
  return tensor::CollapseShapeOp::create(
      b, type.clone({ShapedType::kDynamic, slots, half}), columns,
      ArrayRef<ReassociationIndices>{{0}, {1}, {2, 3}});
}

Value forward::experts(ModelBuilder &b, const Text &text, Value x,
                       Value layer) {
  const ModelConfig &c = b.config;
  const ExpertModules &names = b.family.experts;
  Value routed = x;
  if (!names.routerNorm.empty()) {
    b.atLayer(names.routerNorm);
    routed = b.plainNorm(x, b.weight("router_norm", layer));
  }
  RouteOp chosen = route(b, routed, layer);
  if (!names.norm.empty())
    x = b.norm(names.norm, x, layer);
  auto linearOfEach = [&](StringRef symbol, Value x) -> Value {
    b.atWeight(symbol);
    return ExpertLinearOp::create(b, x, b.weight(symbol, layer),
                                  chosen.getExperts(),
                                  b.optionalWeight(biasSymbol(symbol), layer));
  };
  Value gate, up;
  if (names.areTransposed) {
    Value both = linearOfEach("experts_gate_up", x);
    gate = everyOther(b, text.tokens, both, 0);
    up = everyOther(b, text.tokens, both, 1);
  } else {
    if (b.isDeclared("experts_gate"))
      gate = linearOfEach("experts_gate", x);
    up = linearOfEach("experts_up", x);
  }
  auto function = static_cast<Activation>(c.gate);
  Value product = gate ? b.gated(gate, up, function, c.gateLimit, c.gateAlpha)
                       : ActivateOp::create(b, function, up);
  Value down = linearOfEach("experts_down", product);
  Value sum = CombineOp::create(b, chosen.getWeights(), down);
  if (!c.sharedSize)
    return sum;
  Value shared = mlp(b, text, names.shared, sharedPrefix, x, layer);
  if (!names.sharedGate.empty()) {
    Value factor = b.linear("shared_factor", x, layer);
    shared = b.gated(factor, shared, Activation::Sigmoid);
  }
  return ResidualOp::create(b, sum, shared, 1.0);
}
