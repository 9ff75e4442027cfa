/// Builds the forward pass of every family, in the order of transformers'
/// modeling_llama.py. Letters in shapes: n tokens, C hidden size, I
/// intermediate size, H heads, KVH KV heads, D head size, S positions, L
/// layers, V vocabulary.
///
/// Latent attention is built in its absorbed form. Of a head's matrix, the rows
/// of its key multiply the query, and the rows of its value multiply the sum of
/// latent rows: the heads attend to the latent rows of tokens, as if these were
/// the keys and values of one KV head.
#include "lowering/import/Import.h"
#include "dialect/Dialect.h"
#include "dialect/Signature.h"
#include "lowering/import/Layers.h"
#include "lowering/import/Rope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::llama;

/// The most positions of a cache if the user does not ask for more.
static constexpr int64_t defaultMaxSeq = 4096;
/// A KV cache above this size is refused as a mistake in the config.
static constexpr int64_t maxCacheBytes = int64_t(1) << 44;

namespace {
/// The values that all layers of a forward pass read.
struct Text {
  /// The number of tokens, and the position of the first.
  Value tokens, position;
  /// How many keys after its own a token sees; null if it sees none.
  Value ahead;
  /// The tables of ModelConfig::ropes, one for each.
  SmallVector<GetRopeOp> ropes;
  /// The per-layer inputs of each token (n, L * N), one layer's after the
  /// other's; null if layers have none.
  Value perLayerInputs;
};

/// The layer that is built: its number, that of its keys and values in their
/// caches, and that of its state among the states; null for what it has not.
struct LayerIndex {
  Value layer, inCaches, inStates;
};

/// What the linears of a delta rule make of each token: the columns that are
/// convolved; the gate of each number of a head; and in f32, for each head, the
/// rate and the step before their functions.
struct DeltaInputs {
  Value columns, gates, rates, steps;
};

/// The caches of layers with a window: whether they are apart from others, and
/// if they are rings, their places.
struct WindowCaches {
  int64_t ring = 0;
  bool areApart = false;
};

/// Numbers of layers, in ascending order.
using Layers = ArrayRef<int64_t>;

/// Builds one module.
class Importer {
public:
  Importer(const ModelConfig &config, int64_t maxSeq, WindowCaches windows,
           Type type, ModuleOp module)
      : c(config), layerPath((family.layers + ".*").str()), maxSeq(maxSeq),
        ring(windows.ring), type(type), b(module.getContext()), module(module),
        caches(layerCaches(c, windows.areApart)),
        all(llvm::to_vector(llvm::seq(c.layers))) {
    for (int64_t i : all) {
      if (c.kinds[i].attends)
        attending.push_back(i);
      if (c.kinds[i].hasState)
        recurrent.push_back(i);
    }
  }

  void run();
  void runProjector();

private:
  void declareSymbols();
  void declarePositions();
  void declareLayer();
  void declareAttention();
  void declareAttention(const LayerKind &kind, Layers layers);
  void declareLatentAttention();
  void declareConv(Layers layers);
  void declareDelta(Layers layers);
  void declareMamba(Layers layers);
  void declareLayerEmbeddings();
  void declareMlp(const MlpModules &names, StringRef prefix, int64_t inner,
                  Layers layers);
  void declareExperts(Layers layers);
  void declareTransposed(Layers layers);
  void declareExpert(StringRef symbol, StringRef path, int64_t out, int64_t in,
                     StringRef fused, int64_t row, Layers layers);
  WeightOp declareTensor(StringRef name, ArrayRef<int64_t> shape, Layers layers,
                         StringRef symbol);
  void declareInput(int64_t numbers);
  void declareVision();
  void declareProjector(const ProjectorModules &names);
  void declareRope(const RopeConfig &rope, StringRef symbol);
  void declareNorm(StringRef path, int64_t size, Layers layers,
                   StringRef prefix = "");
  void declareLinear(StringRef path, int64_t out, int64_t in, bool bias,
                     StringRef fused = "", int64_t row = 0, int64_t rows = 0);
  void declareLinear(StringRef symbol, StringRef path, int64_t out, int64_t in,
                     bool bias, Layers layers, StringRef fused = "",
                     int64_t row = 0, int64_t rows = 0);
  WeightOp declare(StringRef path, StringRef kind, ArrayRef<int64_t> shape,
                   Layers layers, StringRef symbol = "");
  func::FuncOp declareForward();
  SmallVector<Type> cacheTypes();
  SmallVector<Value> layer(const Text &text, int64_t kind, LayerIndex number,
                           ValueRange carried);
  Value numberInCaches(const LayerRun &layers, int64_t i, Value first,
                       Value layer, int64_t LayerCaches::Place::*of);
  SmallVector<Value> run(const Text &text, const LayerRun &layers,
                         ValueRange carried);
  std::string outSymbol() const;
  StringRef normSymbol(StringRef path, bool layered) const;
  Value attention(const Text &text, const LayerKind &kind, Value x,
                  LayerIndex number, MutableArrayRef<Value> caches);
  std::pair<Value, Value> latentHeads(Value layer);
  Value latentAttention(const Text &text, const LayerKind &kind, Value x,
                        Value layer, Value &cache);
  Value conv(const Text &text, Value x, LayerIndex number, Value &state);
  DeltaInputs deltaInputs(const Text &text, Value x, Value layer);
  Value delta(const Text &text, Value x, LayerIndex number,
              MutableArrayRef<Value> states);
  Value mamba(const Text &text, Value x, LayerIndex number,
              MutableArrayRef<Value> states);
  Value convolved(const Text &text, Value x, LayerIndex number, Value &state);
  Value linearInF32(StringRef symbol, Value x, Value layer,
                    bool hasBias = true);
  bool hasRing(const LayerKind &kind) const { return ring && kind.window; }
  GQAOp attend(const Text &text, const LayerKind &kind, Value q, Value k,
               Value v, LayerIndex number);
  Value rotated(const Text &text, const LayerKind &kind, Value x);
  Value part(const Text &text, Value x, int64_t first, int64_t size);
  Value joined(ValueRange parts, int64_t dim = 2);
  Value scaled(const Text &text, Value x, double factor);
  Value splitHeads(Value tokens, Value x, int64_t count);
  Value perLayerInputs(Value tokens, Value ids, Value x);
  Value addPerLayerInput(const Text &text, Value x, Value layer);
  Value mlp(const Text &text, const MlpModules &names, StringRef prefix,
            Value x, Value layer);
  Value gated(Value gate, Value up, Activation function, double limit = 0,
              double alpha = 1);
  RouteOp route(Value x, Value layer);
  Value everyOther(Value tokens, Value x, int64_t first);
  Value experts(const Text &text, Value x, Value layer);
  Value heads(Value tokens, Value x, int64_t count, StringRef norm, Value layer,
              StringRef prefix = "");
  Value linear(StringRef symbol, Value x, Value layer);
  Value norm(StringRef path, Value x, Value layer,
             std::optional<double> eps = {}, StringRef prefix = "");
  Value plainNorm(Value x, Value weight = {});
  Value row(Value vector);
  Value rows(StringRef symbol);
  Value embed(Value ids, Value position);
  Value given(Value ids);
  Value embedPatches(Value ids, Value position);
  Value project(const ProjectorModules &names, Value x);
  Value slice(Value x, Value tokens, Value first, int64_t columns);
  Value head(Value x, Value tokens, Value first);
  Value normFrom(Value x, Value tokens, Value first);
  Value weight(StringRef symbol, Value layer);
  Value optionalWeight(StringRef symbol, Value layer);
  Value index(int64_t value);
  /// The rows of a tower that have no position; they are in front.
  int64_t firstPosition() const {
    bool isPlaced = family.vision.classRow.empty() || family.vision.placesClass;
    return c.registers + (isPlaced ? 0 : 1);
  }
  bool hasLastNorm() const {
    return c.normalizesLast && !family.lastNorm.empty();
  }
  HeadNorm headNorm() const {
    return c.normalizesHeads ? family.headNorm : HeadNorm::None;
  }
  SmallVector<GetRopeOp> getRopes();
  double embeddingScale();

  RankedTensorType tensor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, type);
  }
  /// Gives the ops that are built next the location of this module of the
  /// model.
  void at(const Twine &path) { loc = NameLoc::get(b.getStringAttr(path)); }

  const ModelConfig &c;
  const Family &family = *c.family;
  const std::string layerPath;
  int64_t maxSeq, ring; // places of caches, and of rings; 0: there are none
  Type type;
  OpBuilder b;
  ModuleOp module;
  const LayerCaches caches;
  SmallVector<int64_t> all, attending, recurrent; // layers
  Location loc = b.getUnknownLoc();
};
} // namespace

/// The symbols of Family::attentionFactor, mlpFactor and layerFactor.
static constexpr llvm::StringLiteral attentionFactor = "attention_factor",
                                     mlpFactor = "mlp_factor",
                                     layerFactor = "layer_factor";

/// The symbol of a module: "q_proj" for "self_attn.q_proj".
static StringRef lastName(StringRef path) {
  return path.substr(path.rfind('.') + 1);
}

static std::string biasSymbol(StringRef symbol) {
  return (symbol + "_bias").str();
}

/// Declares a weight of the module `path`: one of each of some layers, or, if
/// there are none, one of the model. Without a path it is the layer's own.
WeightOp Importer::declare(StringRef path, StringRef kind,
                           ArrayRef<int64_t> shape, Layers layers,
                           StringRef symbol) {
  bool layered = !layers.empty();
  StringRef dot = path.empty() ? "" : ".",
            outer = c.scalesWeights ? family.scaledLayers : family.layers;
  std::string own = (path + dot).str(),
              module = layered ? (layerPath + dot + path).str() : path.str(),
              source = (layered ? outer + ".{}." + own : own).str();
  if (size_t expert = module.find("{}"); expert != std::string::npos)
    module.replace(expert, 2, "*");
  at(module);
  int64_t first = layered ? layers.front() : 0,
          count = layered ? layers.back() - first + 1 : 0;
  auto made = WeightOp::create(
      b, loc, symbol.empty() ? lastName(path) : symbol,
      layered ? b.getI64IntegerAttr(count) : IntegerAttr(), tensor(shape),
      source + kind.str(), /*first_row=*/IntegerAttr(),
      /*source_rows=*/IntegerAttr(), first, /*adapter=*/false,
      /*tied=*/FlatSymbolRefAttr(), /*slot=*/IntegerAttr(),
      /*split=*/SplitAttr(), /*sym_visibility=*/StringAttr(),
      /*layers=*/DenseI64ArrayAttr());
  if (static_cast<int64_t>(layers.size()) != count)
    made.setLayers(layers);
  return made;
}

