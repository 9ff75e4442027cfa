/// Attention of grouped queries. Latent attention is in a file of its own.
#include "lowering/import/forward/Layer.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

static HeadNorm headNorm(const ModelBuilder &b) {
  return b.config.normalizesHeads ? b.family.headNorm : HeadNorm::None;
}

/// The symbol of attention's last linear. An MLP may have a linear of the same
/// last name.
static std::string outSymbol(const Family &family) {
  StringRef name = lastName(family.attention.out);
  bool isShared = name == lastName(family.mlp.down);
  return (isShared ? "attn_" + name : name).str();
}

/// The prefix of symbols of attention.
static StringRef prefixOf(const ModelConfig &c, const LayerKind &kind) {
  return c.hasFullHeads(kind) ? "full_" : "";
}

/// Declares the attention of layers whose heads have the sizes of `kind`.
static void declareHeads(ModelBuilder &b, const LayerKind &kind,
                         Layers layers) {
  const ModelConfig &c = b.config;
  const AttentionModules &names = b.family.attention;
  auto [kvHeads, headDim] = c.headsOf(kind);
  int64_t q = c.heads * headDim, gate = names.gatesHeads ? q : 0,
          kv = kvHeads * headDim, hidden = c.hiddenSize, all = q + 2 * kv;
  StringRef prefix = prefixOf(c, kind);
  SmallVector<int64_t> own = llvm::filter_to_vector(
      layers, [&](int64_t i) { return !c.kinds[i].sharesKv; });
  bool bias = c.queryKeyValueBias;
  auto declareRows = [&](StringRef path, int64_t out, int64_t row,
                         Layers layers) {
    b.declareLinear(prefixed(prefix, path), path, out, hidden, bias, layers,
                    names.fused, row, all);
  };
  if (names.fusesHeads) {
    b.declareLinear(names.fused, all, hidden, bias, layers);
  } else {
    declareRows(names.query, q + gate, 0, layers);
    declareRows(names.key, kv, q, own);
    if (!c.keysAreValues || kind.window)
      declareRows(names.value, kv, q + kv, own);
  }
  if (headNorm(b) != HeadNorm::None) {
    bool all = headNorm(b) == HeadNorm::AllHeads;
    b.declareNorm(names.queryNorm, all ? q : headDim, layers, prefix);
    b.declareNorm(names.keyNorm, all ? kv : headDim, own, prefix);
  }
  b.declareTensor(names.sinks, {c.heads}, layers);
  b.declareLinear((prefix + outSymbol(b.family)).str(), names.out, hidden, q,
                  c.outBias, layers);
}

void forward::declareAttention(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  if (c.latentSize)
    return declareLatentAttention(b, layers);
  auto isFull = [&](int64_t i) { return c.hasFullHeads(c.kinds[i]); };
  SmallVector<int64_t> full = llvm::filter_to_vector(layers, isFull),
                       others = llvm::filter_to_vector(
                           layers, [&](int64_t i) { return !isFull(i); });
  for (Layers group : {Layers(others), Layers(full)})
    if (!group.empty())
      declareHeads(b, c.kinds[group.front()], group);
}

/// Reshapes (n, count * D) to (n, count, D), and normalizes if the family does.
static Value split(ModelBuilder &b, Value tokens, Value x, int64_t count,
                   StringRef normPath, Value layer, StringRef prefix) {
  if (headNorm(b) == HeadNorm::AllHeads)
    x = b.norm(normPath, x, layer, {}, prefix);
  x = b.splitHeads(tokens, x, count);
  if (headNorm(b) == HeadNorm::EachHead)
    x = b.norm(normPath, x, layer, {}, prefix);
  return x;
}

namespace {
/// The heads of each token; keys and values are null if the layer has none of
/// its own, and the gate if the family has none.
struct Heads {
  Value queries, keys, values, gates;
};
} // namespace

