/// The layers as loops, one for each run of layers whose kinds are repeated.
#include "lowering/import/forward/Layer.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The number of layer `layers.first + i` and of those that follow it by
/// periods, in their caches. `layer` is the number of the layer, and `first`
/// that of the first layer of the period.
static Value numberInCaches(ModelBuilder &b, const LayerCaches &caches,
                            const LayerRun &layers, int64_t i, Value first,
                            Value layer, int64_t LayerCaches::Place::*of) {
  auto numberAt = [&](int64_t turn) {
    int64_t number = layers.first + i + turn * layers.period;
    return caches.places[number].*of;
  };
  int64_t number = numberAt(0),
          step = layers.turns > 1 ? numberAt(1) - number : 0;
  bool isSame = number == layers.first + i;
  if (isSame && (layers.turns == 1 || step == layers.period))
    return layer;
  if (!step)
    return b.index(number);
  auto apply = [&](auto op, Value x, int64_t by, int64_t neutral) -> Value {
    return by == neutral ? x : decltype(op)::create(b, x, b.index(by));
  };
  Value turn = apply(arith::AddIOp(), first, -layers.first, 0);
  turn = apply(arith::DivUIOp(), turn, layers.period, 1);
  return apply(arith::AddIOp(), apply(arith::MulIOp(), turn, step, 1), number,
               0);
}

/// Builds a loop whose body is a period of layers. Returns the hidden states
/// and caches after the loop.
static SmallVector<Value> loop(ModelBuilder &b, const Text &text,
                               const LayerCaches &caches,
                               const LayerRun &layers, ValueRange carried) {
  b.atLayer();
  Value end = b.index(layers.first + layers.turns * layers.period);
  auto loop = scf::ForOp::create(
      b, b.index(layers.first), end, b.index(layers.period), carried,
      [&](OpBuilder &, Location, Value l, ValueRange carried) {
        SmallVector<Value> next(carried);
        for (int64_t i = 0; i < layers.period; ++i) {
          b.atLayer();
          Value number =
              i ? arith::AddIOp::create(b, l, b.index(i)).getResult() : l;
          auto numberIn = [&](int64_t LayerCaches::Place::*of) {
            return numberInCaches(b, caches, layers, i, l, number, of);
          };
          const LayerKind &kind = b.config.kinds[layers.first + i];
          LayerIndex numbers = {number, Value(), Value()};
          if (kind.attends)
            numbers.inCaches = numberIn(&LayerCaches::Place::number);
          if (kind.hasState)
            numbers.inStates = numberIn(&LayerCaches::Place::state);
          next = layer(b, text, caches, layers.first + i, numbers, next);
        }
        b.atLayer();
        scf::YieldOp::create(b, next);
      });
  return SmallVector<Value>(loop.getResults());
}

SmallVector<Value> forward::buildLayers(ModelBuilder &b, const Text &text,
                                        const LayerCaches &caches,
                                        SmallVector<Value> carried) {
  ArrayRef<LayerKind> kinds = b.config.kinds;
  if (b.family.readsImages())
    kinds = kinds.take_front(b.config.usedLayers);
  for (const LayerRun &layers : layerRuns(kinds))
    carried = loop(b, text, caches, layers, carried);
  return carried;
}