/// Declares a linear of some layers. If `fused` is given, matrix and bias are
/// the rows [row, row + out) of the `rows` rows of the module `fused`.
void Importer::declareLinear(StringRef symbol, StringRef path, int64_t out,
                             int64_t in, bool bias, Layers layers,
                             StringRef fused, int64_t row, int64_t rows) {
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
  declareRows("weight", {out, in}, symbol).setTransposed(family.areTransposed);
  if (bias)
    declareRows("bias", {out}, biasSymbol(symbol));
}

/// Declares a linear of each layer with attention, by its last name.
void Importer::declareLinear(StringRef path, int64_t out, int64_t in, bool bias,
                             StringRef fused, int64_t row, int64_t rows) {
  declareLinear(lastName(path), path, out, in, bias, attending, fused, row,
                rows);
}

/// The symbol of a norm. The model's may have the last name of a layer's.
StringRef Importer::normSymbol(StringRef path, bool layered) const {
  StringRef name = lastName(path);
  return !layered && name == family.norms.mlp ? "last_norm" : name;
}

/// The symbol of a linear or a norm. The prefix tells modules of one name apart
/// that a layer has, or layers of several kinds.
static std::string prefixed(StringRef prefix, StringRef path) {
  return (prefix + lastName(path)).str();
}

/// Declares the tensors of a norm, or nothing if `path` is empty. The norm is
/// the model's if there are no layers.
void Importer::declareNorm(StringRef path, int64_t size, Layers layers,
                           StringRef prefix) {
  if (path.empty())
    return;
  std::string symbol = (prefix + normSymbol(path, !layers.empty())).str();
  if (family.norm.hasWeight)
    declare(path, "weight", {size}, layers, symbol);
  if (family.norm.hasBias)
    declare(path, "bias", {size}, layers, biasSymbol(symbol));
}

/// The symbol of attention's last linear. An MLP may have a linear of the same
/// last name.
std::string Importer::outSymbol() const {
  StringRef name = lastName(family.attention.out);
  bool isShared = name == lastName(family.mlp.down);
  return (isShared ? "attn_" + name : name).str();
}

/// Declares a tensor by its whole name, or nothing if that is empty. Its symbol
/// is the last part of the name, if none is given.
WeightOp Importer::declareTensor(StringRef name, ArrayRef<int64_t> shape,
                                 Layers layers, StringRef symbol) {
  if (name.empty())
    return {};
  size_t dot = name.rfind('.');
  StringRef tensor = lastName(name), path = name.substr(0, dot);
  if (dot == StringRef::npos)
    path = "";
  return declare(path, tensor, shape, layers, symbol.empty() ? tensor : symbol);
}

/// The prefix of symbols of attention.
static StringRef attentionPrefix(const ModelConfig &c, const LayerKind &kind) {
  return c.hasFullHeads(kind) ? "full_" : "";
}

void Importer::declareAttention() {
  auto isFull = [&](int64_t i) { return c.hasFullHeads(c.kinds[i]); };
  SmallVector<int64_t> full = llvm::filter_to_vector(attending, isFull),
                       others = llvm::filter_to_vector(
                           attending, [&](int64_t i) { return !isFull(i); });
  for (Layers layers : {Layers(others), Layers(full)})
    if (!layers.empty())
      declareAttention(c.kinds[layers.front()], layers);
}

/// Declares the attention of layers whose heads have the sizes of `kind`.
void Importer::declareAttention(const LayerKind &kind, Layers layers) {
  auto [kvHeads, headDim] = c.headsOf(kind);
  int64_t q = c.heads * headDim, gate = family.attention.gatesHeads ? q : 0,
          kv = kvHeads * headDim, hidden = c.hiddenSize, all = q + 2 * kv;
  const AttentionModules &names = family.attention;
  StringRef prefix = attentionPrefix(c, kind);
  SmallVector<int64_t> own = llvm::filter_to_vector(
      layers, [&](int64_t i) { return !c.kinds[i].sharesKv; });
  bool bias = c.queryKeyValueBias;
  auto declareRows = [&](StringRef path, int64_t out, int64_t row,
                         Layers layers) {
    declareLinear(prefixed(prefix, path), path, out, hidden, bias, layers,
                  names.fused, row, all);
  };
  if (names.fusesHeads) {
    declareLinear(names.fused, all, hidden, bias);
  } else {
    declareRows(names.query, q + gate, 0, layers);
    declareRows(names.key, kv, q, own);
    if (!c.keysAreValues || kind.window)
      declareRows(names.value, kv, q + kv, own);
  }
  if (headNorm() != HeadNorm::None) {
    bool all = headNorm() == HeadNorm::AllHeads;
    declareNorm(names.queryNorm, all ? q : headDim, layers, prefix);
    declareNorm(names.keyNorm, all ? kv : headDim, own, prefix);
  }
  declareTensor(names.sinks, {c.heads}, layers, "");
  declareLinear((prefix + outSymbol()).str(), names.out, hidden, q, c.outBias,
                layers);
}

void Importer::declareLatentAttention() {
  const LatentModules &names = family.latent;
  int64_t hidden = c.hiddenSize, rank = c.queryLatentSize,
          query = c.heads * (c.plainDim + c.headDim);
  if (rank) {
    declareLinear(names.queryRow, rank, hidden, c.queryKeyValueBias);
    declareNorm(names.queryNorm, rank, attending);
    declareLinear(names.queryHeads, query, rank, /*bias=*/false);
  } else {
    declareLinear(family.attention.query, query, hidden, /*bias=*/false);
  }
  declareLinear(names.row, c.latentSize + c.headDim, hidden,
                c.queryKeyValueBias);
  declareNorm(names.norm, c.latentSize, attending);
  if (c.splitsLatentHeads) {
    declare(names.keyHeads, "weight", {c.heads, c.latentSize, c.plainDim},
            attending, lastName(names.keyHeads));
    declare(names.valueHeads, "weight", {c.heads, c.valueDim, c.latentSize},
            attending, lastName(names.valueHeads));
  } else {
    declareLinear(names.heads, c.heads * (c.plainDim + c.valueDim),
                  c.latentSize, /*bias=*/false);
  }
  declareLinear(family.attention.out, hidden, c.heads * c.valueDim, c.outBias);
}

/// The symbols of a convolution's linears and of its filters.
static constexpr llvm::StringLiteral convGate = "conv_gate",
                                     convFactor = "conv_factor",
                                     convIn = "conv_in", convOut = "conv_out",
                                     convFilter = "conv_filter";

void Importer::declareConv(Layers layers) {
  const ConvModules &names = family.conv;
  int64_t hidden = c.hiddenSize, row = 0;
  for (StringRef symbol : {convGate, convFactor, convIn}) {
    declareLinear(symbol, names.in, hidden, hidden, c.convBias, layers,
                  names.in, row, 3 * hidden);
    row += hidden;
  }
  declare(names.filter, "weight", {hidden, 1, c.filterSize}, layers,
          convFilter);
  if (c.convBias)
    declare(names.filter, "bias", {hidden}, layers, biasSymbol(convFilter));
  declareLinear(convOut, names.out, hidden, hidden, c.convBias, layers);
}

/// The columns of queries, keys and values, which are convolved before they
/// meet a state.
static int64_t deltaColumns(const ModelConfig &c) {
  return 2 * c.deltaKeyHeads * c.deltaKeyDim + c.deltaHeads * c.deltaValueDim;
}

/// The symbols of the delta rule's weights.
static constexpr llvm::StringLiteral deltaIn = "delta_in",
                                     deltaGate = "delta_gate",
                                     deltaRate = "delta_rate",
                                     deltaStep = "delta_step",
                                     deltaDecay = "delta_log_decay",
                                     deltaNorm = "delta_norm",
                                     deltaOut = "delta_out";

void Importer::declareDelta(Layers layers) {
  const DeltaModules &names = family.delta;
  int64_t hidden = c.hiddenSize, columns = deltaColumns(c),
          values = c.deltaHeads * c.deltaValueDim;
  auto declareMatrix = [&](StringRef symbol, StringRef path, int64_t out,
                           int64_t in) {
    declareLinear(symbol, path, out, in, /*bias=*/false, layers);
  };
  bool fusesGates = names.fusesHeads && !c.splitsDeltaGates;
  declareMatrix(deltaIn, c.splitsDeltaGates ? names.splitIn : names.in,
                columns + (fusesGates ? values : 0), hidden);
  if (!fusesGates)
    declareMatrix(deltaGate, names.gate, values, hidden);
  declareMatrix(deltaRate, names.rate,
                c.deltaHeads * (names.fusesHeads ? 2 : 1), hidden);
  if (!names.fusesHeads)
    declareMatrix(deltaStep, names.step, c.deltaHeads, hidden);
  declareTensor(names.stepBias, {c.deltaHeads}, layers, biasSymbol(deltaStep));
  declareTensor(names.logDecay, {c.deltaHeads}, layers, deltaDecay);
  declare(names.filter, "weight", {columns, 1, c.filterSize}, layers,
          convFilter);
  declare(names.norm, "weight", {c.deltaValueDim}, layers, deltaNorm);
  declareMatrix(deltaOut, names.out, hidden, values);
}

