/// Groups layers of several kinds into a few loops.
#pragma once

#include "lowering/import/Config.h"

namespace cria {

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
