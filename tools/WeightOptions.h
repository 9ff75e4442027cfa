/// --lora, --lora-unmerged, --allow-unused and --cache, of the tools that bind
/// weights.
#pragma once

#include "runtime/Lora.h"
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
  auto *lora = app.add_option("--lora", options.adapters,
                              "folder of a LoRA adapter, with what its scale "
                              "is multiplied by; repeatable");
  lora->allow_extra_args(false)->type_name("DIR[=SCALE]");
  lora->check([](const std::string &text) {
    return parseLora(text).status().message();
  });
  app.add_flag("--lora-unmerged", options.unmerged,
               "keep adapters apart from the weights, where the artifact has "
               "room (cria-compile --lora-rank)")
      ->needs(lora);
  app.add_flag("--allow-unused", options.allowUnused,
               "take a checkpoint with more layers than the artifact has, "
               "which is else a mistake");
}

/// Declares --cache on `app`, of a tool that computes.
inline void addCacheOption(CLI::App &app, WeightOptions &options) {
  app.add_option("--cache", options.cache,
                 "folder that keeps quantized weights, so that only the first "
                 "start quantizes them")
      ->type_name("DIR");
}

/// The checkpoint `weights`, or where it is empty what `seed` draws, with the
/// adapters.
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
