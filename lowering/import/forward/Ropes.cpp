#include "lowering/import/Rope.h"
#include "lowering/import/forward/Layer.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The symbols of the ropes of ModelConfig::ropes.
static constexpr llvm::StringLiteral ropeSymbols[] = {"rope", "window_rope"};

static void declareRope(ModelBuilder &b, const RopeConfig &rope,
                        StringRef symbol, int64_t positions) {
  b.at("model.rotary_emb");
  auto table = RopeTableOp::create(
      b, symbol, positions, inverseFrequencies(rope), llvm::APFloat(rope.scale),
      /*original=*/IntegerAttr(), /*long_inv_freq=*/DenseF32ArrayAttr(),
      /*growth=*/FloatAttr(), /*theta=*/FloatAttr(), /*recompute=*/false,
      /*slot=*/IntegerAttr(), /*sym_visibility=*/StringAttr());
  if (rope.kind == RopeConfig::Kind::LongRope) {
    table.setOriginal(rope.originalPositions);
    table.setLongInvFreq(longInverseFrequencies(rope));
    table.setRecompute(b.family.rope.isPhi3);
  } else if (rope.kind == RopeConfig::Kind::Dynamic) {
    table.setOriginal(rope.originalPositions);
    table.setGrowth(llvm::APFloat(rope.factor));
    table.setTheta(llvm::APFloat(rope.theta));
  }
}

void forward::declareRopes(ModelBuilder &b, int64_t positions) {
  for (auto [rope, symbol] : llvm::zip(b.config.ropes, ropeSymbols))
    declareRope(b, rope, symbol, positions);
}

SmallVector<GetRopeOp> forward::getRopes(ModelBuilder &b) {
  b.at("model.rotary_emb");
  SmallVector<GetRopeOp> ropes;
  for (auto [rope, symbol] : llvm::zip(b.config.ropes, ropeSymbols)) {
    Type table = b.declared<RopeTableOp>(symbol).getTensorType();
    ropes.push_back(GetRopeOp::create(b, table, table, symbol));
  }
  return ropes;
}

Value forward::rotated(ModelBuilder &b, const Text &text, const LayerKind &kind,
                       Value x) {
  if (!kind.rotates)
    return x;
  GetRopeOp rope = text.ropes[kind.rope];
  return RopeOp::create(b, x, rope.getCos(), rope.getSin(), text.position,
                        b.config.interleavesRope);
}
