/// Mamba 2.
#include "lowering/import/forward/Recurrence.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The symbols of its weights.
static constexpr llvm::StringLiteral gateSymbol = "mamba_gate",
                                     inSymbol = "mamba_in",
                                     stepSymbol = "mamba_step",
                                     decaySymbol = "mamba_log_decay",
                                     skipSymbol = "mamba_skip",
                                     normSymbol = "mamba_norm",
                                     outSymbol = "mamba_out";

void forward::declareMamba(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  const MambaModules &names = b.family.mamba;
  int64_t columns = convolvedColumns(c),
          values = c.deltaHeads * c.deltaValueDim,
          rows = values + columns + c.deltaHeads;
  auto declareRows = [&](StringRef symbol, int64_t out, int64_t row) {
    b.declareLinear(symbol, names.in, out, c.hiddenSize, /*bias=*/false, layers,
                    names.in, row, rows);
  };
  declareRows(gateSymbol, values, 0);
  declareRows(inSymbol, columns, values);
  declareRows(stepSymbol, c.deltaHeads, values + columns);
  b.declareTensor(names.stepBias, {c.deltaHeads}, layers,
                  biasSymbol(stepSymbol));
  b.declareTensor(names.logDecay, {c.deltaHeads}, layers, decaySymbol);
  b.declareTensor(names.skip, {c.deltaHeads}, layers, skipSymbol);
  declareFilter(b, names.filter, c.convBias, layers);
  if (c.normalizesScan)
    b.declare(names.norm, "weight", {values}, layers, normSymbol);
  b.declareLinear(outSymbol, names.out, c.hiddenSize, values, /*bias=*/false,
                  layers);
}

/// Normalizes together the heads that have a key together.
static Value normalized(ModelBuilder &b, Value tokens, Value heads,
                        Value layer) {
  const ModelConfig &c = b.config;
  int64_t groups = c.deltaKeyHeads, values = c.deltaHeads * c.deltaValueDim;
  b.atWeight(normSymbol);
  Value weights = tensor::ExpandShapeOp::create(
      b, b.tensorType({groups, values / groups}), b.weight(normSymbol, layer),
      ArrayRef<ReassociationIndices>{{0, 1}});
  Value made = b.splitHeads(tokens, b.mergeHeads(heads), groups);
  made = RMSNormOp::create(b, made, weights, /*squares=*/Value(),
                           llvm::APFloat(c.normEps), b.family.mamba.roundsOnce,
                           /*unit_offset=*/false, /*column=*/0,
                           /*size=*/IntegerAttr());
  return b.splitHeads(tokens, b.mergeHeads(made), c.deltaHeads);
}

/// The values, keys and queries of each token, before they are convolved.
static Value columnsOf(ModelBuilder &b, Value tokens, Value x, Value layer) {
  const ModelConfig &c = b.config;
  int64_t keys = c.deltaKeyHeads * c.deltaKeyDim,
          values = c.deltaHeads * c.deltaValueDim;
  auto [ofGate, ofValue, ofKey, ofQuery, ofStep] = c.mambaFactors;
  Value columns = b.linear(inSymbol, x, layer);
  if (ofValue == ofKey && ofKey == ofQuery)
    return b.scaled(tokens, columns, ofValue);
  auto part = [&](int64_t first, int64_t size, double factor) {
    return b.scaled(tokens, b.part(tokens, columns, first, size), factor);
  };
  return b.joined({part(0, values, ofValue), part(values, keys, ofKey),
                   part(values + keys, keys, ofQuery)},
                  /*dim=*/1);
}

/// The step of each head, in f32.
static Value stepsOf(ModelBuilder &b, Value tokens, Value x, Value layer) {
  double factor = b.config.mambaFactors.back();
  Value steps = b.linearInF32(stepSymbol, x, layer, factor == 1);
  if (factor != 1)
    steps = AddRowsOp::create(b, b.scaled(tokens, steps, factor),
                              b.row(b.weight(biasSymbol(stepSymbol), layer)),
                              /*position=*/Value());
  return ActivateOp::create(b, Activation::Softplus, steps);
}

Value forward::mamba(ModelBuilder &b, const Text &text, Value x,
                     LayerIndex number, MutableArrayRef<Value> states) {
  const ModelConfig &c = b.config;
  Value tokens = text.tokens, layer = number.layer;
  int64_t groups = c.deltaKeyHeads, keys = groups * c.deltaKeyDim,
          values = c.deltaHeads * c.deltaValueDim;
  Value mixed =
      convolved(b, text, columnsOf(b, tokens, x, layer), number, states[0]);
  mixed = ActivateOp::create(b, static_cast<Activation>(c.convFunction), mixed);
  auto headsOf = [&](int64_t first, int64_t size, int64_t heads) {
    return b.splitHeads(tokens, b.part(tokens, mixed, first, size), heads);
  };
  Value value = headsOf(0, values, c.deltaHeads),
        key = headsOf(values, keys, groups),
        query = headsOf(values + keys, keys, groups);
  Value step = stepsOf(b, tokens, x, layer);
  Value gate =
      b.scaled(tokens, b.linear(gateSymbol, x, layer), c.mambaFactors.front());
  gate = b.splitHeads(tokens, gate, c.deltaHeads);
  b.atWeight(decaySymbol);
  auto scan = SelectiveScanOp::create(
      b, query, key, value, step, b.weight(decaySymbol, layer),
      b.weight(skipSymbol, layer), states[1], number.inStates, text.position,
      /*states=*/Value());
  states[1] = scan.getNext();
  Value made = scan.getResult();
  if (c.normalizesScan && c.normalizesFirst)
    made = normalized(b, tokens, made, layer);
  made = b.gated(gate, made, Activation::Silu);
  if (c.normalizesScan && !c.normalizesFirst)
    made = normalized(b, tokens, made, layer);
  return b.linear(outSymbol, b.mergeHeads(made), layer);
}
