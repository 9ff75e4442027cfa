#include "lowering/import/forward/ModelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using forward::Layers;
using forward::ModelBuilder;

StringRef forward::lastName(StringRef path) {
  return path.substr(path.rfind('.') + 1);
}

std::string forward::prefixed(StringRef prefix, StringRef path) {
  return (prefix + lastName(path)).str();
}

std::string forward::biasSymbol(StringRef symbol) {
  return (symbol + "_bias").str();
}

ModelBuilder::ModelBuilder(const ModelConfig &config, Type type,
                           ModuleOp module)
    : ImplicitLocOpBuilder(UnknownLoc::get(type.getContext()),
                           type.getContext()),
      config(config), family(*config.family), type(type),
      layerPath((family.layers + ".*").str()), module(module) {
  setInsertionPointToEnd(module.getBody());
}

void ModelBuilder::at(const Twine &path) {
  setLoc(NameLoc::get(getStringAttr(path)));
}

void ModelBuilder::atLayer(StringRef path) {
  at(layerPath + (path.empty() ? "" : ".") + path);
}

void ModelBuilder::atWeight(StringRef symbol) {
  setLoc(declared<WeightOp>(symbol).getLoc());
}

WeightOp ModelBuilder::declare(StringRef path, StringRef kind,
                               ArrayRef<int64_t> shape, Layers layers,
                               StringRef symbol) {
  bool layered = !layers.empty();
  StringRef dot = path.empty() ? "" : ".",
            outer = config.scalesWeights ? family.scaledLayers : family.layers;
  std::string own = (path + dot).str(),
              module = layered ? (layerPath + dot + path).str() : path.str(),
              source = (layered ? outer + ".{}." + own : own).str();
  if (size_t expert = module.find("{}"); expert != std::string::npos)
    module.replace(expert, 2, "*");
  at(module);
  int64_t first = layered ? layers.front() : 0,
          count = layered ? layers.back() - first + 1 : 0;
  auto made = WeightOp::create(
      *this, symbol.empty() ? lastName(path) : symbol,
      layered ? getI64IntegerAttr(count) : IntegerAttr(), tensorType(shape),
      source + kind.str(), /*first_row=*/IntegerAttr(),
      /*source_rows=*/IntegerAttr(), first, /*adapter=*/false,
      /*tied=*/FlatSymbolRefAttr(), /*slot=*/IntegerAttr(),
      /*split=*/SplitAttr(), /*sym_visibility=*/StringAttr(),
      /*layers=*/DenseI64ArrayAttr());
  if (static_cast<int64_t>(layers.size()) != count)
    made.setLayers(layers);
  return made;
}

WeightOp ModelBuilder::declareTensor(StringRef name, ArrayRef<int64_t> shape,
                                     Layers layers, StringRef symbol) {
  if (name.empty())
    return {};
  size_t dot = name.rfind('.');
  StringRef tensor = lastName(name), path = name.substr(0, dot);
  if (dot == StringRef::npos)
    path = "";
  return declare(path, tensor, shape, layers, symbol.empty() ? tensor : symbol);
}

WeightOp ModelBuilder::declareLinear(StringRef symbol, StringRef path,
                                     int64_t out, int64_t in, bool bias,
                                     Layers layers, StringRef fused,
                                     int64_t row, int64_t rows) {
  auto declareRows = [&](StringRef kind, ArrayRef<int64_t> shape,
                         StringRef symbol) {
    WeightOp made =
        declare(fused.empty() ? path : fused, kind, shape, layers, symbol);
    if (!fused.empty()) {
      made.setFirstRow(row);
      made.setSourceRows(rows);
    }
    return made;
  };
  WeightOp matrix = declareRows("weight", {out, in}, symbol);
  matrix.setTransposed(family.areTransposed);
  if (bias)
    declareRows("bias", {out}, biasSymbol(symbol));
  return matrix;
}

/// The symbol of a norm. The model's may have the last name of a layer's.
StringRef ModelBuilder::normSymbol(StringRef path, bool layered) const {
  StringRef name = lastName(path);
  return !layered && name == family.norms.mlp ? "last_norm" : name;
}

void ModelBuilder::declareNorm(StringRef path, int64_t size, Layers layers,
                               StringRef prefix) {
  if (path.empty())
    return;
  std::string symbol = (prefix + normSymbol(path, !layers.empty())).str();
  if (family.norm.hasWeight)
    declare(path, "weight", {size}, layers, symbol);
  if (family.norm.hasBias)
    declare(path, "bias", {size}, layers, biasSymbol(symbol));
}

