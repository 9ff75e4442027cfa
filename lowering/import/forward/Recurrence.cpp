#include "lowering/import/forward/Recurrence.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// Whether the state is a matrix for each head, beside the tokens that the
/// filter reads.
static bool hasMatrices(const Family &family) { return family.conv.in.empty(); }

void forward::declareRecurrence(ModelBuilder &b, Layers layers) {
  if (!hasMatrices(b.family))
    declareConvolution(b, layers);
  else if (!b.family.delta.in.empty())
    declareDeltaRule(b, layers);
  else
    declareMamba(b, layers);
}

Value forward::recurrence(ModelBuilder &b, const Text &text, Value x,
                          LayerIndex number, MutableArrayRef<Value> states) {
  if (!hasMatrices(b.family))
    return convolution(b, text, x, number, states[0]);
  if (!b.family.delta.in.empty())
    return deltaRule(b, text, x, number, states);
  return mamba(b, text, x, number, states);
}

int64_t forward::convolvedColumns(const ModelConfig &c) {
  if (!hasMatrices(*c.family))
    return c.hiddenSize;
  return 2 * c.deltaKeyHeads * c.deltaKeyDim + c.deltaHeads * c.deltaValueDim;
}

SmallVector<Type> forward::stateTypes(ModelBuilder &b, int64_t layers) {
  const ModelConfig &c = b.config;
  SmallVector<Type> types = {
      b.tensorType({layers, c.filterSize - 1, convolvedColumns(c)})};
  if (hasMatrices(b.family))
    types.push_back(RankedTensorType::get(
        {layers, c.deltaHeads * c.deltaKeyDim, c.deltaValueDim},
        b.getF32Type()));
  return types;
}

static constexpr llvm::StringLiteral filterSymbol = "conv_filter";

void forward::declareFilter(ModelBuilder &b, StringRef path, bool hasBias,
                            Layers layers) {
  int64_t columns = convolvedColumns(b.config);
  b.declare(path, "weight", {columns, 1, b.config.filterSize}, layers,
            filterSymbol);
  if (hasBias)
    b.declare(path, "bias", {columns}, layers, biasSymbol(filterSymbol));
}

Value forward::convolved(ModelBuilder &b, const Text &text, Value x,
                         LayerIndex number, Value &state) {
  b.atWeight(filterSymbol);
  Value filter = tensor::CollapseShapeOp::create(
      b, b.weight(filterSymbol, number.layer),
      ArrayRef<ReassociationIndices>{{0, 1}, {2}});
  auto mixed = CausalConvOp::create(
      b, x, filter, state, number.inStates, text.position,
      /*states=*/Value(),
      b.optionalWeight(biasSymbol(filterSymbol), number.layer));
  state = mixed.getNext();
  return mixed.getResult();
}
