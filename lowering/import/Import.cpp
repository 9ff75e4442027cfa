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
  /// The tables of the rotary position embedding.
  Value cos, sin;
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
  void declareRope();
  void declareNorm(StringRef path, int64_t size);
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
  Value norm(StringRef symbol, Value x, Value layer);
  Value normFrom(Value x, Value tokens, Value first);
  Value weight(StringRef symbol, Value layer);
  Value index(int64_t value);
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
    declare(path, "bias", {out}, true, (lastName(path) + "_bias").str());
}

/// Declares a norm of each layer, or nothing if `path` is empty.
void Importer::declareNorm(StringRef path, int64_t size) {
  if (!path.empty())
    declare(path, "weight", {size}, true);
}

void Importer::declareLayer() {
  int64_t q = c.heads * c.headDim, kv = c.kvHeads * c.headDim,
          hidden = c.hiddenSize, inner = c.intermediateSize;
  StringRef qkv = family.queryKeyValue, gateUp = family.gateUp;
  bool bias = c.attentionBias;
  declareNorm(family.attentionNorm, hidden);
  declareLinear("self_attn.q_proj", q, hidden, bias, qkv, 0, q + 2 * kv);
  declareLinear("self_attn.k_proj", kv, hidden, bias, qkv, q, q + 2 * kv);
  declareLinear("self_attn.v_proj", kv, hidden, bias, qkv, q + kv, q + 2 * kv);
  if (family.headNorm != HeadNorm::None) {
    bool each = family.headNorm == HeadNorm::EachHead;
    declareNorm("self_attn.q_norm", each ? c.headDim : q);
    declareNorm("self_attn.k_norm", each ? c.headDim : kv);
  }
  declareLinear("self_attn.o_proj", hidden, q,
                bias && family.bias != BiasRule::QueryKeyValue);
  declareNorm(family.attentionEndNorm, hidden);
  declareNorm(family.mlpNorm, hidden);
  declareLinear("mlp.gate_proj", inner, hidden, c.mlpBias, gateUp, 0,
                2 * inner);
  declareLinear("mlp.up_proj", inner, hidden, c.mlpBias, gateUp, inner,
                2 * inner);
  declareLinear("mlp.down_proj", hidden, inner, c.mlpBias);
  declareNorm(family.mlpEndNorm, hidden);
}

void Importer::declareRope() {
  at("model.rotary_emb");
  auto table = RopeTableOp::create(
      b, loc, "rope", maxSeq, inverseFrequencies(c.rope),
      llvm::APFloat(c.rope.scale), /*original=*/IntegerAttr(),
      /*long_inv_freq=*/DenseF32ArrayAttr(), /*growth=*/FloatAttr(),
      /*theta=*/FloatAttr(), /*recompute=*/false, /*slot=*/IntegerAttr(),
      /*sym_visibility=*/StringAttr());
  if (c.rope.kind == RopeConfig::Kind::LongRope) {
    table.setOriginal(c.rope.originalPositions);
    table.setLongInvFreq(longInverseFrequencies(c.rope));
    table.setRecompute(family.phi3Rope);
  } else if (c.rope.kind == RopeConfig::Kind::Dynamic) {
    table.setOriginal(c.rope.originalPositions);
    table.setGrowth(llvm::APFloat(c.rope.factor));
    table.setTheta(llvm::APFloat(c.rope.theta));
  }
}

