/// Builds the forward pass of every family, in the order of transformers'
/// modeling_llama.py. Letters in shapes: n tokens, C hidden size, I
/// intermediate size, H heads, KVH KV heads, D head size, S positions, L
/// layers, V vocabulary.
#include "lowering/import/Import.h"
#include "dialect/Dialect.h"
#include "lowering/import/Layers.h"
#include "lowering/import/Rope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

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
  /// The tables of the rotary position embeddings: those of ModelConfig::ropes.
  SmallVector<GetRopeOp> ropes;
};

/// Builds one module.
class Importer {
public:
  Importer(const ModelConfig &config, int64_t maxSeq, Type type,
           ModuleOp module)
      : c(config), maxSeq(maxSeq), type(type), b(module.getContext()),
        module(module) {}

  void run();

private:
  void declareSymbols();
  void declareLayer();
  void declareAttention();
  void declareMlp();
  void declareRope(const RopeConfig &rope, StringRef symbol);
  void declareNorm(StringRef path, int64_t size, bool layered = true);
  void declareLinear(StringRef path, int64_t out, int64_t in, bool bias,
                     StringRef fused = "", int64_t row = 0, int64_t rows = 0);
  WeightOp declare(StringRef path, StringRef kind, ArrayRef<int64_t> shape,
                   bool layered, StringRef symbol = "");
  func::FuncOp declareForward();
  SmallVector<Value> layer(const Text &text, const LayerKind &kind, Value layer,
                           ValueRange carried);
  SmallVector<Value> run(const Text &text, const LayerRun &layers,
                         ValueRange carried);
  Value attention(const Text &text, const LayerKind &kind, Value x, Value layer,
                  Value &k, Value &v);
  Value mlp(Value x, Value layer);
  Value heads(Value tokens, Value x, int64_t count, StringRef norm,
              Value layer);
  Value linear(StringRef symbol, Value x, Value layer);
  Value norm(StringRef path, Value x, Value layer);
  Value normFrom(Value x, Value tokens, Value first);
  Value weight(StringRef symbol, Value layer);
  Value optionalWeight(StringRef symbol, Value layer);
  Value index(int64_t value);
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
  int64_t maxSeq;
  Type type;
  OpBuilder b;
  ModuleOp module;
  Location loc = b.getUnknownLoc();
};
} // namespace

static constexpr llvm::StringLiteral layerPath = "model.layers.*";

/// The symbol of a module: "q_proj" for "self_attn.q_proj".
static StringRef lastName(StringRef path) {
  return path.substr(path.rfind('.') + 1);
}

static std::string biasSymbol(StringRef symbol) {
  return (symbol + "_bias").str();
}

/// Declares a weight of the module `path`: one of the model, or one of each
/// layer.
WeightOp Importer::declare(StringRef path, StringRef kind,
                           ArrayRef<int64_t> shape, bool layered,
                           StringRef symbol) {
  std::string module = layered ? (layerPath + "." + path).str() : path.str();
  std::string source = layered ? ("model.layers.{}." + path).str() : path.str();
  at(module);
  return WeightOp::create(
      b, loc, symbol.empty() ? lastName(path) : symbol,
      layered ? b.getI64IntegerAttr(c.layers) : IntegerAttr(), tensor(shape),
      source + "." + kind.str(), /*first_row=*/IntegerAttr(),
      /*source_rows=*/IntegerAttr(), /*first=*/0, /*adapter=*/false,
      /*tied=*/FlatSymbolRefAttr(), /*slot=*/IntegerAttr(),
      /*split=*/SplitAttr(), /*sym_visibility=*/StringAttr());
}

/// Declares a linear of each layer. If `fused` is given, the linear is the rows
/// [row, row + out) of the `rows` rows of the module `fused`.
void Importer::declareLinear(StringRef path, int64_t out, int64_t in, bool bias,
                             StringRef fused, int64_t row, int64_t rows) {
  WeightOp made = declare(fused.empty() ? path : fused, "weight", {out, in},
                          true, lastName(path));
  if (!fused.empty()) {
    made.setFirstRow(row);
    made.setSourceRows(rows);
  }
  if (bias)
    declare(path, "bias", {out}, true, biasSymbol(lastName(path)));
}

