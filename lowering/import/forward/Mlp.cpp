#include "lowering/import/forward/Layer.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

void forward::declareMlp(ModelBuilder &b, const MlpModules &names,
                         StringRef prefix, int64_t inner, Layers layers) {
  int64_t hidden = b.config.hiddenSize, both = 2 * inner;
  bool bias = b.config.mlpBias;
  auto symbol = [&](StringRef path) { return prefixed(prefix, path); };
  if (!names.gate.empty())
    b.declareLinear(symbol(names.gate), names.gate, inner, hidden, bias, layers,
                    names.fused, 0, both);
  b.declareLinear(symbol(names.up), names.up, inner, hidden, bias, layers,
                  names.fused, inner, both);
  b.declareLinear(symbol(names.down), names.down, hidden, inner, bias, layers);
}

Value forward::mlp(ModelBuilder &b, const Text &text, const MlpModules &names,
                   StringRef prefix, Value x, Value layer) {
  auto function = static_cast<Activation>(b.config.gate);
  Value gate;
  if (!names.gate.empty())
    gate =
        b.scaled(text.tokens, b.linear(prefixed(prefix, names.gate), x, layer),
                 b.config.gateScale);
  Value up = b.linear(prefixed(prefix, names.up), x, layer);
  b.atLayer(StringRef(names.up).rsplit('.').first);
  Value product =
      gate ? b.gated(gate, up, function) : ActivateOp::create(b, function, up);
  return b.linear(prefixed(prefix, names.down), product, layer);
}