/// The symbols of Mamba's weights.
static constexpr llvm::StringLiteral mambaGate = "mamba_gate",
                                     mambaIn = "mamba_in",
                                     mambaStep = "mamba_step",
                                     mambaDecay = "mamba_log_decay",
                                     mambaSkip = "mamba_skip",
                                     mambaNorm = "mamba_norm",
                                     mambaOut = "mamba_out";

void Importer::declareMamba(Layers layers) {
  const MambaModules &names = family.mamba;
  int64_t columns = deltaColumns(c), values = c.deltaHeads * c.deltaValueDim,
          rows = values + columns + c.deltaHeads;
  auto declareRows = [&](StringRef symbol, int64_t out, int64_t row) {
    declareLinear(symbol, names.in, out, c.hiddenSize, /*bias=*/false, layers,
                  names.in, row, rows);
  };
  declareRows(mambaGate, values, 0);
  declareRows(mambaIn, columns, values);
  declareRows(mambaStep, c.deltaHeads, values + columns);
  declareTensor(names.stepBias, {c.deltaHeads}, layers, biasSymbol(mambaStep));
  declareTensor(names.logDecay, {c.deltaHeads}, layers, mambaDecay);
  declareTensor(names.skip, {c.deltaHeads}, layers, mambaSkip);
  declare(names.filter, "weight", {columns, 1, c.filterSize}, layers,
          convFilter);
  if (c.convBias)
    declare(names.filter, "bias", {columns}, layers, biasSymbol(convFilter));
  if (c.normalizesScan)
    declare(names.norm, "weight", {values}, layers, mambaNorm);
  declareLinear(mambaOut, names.out, c.hiddenSize, values, /*bias=*/false,
                layers);
}

void Importer::declareMlp(const MlpModules &names, StringRef prefix,
                          int64_t inner, Layers layers) {
  int64_t hidden = c.hiddenSize, both = 2 * inner;
  auto symbol = [&](StringRef path) { return prefixed(prefix, path); };
  if (!names.gate.empty())
    declareLinear(symbol(names.gate), names.gate, inner, hidden, c.mlpBias,
                  layers, names.fused, 0, both);
  declareLinear(symbol(names.up), names.up, inner, hidden, c.mlpBias, layers,
                names.fused, inner, both);
  declareLinear(symbol(names.down), names.down, hidden, inner, c.mlpBias,
                layers);
}

/// Declares a matrix of each expert of some layers. If `fused` is given, it is
/// the rows [row, row + out) of a matrix with twice as many rows.
void Importer::declareExpert(StringRef symbol, StringRef path, int64_t out,
                             int64_t in, StringRef fused, int64_t row,
                             Layers layers) {
  StringRef module = fused.empty() ? path : fused, tensor = "weight";
  if (family.experts.areBare)
    std::tie(module, tensor) = module.rsplit('.');
  WeightOp made = declare(module, tensor, {c.experts, out, in}, layers, symbol);
  made.setExperts(true);
  if (!fused.empty()) {
    made.setFirstRow(row);
    made.setSourceRows(2 * out);
  }
}

/// Declares the matrices and biases of ExpertModules::areTransposed.
void Importer::declareTransposed(Layers layers) {
  auto declareBoth = [&](StringRef symbol, StringRef path, int64_t out,
                         int64_t in) {
    auto [module, tensor] = path.rsplit('.');
    WeightOp made =
        declare(module, tensor, {c.experts, out, in}, layers, symbol);
    made.setExperts(true);
    made.setTransposed(true);
    made->setLoc(NameLoc::get(b.getStringAttr(Twine(layerPath) + "." + path)));
    declare(module, biasSymbol(tensor), {c.experts, out}, layers,
            biasSymbol(symbol));
  };
  const MlpModules &names = family.experts.each;
  declareBoth("experts_gate_up", names.fused, 2 * c.expertSize, c.hiddenSize);
  declareBoth("experts_down", names.down, c.hiddenSize, c.expertSize);
}

void Importer::declareExperts(Layers layers) {
  const ExpertModules &names = family.experts;
  int64_t hidden = c.hiddenSize, inner = c.expertSize;
  declareLinear("router", names.router, c.experts, hidden, names.areTransposed,
                layers);
  auto setF32 = [&](WeightOp weight) {
    weight.setType(RankedTensorType::get(weight.getTensorType().getShape(),
                                         b.getF32Type()));
  };
  if (names.routerIsF32)
    setF32(module.lookupSymbol<WeightOp>("router"));
  // Scores are computed in f32.
  if (!names.correction.empty() && c.correctsScores) {
    auto [path, tensor] = names.correction.rsplit('.');
    SmallVector<int64_t> shape = {c.experts};
    if (names.correctionIsRow)
      shape.insert(shape.begin(), 1);
    setF32(declare(path, tensor, shape, layers, "router_correction"));
  }
  declareTensor(names.routerNorm, {hidden}, layers, "router_norm");
  declareTensor(names.factors, {c.experts}, layers, "router_factors");
  declareNorm(names.norm, hidden, layers);
  declareNorm(names.mlpEnd, hidden, layers);
  declareNorm(names.end, hidden, layers);
  if (names.areTransposed)
    return declareTransposed(layers);
  if (!names.each.gate.empty() || !names.each.fused.empty())
    declareExpert("experts_gate", names.each.gate, inner, hidden,
                  names.each.fused, 0, layers);
  declareExpert("experts_up", names.each.up, inner, hidden, names.each.fused,
                inner, layers);
  declareExpert("experts_down", names.each.down, hidden, inner, "", 0, layers);
  if (c.sharedSize)
    declareMlp(names.shared, "shared_", c.sharedSize, layers);
  if (!names.sharedGate.empty())
    declareLinear("shared_factor", names.sharedGate, 1, hidden, /*bias=*/false,
                  layers);
}

/// Whether a layer's MLP has twice the width, and the prefix of its symbols.
static bool isWideMlp(const ModelConfig &c, const LayerKind &kind) {
  return c.widensShared && kind.sharesKv;
}
static constexpr llvm::StringLiteral widePrefix = "wide_";

void Importer::declareLayer() {
  declareNorm(family.norms.attention, c.hiddenSize, all);
  if (c.latentSize)
    declareLatentAttention();
  else if (!attending.empty())
    declareAttention();
  if (!recurrent.empty()) {
    if (!family.conv.in.empty())
      declareConv(recurrent);
    else if (!family.delta.in.empty())
      declareDelta(recurrent);
    else
      declareMamba(recurrent);
  }
  declareNorm(family.norms.attentionEnd, c.hiddenSize, all);
  declareNorm(family.norms.mlp, c.hiddenSize, all);
  auto only = [&](auto is) { return llvm::filter_to_vector(all, is); };
  auto isMixed = [&](int64_t i) { return c.kinds[i].hasExperts; };
  auto isWide = [&](int64_t i) { return isWideMlp(c, c.kinds[i]); };
  bool hasBoth = !family.experts.norm.empty();
  SmallVector<int64_t> mixed = only(isMixed), wide = only(isWide),
                       dense = only([&](int64_t i) {
                         return c.kinds[i].hasMlp && !isWide(i) &&
                                (hasBoth || !isMixed(i));
                       });
  if (!dense.empty())
    declareMlp(family.mlp, "", c.intermediateSize, dense);
  if (!wide.empty())
    declareMlp(family.mlp, widePrefix, 2 * c.intermediateSize, wide);
  if (!mixed.empty())
    declareExperts(mixed);
  declareNorm(family.norms.mlpEnd, c.hiddenSize, all);
  declareTensor(family.attentionFactor, {c.hiddenSize}, all, attentionFactor);
  declareTensor(family.mlpFactor, {c.hiddenSize}, all, mlpFactor);
  declareTensor(family.layerFactor, {1}, all, layerFactor);
  if (c.perLayerInputSize)
    declareLayerEmbeddings();
}

/// Declares the embeddings that each layer has for itself.
void Importer::declareLayerEmbeddings() {
  const LayerEmbeddings &names = family.layerEmbeddings;
  int64_t numbers = c.perLayerInputSize, row = c.layers * numbers,
          hidden = c.hiddenSize;
  declare(names.table, "weight", {c.perLayerVocab, row}, {},
          lastName(names.table));
  declareLinear(lastName(names.projection), names.projection, row, hidden,
                /*bias=*/false, {});
  declareNorm(names.norm, numbers, {});
  declareLinear(names.gate, numbers, hidden, /*bias=*/false);
  declareLinear(names.out, hidden, numbers, /*bias=*/false);
  declareNorm(names.end, hidden, all);
}

/// The symbols of the ropes of ModelConfig::ropes.
static constexpr llvm::StringLiteral ropeSymbols[] = {"rope", "window_rope"};

void Importer::declareRope(const RopeConfig &rope, StringRef symbol) {
  at("model.rotary_emb");
  auto table = RopeTableOp::create(
      b, loc, symbol, maxSeq, inverseFrequencies(rope),
      llvm::APFloat(rope.scale), /*original=*/IntegerAttr(),
      /*long_inv_freq=*/DenseF32ArrayAttr(), /*growth=*/FloatAttr(),
      /*theta=*/FloatAttr(), /*recompute=*/false, /*slot=*/IntegerAttr(),
      /*sym_visibility=*/StringAttr());
  if (rope.kind == RopeConfig::Kind::LongRope) {
    table.setOriginal(rope.originalPositions);
    table.setLongInvFreq(longInverseFrequencies(rope));
    table.setRecompute(family.rope.isPhi3);
  } else if (rope.kind == RopeConfig::Kind::Dynamic) {
    table.setOriginal(rope.originalPositions);
    table.setGrowth(llvm::APFloat(rope.factor));
    table.setTheta(llvm::APFloat(rope.theta));
  }
}

void Importer::declarePositions() {
  const auto &[module, first] = family.positions;
  if (module.empty())
    return;
  WeightOp table = declare(module, "weight", {c.maxPositions, c.hiddenSize}, {},
                           "positions");
  if (first) {
    table.setFirstRow(first);
    table.setSourceRows(first + c.maxPositions);
  }
}

