/// Where a model's weights come from, as callers say it.
#pragma once

#include "runtime/base/Log.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cria {

/// A folder with a LoRA adapter, and a factor for the adapter's own scale.
struct LoraSource {
  std::string folder;
  double scale = 1;
};

/// The adapter that "DIR" or "DIR=SCALE" names.
Result<LoraSource> parseLora(const std::string &text);

/// Called while weights are bound, with the units of work done and the total.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

/// A checkpoint or a seed, and adapters.
struct WeightSource {
  std::optional<std::string> checkpoint; // a folder or a file
  uint64_t seed = 0;                     // of random weights, if no checkpoint
  std::vector<LoraSource> loras = {};    // merged into the weights,
  bool loraUnmerged = false;             // or kept apart from them, if true
  bool allowUnused = false;              // the checkpoint may have more layers
  std::string cache = {}; // a folder that keeps quantized weights, or ""
  Progress progress = {}; // called by the thread that binds; empty for none
  Log log = {};
};

} // namespace cria
