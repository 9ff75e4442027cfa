/// Embeddings that each layer has for itself.
#include "lowering/import/forward/Layer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

void forward::declarePerLayerInputs(ModelBuilder &b, Layers layers) {
  const LayerEmbeddings &names = b.family.layerEmbeddings;
  const ModelConfig &c = b.config;
  int64_t numbers = c.perLayerInputSize, row = c.layers * numbers,
          hidden = c.hiddenSize;
  b.declare(names.table, "weight", {c.perLayerVocab, row}, {});
  b.declareLinear(names.projection, row, hidden, /*bias=*/false, {});
  b.declareNorm(names.norm, numbers, {});
  b.declareLinear(names.gate, numbers, hidden, /*bias=*/false, layers);
  b.declareLinear(names.out, hidden, numbers, /*bias=*/false, layers);
  b.declareNorm(names.end, hidden, layers);
}

/// A row that the id selects, plus what a linear makes of the embedding,
/// divided by the root of 2. transformers divides the linear's result by the
/// root of the hidden size, before a norm: here the norm's epsilon is
/// multiplied instead.
Value forward::perLayerInputs(ModelBuilder &b, Value tokens, Value ids,
                              Value x) {
  const LayerEmbeddings &names = b.family.layerEmbeddings;
  const ModelConfig &c = b.config;
  auto numbers = static_cast<double>(c.perLayerInputSize),
       hidden = static_cast<double>(c.hiddenSize);
  b.at(names.table);
  Value own = EmbedOp::create(b, ids, b.weight(lastName(names.table)),
                              llvm::APFloat(std::sqrt(numbers / 2)),
                              /*as=*/TypeAttr());
  Value made = b.splitHeads(tokens, b.linear(names.projection, x), c.layers);
  made = b.norm(names.norm, made, /*layer=*/{}, c.normEps * hidden);
  return ResidualOp::create(b, own, b.mergeHeads(made), std::sqrt(0.5));
}

Value forward::readPerLayerInput(ModelBuilder &b, const Text &text, Value x,
                                 Value layer) {
  const LayerEmbeddings &names = b.family.layerEmbeddings;
  int64_t numbers = b.config.perLayerInputSize;
  Value gate = b.linear(names.gate, x, layer);
  OpFoldResult first =
      arith::MulIOp::create(b, layer, b.index(numbers)).getResult();
  SmallVector<OpFoldResult> from = {b.getIndexAttr(0), first},
                            sizes = {text.tokens, b.getIndexAttr(numbers)},
                            step(2, b.getIndexAttr(1));
  Value own =
      tensor::ExtractSliceOp::create(b, text.perLayerInputs, from, sizes, step);
  auto function = static_cast<Activation>(b.config.gate);
  Value made = b.linear(names.out, b.gated(gate, own, function), layer);
  return b.norm(names.end, made, layer);
}