/// The symbols of a vision tower's input and of VisionModules.
static constexpr llvm::StringLiteral patches = "patches",
                                     patchFilters = "patch_filters",
                                     positionRows = "position_rows",
                                     classRow = "class_row",
                                     registerRows = "register_rows";

/// Declares the rows that a call gives.
void Importer::declareInput(int64_t numbers) {
  declare(patches, "rows", {1, numbers}, {}, patches).setInput(true);
}

/// The rows that a call gives.
Value Importer::given(Value ids) {
  return EmbedOp::create(b, loc, ids, weight(patches, {}), llvm::APFloat(1.0),
                         /*as=*/TypeAttr());
}

/// Declares what a vision tower has in front of its layers.
void Importer::declareVision() {
  const VisionModules &names = family.vision;
  int64_t side = c.patchSize, numbers = c.channels * side * side,
          hidden = c.hiddenSize;
  declareInput(numbers);
  declare(names.patches, "weight", {hidden, c.channels, side, side}, {},
          patchFilters);
  if (names.hasBias)
    declare(names.patches, "bias", {hidden}, {}, biasSymbol(patchFilters));
  auto declareRows = [&](StringRef name, StringRef symbol, int64_t rows) {
    SmallVector<int64_t> shape = {1, rows, hidden};
    declareTensor(name, names.areStacked ? shape : ArrayRef(shape).drop_front(),
                  {}, symbol);
  };
  declareRows(names.positions, positionRows, maxSeq - firstPosition());
  if (names.areStacked)
    declareRows(names.classRow, classRow, 1);
  else
    declareTensor(names.classRow, {hidden}, {}, classRow);
  declareRows(names.registers, registerRows, c.registers);
  declareNorm(names.norm, hidden, /*layers=*/{});
}

/// The widths of a projector: of its input, and of each linear's result.
static SmallVector<int64_t> widthsOf(const ModelConfig &c) {
  int64_t in = c.projectorIn, out = c.projectorOut;
  if (c.projector->linears[1].empty())
    return {in, out};
  if (c.projector->linears[2].empty())
    return {in, out, out};
  return {in, c.projector->widening * in, out, out};
}

/// The symbol of a linear of a projector.
static std::string projectorSymbol(size_t index) {
  return "projector_" + std::to_string(index + 1);
}

void Importer::declareProjector(const ProjectorModules &names) {
  SmallVector<int64_t> widths = widthsOf(c);
  if (!names.norm.empty())
    declare(names.norm, "weight", {c.projectorIn}, {}, "projector_norm");
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    SmallVector<int64_t> shape = {widths[i + 1], widths[i]};
    std::string symbol = projectorSymbol(i);
    if (names.isTransposed)
      declareTensor(names.linears[i], shape, {}, symbol).setTransposed(true);
    else
      declareLinear(symbol, names.linears[i], shape[0], shape[1],
                    c.projectorBias, {});
  }
}

/// Builds the projector over rows of a tower.
Value Importer::project(const ProjectorModules &names, Value x) {
  if (!names.norm.empty()) {
    at(names.norm);
    x = RMSNormOp::create(b, loc, x, weight("projector_norm", {}),
                          /*squares=*/Value(), llvm::APFloat(c.normEps),
                          /*round_once=*/true, /*unit_offset=*/true,
                          /*column=*/0, /*size=*/IntegerAttr());
  }
  for (size_t i = 0, count = widthsOf(c).size() - 1; i < count; ++i) {
    x = linear(projectorSymbol(i), x, {});
    if (i + 1 < count)
      x = ActivateOp::create(b, loc, static_cast<Activation>(c.projectorGate),
                             x);
  }
  return x;
}

void Importer::declareSymbols() {
  if (family.readsImages())
    declareVision();
  else
    declare(family.embedding, "weight", {c.vocabSize, c.hiddenSize}, {},
            "embed_tokens");
  declarePositions();
  declareLayer();
  if (hasLastNorm())
    declareNorm(family.lastNorm, c.hiddenSize, /*layers=*/{});
  if (c.projector)
    declareProjector(*c.projector);
  if (family.readsImages())
    return;
  WeightOp head = declare(family.head, "weight", {c.vocabSize, c.hiddenSize},
                          {}, "lm_head");
  if (c.tied)
    head.setTied("embed_tokens");
  if (c.headBias)
    declare(family.head, "bias", {c.vocabSize}, {}, biasSymbol("lm_head"));
  for (auto [rope, symbol] : llvm::zip(c.ropes, ropeSymbols))
    declareRope(rope, symbol);
}

/// Of keys and of values, for each group of layers; of latent rows and rotated
/// keys, one after the other.
SmallVector<Type> Importer::cacheTypes() {
  if (c.latentSize)
    return {tensor({c.layers, 1, maxSeq, c.latentSize + c.headDim})};
  SmallVector<Type> types;
  for (const auto &[heads, keepsWindow, layers] : caches.groups)
    types.append(2,
                 tensor({layers, heads.kvHeads,
                         ring && keepsWindow ? ring : maxSeq, heads.headDim}));
  if (!caches.states)
    return types;
  bool hasMatrices = family.conv.in.empty();
  int64_t columns = hasMatrices ? deltaColumns(c) : c.hiddenSize;
  types.push_back(tensor({caches.states, c.filterSize - 1, columns}));
  if (hasMatrices)
    types.push_back(RankedTensorType::get(
        {caches.states, c.deltaHeads * c.deltaKeyDim, c.deltaValueDim},
        b.getF32Type()));
  return types;
}

func::FuncOp Importer::declareForward() {
  constexpr int64_t n = ShapedType::kDynamic;
  auto logits = RankedTensorType::get({n, c.vocabSize}, b.getF32Type());
  auto ids = RankedTensorType::get({n}, b.getI32Type());
  Type index = b.getIndexType();
  SmallVector<Type> inputs = {ids, index, index, index},
                    results = {logits, tensor({n, c.projector ? c.projectorOut
                                                              : c.hiddenSize})};
  if (c.seesAhead)
    inputs.push_back(index);
  if (c.layers)
    for (SmallVector<Type> *types : {&inputs, &results})
      types->append(cacheTypes());
  at("model");
  return func::FuncOp::create(b, loc, "forward",
                              b.getFunctionType(inputs, results));
}

Value Importer::index(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}

Value Importer::weight(StringRef symbol, Value layer) {
  auto declared = module.lookupSymbol<WeightOp>(symbol);
  // Layer 0 of a weight is the first layer that has it.
  if (auto first = static_cast<int64_t>(declared.getFirst()))
    layer = arith::AddIOp::create(b, loc, layer, index(-first));
  return GetWeightOp::create(b, loc, declared.getTensorType(), symbol, layer);
}

/// The weight, or null if none is declared.
Value Importer::optionalWeight(StringRef symbol, Value layer) {
  return module.lookupSymbol(symbol) ? weight(symbol, layer) : Value();
}

/// The norm of the module `path`, of the model or of a layer.
Value Importer::norm(StringRef path, Value x, Value layer,
                     std::optional<double> ownEps, StringRef prefix) {
  at(layer ? layerPath + "." + path.str() : path.str());
  std::string symbol = (prefix + normSymbol(path, layer != nullptr)).str();
  Value gamma = optionalWeight(symbol, layer),
        beta = optionalWeight(biasSymbol(symbol), layer);
  llvm::APFloat eps(ownEps.value_or(c.normEps));
  if (family.norm.function == NormKind::Layer)
    return LayerNormOp::create(b, loc, x, gamma, beta, eps,
                               family.norm.unitOffset);
  return RMSNormOp::create(b, loc, x, gamma, /*squares=*/Value(), eps,
                           family.norm.roundsOnce, family.norm.unitOffset,
                           /*column=*/0, /*size=*/IntegerAttr());
}

/// An RMS norm without a weight, or with one that is no module's.
Value Importer::plainNorm(Value x, Value weight) {
  return RMSNormOp::create(b, loc, x, weight, /*squares=*/Value(),
                           llvm::APFloat(c.normEps),
                           /*round_once=*/weight != nullptr,
                           /*unit_offset=*/false, /*column=*/0,
                           /*size=*/IntegerAttr());
}

/// The linear of a layer's module, with a bias if one is declared.
Value Importer::linear(StringRef path, Value x, Value layer) {
  StringRef symbol = lastName(path);
  loc = module.lookupSymbol<WeightOp>(symbol).getLoc();
  Value matrix = weight(symbol, layer),
        bias = optionalWeight(biasSymbol(symbol), layer);
  return LinearOp::create(b, loc, x, matrix, bias);
}

/// Reshapes (n, count * D) to (n, count, D).
Value Importer::splitHeads(Value tokens, Value x, int64_t count) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t size = type.getDimSize(1) / count;
  SmallVector<OpFoldResult> shape = {tokens, b.getIndexAttr(count),
                                     b.getIndexAttr(size)};
  return tensor::ExpandShapeOp::create(
      b, loc, type.clone({ShapedType::kDynamic, count, size}), x,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}}, shape);
}

/// The numbers [first, first + size) of each row.
Value Importer::part(const Text &text, Value x, int64_t first, int64_t size) {
  auto type = cast<RankedTensorType>(x.getType());
  auto rank = static_cast<size_t>(type.getRank());
  SmallVector<OpFoldResult> from(rank, b.getIndexAttr(0)),
      step(rank, b.getIndexAttr(1)), sizes;
  for (int64_t dim : type.getShape())
    sizes.push_back(ShapedType::isDynamic(dim)
                        ? OpFoldResult(text.tokens)
                        : OpFoldResult(b.getIndexAttr(dim)));
  from.back() = b.getIndexAttr(first);
  sizes.back() = b.getIndexAttr(size);
  return tensor::ExtractSliceOp::create(b, loc, x, from, sizes, step);
}

/// Tensors one after the other along a dimension.
Value Importer::joined(ValueRange parts, int64_t dim) {
  return tensor::ConcatOp::create(b, loc, dim, parts);
}

