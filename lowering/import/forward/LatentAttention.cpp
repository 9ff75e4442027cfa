/// Latent attention is built in its absorbed form. Of a head's matrix, the rows
/// of its key multiply the query, and the rows of its value multiply the sum of
/// latent rows: the heads attend to the latent rows of tokens, as if these were
/// the keys and values of one KV head.
#include "lowering/import/forward/Layer.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

void forward::declareLatentAttention(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  const LatentModules &names = b.family.latent;
  const AttentionModules &outer = b.family.attention;
  int64_t hidden = c.hiddenSize, rank = c.queryLatentSize,
          query = c.heads * (c.plainDim + c.headDim);
  auto declareMatrix = [&](StringRef path, int64_t out, int64_t in) {
    b.declareLinear(path, out, in, /*bias=*/false, layers);
  };
  if (rank) {
    b.declareLinear(names.queryRow, rank, hidden, c.queryKeyValueBias, layers);
    b.declareNorm(names.queryNorm, rank, layers);
    declareMatrix(names.queryHeads, query, rank);
  } else {
    declareMatrix(outer.query, query, hidden);
  }
  b.declareLinear(names.row, c.latentSize + c.headDim, hidden,
                  c.queryKeyValueBias, layers);
  b.declareNorm(names.norm, c.latentSize, layers);
  if (c.splitsLatentHeads) {
    b.declare(names.keyHeads, "weight", {c.heads, c.latentSize, c.plainDim},
              layers);
    b.declare(names.valueHeads, "weight", {c.heads, c.valueDim, c.latentSize},
              layers);
  } else {
    declareMatrix(names.heads, c.heads * (c.plainDim + c.valueDim),
                  c.latentSize);
  }
  b.declareLinear(outer.out, hidden, c.heads * c.valueDim, c.outBias, layers);
}

/// The matrices of each head that make its key of latent numbers, and those
/// that make its value: slices of one tensor, or two tensors.
static std::pair<Value, Value> latentHeads(ModelBuilder &b, Value layer) {
  const ModelConfig &c = b.config;
  const LatentModules &names = b.family.latent;
  auto weightOf = [&](StringRef path) {
    StringRef symbol = lastName(path);
    b.atWeight(symbol);
    return b.weight(symbol, layer);
  };
  if (c.splitsLatentHeads) {
    Value ofKeys = weightOf(names.keyHeads);
    return {ofKeys, weightOf(names.valueHeads)};
  }
  int64_t latent = c.latentSize, plain = c.plainDim, value = c.valueDim;
  Value matrices = tensor::ExpandShapeOp::create(
      b, b.tensorType({c.heads, plain + value, latent}), weightOf(names.heads),
      ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  auto rows = [&](int64_t first, int64_t size) -> Value {
    auto sizes = [&](ArrayRef<int64_t> sizes) {
      return getAsIndexOpFoldResult(b.getContext(), sizes);
    };
    return tensor::ExtractSliceOp::create(b, matrices, sizes({0, first, 0}),
                                          sizes({c.heads, size, latent}),
                                          sizes({1, 1, 1}));
  };
  Value ofKeys = rows(0, plain);
  return {ofKeys, rows(plain, value)};
}

Value forward::latentAttention(ModelBuilder &b, const Text &text,
                               const LayerKind &kind, Value x, Value layer,
                               Value &cache) {
  const ModelConfig &c = b.config;
  const LatentModules &names = b.family.latent;
  Value tokens = text.tokens;
  int64_t latent = c.latentSize, plain = c.plainDim;
  Value q = x;
  if (c.queryLatentSize)
    q = b.linear(names.queryHeads,
                 b.norm(names.queryNorm, b.linear(names.queryRow, x, layer),
                        layer, names.eps),
                 layer);
  else
    q = b.linear(b.family.attention.query, x, layer);
  q = b.splitHeads(tokens, q, c.heads);      // (n, H, plain + D)
  Value row = b.linear(names.row, x, layer), // (n, latent + D)
      numbers =
          b.norm(names.norm, b.part(tokens, row, 0, latent), layer, names.eps);
  b.atLayer("self_attn");
  auto oneHead = [&](Value x) { return b.splitHeads(tokens, x, 1); };
  Value key =
      rotated(b, text, kind, oneHead(b.part(tokens, row, latent, c.headDim)));
  cache = KVAppendOp::create(b, b.joined({oneHead(numbers), key}, /*dim=*/2),
                             cache, layer, text.position, /*pages=*/Value());

  auto [ofKeys, ofValues] = latentHeads(b, layer);
  b.atLayer((names.heads + ".key").str());
  Value absorbed = HeadLinearOp::create(b, b.part(tokens, q, 0, plain), ofKeys,
                                        /*transposed=*/!c.splitsLatentHeads);
  b.atLayer("self_attn");
  Value query = b.joined(
      {absorbed, rotated(b, text, kind, b.part(tokens, q, plain, c.headDim))},
      /*dim=*/2);
  Value mixed = attend(b, text, kind, query, cache, cache, {layer, layer, {}});
  b.atLayer((names.heads + ".value").str());
  Value values = HeadLinearOp::create(b, mixed, ofValues,
                                      /*transposed=*/false); // (n, H, value)
  return b.linear(b.family.attention.out, b.mergeHeads(values), layer);
}
