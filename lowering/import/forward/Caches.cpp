#include "lowering/import/forward/Recurrence.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace cria;
using namespace cria::llama;
using namespace cria::forward;

/// The most positions of a cache if the user does not ask for more.
static constexpr int64_t defaultMaxSeq = 4096;
/// A KV cache above this size is refused as a mistake in the config.
static constexpr int64_t maxCacheBytes = int64_t(1) << 44;

/// The caches for `positions` positions.
static CacheSizes sizesOf(const ModelConfig &c, const ImportOptions &options,
                          int64_t positions) {
  int64_t ring = 0;
  bool keepWindows = false;
  if (options.windowChunk && options.rows) {
    keepWindows = hasShortWindow(
        c, std::max(*options.windowChunk, options.rows), positions);
  } else if (options.windowChunk) {
    ring = ringPlaces(c, *options.windowChunk, positions);
    keepWindows = ring > 0;
  }
  return {layerCaches(c, keepWindows), positions, ring};
}

/// The bytes of caches that grow with the positions.
static int64_t bytesOfPosition(const ModelConfig &c, const LayerCaches &caches,
                               Type type) {
  int64_t numbers = 0;
  if (c.latentSize)
    numbers = c.layers * (c.latentSize + c.headDim);
  else
    for (const auto &[heads, keepsWindow, layers] : caches.groups)
      if (!keepsWindow)
        numbers += 2 * layers * heads.kvHeads * heads.headDim;
  return numbers * (type.getIntOrFloatBitWidth() / 8);
}

std::optional<CacheSizes> forward::cacheSizes(const ModelConfig &c,
                                              const ImportOptions &options,
                                              Type type) {
  if (!c.layers)
    return CacheSizes(); // there are no caches
  Location loc = UnknownLoc::get(type.getContext());
  bool isTower = c.family->readsImages();
  int64_t maxSeq = options.maxSeq.value_or(
      isTower ? c.maxPositions : std::min(c.maxPositions, defaultMaxSeq));
  if (isTower && maxSeq != c.maxPositions) {
    emitError(loc) << "expected " << c.maxPositions
                   << " positions, those of an image, got " << maxSeq;
    return std::nullopt;
  }
  CacheSizes sizes = sizesOf(c, options, maxSeq);
  // A model may have states alone.
  int64_t perPosition = bytesOfPosition(c, sizes.layers, type),
          most = maxCacheBytes / std::max<int64_t>(perPosition, 1);
  if (maxSeq < 1 || maxSeq > most) {
    emitError(loc) << "expected 1 to " << most << " positions (" << perPosition
                   << " bytes of caches each), got " << maxSeq;
    return std::nullopt;
  }
  if (c.mostPositions && maxSeq > c.mostPositions) {
    emitError(loc) << "expected at most " << c.mostPositions
                   << " positions, because later queries have a factor "
                      "(llama_4_scaling_beta), which is not supported, got "
                   << maxSeq;
    return std::nullopt;
  }
  bool isLonger = maxSeq > c.maxPositions;
  if (isLonger && !c.family->positions.module.empty()) {
    emitError(loc) << "expected at most " << c.maxPositions
                   << " positions, because the model has a row for each, got "
                   << maxSeq;
    return std::nullopt;
  }
  // Dynamic rope also defines the angles of longer texts.
  bool isDynamic =
      !c.ropes.empty() && c.ropes.front().kind == RopeConfig::Kind::Dynamic;
  if (isLonger && !isDynamic)
    emitWarning(loc) << "the caches have " << maxSeq
                     << " positions, the model knows " << c.maxPositions
                     << ": text beyond them may degrade";
  return sizes;
}

SmallVector<Type> forward::cacheTypes(ModelBuilder &b,
                                      const CacheSizes &caches) {
  const ModelConfig &c = b.config;
  const auto &[layers, positions, ring] = caches;
  if (c.latentSize)
    return {b.tensorType({c.layers, 1, positions, c.latentSize + c.headDim})};
  SmallVector<Type> types;
  for (const auto &[heads, keepsWindow, count] : layers.groups)
    types.append(2, b.tensorType({count, heads.kvHeads,
                                  ring && keepsWindow ? ring : positions,
                                  heads.headDim}));
  if (layers.states)
    types.append(stateTypes(b, layers.states));
  return types;
}