/// Builds the linears in front of attention, and norms before rope.
static Heads headsOf(ModelBuilder &b, Value tokens, const LayerKind &kind,
                     Value x, Value layer) {
  const ModelConfig &c = b.config;
  const AttentionModules &names = b.family.attention;
  if (names.fusesHeads) {
    Value all = b.splitHeads(tokens, b.linear(names.fused, x, layer), c.heads);
    auto third = [&](int64_t i) {
      return b.part(tokens, all, i * c.headDim, c.headDim);
    };
    return {third(0), third(1), third(2), /*gates=*/Value()};
  }
  StringRef prefix = prefixOf(c, kind);
  auto linear = [&](StringRef path) {
    return b.linear(prefixed(prefix, path), x, layer);
  };
  Value queries = linear(names.query), gates;
  if (names.gatesHeads) {
    Value both = b.splitHeads(tokens, queries, c.heads);
    gates = b.part(tokens, both, c.headDim, c.headDim);
    queries = b.norm(names.queryNorm, b.part(tokens, both, 0, c.headDim), layer,
                     {}, prefix);
  } else {
    queries =
        split(b, tokens, queries, c.heads, names.queryNorm, layer, prefix);
  }
  if (kind.sharesKv)
    return {queries, /*keys=*/Value(), /*values=*/Value(), gates};
  int64_t kvHeads = c.headsOf(kind).kvHeads;
  Value key = linear(names.key),
        keys = split(b, tokens, key, kvHeads, names.keyNorm, layer, prefix);
  bool isKey = c.keysAreValues && !kind.window;
  Value value = isKey ? key : linear(names.value);
  return {queries, keys, b.splitHeads(tokens, value, kvHeads), gates};
}

static bool hasRing(const Text &text, const LayerKind &kind) {
  return text.hasRings && kind.window;
}

GQAOp forward::attend(ModelBuilder &b, const Text &text, const LayerKind &kind,
                      Value q, Value k, Value v, LayerIndex number) {
  const ModelConfig &c = b.config;
  Value sinks = b.optionalWeight("sinks", number.layer);
  auto mixed = GQAOp::create(
      b, q, k, v, number.inCaches, text.position,
      /*pages=*/Value(), /*over=*/Value(), text.ahead, sinks,
      llvm::APFloat(c.attentionScale), /*causal=*/!b.family.readsImages(),
      /*window=*/IntegerAttr(), /*softcap=*/FloatAttr(),
      c.latentSize ? b.getI64IntegerAttr(c.latentSize) : IntegerAttr(),
      hasRing(text, kind));
  if (kind.window)
    mixed.setWindow(kind.window);
  if (c.attentionSoftcap)
    mixed.setSoftcap(llvm::APFloat(c.attentionSoftcap));
  return mixed;
}

Value forward::attention(ModelBuilder &b, const Text &text,
                         const LayerKind &kind, Value x, LayerIndex number,
                         MutableArrayRef<Value> caches) {
  Value layer = number.layer;
  if (b.config.latentSize)
    return latentAttention(b, text, kind, x, layer, caches[0]);
  const AttentionModules &names = b.family.attention;
  auto [queries, keys, values, gates] = headsOf(b, text.tokens, kind, x, layer);
  StringRef path = StringRef(names.out).rsplit('.').first;
  b.atLayer(path);
  queries = rotated(b, text, kind, queries);
  if (!kind.sharesKv)
    keys = rotated(b, text, kind, keys);
  if (headNorm(b) == HeadNorm::EachHeadAfterRope) {
    queries = b.norm(names.queryNorm, queries, layer);
    keys = b.norm(names.keyNorm, keys, layer);
    b.atLayer(path);
  }
  auto append = [&](Value rows, Value &cache) {
    cache = KVAppendOp::create(b, rows, cache, number.inCaches, text.position,
                               /*pages=*/Value(), hasRing(text, kind));
  };
  if (!kind.sharesKv) {
    if (names.normalizesValues)
      values = b.plainNorm(values);
    append(keys, caches[0]);
    append(values, caches[1]);
  }
  Value mixed = attend(b, text, kind, queries, caches[0], caches[1], number);
  if (gates)
    mixed = b.gated(gates, mixed, Activation::Sigmoid);
  StringRef prefix = prefixOf(b.config, kind);
  return b.linear((prefix + outSymbol(b.family)).str(), b.mergeHeads(mixed),
                  layer);
}
