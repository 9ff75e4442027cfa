/// A gated convolution over the tokens before.
#include "lowering/import/forward/Recurrence.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The symbols of its linears.
static constexpr llvm::StringLiteral gateSymbol = "conv_gate",
                                     factorSymbol = "conv_factor",
                                     inSymbol = "conv_in",
                                     outSymbol = "conv_out";

void forward::declareConvolution(ModelBuilder &b, Layers layers) {
  const ModelConfig &c = b.config;
  const ConvModules &names = b.family.conv;
  int64_t hidden = c.hiddenSize, row = 0;
  for (StringRef symbol : {gateSymbol, factorSymbol, inSymbol}) {
    b.declareLinear(symbol, names.in, hidden, hidden, c.convBias, layers,
                    names.in, row, 3 * hidden);
    row += hidden;
  }
  declareFilter(b, names.filter, c.convBias, layers);
  b.declareLinear(outSymbol, names.out, hidden, hidden, c.convBias, layers);
}

Value forward::convolution(ModelBuilder &b, const Text &text, Value x,
                           LayerIndex number, Value &state) {
  Value layer = number.layer;
  Value gate = b.linear(gateSymbol, x, layer),
        product =
            b.gated(gate, b.linear(inSymbol, x, layer), Activation::Identity);
  Value mixed = convolved(b, text, product, number, state);
  Value factor = b.linear(factorSymbol, x, layer);
  return b.linear(outSymbol, b.gated(factor, mixed, Activation::Identity),
                  layer);
}
