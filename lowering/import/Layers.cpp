#include "lowering/import/Layers.h"

#include "llvm/ADT/STLExtras.h"

using namespace cria;

LayerCaches cria::layerCaches(const ModelConfig &config) {
  LayerCaches caches;
  for (const LayerKind &kind : config.kinds) {
    if (kind.hasState) {
      caches.places.push_back({0, caches.states++});
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
    auto group = llvm::find_if(caches.groups, [&](const CacheGroup &known) {
      return known.heads == heads;
    });
    if (group == caches.groups.end())
      group = caches.groups.insert(group, {heads, 0});
    caches.places.push_back(
        {static_cast<size_t>(group - caches.groups.begin()), group->layers++});
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