/// Declares the tensors of a norm, or nothing if `path` is empty.
void Importer::declareNorm(StringRef path, int64_t size, bool layered) {
  if (path.empty())
    return;
  if (family.norm.hasWeight)
    declare(path, "weight", {size}, layered);
  if (family.norm.hasBias)
    declare(path, "bias", {size}, layered, biasSymbol(lastName(path)));
}

void Importer::declareAttention() {
  int64_t q = c.heads * c.headDim, kv = c.kvHeads * c.headDim,
          hidden = c.hiddenSize, all = q + 2 * kv;
  const AttentionModules &names = family.attention;
  bool bias = c.queryKeyValueBias;
  declareLinear(names.query, q, hidden, bias, names.fused, 0, all);
  declareLinear(names.key, kv, hidden, bias, names.fused, q, all);
  declareLinear(names.value, kv, hidden, bias, names.fused, q + kv, all);
  if (family.headNorm != HeadNorm::None) {
    bool all = family.headNorm == HeadNorm::AllHeads;
    declareNorm(names.queryNorm, all ? q : c.headDim);
    declareNorm(names.keyNorm, all ? kv : c.headDim);
  }
  declareLinear(names.out, hidden, q, c.outBias);
}

void Importer::declareMlp() {
  int64_t hidden = c.hiddenSize, inner = c.intermediateSize;
  const MlpModules &names = family.mlp;
  if (!names.gate.empty())
    declareLinear(names.gate, inner, hidden, c.mlpBias, names.fused, 0,
                  2 * inner);
  declareLinear(names.up, inner, hidden, c.mlpBias, names.fused, inner,
                2 * inner);
  declareLinear(names.down, hidden, inner, c.mlpBias);
}

void Importer::declareLayer() {
  declareNorm(family.norms.attention, c.hiddenSize);
  declareAttention();
  declareNorm(family.norms.attentionEnd, c.hiddenSize);
  declareNorm(family.norms.mlp, c.hiddenSize);
  declareMlp();
  declareNorm(family.norms.mlpEnd, c.hiddenSize);
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

void Importer::declareSymbols() {
  declare("model.embed_tokens", "weight", {c.vocabSize, c.hiddenSize}, false);
  declareLayer();
  declareNorm(family.lastNorm, c.hiddenSize, /*layered=*/false);
  WeightOp head =
      declare("lm_head", "weight", {c.vocabSize, c.hiddenSize}, false);
  if (c.tied)
    head.setTied("embed_tokens");
  if (c.headBias)
    declare("lm_head", "bias", {c.vocabSize}, false, biasSymbol("lm_head"));
  for (auto [rope, symbol] : llvm::zip(c.ropes, ropeSymbols))
    declareRope(rope, symbol);
}

func::FuncOp Importer::declareForward() {
  constexpr int64_t n = ShapedType::kDynamic;
  RankedTensorType cache = tensor({c.layers, c.kvHeads, maxSeq, c.headDim});
  auto logits = RankedTensorType::get({n, c.vocabSize}, b.getF32Type());
  auto ids = RankedTensorType::get({n}, b.getI32Type());
  Type index = b.getIndexType();
  auto type =
      b.getFunctionType({ids, index, index, index, cache, cache},
                        {logits, tensor({n, c.hiddenSize}), cache, cache});
  at("model");
  return func::FuncOp::create(b, loc, "forward", type);
}

Value Importer::index(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}

Value Importer::weight(StringRef symbol, Value layer) {
  auto declared = module.lookupSymbol<WeightOp>(symbol);
  return GetWeightOp::create(b, loc, declared.getTensorType(), symbol, layer);
}

/// The weight, or null if none is declared.
Value Importer::optionalWeight(StringRef symbol, Value layer) {
  return module.lookupSymbol(symbol) ? weight(symbol, layer) : Value();
}

/// The norm of the module `path`, of the model or of a layer.
Value Importer::norm(StringRef path, Value x, Value layer) {
  at(layer ? layerPath + "." + path : path);
  StringRef symbol = lastName(path);
  Value gamma = optionalWeight(symbol, layer),
        beta = optionalWeight(biasSymbol(symbol), layer);
  if (family.norm.function == NormKind::Layer)
    return LayerNormOp::create(b, loc, x, gamma, beta, llvm::APFloat(c.normEps),
                               family.norm.unitOffset);
  return RMSNormOp::create(b, loc, x, gamma, /*squares=*/Value(),
                           llvm::APFloat(c.normEps), family.norm.roundsOnce,
                           family.norm.unitOffset,
                           /*column=*/0, /*size=*/IntegerAttr());
}

/// The linear of a layer's module, with a bias if one is declared.
Value Importer::linear(StringRef path, Value x, Value layer) {
  StringRef symbol = lastName(path);
  loc = module.lookupSymbol<WeightOp>(symbol).getLoc();
  Value matrix = weight(symbol, layer),
        bias = optionalWeight(biasSymbol(symbol), layer);
  return LinearOp::create(b, loc, x, matrix, bias);
}

/// Reshapes (n, count * D) to (n, count, D), and normalizes if the family does.
Value Importer::heads(Value tokens, Value x, int64_t count, StringRef normPath,
                      Value layer) {
  if (family.headNorm == HeadNorm::AllHeads && !normPath.empty())
    x = norm(normPath, x, layer);
  SmallVector<OpFoldResult> shape = {tokens, b.getIndexAttr(count),
                                     b.getIndexAttr(c.headDim)};
  x = tensor::ExpandShapeOp::create(
      b, loc, tensor({ShapedType::kDynamic, count, c.headDim}), x,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}}, shape);
  if (family.headNorm == HeadNorm::EachHead && !normPath.empty())
    x = norm(normPath, x, layer);
  return x;
}

