/// The one description of a Llama's forward pass, in the order of
/// transformers' modeling_llama.py. Letters in shapes: n tokens, C hidden size,
/// I intermediate size, H heads, KVH KV heads, D head size, S positions, L
/// layers, V vocabulary.
#include "lowering/import/Import.h"
#include "dialect/Dialect.h"
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

/// The most positions a cache has unless asked for more.
static constexpr int64_t defaultMaxSeq = 4096;
/// The most bytes of caches that are taken for meant.
static constexpr int64_t maxCacheBytes = int64_t(1) << 44;

namespace {
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
  void declareLinear(StringRef path, int64_t out, int64_t in, bool bias);
  void declare(StringRef path, StringRef kind, ArrayRef<int64_t> shape,
               bool layered);
  func::FuncOp declareForward();
  SmallVector<Value> layer(Value layer, ValueRange carried);
  Value attention(Value x, Value layer, Value &k, Value &v);
  Value mlp(Value x, Value layer);
  Value heads(Value x, int64_t count);
  Value linear(StringRef path, Value x, Value layer);
  Value norm(StringRef path, Value x, Value layer);
  Value weight(StringRef symbol, Value layer);
  Value index(int64_t value);

  RankedTensorType tensor(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, type);
  }
  /// Ops built from here on belong to this module of the model.
  void at(const Twine &path) { loc = NameLoc::get(b.getStringAttr(path)); }

  const ModelConfig &c;
  int64_t maxSeq;
  Type type;
  OpBuilder b;
  ModuleOp module;
  Location loc = b.getUnknownLoc();
  // Of the function under construction.
  Value tokens, position, cos, sin;
};
} // namespace

static constexpr llvm::StringLiteral layerPath = "model.layers.*";

/// "q_proj" of "self_attn.q_proj": what the symbol is called.
static StringRef lastName(StringRef path) {
  return path.substr(path.rfind('.') + 1);
}

static std::string biasSymbol(StringRef path) {
  return (lastName(path) + "_bias").str();
}

/// Declares a weight of the module `path`: of the model, or of each layer.
void Importer::declare(StringRef path, StringRef kind, ArrayRef<int64_t> shape,
                       bool layered) {
  std::string module = layered ? (layerPath + "." + path).str() : path.str();
  std::string source = layered ? ("model.layers.{}." + path).str() : path.str();
  at(module);
  WeightOp::create(b, loc,
                   kind == "bias" ? biasSymbol(path) : lastName(path).str(),
                   layered ? b.getI64IntegerAttr(c.layers) : IntegerAttr(),
                   tensor(shape), source + "." + kind.str());
}

void Importer::declareLinear(StringRef path, int64_t out, int64_t in,
                             bool bias) {
  declare(path, "weight", {out, in}, true);
  if (bias)
    declare(path, "bias", {out}, true);
}

void Importer::declareSymbols() {
  int64_t q = c.heads * c.headDim, kv = c.kvHeads * c.headDim;
  declare("model.embed_tokens", "weight", {c.vocabSize, c.hiddenSize}, false);
  declare("input_layernorm", "weight", {c.hiddenSize}, true);
  declareLinear("self_attn.q_proj", q, c.hiddenSize, c.attentionBias);
  declareLinear("self_attn.k_proj", kv, c.hiddenSize, c.attentionBias);
  declareLinear("self_attn.v_proj", kv, c.hiddenSize, c.attentionBias);
  declareLinear("self_attn.o_proj", c.hiddenSize, q, c.attentionBias);
  declare("post_attention_layernorm", "weight", {c.hiddenSize}, true);
  declareLinear("mlp.gate_proj", c.intermediateSize, c.hiddenSize, c.mlpBias);
  declareLinear("mlp.up_proj", c.intermediateSize, c.hiddenSize, c.mlpBias);
  declareLinear("mlp.down_proj", c.hiddenSize, c.intermediateSize, c.mlpBias);
  declare("model.norm", "weight", {c.hiddenSize}, false);
  if (!c.tied)
    declare("lm_head", "weight", {c.vocabSize, c.hiddenSize}, false);
  at("model.rotary_emb");
  RopeTableOp::create(b, loc, "rope", maxSeq,
                      inverseFrequencies(c.rope, c.headDim),
                      llvm::APFloat(1.0));
}

func::FuncOp Importer::declareForward() {
  constexpr int64_t n = ShapedType::kDynamic;
  RankedTensorType cache = tensor({c.layers, c.kvHeads, maxSeq, c.headDim});
  auto logits = RankedTensorType::get({n, c.vocabSize}, b.getF32Type());
  auto ids = RankedTensorType::get({n}, b.getI32Type());
  auto type =
      b.getFunctionType({ids, b.getIndexType(), b.getIndexType(), cache, cache},
                        {logits, cache, cache});
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

Value Importer::norm(StringRef path, Value x, Value layer) {
  at(path);
  return RMSNormOp::create(b, loc, x, weight(lastName(path), layer),
                           llvm::APFloat(c.rmsNormEps));
}

/// The linear of a layer's module, with its bias where one is declared.
Value Importer::linear(StringRef path, Value x, Value layer) {
  at(Twine(layerPath) + "." + path);
  Value matrix = weight(lastName(path), layer), bias;
  if (module.lookupSymbol(biasSymbol(path)))
    bias = weight(biasSymbol(path), layer);
  return LinearOp::create(b, loc, x, matrix, bias);
}

/// (n, count * D) as (n, count, D).
Value Importer::heads(Value x, int64_t count) {
  SmallVector<OpFoldResult> shape = {tokens, b.getIndexAttr(count),
                                     b.getIndexAttr(c.headDim)};
  return tensor::ExpandShapeOp::create(
      b, loc, tensor({ShapedType::kDynamic, count, c.headDim}), x,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}}, shape);
}

