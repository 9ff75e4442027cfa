/// Groups layers of several kinds into a few loops.
#pragma once

#include "lowering/import/Config.h"

namespace cria {

/// The caches of layers whose heads have the same sizes: one of keys and one of
/// values.
struct CacheGroup {
  HeadSizes heads;
  /// Whether the layers have a window, and the caches keep it alone.
  bool keepsWindow = false;
  int64_t layers = 0;
};

/// The caches of a model, and for each layer its group and its number there.
/// Layers with a state are numbered apart. Layers without attention are in no
/// group.
struct LayerCaches {
  struct Place {
    size_t group = 0;
    int64_t number = 0, state = 0;
  };
  std::vector<CacheGroup> groups;
  std::vector<Place> places;
  int64_t states = 0; ///< layers with a state
};

/// `keepWindows`: layers with a window have caches of their own.
LayerCaches layerCaches(const ModelConfig &config, bool keepWindows);

/// The places of a ring for calls of at most `chunk` tokens; 0 if none of the
/// caches is to be a ring, because no layer has a window that is so much
/// shorter than `maxSeq`.
int64_t ringPlaces(const ModelConfig &config, int64_t chunk, int64_t maxSeq);

/// Whether layers with a window are to have pages of their own, because a
/// window and a call of `tokens` tokens take fewer pages than `maxSeq`
/// positions.
bool hasShortWindow(const ModelConfig &config, int64_t tokens, int64_t maxSeq);

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