Value Importer::attention(const Text &text, const LayerKind &kind, Value x,
                          Value layer, Value &k, Value &v) {
  Value tokens = text.tokens, position = text.position;
  const AttentionModules &names = family.attention;
  Value q = heads(tokens, linear(names.query, x, layer), c.heads,
                  names.queryNorm, layer);
  Value keys = heads(tokens, linear(names.key, x, layer), c.kvHeads,
                     names.keyNorm, layer);
  Value values =
      heads(tokens, linear(names.value, x, layer), c.kvHeads, "", layer);
  at(layerPath + ".self_attn");
  if (kind.rotates) {
    GetRopeOp rope = text.ropes[kind.rope];
    for (Value *rotated : {&q, &keys})
      *rotated = RopeOp::create(b, loc, *rotated, rope.getCos(), rope.getSin(),
                                position, family.rope.isInterleaved);
  }
  if (family.headNorm == HeadNorm::EachHeadAfterRope) {
    q = norm(names.queryNorm, q, layer);
    keys = norm(names.keyNorm, keys, layer);
    at(layerPath + ".self_attn");
  }
  k = KVAppendOp::create(b, loc, keys, k, layer, position, /*pages=*/Value());
  v = KVAppendOp::create(b, loc, values, v, layer, position, /*pages=*/Value());
  auto mixed = GQAOp::create(b, loc, q, k, v, layer, position,
                             /*pages=*/Value(), /*over=*/Value(),
                             llvm::APFloat(c.attentionScale), /*causal=*/true,
                             /*window=*/IntegerAttr(), /*softcap=*/FloatAttr());
  if (kind.window)
    mixed.setWindow(kind.window);
  if (c.attentionSoftcap)
    mixed.setSoftcap(llvm::APFloat(c.attentionSoftcap));
  Value flat = tensor::CollapseShapeOp::create(
      b, loc, tensor({ShapedType::kDynamic, c.heads * c.headDim}), mixed,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  return linear(names.out, flat, layer);
}

Value Importer::mlp(Value x, Value layer) {
  const MlpModules &names = family.mlp;
  auto function = static_cast<Activation>(c.gate);
  Value gate;
  if (!names.gate.empty())
    gate = linear(names.gate, x, layer);
  Value up = linear(names.up, x, layer);
  at(layerPath + "." + names.up.substr(0, names.up.rfind('.')));
  Value product = gate ? Value(SwiGLUOp::create(b, loc, gate, up, function))
                       : ActivateOp::create(b, loc, function, up);
  return linear(names.down, product, layer);
}

/// Builds one layer. Returns the hidden states and caches after the layer.
SmallVector<Value> Importer::layer(const Text &text, const LayerKind &kind,
                                   Value layer, ValueRange carried) {
  Value x = carried[0], k = carried[1], v = carried[2];
  auto normed = [&](StringRef path, Value value) {
    return path.empty() ? value : norm(path, value, layer);
  };
  auto add = [&](Value update) {
    at(layerPath);
    x = ResidualOp::create(b, loc, x, update, llvm::APFloat(c.residualScale));
  };
  const LayerNorms &norms = family.norms;
  Value read = normed(norms.attention, x);
  Value mixed = attention(text, kind, read, layer, k, v);
  add(normed(norms.attentionEnd, mixed));
  if (!family.isParallel)
    read = normed(norms.mlp, x);
  add(normed(norms.mlpEnd, mlp(read, layer)));
  return {x, k, v};
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
          next = layer(text, c.kinds[layers.first + i], number, next);
        }
        at(layerPath);
        scf::YieldOp::create(b, loc, next);
      });
  return SmallVector<Value>(loop.getResults());
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

