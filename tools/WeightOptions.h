/// --lora, --lora-unmerged, --allow-unused and --cache, of the tools that bind
/// weights.
#pragma once

#include "runtime/weights/Source.h"
#include "tools/CommandLine.h"
#include "tools/Progress.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace cria {

/// The command line.
struct WeightOptions {
  std::vector<std::string> adapters; // DIR or DIR=SCALE, checked
  bool unmerged = false;
  bool allowUnused = false;
  std::string cache; // a folder, or ""
};

/// Declares the options on `app`.
inline void addWeightOptions(CLI::App &app, WeightOptions &options) {
  HelpGroup group(app, "Weights");
  auto *lora = app.add_option("--lora", options.adapters,
                              "folder of a LoRA adapter, and a factor of its "
                              "scale; repeatable");
  lora->allow_extra_args(false)->type_name("DIR[=SCALE]");
  lora->check([](const std::string &text) {
    return parseLora(text).status().message();
  });
  app.add_flag("--lora-unmerged", options.unmerged,
               "do not merge adapters into the weights; needs an artifact with "
               "room (cria-compile --lora-rank)")
      ->needs(lora);
  app.add_flag("--allow-unused", options.allowUnused,
               "accept a checkpoint with more layers than the artifact has");
}

/// Declares --cache on `app`, for tools that compute.
inline void addCacheOption(CLI::App &app, WeightOptions &options) {
  HelpGroup group(app, "Weights");
  app.add_option("--cache", options.cache,
                 "folder that keeps quantized weights for the next start")
      ->type_name("DIR");
}

/// The checkpoint `weights` with the adapters. If `weights` is empty, random
/// weights from `seed`.
inline WeightSource weightSource(const std::string &weights, uint64_t seed,
                                 const WeightOptions &options) {
  WeightSource source;
  if (!weights.empty())
    source.checkpoint = weights;
  source.seed = seed;
  for (const std::string &text : options.adapters)
    source.loras.push_back(*parseLora(text));
  source.loraUnmerged = options.unmerged;
  source.allowUnused = options.allowUnused;
  source.cache = options.cache;
  source.progress = weightProgress();
  return source;
}

} // namespace cria
