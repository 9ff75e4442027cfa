/// --lora, of the tools that bind weights.
#pragma once

#include "runtime/Lora.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace cria {

/// Declares --lora=DIR[=SCALE], which may be repeated.
inline CLI::Option *addLora(CLI::App &app, std::vector<std::string> &texts) {
  return app
      .add_option("--lora", texts,
                  "folder of a LoRA adapter to merge into the weights, with "
                  "what its scale is multiplied by; repeatable")
      ->allow_extra_args(false)
      ->type_name("DIR[=SCALE]")
      ->check([](const std::string &text) {
        return parseLora(text).status().message();
      });
}

/// The adapters that checked options ask for.
inline std::vector<LoraSource>
loraSources(const std::vector<std::string> &texts) {
  std::vector<LoraSource> sources;
  for (const std::string &text : texts)
    sources.push_back(*parseLora(text));
  return sources;
}

} // namespace cria