/// Builds the last norm, for the tokens from `first` on.
Value Importer::normFrom(Value x, Value tokens, Value first) {
  at("model");
  Value rows = arith::SubIOp::create(b, loc, tokens, first);
  SmallVector<OpFoldResult> from = {first, b.getIndexAttr(0)},
                            size = {rows, b.getIndexAttr(c.hiddenSize)},
                            step(2, b.getIndexAttr(1));
  Value wanted = tensor::ExtractSliceOp::create(b, loc, x, from, size, step);
  return norm(family.lastNorm, wanted, {});
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

void Importer::run() {
  b.setInsertionPointToEnd(module.getBody());
  declareSymbols();
  func::FuncOp forward = declareForward();
  Block *entry = forward.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value ids = entry->getArgument(0);
  Value tokens = tensor::DimOp::create(b, loc, ids, index(0));
  Text text = {tokens, entry->getArgument(1), getRopes()};
  at("model.embed_tokens");
  Value x = EmbedOp::create(b, loc, ids, weight("embed_tokens", {}),
                            llvm::APFloat(embeddingScale()),
                            /*as=*/TypeAttr());
  SmallVector<Value> carried = {x, entry->getArgument(4),
                                entry->getArgument(5)};
  for (const LayerRun &layers : layerRuns(c.kinds))
    carried = run(text, layers, carried);
  // The head's norm is the last reader of the hidden states, so that the norm
  // may write over them.
  Value hidden = normFrom(carried[0], tokens, entry->getArgument(3));
  Value last = normFrom(carried[0], tokens, entry->getArgument(2));
  at("lm_head");
  auto logits = HeadOp::create(b, loc, last, weight("lm_head", {}),
                               optionalWeight(biasSymbol("lm_head"), {}),
                               llvm::APFloat(c.logitScale),
                               /*softcap=*/FloatAttr());
  if (c.logitSoftcap)
    logits.setSoftcap(llvm::APFloat(c.logitSoftcap));
  at("model");
  func::ReturnOp::create(b, loc,
                         ValueRange{logits, hidden, carried[1], carried[2]});
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

/// The number of positions of the caches, or nothing after an error.
static std::optional<int64_t>
cachePositions(const ModelConfig &c, const ImportOptions &options, Type type) {
  Location loc = UnknownLoc::get(type.getContext());
  int64_t maxSeq =
      options.maxSeq.value_or(std::min(c.maxPositions, defaultMaxSeq));
  int64_t perPosition =
      2 * c.layers * c.kvHeads * c.headDim * (type.getIntOrFloatBitWidth() / 8);
  if (maxSeq < 1 || maxSeq > maxCacheBytes / perPosition) {
    emitError(loc) << "expected 1 to " << maxCacheBytes / perPosition
                   << " positions (" << perPosition
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
  // Dynamic rope also defines the angles of longer texts.
  if (maxSeq > c.maxPositions &&
      c.ropes.front().kind != RopeConfig::Kind::Dynamic)
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
  Importer(config, *maxSeq, type, *module).run();
  return module;
}
