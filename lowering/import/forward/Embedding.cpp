/// The embedding of a text's ids, and a row for each position.
#include "lowering/import/forward/Forward.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

void forward::declareEmbedding(ModelBuilder &b) {
  const ModelConfig &c = b.config;
  b.declare(b.family.embedding, "weight", {c.vocabSize, c.hiddenSize}, {},
            "embed_tokens");
  const auto &[module, first] = b.family.positions;
  if (module.empty())
    return;
  WeightOp table = b.declare(module, "weight", {c.maxPositions, c.hiddenSize},
                             {}, "positions");
  if (first) {
    table.setFirstRow(first);
    table.setSourceRows(first + c.maxPositions);
  }
}

/// The factor of embeddings. The root of the hidden size is rounded as
/// transformers rounds it.
static double scaleOf(ModelBuilder &b) {
  llvm::APFloat scale(b.config.embeddingScale);
  bool lossy;
  if (b.family.scalesEmbedding)
    for (Type to : {Type(b.getF32Type()), b.type, Type(b.getF64Type())})
      scale.convert(cast<FloatType>(to).getFloatSemantics(),
                    llvm::APFloat::rmNearestTiesToEven, &lossy);
  return scale.convertToDouble();
}

Value forward::embed(ModelBuilder &b, Value ids, Value position) {
  b.at(b.family.embedding);
  Value x = EmbedOp::create(b, ids, b.weight("embed_tokens"),
                            llvm::APFloat(scaleOf(b)), /*as=*/TypeAttr());
  if (b.family.positions.module.empty())
    return x;
  b.at(b.family.positions.module);
  return AddRowsOp::create(b, x, b.weight("positions"), position);
}