/// x * factor, which has x's type.
Value Importer::scaled(const Text &text, Value x, double factor) {
  if (factor == 1)
    return x;
  auto type = cast<RankedTensorType>(x.getType());
  Value number = arith::ConstantOp::create(
      b, loc, b.getFloatAttr(type.getElementType(), factor));
  Value all = tensor::SplatOp::create(b, loc, type, number, text.tokens);
  return arith::MulFOp::create(b, loc, x, all);
}

/// Reshapes (n, count * D) to (n, count, D), and normalizes if the family does.
Value Importer::heads(Value tokens, Value x, int64_t count, StringRef normPath,
                      Value layer, StringRef prefix) {
  if (headNorm() == HeadNorm::AllHeads && !normPath.empty())
    x = norm(normPath, x, layer, {}, prefix);
  x = splitHeads(tokens, x, count);
  if (headNorm() == HeadNorm::EachHead && !normPath.empty())
    x = norm(normPath, x, layer, {}, prefix);
  return x;
}

/// Rotates heads in layers with rope.
Value Importer::rotated(const Text &text, const LayerKind &kind, Value x) {
  if (!kind.rotates)
    return x;
  GetRopeOp rope = text.ropes[kind.rope];
  return RopeOp::create(b, loc, x, rope.getCos(), rope.getSin(), text.position,
                        c.interleavesRope);
}

/// Attention of queries to the keys and values of a layer's caches.
GQAOp Importer::attend(const Text &text, const LayerKind &kind, Value q,
                       Value k, Value v, LayerIndex number) {
  Value sinks = optionalWeight("sinks", number.layer);
  auto mixed = GQAOp::create(b, loc, q, k, v, number.inCaches, text.position,
                             /*pages=*/Value(), /*over=*/Value(), text.ahead,
                             sinks, llvm::APFloat(c.attentionScale),
                             /*causal=*/!family.readsImages(),
                             /*window=*/IntegerAttr(), /*softcap=*/FloatAttr(),
                             c.latentSize ? b.getI64IntegerAttr(c.latentSize)
                                          : IntegerAttr(),
                             hasRing(kind));
  if (kind.window)
    mixed.setWindow(kind.window);
  if (c.attentionSoftcap)
    mixed.setSoftcap(llvm::APFloat(c.attentionSoftcap));
  return mixed;
}