void Importer::declareSymbols() {
  declare("model.embed_tokens", "weight", {c.vocabSize, c.hiddenSize}, false);
  declareLayer();
  declare("model.norm", "weight", {c.hiddenSize}, false);
  WeightOp head =
      declare("lm_head", "weight", {c.vocabSize, c.hiddenSize}, false);
  if (c.tied)
    head.setTied("embed_tokens");
  declareRope();
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

Value Importer::norm(StringRef symbol, Value x, Value layer) {
  loc = module.lookupSymbol<WeightOp>(symbol).getLoc();
  return RMSNormOp::create(b, loc, x, weight(symbol, layer),
                           /*squares=*/Value(), llvm::APFloat(c.rmsNormEps),
                           family.normRoundsOnce, family.normUnitOffset,
                           /*column=*/0, /*size=*/IntegerAttr());
}

/// The linear of a layer's module, with a bias if one is declared.
Value Importer::linear(StringRef symbol, Value x, Value layer) {
  loc = module.lookupSymbol<WeightOp>(symbol).getLoc();
  Value matrix = weight(symbol, layer), bias;
  std::string biasSymbol = (symbol + "_bias").str();
  if (module.lookupSymbol(biasSymbol))
    bias = weight(biasSymbol, layer);
  return LinearOp::create(b, loc, x, matrix, bias);
}

/// Reshapes (n, count * D) to (n, count, D), and normalizes if the family does.
Value Importer::heads(Value tokens, Value x, int64_t count, StringRef symbol,
                      Value layer) {
  if (family.headNorm == HeadNorm::AllHeads && !symbol.empty())
    x = norm(symbol, x, layer);
  SmallVector<OpFoldResult> shape = {tokens, b.getIndexAttr(count),
                                     b.getIndexAttr(c.headDim)};
  x = tensor::ExpandShapeOp::create(
      b, loc, tensor({ShapedType::kDynamic, count, c.headDim}), x,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}}, shape);
  if (family.headNorm == HeadNorm::EachHead && !symbol.empty())
    x = norm(symbol, x, layer);
  return x;
}

Value Importer::attention(const Text &text, const LayerKind &kind, Value x,
                          Value layer, Value &k, Value &v) {
  auto [tokens, position, cos, sin] = text;
  Value q = heads(tokens, linear("q_proj", x, layer), c.heads, "q_norm", layer);
  Value keys =
      heads(tokens, linear("k_proj", x, layer), c.kvHeads, "k_norm", layer);
  Value values =
      heads(tokens, linear("v_proj", x, layer), c.kvHeads, "", layer);
  at(Twine(layerPath) + ".self_attn");
  if (kind.rotates) {
    q = RopeOp::create(b, loc, q, cos, sin, position);
    keys = RopeOp::create(b, loc, keys, cos, sin, position);
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
  return linear("o_proj", flat, layer);
}

Value Importer::mlp(Value x, Value layer) {
  Value gate = linear("gate_proj", x, layer);
  Value up = linear("up_proj", x, layer);
  at(Twine(layerPath) + ".mlp");
  auto function = static_cast<Activation>(c.gate);
  Value product = SwiGLUOp::create(b, loc, gate, up, function);
  return linear("down_proj", product, layer);
}

/// Builds one layer. Returns the hidden states and caches after the layer.
SmallVector<Value> Importer::layer(const Text &text, const LayerKind &kind,
                                   Value layer, ValueRange carried) {
  Value x = carried[0], k = carried[1], v = carried[2];
  auto normed = [&](StringRef symbol, Value value) {
    return symbol.empty() ? value : norm(symbol, value, layer);
  };
  auto add = [&](Value update) {
    at(layerPath);
    x = ResidualOp::create(b, loc, x, update, llvm::APFloat(c.residualScale));
  };
  Value mixed =
      attention(text, kind, normed(family.attentionNorm, x), layer, k, v);
  add(normed(family.attentionEndNorm, mixed));
  add(normed(family.mlpEndNorm, mlp(normed(family.mlpNorm, x), layer)));
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
  return norm("norm", wanted, {});
}

void Importer::run() {
  b.setInsertionPointToEnd(module.getBody());
  declareSymbols();
  func::FuncOp forward = declareForward();
  Block *entry = forward.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value ids = entry->getArgument(0);
  Value tokens = tensor::DimOp::create(b, loc, ids, index(0));
  at("model.rotary_emb");
  auto table = module.lookupSymbol<RopeTableOp>("rope").getTensorType();
  auto rope = GetRopeOp::create(b, loc, table, table, "rope");
  Text text = {tokens, entry->getArgument(1), rope.getCos(), rope.getSin()};
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
                               /*bias=*/Value(), llvm::APFloat(c.logitScale),
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
  // Dynamic rope also defines the angles of longer texts.
  if (maxSeq > c.maxPositions && c.rope.kind != RopeConfig::Kind::Dynamic)
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
