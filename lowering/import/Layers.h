/// Groups layers of several kinds into a few loops.
#pragma once

#include "lowering/import/Config.h"

namespace cria {

/// The caches of layers whose heads have the same sizes: one of keys and one of
/// values.
struct CacheGroup {
  HeadSizes heads;
  int64_t layers = 0;
};

/// The caches of a model, and for each layer its group and its number there.
/// Layers with a state are numbered apart, and are in no group.
struct LayerCaches {
  struct Place {
    size_t group = 0;
    int64_t number = 0;
  };
  std::vector<CacheGroup> groups;
  std::vector<Place> places;
  int64_t states = 0; ///< layers with a state
};

LayerCaches layerCaches(const ModelConfig &config);

/// Layers [first, first + turns * period): the same `period` kinds, repeated
/// `turns` times.
struct LayerRun {
  int64_t first = 0, turns = 0, period = 1;
};

/// Splits the layers, in order, into few runs. Each run begins where the last
/// one ends. It has the period, of at most 8 kinds, that covers the most
/// layers; of several such periods, the shortest.
std::vector<LayerRun> layerRuns(llvm::ArrayRef<LayerKind> kinds);

} // namespace cria