Value Importer::attention(Value x, Value layer, Value &k, Value &v) {
  Value q = heads(linear("self_attn.q_proj", x, layer), c.heads);
  Value keys = heads(linear("self_attn.k_proj", x, layer), c.kvHeads);
  Value values = heads(linear("self_attn.v_proj", x, layer), c.kvHeads);
  at(Twine(layerPath) + ".self_attn");
  q = RopeOp::create(b, loc, q, cos, sin, position);
  keys = RopeOp::create(b, loc, keys, cos, sin, position);
  k = KVAppendOp::create(b, loc, keys, k, layer, position);
  v = KVAppendOp::create(b, loc, values, v, layer, position);
  double scale = std::pow(static_cast<double>(c.headDim), -0.5);
  Value mixed =
      GQAOp::create(b, loc, q, k, v, layer, position, llvm::APFloat(scale),
                    /*causal=*/true, /*window=*/IntegerAttr());
  Value flat = tensor::CollapseShapeOp::create(
      b, loc, tensor({ShapedType::kDynamic, c.heads * c.headDim}), mixed,
      ArrayRef<ReassociationIndices>{{0}, {1, 2}});
  return linear("self_attn.o_proj", flat, layer);
}

Value Importer::mlp(Value x, Value layer) {
  Value gate = linear("mlp.gate_proj", x, layer);
  Value up = linear("mlp.up_proj", x, layer);
  at(Twine(layerPath) + ".mlp");
  Value product = SwiGLUOp::create(b, loc, gate, up);
  return linear("mlp.down_proj", product, layer);
}

/// One layer: the hidden states and caches after it.
SmallVector<Value> Importer::layer(Value layer, ValueRange carried) {
  Value x = carried[0], k = carried[1], v = carried[2];
  auto add = [&](Value update) {
    at(layerPath);
    x = ResidualOp::create(b, loc, x, update);
  };
  add(attention(norm("model.layers.*.input_layernorm", x, layer), layer, k, v));
  add(mlp(norm("model.layers.*.post_attention_layernorm", x, layer), layer));
  return {x, k, v};
}

void Importer::run() {
  b.setInsertionPointToEnd(module.getBody());
  declareSymbols();
  func::FuncOp forward = declareForward();
  Block *entry = forward.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Value ids = entry->getArgument(0), first = entry->getArgument(2);
  position = entry->getArgument(1);
  Value zero = index(0), one = index(1), layers = index(c.layers);
  tokens = tensor::DimOp::create(b, loc, ids, zero);
  at("model.rotary_emb");
  auto rope = GetRopeOp::create(
      b, loc, module.lookupSymbol<RopeTableOp>("rope").getTensorType(),
      module.lookupSymbol<RopeTableOp>("rope").getTensorType(), "rope");
  cos = rope.getCos();
  sin = rope.getSin();
  at("model.embed_tokens");
  Value x = EmbedOp::create(b, loc, ids, weight("embed_tokens", {}));
  at(layerPath);
  auto loop = scf::ForOp::create(
      b, loc, zero, layers, one,
      ValueRange{x, entry->getArgument(3), entry->getArgument(4)},
      [&](OpBuilder &, Location, Value l, ValueRange carried) {
        SmallVector<Value> next = layer(l, carried);
        at(layerPath);
        scf::YieldOp::create(b, loc, next);
      });
  at("model");
  Value rows = arith::SubIOp::create(b, loc, tokens, first);
  SmallVector<OpFoldResult> from = {first, b.getIndexAttr(0)},
                            size = {rows, b.getIndexAttr(c.hiddenSize)},
                            step(2, b.getIndexAttr(1));
  Value wanted = tensor::ExtractSliceOp::create(b, loc, loop.getResult(0), from,
                                                size, step);
  Value last = norm("model.norm", wanted, {});
  at("lm_head");
  Value table = weight(c.tied ? "embed_tokens" : "lm_head", {});
  Value logits = HeadOp::create(b, loc, last, table);
  at("model");
  func::ReturnOp::create(
      b, loc, ValueRange{logits, loop.getResult(1), loop.getResult(2)});
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

/// The positions of the caches, or nothing after an error.
static std::optional<int64_t>
cachePositions(const ModelConfig &c, const ImportOptions &options, Type type) {
  Location loc = UnknownLoc::get(type.getContext());
  int64_t maxSeq =
      options.maxSeq ? options.maxSeq : std::min(c.maxPositions, defaultMaxSeq);
  int64_t perPosition =
      2 * c.layers * c.kvHeads * c.headDim * (type.getIntOrFloatBitWidth() / 8);
  if (maxSeq < 1 || maxSeq > maxCacheBytes / perPosition) {
    emitError(loc) << "expected 1 to " << maxCacheBytes / perPosition
                   << " positions (" << perPosition
                   << " bytes of caches each), got " << maxSeq;
    return std::nullopt;
  }
  if (maxSeq > c.maxPositions)
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
