/// How fast many sequences are decoded at once.
#pragma once

#include "tools/bench/Bench.h"
#include "tools/bench/Rates.h"

#include <memory>

namespace cria::bench {

/// Adds a row for each number of sequences of `options.batches`, at each depth.
/// The numbers take turns, burst by burst, so that a machine that becomes
/// slower becomes slower for all of them.
Status measureBatches(const std::shared_ptr<const Model> &model, Rates &rates,
                      const BenchOptions &options, Report &report);

} // namespace cria::bench
