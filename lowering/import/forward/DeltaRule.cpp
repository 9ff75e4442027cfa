/// A gated delta rule.
#include "lowering/import/forward/Recurrence.h"

#include <cmath>

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The symbols of its weights.
static constexpr llvm::StringLiteral inSymbol = "delta_in",
                                     gateSymbol = "delta_gate",
                                     rateSymbol = "delta_rate",
                                     stepSymbol = "delta_step",
                                     decaySymbol = "delta_log_decay",
                                     normSymbol = "delta_norm",
                                     outSymbol = "delta_out";

void forward::declareDeltaRule(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  const DeltaModules &names = b.family.delta;
  int64_t hidden = c.hiddenSize, values = c.deltaHeads * c.deltaValueDim;
  auto declareMatrix = [&](StringRef symbol, StringRef path, int64_t out,
                           int64_t in) {
    b.declareLinear(symbol, path, out, in, /*bias=*/false, layers);
  };
  bool fusesGates = names.fusesHeads && !c.splitsDeltaGates;
  declareMatrix(inSymbol, c.splitsDeltaGates ? names.splitIn : names.in,
                convolvedColumns(c) + (fusesGates ? values : 0), hidden);
  if (!fusesGates)
    declareMatrix(gateSymbol, names.gate, values, hidden);
  declareMatrix(rateSymbol, names.rate,
                c.deltaHeads * (names.fusesHeads ? 2 : 1), hidden);
  if (!names.fusesHeads)
    declareMatrix(stepSymbol, names.step, c.deltaHeads, hidden);
  b.declareTensor(names.stepBias, {c.deltaHeads}, layers,
                  biasSymbol(stepSymbol));
  b.declareTensor(names.logDecay, {c.deltaHeads}, layers, decaySymbol);
  declareFilter(b, names.filter, /*hasBias=*/false, layers);
  b.declare(names.norm, "weight", {c.deltaValueDim}, layers, normSymbol);
  declareMatrix(outSymbol, names.out, hidden, values);
}

namespace {
/// What the linears make of each token: the columns that are convolved; the
/// gate of each number of a head; and in f32, for each head, the rate and the
/// step before their functions.
struct Inputs {
  Value columns, gates, rates, steps;
};
} // namespace

/// Where one linear makes all numbers of a head of keys, slices of its result
/// take them apart.
static Inputs inputsOf(ModelBuilder &b, Value tokens, Value x, Value layer) {
  const ModelConfig &c = b.config;
  if (!b.family.delta.fusesHeads)
    return {b.linear(inSymbol, x, layer), b.linear(gateSymbol, x, layer),
            b.linearInF32(rateSymbol, x, layer),
            b.linearInF32(stepSymbol, x, layer)};
  int64_t keyHeads = c.deltaKeyHeads, key = c.deltaKeyDim,
          shared = c.deltaHeads / keyHeads, value = shared * c.deltaValueDim;
  auto partOf = [&](Value heads, int64_t first, int64_t size) {
    return b.mergeHeads(b.part(tokens, heads, first, size));
  };
  Value columns = b.linear(inSymbol, x, layer), gates;
  if (c.splitsDeltaGates) {
    gates = b.linear(gateSymbol, x, layer);
  } else {
    Value all = b.splitHeads(tokens, columns, keyHeads);
    columns = b.joined({partOf(all, 0, key), partOf(all, key, key),
                        partOf(all, 2 * key, value)},
                       /*dim=*/1);
    gates = partOf(all, 2 * key + value, value);
  }
  Value both =
      b.splitHeads(tokens, b.linearInF32(rateSymbol, x, layer), keyHeads);
  Value rates = partOf(both, 0, shared), steps = partOf(both, shared, shared);
  Value bias = b.row(b.weight(biasSymbol(stepSymbol), layer));
  steps = AddRowsOp::create(b, steps, bias, /*position=*/Value());
  return {columns, gates, rates, steps};
}

Value forward::deltaRule(ModelBuilder &b, const Text &text, Value x,
                         LayerIndex number, MutableArrayRef<Value> states) {
  const ModelConfig &c = b.config;
  Value tokens = text.tokens, layer = number.layer;
  int64_t keys = c.deltaKeyHeads * c.deltaKeyDim,
          values = c.deltaHeads * c.deltaValueDim;
  auto [columns, gates, rate, step] = inputsOf(b, tokens, x, layer);
  Value mixed = convolved(b, text, columns, number, states[0]);
  mixed = ActivateOp::create(b, static_cast<Activation>(c.convFunction), mixed);
  auto headsOf = [&](int64_t first, int64_t size, int64_t heads) {
    return b.splitHeads(tokens, b.part(tokens, mixed, first, size), heads);
  };
  Value query = headsOf(0, keys, c.deltaKeyHeads),
        key = headsOf(keys, keys, c.deltaKeyHeads),
        value = headsOf(2 * keys, values, c.deltaHeads);
  step = ActivateOp::create(b, step.getLoc(), Activation::Softplus, step);
  rate = ActivateOp::create(b, rate.getLoc(), Activation::Sigmoid, rate);
  Value gate = b.splitHeads(tokens, gates, c.deltaHeads);
  b.atWeight(decaySymbol);
  auto rule = DeltaRuleOp::create(
      b, query, key, value, step, rate, b.weight(decaySymbol, layer), states[1],
      number.inStates, text.position, /*states=*/Value(),
      llvm::APFloat(std::pow(static_cast<double>(c.deltaKeyDim), -0.5)),
      llvm::APFloat(1e-6));
  states[1] = rule.getNext();
  b.atWeight(normSymbol);
  Value normed = RMSNormOp::create(
      b, rule.getResult(), b.weight(normSymbol, layer), /*squares=*/Value(),
      llvm::APFloat(c.normEps), /*round_once=*/false, /*unit_offset=*/false,
      /*column=*/0, /*size=*/IntegerAttr());
  normed = b.gated(gate, normed, Activation::Silu);
  return b.linear(outSymbol, b.mergeHeads(normed), layer);
}