/// Puts the heads (n, count, D) of each token together.
static Value mergeHeads(OpBuilder &b, Location loc, Value heads) {
  return tensor::CollapseShapeOp::create(
      b, loc, heads, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
}

Value Importer::attention(const Text &text, const LayerKind &kind, Value x,
                          LayerIndex number, MutableArrayRef<Value> caches) {
  Value layer = number.layer;
  if (c.latentSize)
    return latentAttention(text, kind, x, layer, caches[0]);
  Value tokens = text.tokens, position = text.position, &k = caches[0],
        &v = caches[1];
  const AttentionModules &names = family.attention;
  StringRef prefix = attentionPrefix(c, kind);
  int64_t kvHeads = c.headsOf(kind).kvHeads;
  auto rowsOf = [&](StringRef path) {
    return linear(prefixed(prefix, path), x, layer);
  };
  Value q, keys, values, gate;
  if (names.fusesHeads) {
    Value all = splitHeads(tokens, linear(names.fused, x, layer), c.heads);
    q = part(text, all, 0, c.headDim);
    keys = part(text, all, c.headDim, c.headDim);
    values = part(text, all, 2 * c.headDim, c.headDim);
  } else {
    q = rowsOf(names.query);
    if (names.gatesHeads) {
      Value both = splitHeads(tokens, q, c.heads);
      gate = part(text, both, c.headDim, c.headDim);
      q = norm(names.queryNorm, part(text, both, 0, c.headDim), layer, {},
               prefix);
    } else {
      q = heads(tokens, q, c.heads, names.queryNorm, layer, prefix);
    }
    if (!kind.sharesKv) {
      Value key = rowsOf(names.key);
      keys = heads(tokens, key, kvHeads, names.keyNorm, layer, prefix);
      bool isKey = c.keysAreValues && !kind.window;
      values =
          heads(tokens, isKey ? key : rowsOf(names.value), kvHeads, "", layer);
    }
  }
  std::string path = layerPath + "." + names.out.rsplit('.').first.str();
  at(path);
  q = rotated(text, kind, q);
  if (!kind.sharesKv)
    keys = rotated(text, kind, keys);
  if (headNorm() == HeadNorm::EachHeadAfterRope) {
    q = norm(names.queryNorm, q, layer);
    keys = norm(names.keyNorm, keys, layer);
    at(path);
  }
  if (!kind.sharesKv) {
    if (names.normalizesValues)
      values = plainNorm(values);
    k = KVAppendOp::create(b, loc, keys, k, number.inCaches, position,
                           /*pages=*/Value(), hasRing(kind));
    v = KVAppendOp::create(b, loc, values, v, number.inCaches, position,
                           /*pages=*/Value(), hasRing(kind));
  }
  Value mixed = attend(text, kind, q, k, v, number);
  if (gate)
    mixed = gated(gate, mixed, Activation::Sigmoid);
  return linear((prefix + outSymbol()).str(), mergeHeads(b, loc, mixed), layer);
}

/// Convolves each column with its filter.
Value Importer::convolved(const Text &text, Value x, LayerIndex number,
                          Value &state) {
  loc = module.lookupSymbol<WeightOp>(convFilter).getLoc();
  Value filter = tensor::CollapseShapeOp::create(
      b, loc, weight(convFilter, number.layer),
      ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  auto mixed = CausalConvOp::create(
      b, loc, x, filter, state, number.inStates, text.position,
      /*states=*/Value(), optionalWeight(biasSymbol(convFilter), number.layer));
  state = mixed.getNext();
  return mixed.getResult();
}

/// A linear whose result stays in f32.
Value Importer::linearInF32(StringRef symbol, Value x, Value layer,
                            bool hasBias) {
  loc = module.lookupSymbol<WeightOp>(symbol).getLoc();
  return LinearOp::create(b, loc, x, weight(symbol, layer),
                          hasBias ? optionalWeight(biasSymbol(symbol), layer)
                                  : Value(),
                          TypeAttr::get(b.getF32Type()));
}

/// What a delta rule's linears make of x. Where one linear makes all numbers of
/// a head of keys, slices of its result take them apart.
DeltaInputs Importer::deltaInputs(const Text &text, Value x, Value layer) {
  if (!family.delta.fusesHeads)
    return {linear(deltaIn, x, layer), linear(deltaGate, x, layer),
            linearInF32(deltaRate, x, layer), linearInF32(deltaStep, x, layer)};
  int64_t keyHeads = c.deltaKeyHeads, key = c.deltaKeyDim,
          shared = c.deltaHeads / keyHeads, value = shared * c.deltaValueDim;
  auto partOf = [&](Value heads, int64_t first, int64_t size) {
    return mergeHeads(b, loc, part(text, heads, first, size));
  };
  Value columns = linear(deltaIn, x, layer), gates;
  if (c.splitsDeltaGates) {
    gates = linear(deltaGate, x, layer);
  } else {
    Value all = splitHeads(text.tokens, columns, keyHeads);
    columns = joined({partOf(all, 0, key), partOf(all, key, key),
                      partOf(all, 2 * key, value)},
                     /*dim=*/1);
    gates = partOf(all, 2 * key + value, value);
  }
  Value both =
      splitHeads(text.tokens, linearInF32(deltaRate, x, layer), keyHeads);
  Value rates = partOf(both, 0, shared), steps = partOf(both, shared, shared);
  Value bias = row(weight(biasSymbol(deltaStep), layer));
  steps = AddRowsOp::create(b, loc, steps, bias, /*position=*/Value());
  return {columns, gates, rates, steps};
}

/// Builds a gated delta rule.
Value Importer::delta(const Text &text, Value x, LayerIndex number,
                      MutableArrayRef<Value> states) {
  Value layer = number.layer;
  int64_t keys = c.deltaKeyHeads * c.deltaKeyDim,
          values = c.deltaHeads * c.deltaValueDim;
  auto [columns, gates, rate, step] = deltaInputs(text, x, layer);
  Value mixed = convolved(text, columns, number, states[0]);
  mixed = ActivateOp::create(b, loc, static_cast<Activation>(c.convFunction),
                             mixed);
  auto headsOf = [&](int64_t first, int64_t size, int64_t heads) {
    return splitHeads(text.tokens, part(text, mixed, first, size), heads);
  };
  Value query = headsOf(0, keys, c.deltaKeyHeads),
        key = headsOf(keys, keys, c.deltaKeyHeads),
        value = headsOf(2 * keys, values, c.deltaHeads);
  step = ActivateOp::create(b, step.getLoc(), Activation::Softplus, step);
  rate = ActivateOp::create(b, rate.getLoc(), Activation::Sigmoid, rate);
  Value gate = splitHeads(text.tokens, gates, c.deltaHeads);
  loc = module.lookupSymbol<WeightOp>(deltaDecay).getLoc();
  auto rule = DeltaRuleOp::create(
      b, loc, query, key, value, step, rate, weight(deltaDecay, layer),
      states[1], number.inStates, text.position, /*states=*/Value(),
      llvm::APFloat(std::pow(static_cast<double>(c.deltaKeyDim), -0.5)),
      llvm::APFloat(1e-6));
  states[1] = rule.getNext();
  loc = module.lookupSymbol<WeightOp>(deltaNorm).getLoc();
  Value normed = RMSNormOp::create(
      b, loc, rule.getResult(), weight(deltaNorm, layer), /*squares=*/Value(),
      llvm::APFloat(c.normEps), /*round_once=*/false, /*unit_offset=*/false,
      /*column=*/0, /*size=*/IntegerAttr());
  normed = gated(gate, normed, Activation::Silu);
  return linear(deltaOut, mergeHeads(b, loc, normed), layer);
}

/// Builds a layer of Mamba 2.
Value Importer::mamba(const Text &text, Value x, LayerIndex number,
                      MutableArrayRef<Value> states) {
  Value layer = number.layer;
  int64_t groups = c.deltaKeyHeads, keys = groups * c.deltaKeyDim,
          values = c.deltaHeads * c.deltaValueDim;
  auto [ofGate, ofValue, ofKey, ofQuery, ofStep] = c.mambaFactors;
  Value mixed = linear(mambaIn, x, layer);
  if (ofValue == ofKey && ofKey == ofQuery)
    mixed = scaled(text, mixed, ofValue);
  else
    mixed =
        joined({scaled(text, part(text, mixed, 0, values), ofValue),
                scaled(text, part(text, mixed, values, keys), ofKey),
                scaled(text, part(text, mixed, values + keys, keys), ofQuery)},
               /*dim=*/1);
  mixed = convolved(text, mixed, number, states[0]);
  mixed = ActivateOp::create(b, loc, static_cast<Activation>(c.convFunction),
                             mixed);
  auto headsOf = [&](int64_t first, int64_t size, int64_t heads) {
    return splitHeads(text.tokens, part(text, mixed, first, size), heads);
  };
  Value value = headsOf(0, values, c.deltaHeads),
        key = headsOf(values, keys, groups),
        query = headsOf(values + keys, keys, groups);
  Value step = linearInF32(mambaStep, x, layer, ofStep == 1);
  if (ofStep != 1)
    step = AddRowsOp::create(b, loc, scaled(text, step, ofStep),
                             row(weight(biasSymbol(mambaStep), layer)),
                             /*position=*/Value());
  step = ActivateOp::create(b, loc, Activation::Softplus, step);
  Value gate =
      splitHeads(text.tokens, scaled(text, linear(mambaGate, x, layer), ofGate),
                 c.deltaHeads);
  loc = module.lookupSymbol<WeightOp>(mambaDecay).getLoc();
  auto scan = SelectiveScanOp::create(
      b, loc, query, key, value, step, weight(mambaDecay, layer),
      weight(mambaSkip, layer), states[1], number.inStates, text.position,
      /*states=*/Value());
  states[1] = scan.getNext();
  Value made = scan.getResult();
  auto normalize = [&] {
    loc = module.lookupSymbol<WeightOp>(mambaNorm).getLoc();
    Value weights = tensor::ExpandShapeOp::create(
        b, loc, tensor({groups, values / groups}), weight(mambaNorm, layer),
        ArrayRef<ReassociationIndices>{{0, 1}});
    made = splitHeads(text.tokens, mergeHeads(b, loc, made), groups);
    made = RMSNormOp::create(b, loc, made, weights, /*squares=*/Value(),
                             llvm::APFloat(c.normEps), family.mamba.roundsOnce,
                             /*unit_offset=*/false, /*column=*/0,
                             /*size=*/IntegerAttr());
    made = splitHeads(text.tokens, mergeHeads(b, loc, made), c.deltaHeads);
  };
  if (c.normalizesScan && c.normalizesFirst)
    normalize();
  made = gated(gate, made, Activation::Silu);
  if (c.normalizesScan && !c.normalizesFirst)
    normalize();
  return linear(mambaOut, mergeHeads(b, loc, made), layer);
}

/// Builds a gated convolution.
Value Importer::conv(const Text &text, Value x, LayerIndex number,
                     Value &state) {
  Value layer = number.layer;
  Value gate = linear(convGate, x, layer),
        product = gated(gate, linear(convIn, x, layer), Activation::Identity);
  Value mixed = convolved(text, product, number, state);
  Value factor = linear(convFactor, x, layer);
  return linear(convOut, gated(factor, mixed, Activation::Identity), layer);
}

/// The matrices of each head that make its key of latent numbers, and those
/// that make its value: slices of one tensor, or two tensors.
std::pair<Value, Value> Importer::latentHeads(Value layer) {
  const LatentModules &names = family.latent;
  if (c.splitsLatentHeads) {
    auto whole = [&](StringRef path) {
      loc = module.lookupSymbol<WeightOp>(lastName(path)).getLoc();
      return weight(lastName(path), layer);
    };
    Value ofKeys = whole(names.keyHeads);
    return {ofKeys, whole(names.valueHeads)};
  }
  int64_t latent = c.latentSize, plain = c.plainDim, value = c.valueDim;
  StringRef symbol = lastName(names.heads);
  loc = module.lookupSymbol<WeightOp>(symbol).getLoc();
  Value matrices = tensor::ExpandShapeOp::create(
      b, loc, tensor({c.heads, plain + value, latent}), weight(symbol, layer),
      ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  auto rows = [&](int64_t first, int64_t size) -> Value {
    auto sizes = [&](int64_t a, int64_t b, int64_t c) {
      return getAsIndexOpFoldResult(this->b.getContext(), {a, b, c});
    };
    return tensor::ExtractSliceOp::create(b, loc, matrices, sizes(0, first, 0),
                                          sizes(c.heads, size, latent),
                                          sizes(1, 1, 1));
  };
  Value ofKeys = rows(0, plain);
  return {ofKeys, rows(plain, value)};
}

Value Importer::latentAttention(const Text &text, const LayerKind &kind,
                                Value x, Value layer, Value &cache) {
  const LatentModules &names = family.latent;
  int64_t latent = c.latentSize, plain = c.plainDim;
  Value q = x;
  if (c.queryLatentSize)
    q = linear(names.queryHeads,
               norm(names.queryNorm, linear(names.queryRow, x, layer), layer,
                    names.eps),
               layer);
  else
    q = linear(family.attention.query, x, layer);
  q = splitHeads(text.tokens, q, c.heads); // (n, H, plain + D)
  Value row = linear(names.row, x, layer), // (n, latent + D)
      numbers = norm(names.norm, part(text, row, 0, latent), layer, names.eps);
  at(layerPath + ".self_attn");
  auto oneHead = [&](Value x) { return splitHeads(text.tokens, x, 1); };
  Value key = rotated(text, kind, oneHead(part(text, row, latent, c.headDim)));
  cache = KVAppendOp::create(b, loc, joined({oneHead(numbers), key}), cache,
                             layer, text.position, /*pages=*/Value());

  auto [ofKeys, ofValues] = latentHeads(layer);
  at(layerPath + "." + names.heads + ".key");
  Value absorbed = HeadLinearOp::create(b, loc, part(text, q, 0, plain), ofKeys,
                                        /*transposed=*/!c.splitsLatentHeads);
  at(layerPath + ".self_attn");
  Value query =
      joined({absorbed, rotated(text, kind, part(text, q, plain, c.headDim))});
  Value mixed = attend(text, kind, query, cache, cache, {layer, layer, {}});
  at(layerPath + "." + names.heads + ".value");
  Value values = HeadLinearOp::create(b, loc, mixed, ofValues,
                                      /*transposed=*/false); // (n, H, value)
  return linear(family.attention.out, mergeHeads(b, loc, values), layer);
}

/// A gated unit, with a limit unless that is 0.
Value Importer::gated(Value gate, Value up, Activation function, double limit,
                      double alpha) {
  return SwiGLUOp::create(b, loc, gate, up, function,
                          limit ? b.getF64FloatAttr(limit) : FloatAttr(),
                          llvm::APFloat(alpha));
}

Value Importer::mlp(const Text &text, const MlpModules &names, StringRef prefix,
                    Value x, Value layer) {
  auto function = static_cast<Activation>(c.gate);
  Value gate;
  if (!names.gate.empty())
    gate = scaled(text, linear(prefixed(prefix, names.gate), x, layer),
                  c.gateScale);
  Value up = linear(prefixed(prefix, names.up), x, layer);
  at(layerPath + "." + names.up.rsplit('.').first.str());
  Value product = gate ? gated(gate, up, function)
                       : ActivateOp::create(b, loc, function, up);
  return linear(prefixed(prefix, names.down), product, layer);
}

/// Chooses the experts of each token.
RouteOp Importer::route(Value x, Value layer) {
  const ExpertModules &names = family.experts;
  Value logits = linearInF32("router", x, layer);
  Value correction = optionalWeight("router_correction", layer);
  if (names.correctionIsRow)
    correction = tensor::CollapseShapeOp::create(
        b, loc, RankedTensorType::get({c.experts}, b.getF32Type()), correction,
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
      b, loc, logits, correction, optionalWeight("router_factors", layer),
      static_cast<uint64_t>(c.chosenExperts), score, normalize,
      llvm::APFloat(floor), llvm::APFloat(c.expertScale),
      llvm::APFloat(c.routerScale),
      /*groups=*/IntegerAttr(),
      /*kept_groups=*/IntegerAttr());
  if (c.expertGroups > 1) {
    route.setGroups(c.expertGroups);
    route.setKeptGroups(c.keptGroups);
    route.setGroupBest(names.groupBest);
  }
  return route;
}

/// Columns of x that lie in turns: every other one from column `first` on.
Value Importer::everyOther(Value tokens, Value x, int64_t first) {
  auto type = cast<RankedTensorType>(x.getType());
  int64_t slots = type.getDimSize(1), half = type.getDimSize(2) / 2;
  SmallVector<OpFoldResult> shape = {tokens, b.getIndexAttr(slots),
                                     b.getIndexAttr(half), b.getIndexAttr(2)};
  Value pairs = tensor::ExpandShapeOp::create(
      b, loc, type.clone({ShapedType::kDynamic, slots, half, 2}), x,
      ArrayRef<ReassociationIndices>{{0}, {1}, {2, 3}}, shape);
  SmallVector<OpFoldResult> from(4, b.getIndexAttr(0)),
      step(4, b.getIndexAttr(1));
  from[3] = b.getIndexAttr(first);
  shape[3] = b.getIndexAttr(1);
  Value columns =
      tensor::ExtractSliceOp::create(b, loc, pairs, from, shape, step);
  return tensor::CollapseShapeOp::create(
      b, loc, type.clone({ShapedType::kDynamic, slots, half}), columns,
      ArrayRef<ReassociationIndices>{{0}, {1}, {2, 3}});
}

/// Builds a mixture of experts.
Value Importer::experts(const Text &text, Value x, Value layer) {
  const ExpertModules &names = family.experts;
  Value routed = x;
  if (!names.routerNorm.empty()) {
    at(layerPath + "." + names.routerNorm.str());
    routed = plainNorm(x, weight("router_norm", layer));
  }
  RouteOp chosen = route(routed, layer);
  if (!names.norm.empty())
    x = norm(names.norm, x, layer);
  auto linearOfEach = [&](StringRef symbol, Value x) -> Value {
    loc = module.lookupSymbol<WeightOp>(symbol).getLoc();
    return ExpertLinearOp::create(b, loc, x, weight(symbol, layer),
                                  chosen.getExperts(),
                                  optionalWeight(biasSymbol(symbol), layer));
  };
  Value gate, up;
  if (names.areTransposed) {
    Value both = linearOfEach("experts_gate_up", x);
    gate = everyOther(text.tokens, both, 0);
    up = everyOther(text.tokens, both, 1);
  } else {
    if (module.lookupSymbol("experts_gate"))
      gate = linearOfEach("experts_gate", x);
    up = linearOfEach("experts_up", x);
  }
  auto function = static_cast<Activation>(c.gate);
  Value product = gate ? gated(gate, up, function, c.gateLimit, c.gateAlpha)
                       : ActivateOp::create(b, loc, function, up);
  Value down = linearOfEach("experts_down", product);
  Value sum = CombineOp::create(b, loc, chosen.getWeights(), down);
  if (!c.sharedSize)
    return sum;
  Value shared = mlp(text, names.shared, "shared_", x, layer);
  if (!names.sharedGate.empty()) {
    Value factor = linear("shared_factor", x, layer);
    shared = gated(factor, shared, Activation::Sigmoid);
  }
  return ResidualOp::create(b, loc, sum, shared, 1.0);
}

/// Builds one layer. Returns the hidden states and caches after the layer.
SmallVector<Value> Importer::layer(const Text &text, int64_t of,
                                   LayerIndex number, ValueRange carried) {
  const LayerKind &kind = c.kinds[of];
  Value x = carried[0], layer = number.layer;
  SmallVector<Value> caches(carried.drop_front());
  MutableArrayRef<Value> own = caches,
                         states = own.drop_front(
                             c.latentSize ? 0 : 2 * this->caches.groups.size());
  if (kind.attends && !c.latentSize)
    own = own.slice(2 * this->caches.places[of].group, 2);
  auto normed = [&](StringRef path, Value value) {
    return path.empty() ? value : norm(path, value, layer);
  };
  auto add = [&](Value update, StringRef factor, double scale = 1,
                 bool isLast = false) {
    at(layerPath);
    x = ResidualOp::create(b, loc, x, update, optionalWeight(factor, layer),
                           isLast ? optionalWeight(layerFactor, layer)
                                  : Value(),
                           llvm::APFloat(scale * c.residualScale));
  };
  const LayerNorms &norms = family.norms;
  bool hasBoth = kind.hasExperts && !family.experts.norm.empty();
  auto mlpOf = [&](Value read) {
    return kind.hasExperts && !hasBoth
               ? experts(text, read, layer)
               : mlp(text, family.mlp, isWideMlp(c, kind) ? widePrefix : "",
                     read, layer);
  };
  Value read = normed(norms.attention, x), made, mixed, scanned;
  if (kind.hasState)
    scanned = !family.conv.in.empty()    ? conv(text, read, number, states[0])
              : !family.delta.in.empty() ? delta(text, read, number, states)
                                         : mamba(text, read, number, states);
  if (kind.attends)
    mixed = attention(text, kind, read, number, own);
  // Reads x before the sum with attention's result takes its place.
  if (family.isParallel)
    made = mlpOf(norms.mlp.empty() ? read : normed(norms.mlp, x));
  if (scanned)
    add(scanned, "", c.mambaScale);
  if (mixed)
    add(normed(norms.attentionEnd, mixed), attentionFactor,
        c.attentionOutScale);
  SmallVector<Value> next = {x};
  if (!kind.hasMlp) {
    next.append(caches);
    return next;
  }
  if (!family.isParallel)
    made = mlpOf(mixed || scanned ? normed(norms.mlp, x) : read);
  if (hasBoth) {
    Value dense = norm(family.experts.mlpEnd, made, layer),
          chosen = norm(family.experts.end, experts(text, x, layer), layer);
    at(layerPath);
    made = ResidualOp::create(b, loc, dense, chosen, 1.0);
  }
  add(normed(norms.mlpEnd, made), mlpFactor, c.mlpScale,
      /*isLast=*/!text.perLayerInputs);
  if (text.perLayerInputs)
    add(addPerLayerInput(text, x, layer), "", 1, /*isLast=*/true);
  next.front() = x;
  next.append(caches);
  return next;
}

/// The number of layer `layers.first + i` and of those that follow it by
/// periods, in their caches. `layer` is the number of the layer, and `first`
/// that of the first layer of the period.
Value Importer::numberInCaches(const LayerRun &layers, int64_t i, Value first,
                               Value layer, int64_t LayerCaches::Place::*of) {
  auto numberAt = [&](int64_t turn) {
    int64_t number = layers.first + i + turn * layers.period;
    return caches.places[number].*of;
  };
  int64_t number = numberAt(0),
          step = layers.turns > 1 ? numberAt(1) - number : 0;
  bool isSame = number == layers.first + i;
  if (isSame && (layers.turns == 1 || step == layers.period))
    return layer;
  if (!step)
    return index(number);
  auto apply = [&](auto op, Value x, int64_t by, int64_t neutral) -> Value {
    return by == neutral ? x : decltype(op)::create(b, loc, x, index(by));
  };
  Value turn = apply(arith::AddIOp(), first, -layers.first, 0);
  turn = apply(arith::DivUIOp(), turn, layers.period, 1);
  return apply(arith::AddIOp(), apply(arith::MulIOp(), turn, step, 1), number,
               0);
}

/// Builds a loop whose body is a period of layers. Returns the hidden states
/// and caches after the loop.
SmallVector<Value> Importer::run(const Text &text, const LayerRun &layers,
                                 ValueRange carried) {
  at(layerPath);
  Value end = index(layers.first + layers.turns * layers.period);
  auto loop = scf::ForOp::create(
      b, loc, index(layers.first), end, index(layers.period), carried,
      [&](OpBuilder &, Location, Value l, ValueRange carried) {
        SmallVector<Value> next(carried);
        for (int64_t i = 0; i < layers.period; ++i) {
          at(layerPath);
          Value number =
              i ? arith::AddIOp::create(b, loc, l, index(i)).getResult() : l;
          auto numberIn = [&](int64_t LayerCaches::Place::*of) {
            return numberInCaches(layers, i, l, number, of);
          };
          const LayerKind &kind = c.kinds[layers.first + i];
          LayerIndex numbers = {number, Value(), Value()};
          if (kind.attends)
            numbers.inCaches = numberIn(&LayerCaches::Place::number);
          if (kind.hasState)
            numbers.inStates = numberIn(&LayerCaches::Place::state);
          next = layer(text, layers.first + i, numbers, next);
        }
        at(layerPath);
        scf::YieldOp::create(b, loc, next);
      });
  return SmallVector<Value>(loop.getResults());
}

/// The per-layer inputs of each token (n, L * N): a row that its id selects,
/// plus what a linear makes of its embedding `x`, divided by the root of 2.
/// transformers divides the linear's result by the root of the hidden size,
/// before a norm: here the norm's epsilon is multiplied instead.
Value Importer::perLayerInputs(Value tokens, Value ids, Value x) {
  const LayerEmbeddings &names = family.layerEmbeddings;
  auto numbers = static_cast<double>(c.perLayerInputSize),
       hidden = static_cast<double>(c.hiddenSize);
  at(names.table);
  Value own = EmbedOp::create(b, loc, ids, weight(lastName(names.table), {}),
                              llvm::APFloat(std::sqrt(numbers / 2)),
                              /*as=*/TypeAttr());
  Value made = splitHeads(tokens, linear(names.projection, x, {}), c.layers);
  made = norm(names.norm, made, {}, c.normEps * hidden);
  return ResidualOp::create(b, loc, own, mergeHeads(b, loc, made),
                            std::sqrt(0.5));
}

/// What a layer makes of its per-layer input.
Value Importer::addPerLayerInput(const Text &text, Value x, Value layer) {
  const LayerEmbeddings &names = family.layerEmbeddings;
  Value gate = linear(names.gate, x, layer);
  OpFoldResult first =
      arith::MulIOp::create(b, loc, layer, index(c.perLayerInputSize))
          .getResult();
  SmallVector<OpFoldResult> from = {b.getIndexAttr(0), first},
                            sizes = {text.tokens,
                                     b.getIndexAttr(c.perLayerInputSize)},
                            step(2, b.getIndexAttr(1));
  Value own = tensor::ExtractSliceOp::create(b, loc, text.perLayerInputs, from,
                                             sizes, step);
  Value made = linear(names.out,
                      gated(gate, own, static_cast<Activation>(c.gate)), layer);
  return norm(names.end, made, layer);
}

/// The factor of embeddings. The root of the hidden size is rounded as
/// transformers rounds it.
double Importer::embeddingScale() {
  llvm::APFloat scale(c.embeddingScale);
  bool lossy;
  if (family.scalesEmbedding)
    for (Type to : {Type(b.getF32Type()), type, Type(b.getF64Type())})
      scale.convert(cast<FloatType>(to).getFloatSemantics(),
                    llvm::APFloat::rmNearestTiesToEven, &lossy);
  return scale.convertToDouble();
}

/// The first columns of x, for the tokens from `first` on.
Value Importer::slice(Value x, Value tokens, Value first, int64_t columns) {
  at("model");
  Value rows = arith::SubIOp::create(b, loc, tokens, first);
  SmallVector<OpFoldResult> from = {first, b.getIndexAttr(0)},
                            size = {rows, b.getIndexAttr(columns)},
                            step(2, b.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(b, loc, x, from, size, step);
}

/// Builds the last norm, for the tokens from `first` on.
Value Importer::normFrom(Value x, Value tokens, Value first) {
  Value wanted = slice(x, tokens, first, c.hiddenSize);
  return hasLastNorm() ? norm(family.lastNorm, wanted, {}) : wanted;
}

Value Importer::embed(Value ids, Value position) {
  at(family.embedding);
  Value x = EmbedOp::create(b, loc, ids, weight("embed_tokens", {}),
                            llvm::APFloat(embeddingScale()),
                            /*as=*/TypeAttr());
  if (family.positions.module.empty())
    return x;
  at(family.positions.module);
  return AddRowsOp::create(b, loc, x, weight("positions", {}), position);
}

/// A vector as a matrix of one row.
Value Importer::row(Value vector) {
  auto type = cast<RankedTensorType>(vector.getType());
  return tensor::ExpandShapeOp::create(
      b, loc, type.clone({1, type.getDimSize(0)}), vector,
      ArrayRef<ReassociationIndices>{{0, 1}});
}

/// A weight with rows, as a matrix.
Value Importer::rows(StringRef symbol) {
  Value read = weight(symbol, {});
  auto type = cast<RankedTensorType>(read.getType());
  if (type.getRank() == 2)
    return read;
  if (type.getRank() == 1)
    return row(read);
  return tensor::CollapseShapeOp::create(
      b, loc, read, ArrayRef<ReassociationIndices>{{0, 1}, {2}});
}

/// Builds what a vision tower has in front of its layers. The rows of a call
/// are registers and class, whatever the call gives for these, and patches. The
/// product of a convolution whose steps are as wide as its filters is that of
/// a matrix.
Value Importer::embedPatches(Value ids, Value position) {
  const VisionModules &names = family.vision;
  at(names.patches);
  Value pixels = given(ids);
  Value filters = tensor::CollapseShapeOp::create(
      b, loc, weight(patchFilters, {}),
      ArrayRef<ReassociationIndices>{{0}, {1, 2, 3}});
  Value x = LinearOp::create(b, loc, pixels, filters,
                             optionalWeight(biasSymbol(patchFilters), {}));
  auto first = static_cast<uint64_t>(c.registers);
  if (first)
    x = SetRowsOp::create(b, loc, x, rows(registerRows), position,
                          /*first=*/uint64_t(0));
  if (!names.classRow.empty())
    x = SetRowsOp::create(b, loc, x, rows(classRow), position, first);
  at(names.positions);
  x = AddRowsOp::create(b, loc, x, rows(positionRows), position,
                        static_cast<uint64_t>(firstPosition()));
  return names.norm.empty() ? x : norm(names.norm, x, {});
}

SmallVector<GetRopeOp> Importer::getRopes() {
  at("model.rotary_emb");
  SmallVector<GetRopeOp> ropes;
  for (auto [rope, symbol] : llvm::zip(c.ropes, ropeSymbols)) {
    auto table = module.lookupSymbol<RopeTableOp>(symbol).getTensorType();
    ropes.push_back(GetRopeOp::create(b, loc, table, table, symbol));
  }
  return ropes;
}

/// Builds a projector that is a model of its own.
void Importer::runProjector() {
  b.setInsertionPointToEnd(module.getBody());
  declareInput(c.projectorIn);
  declareProjector(*c.projector);
  Block *entry = declareForward().addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value ids = entry->getArgument(0);
  Value tokens = tensor::DimOp::create(b, loc, ids, index(0));
  Value x = given(ids);
  Value wanted = slice(x, tokens, entry->getArgument(3), c.projectorIn);
  Value hidden = project(*c.projector, wanted);
  Value logits = head(x, tokens, entry->getArgument(2));
  at("model");
  func::ReturnOp::create(b, loc, ValueRange{logits, hidden});
}

void Importer::run() {
  b.setInsertionPointToEnd(module.getBody());
  declareSymbols();
  func::FuncOp forward = declareForward();
  Block *entry = forward.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value ids = entry->getArgument(0);
  Value tokens = tensor::DimOp::create(b, loc, ids, index(0));
  Text text = {tokens, entry->getArgument(1),
               c.seesAhead ? entry->getArgument(3) : Value(), getRopes(),
               Value()};
  Value x = family.readsImages() ? embedPatches(ids, text.position)
                                 : embed(ids, text.position);
  if (c.perLayerInputSize)
    text.perLayerInputs = perLayerInputs(tokens, ids, x);
  SmallVector<Value> carried = {x};
  unsigned firstHidden = firstHiddenArgument(forward.getFunctionType());
  llvm::append_range(carried,
                     entry->getArguments().drop_front(firstHidden + 1));
  ArrayRef<LayerKind> kinds = c.kinds;
  if (family.readsImages())
    kinds = kinds.take_front(c.usedLayers);
  for (const LayerRun &layers : layerRuns(kinds))
    carried = run(text, layers, carried);
  // The head's norm is the last reader of the hidden states, so that the norm
  // may write over them.
  Value hidden = normFrom(carried[0], tokens, entry->getArgument(firstHidden));
  if (c.projector)
    hidden = project(*c.projector, hidden);
  SmallVector<Value> results = {head(carried[0], tokens, entry->getArgument(2)),
                                hidden};
  results.append(carried.begin() + 1, carried.end());
  at("model");
  func::ReturnOp::create(b, loc, results);
}

/// Builds the logits of the tokens from `first` on. A model that takes rows has
/// none; it returns a column of its numbers in their place.
Value Importer::head(Value x, Value tokens, Value first) {
  if (c.takesRows()) {
    Value column = slice(x, tokens, first, 1);
    auto logits =
        cast<RankedTensorType>(column.getType()).clone(b.getF32Type());
    return type.isF32() ? column
                        : arith::ExtFOp::create(b, loc, logits, column);
  }
  Value last = normFrom(x, tokens, first);
  at(family.head);
  auto logits = HeadOp::create(b, loc, last, weight("lm_head", {}),
                               optionalWeight(biasSymbol("lm_head"), {}),
                               llvm::APFloat(c.logitScale),
                               /*softcap=*/FloatAttr());
  if (c.logitSoftcap)
    logits.setSoftcap(llvm::APFloat(c.logitSoftcap));
  return logits;
}

static Type storageType(DType dtype, MLIRContext *context) {
  switch (dtype) {
  case DType::F32:
    return Float32Type::get(context);
  case DType::F16:
    return Float16Type::get(context);
  case DType::BF16:
    return BFloat16Type::get(context);
  }
  llvm_unreachable("unknown dtype");
}

static WindowCaches windowCachesOf(const ModelConfig &c,
                                   const ImportOptions &options,
                                   int64_t maxSeq) {
  if (!options.windowChunk)
    return {};
  if (options.rows)
    return {0, hasShortWindow(c, std::max(*options.windowChunk, options.rows),
                              maxSeq)};
  int64_t ring = ringPlaces(c, *options.windowChunk, maxSeq);
  return {ring, ring > 0};
}

/// The number of positions of the caches, or nothing after an error.
static std::optional<int64_t>
cachePositions(const ModelConfig &c, const ImportOptions &options, Type type) {
  Location loc = UnknownLoc::get(type.getContext());
  if (!c.layers)
    return 1; // there are no caches
  bool isTower = c.family->readsImages();
  int64_t maxSeq = options.maxSeq.value_or(
      isTower ? c.maxPositions : std::min(c.maxPositions, defaultMaxSeq));
  if (isTower && maxSeq != c.maxPositions) {
    emitError(loc) << "expected " << c.maxPositions
                   << " positions, those of an image, got " << maxSeq;
    return std::nullopt;
  }
  int64_t numbers = c.latentSize ? c.layers * (c.latentSize + c.headDim) : 0;
  WindowCaches windows = windowCachesOf(c, options, maxSeq);
  if (!c.latentSize)
    for (const auto &[heads, keepsWindow, layers] :
         layerCaches(c, windows.areApart).groups)
      if (!keepsWindow)
        numbers += 2 * layers * heads.kvHeads * heads.headDim;
  // A model may have states alone.
  int64_t perPosition = numbers * (type.getIntOrFloatBitWidth() / 8),
          most = maxCacheBytes / std::max<int64_t>(perPosition, 1);
  if (maxSeq < 1 || maxSeq > most) {
    emitError(loc) << "expected 1 to " << most << " positions (" << perPosition
                   << " bytes of caches each), got " << maxSeq;
    return std::nullopt;
  }
  if (c.mostPositions && maxSeq > c.mostPositions) {
    emitError(loc) << "expected at most " << c.mostPositions
                   << " positions, because later queries have a factor "
                      "(llama_4_scaling_beta), which is not supported, got "
                   << maxSeq;
    return std::nullopt;
  }
  bool isLonger = maxSeq > c.maxPositions;
  if (isLonger && !c.family->positions.module.empty()) {
    emitError(loc) << "expected at most " << c.maxPositions
                   << " positions, because the model has a row for each, got "
                   << maxSeq;
    return std::nullopt;
  }
  // Dynamic rope also defines the angles of longer texts.
  bool isDynamic =
      !c.ropes.empty() && c.ropes.front().kind == RopeConfig::Kind::Dynamic;
  if (isLonger && !isDynamic)
    emitWarning(loc) << "the caches have " << maxSeq
                     << " positions, the model knows " << c.maxPositions
                     << ": text beyond them may degrade";
  return maxSeq;
}

OwningOpRef<ModuleOp> cria::importModel(const ModelConfig &config,
                                        const ImportOptions &options,
                                        MLIRContext *context) {
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LlamaDialect,
                       scf::SCFDialect, tensor::TensorDialect>();
  Type type = storageType(options.dtype.value_or(config.dtype), context);
  std::optional<int64_t> maxSeq = cachePositions(config, options, type);
  if (!maxSeq)
    return {};
  OwningOpRef<ModuleOp> module =
      ModuleOp::create(UnknownLoc::get(context), "model");
  Importer importer(config, *maxSeq, windowCachesOf(config, options, *maxSeq),
                    type, *module);
  config.layers ? importer.run() : importer.runProjector();
  return module;
}