Value ModelBuilder::weight(StringRef symbol, Value layer) {
  auto read = declared<WeightOp>(symbol);
  // Layer 0 of a weight is the first layer that has it.
  if (auto first = static_cast<int64_t>(read.getFirst()))
    layer = arith::AddIOp::create(*this, layer, index(-first));
  return GetWeightOp::create(*this, read.getTensorType(), symbol, layer);
}

Value ModelBuilder::optionalWeight(StringRef symbol, Value layer) {
  return isDeclared(symbol) ? weight(symbol, layer) : Value();
}

Value ModelBuilder::norm(StringRef path, Value x, Value layer,
                         std::optional<double> ownEps, StringRef prefix) {
  layer ? atLayer(path) : at(path);
  std::string symbol = (prefix + normSymbol(path, layer != nullptr)).str();
  Value gamma = optionalWeight(symbol, layer),
        beta = optionalWeight(biasSymbol(symbol), layer);
  llvm::APFloat eps(ownEps.value_or(config.normEps));
  if (family.norm.function == NormKind::Layer)
    return LayerNormOp::create(*this, x, gamma, beta, eps,
                               family.norm.unitOffset);
  return RMSNormOp::create(*this, x, gamma, /*squares=*/Value(), eps,
                           family.norm.roundsOnce, family.norm.unitOffset,
                           /*column=*/0, /*size=*/IntegerAttr());
}

Value ModelBuilder::plainNorm(Value x, Value weight) {
  return RMSNormOp::create(*this, x, weight, /*squares=*/Value(),
                           llvm::APFloat(config.normEps),
                           /*round_once=*/weight != nullptr,
                           /*unit_offset=*/false, /*column=*/0,
                           /*size=*/IntegerAttr());
}

Value ModelBuilder::linear(StringRef path, Value x, Value layer) {
  StringRef symbol = lastName(path);
  atWeight(symbol);
  Value matrix = weight(symbol, layer),
        bias = optionalWeight(biasSymbol(symbol), layer);
  return LinearOp::create(*this, x, matrix, bias);
}

Value ModelBuilder::linearInF32(StringRef symbol, Value x, Value layer,
                                bool hasBias) {
  atWeight(symbol);
  return LinearOp::create(*this, x, weight(symbol, layer),
                          hasBias ? optionalWeight(biasSymbol(symbol), layer)
                                  : Value(),
                          TypeAttr::get(getF32Type()));
}

Value ModelBuilder::gated(Value gate, Value up, Activation function,
                          double limit, double alpha) {
  return SwiGLUOp::create(*this, gate, up, function,
                          limit ? getF64FloatAttr(limit) : FloatAttr(),
                          llvm::APFloat(alpha));
}

Value ModelBuilder::scaled(Value tokens, Value x, double factor) {
  if (factor == 1)
    return x;
  auto type = cast<RankedTensorType>(x.getType());
  Value number = arith::ConstantOp::create(
      *this, getFloatAttr(type.getElementType(), factor));
  Value all = tensor::SplatOp::create(*this, type, number, tokens);
  return arith::MulFOp::create(*this, x, all);
}

Value ModelBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(*this, value);
}

Value ModelBuilder::splitHeads(Value tokens, Value x, int64_t count) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t size = type.getDimSize(1) / count;
  SmallVector<OpFoldResult> shape = {tokens, getIndexAttr(count),
                                     getIndexAttr(size)};
  return tensor::ExpandShapeOp::create(
      *this, type.clone({ShapedType::kDynamic, count, size}), x,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}}, shape);
}

Value ModelBuilder::mergeHeads(Value heads) {
  return tensor::CollapseShapeOp::create(
      *this, heads, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
}

Value ModelBuilder::part(Value tokens, Value x, int64_t first, int64_t size) {
  auto type = cast<RankedTensorType>(x.getType());
  auto rank = static_cast<size_t>(type.getRank());
  SmallVector<OpFoldResult> from(rank, getIndexAttr(0)),
      step(rank, getIndexAttr(1)), sizes;
  for (int64_t dim : type.getShape())
    sizes.push_back(ShapedType::isDynamic(dim)
                        ? OpFoldResult(tokens)
                        : OpFoldResult(getIndexAttr(dim)));
  from.back() = getIndexAttr(first);
  sizes.back() = getIndexAttr(size);
  return tensor::ExtractSliceOp::create(*this, x, from, sizes, step);
}

Value ModelBuilder::joined(ValueRange parts, int64_t dim) {
  return tensor::ConcatOp::create(*this, dim, parts);
}

Value ModelBuilder::row(Value vector) {
  auto type = cast<RankedTensorType>(vector.getType());
  return tensor::ExpandShapeOp::create(
      *this, type.clone({1, type.getDimSize(0)}), vector,
      ArrayRef<ReassociationIndices>{{0, 1}});
}
