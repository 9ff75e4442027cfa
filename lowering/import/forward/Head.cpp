/// What follows the layers: the last norm and the head.
#include "lowering/import/forward/Forward.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

static bool hasLastNorm(const ModelBuilder &b) {
  return b.config.normalizesLast && !b.family.lastNorm.empty();
}

static constexpr llvm::StringLiteral headSymbol = "lm_head";

void forward::declareLastNorm(ModelBuilder &b) {
  if (hasLastNorm(b))
    b.declareNorm(b.family.lastNorm, b.config.hiddenSize, /*layers=*/{});
}

void forward::declareHead(ModelBuilder &b) {
  const ModelConfig &c = b.config;
  WeightOp head = b.declare(b.family.head, "weight",
                            {c.vocabSize, c.hiddenSize}, {}, headSymbol);
  if (c.tied)
    head.setTied("embed_tokens");
  if (c.headBias)
    b.declare(b.family.head, "bias", {c.vocabSize}, {}, biasSymbol(headSymbol));
}

Value forward::slice(ModelBuilder &b, Value x, Value tokens, Value first,
                     int64_t columns) {
  b.at("model");
  Value rows = arith::SubIOp::create(b, tokens, first);
  SmallVector<OpFoldResult> from = {first, b.getIndexAttr(0)},
                            size = {rows, b.getIndexAttr(columns)},
                            step(2, b.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(b, x, from, size, step);
}

Value forward::lastHidden(ModelBuilder &b, Value x, Value tokens, Value first) {
  Value wanted = slice(b, x, tokens, first, b.config.hiddenSize);
  return hasLastNorm(b) ? b.norm(b.family.lastNorm, wanted) : wanted;
}

Value forward::head(ModelBuilder &b, Value x, Value tokens, Value first) {
  const ModelConfig &c = b.config;
  if (c.takesRows()) {
    Value column = slice(b, x, tokens, first, 1);
    auto logits =
        cast<RankedTensorType>(column.getType()).clone(b.getF32Type());
    return b.type.isF32() ? column : arith::ExtFOp::create(b, logits, column);
  }
  Value last = lastHidden(b, x, tokens, first);
  b.at(b.family.head);
  auto logits = HeadOp::create(b, last, b.weight(headSymbol),
                               b.optionalWeight(biasSymbol(headSymbol)),
                               llvm::APFloat(c.logitScale),
                               /*softcap=*/FloatAttr());
  if (c.logitSoftcap)
    logits.setSoftcap(llvm::APFloat(c.logitSoftcap));
  return logits;
}
