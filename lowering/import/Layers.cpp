#include "lowering/import/Layers.h"

#include "dialect/Signature.h"
#include "lowering/entry/CacheWindows.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace cria;

/// The most keys of a schedule's tile: a ring has whole ones.
static constexpr int64_t kTile = 128;

static int64_t largestWindow(const ModelConfig &config) {
  int64_t window = 0;
  for (const LayerKind &kind : config.kinds)
    window = std::max(window, kind.window);
  return window;
}

int64_t cria::ringPlaces(const ModelConfig &config, int64_t chunk,
                         int64_t maxSeq) {
  int64_t window = largestWindow(config);
  if (!window || window >= maxSeq || config.latentSize ||
      config.family->readsImages())
    return 0;
  auto places =
      static_cast<int64_t>(llvm::alignTo(leastPlaces(window, chunk), kTile));
  return places < maxSeq ? places : 0;
}

bool cria::hasShortWindow(const ModelConfig &config, int64_t tokens,
                          int64_t maxSeq) {
  int64_t window = largestWindow(config);
  return window && !config.latentSize &&
         windowPages(window, tokens, kPage) <
             static_cast<int64_t>(llvm::divideCeil(maxSeq, kPage));
}

LayerCaches cria::layerCaches(const ModelConfig &config, bool keepWindows) {
  LayerCaches caches;
  for (const LayerKind &kind : config.kinds) {
    int64_t state = kind.hasState ? caches.states++ : 0;
    if (!kind.attends) {
      caches.places.push_back({0, 0, state});
      continue;
    }
    if (kind.sharesKv) {
      size_t other = caches.places.size();
      while (config.kinds[other].sharesKv ||
             bool(config.kinds[other].window) != bool(kind.window))
        --other;
      caches.places.push_back(caches.places[other]);
      continue;
    }
    HeadSizes heads = config.headsOf(kind);
    bool keepsWindow = keepWindows && kind.window;
    auto group = llvm::find_if(caches.groups, [&](const CacheGroup &known) {
      return known.heads == heads && known.keepsWindow == keepsWindow;
    });
    if (group == caches.groups.end())
      group = caches.groups.insert(group, {heads, keepsWindow, 0});
    caches.places.push_back({static_cast<size_t>(group - caches.groups.begin()),
                             group->layers++, state});
  }
  return caches;
}

static constexpr int64_t kMaxPeriod = 8;

/// How often the first `period` kinds are repeated, from the beginning.
static int64_t turnsOf(llvm::ArrayRef<LayerKind> kinds, int64_t period) {
  llvm::ArrayRef<LayerKind> pattern = kinds.take_front(period);
  int64_t turns = 0;
  while (static_cast<int64_t>(kinds.size()) >= period &&
         kinds.take_front(period) == pattern) {
    kinds = kinds.drop_front(period);
    ++turns;
  }
  return turns;
}

std::vector<LayerRun> cria::layerRuns(llvm::ArrayRef<LayerKind> kinds) {
  std::vector<LayerRun> runs;
  auto layers = static_cast<int64_t>(kinds.size());
  for (int64_t first = 0; first < layers;) {
    LayerRun best;
    for (int64_t period = 1; period <= kMaxPeriod; ++period) {
      int64_t turns = turnsOf(kinds.drop_front(first), period);
      // A body that runs once is not shorter than its layers one by one.
      bool repeats = turns > 1 || period == 1;
      if (repeats && turns * period > best.turns * best.period)
        best = {first, turns, period};
    }
    runs.push_back(best);
    first += best.turns * best.period;
  }
  return runs;
}
