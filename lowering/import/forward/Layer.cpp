/// One layer: norms, attention and what has a state, MLP and experts, and the
/// residual stream to which these add.
#include "lowering/import/forward/Layer.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The symbols of Family::attentionFactor, mlpFactor and layerFactor.
static constexpr llvm::StringLiteral attentionFactor = "attention_factor",
                                     mlpFactor = "mlp_factor",
                                     layerFactor = "layer_factor";

/// Whether a layer's MLP has twice the width, and the prefix of its symbols.
static bool isWideMlp(const ModelConfig &c, const LayerKind &kind) {
  return c.widensShared && kind.sharesKv;
}
static constexpr llvm::StringLiteral widePrefix = "wide_";

/// Whether layers with experts have an MLP, too, and norms of its own for each.
static bool hasBothMlps(const Family &family) {
  return !family.experts.norm.empty();
}

/// Declares the MLPs and the experts of all layers.
static void declareMlps(ModelBuilder &b, Layers all) {
  const ModelConfig &c = b.config;
  auto only = [&](auto is) {
    return llvm::filter_to_vector(all,
                                  [&](int64_t i) { return is(c.kinds[i]); });
  };
  auto isMixed = [](const LayerKind &kind) { return kind.hasExperts; };
  auto isWide = [&](const LayerKind &kind) { return isWideMlp(c, kind); };
  SmallVector<int64_t> mixed = only(isMixed), wide = only(isWide),
                       dense = only([&](const LayerKind &kind) {
                         return kind.hasMlp && !isWide(kind) &&
                                (hasBothMlps(b.family) || !isMixed(kind));
                       });
  if (!dense.empty())
    declareMlp(b, b.family.mlp, "", c.intermediateSize, dense);
  if (!wide.empty())
    declareMlp(b, b.family.mlp, widePrefix, 2 * c.intermediateSize, wide);
  if (!mixed.empty())
    declareExperts(b, mixed);
}

void forward::declareLayers(ModelBuilder &b) {
  const ModelConfig &c = b.config;
  const Family &family = b.family;
  const LayerNorms &norms = family.norms;
  int64_t hidden = c.hiddenSize;
  SmallVector<int64_t> all, attending, recurrent;
  for (int64_t i = 0; i < c.layers; ++i) {
    all.push_back(i);
    if (c.kinds[i].attends)
      attending.push_back(i);
    if (c.kinds[i].hasState)
      recurrent.push_back(i);
  }
  b.declareNorm(norms.attention, hidden, all);
  if (!attending.empty())
    declareAttention(b, attending);
  if (!recurrent.empty())
    declareRecurrence(b, recurrent);
  b.declareNorm(norms.attentionEnd, hidden, all);
  b.declareNorm(norms.mlp, hidden, all);
  declareMlps(b, all);
  b.declareNorm(norms.mlpEnd, hidden, all);
  b.declareTensor(family.attentionFactor, {hidden}, all, attentionFactor);
  b.declareTensor(family.mlpFactor, {hidden}, all, mlpFactor);
  b.declareTensor(family.layerFactor, {1}, all, layerFactor);
  if (c.perLayerInputSize)
    declarePerLayerInputs(b, all);
}

SmallVector<Value> forward::layer(ModelBuilder &b, const Text &text,
                                  const LayerCaches &layerCaches, int64_t of,
                                  LayerIndex number, ValueRange carried) {
  const ModelConfig &c = b.config;
  const Family &family = b.family;
  const LayerKind &kind = c.kinds[of];
  Value x = carried[0], layer = number.layer;
  SmallVector<Value> caches(carried.drop_front());
  MutableArrayRef<Value> own = caches,
                         states = own.drop_front(
                             c.latentSize ? 0 : 2 * layerCaches.groups.size());
  if (kind.attends && !c.latentSize)
    own = own.slice(2 * layerCaches.places[of].group, 2);
  auto normed = [&](StringRef path, Value value) {
    return path.empty() ? value : b.norm(path, value, layer);
  };
  auto add = [&](Value update, StringRef factor, double scale = 1,
                 bool isLast = false) {
    b.atLayer();
    x = ResidualOp::create(b, x, update, b.optionalWeight(factor, layer),
                           isLast ? b.optionalWeight(layerFactor, layer)
                                  : Value(),
                           llvm::APFloat(scale * c.residualScale));
  };
  const LayerNorms &norms = family.norms;
  bool hasBoth = kind.hasExperts && hasBothMlps(family);
  auto mlpOf = [&](Value read) {
    return kind.hasExperts && !hasBoth
               ? experts(b, text, read, layer)
               : mlp(b, text, family.mlp, isWideMlp(c, kind) ? widePrefix : "",
                     read, layer);
  };
  Value read = normed(norms.attention, x), made, mixed, scanned;
  if (kind.hasState)
    scanned = recurrence(b, text, read, number, states);
  if (kind.attends)
    mixed = attention(b, text, kind, read, number, own);
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
    Value dense = b.norm(family.experts.mlpEnd, made, layer),
          chosen =
              b.norm(family.experts.end, experts(b, text, x, layer), layer);
    b.atLayer();
    made = ResidualOp::create(b, dense, chosen, 1.0);
  }
  add(normed(norms.mlpEnd, made), mlpFactor, c.mlpScale,
      /*isLast=*/!text.perLayerInputs);
  if (text.perLayerInputs)
    add(readPerLayerInput(b, text, x, layer), "", 1, /*isLast=*/true);
  next.front() = x;
  next.append(caches);
  return next;
}
