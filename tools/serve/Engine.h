/// The model that is served, with its tokenizer, template and defaults. Nothing
/// here changes after it is loaded but the grammars, which lock themselves, so
/// that all threads may read it.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/cria.hpp"
#include "runtime/cria_text.hpp"
#include "tools/serve/Grammars.h"
#include "tools/serve/Images.h"
#include "tools/serve/ToolCalls.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cria::serve {

struct Engine {
  std::string name; // that clients call the model by
  std::string device;
  int64_t maxSeq = 0, vocabSize = 0;
  int64_t chunk = 0; // ids of a prompt that one call computes
  std::optional<Model> model;
  int64_t hiddenSize = 0; // of hidden states; 0: the artifact returns none
  cria_pooling pooling = CRIA_POOLING_MEAN; // of embeddings
  std::optional<VisionTower> tower;         // if images are read
  std::optional<Model> drafter;             // smaller, of the same vocabulary
  int64_t drafterSeq = 0;                   // its context
  std::map<std::string, LoraSet> adapters;  // by the names clients use
  const cria_ranks *ranks = nullptr;        // that share `model`; null: none

  std::optional<Tokenizer> tokenizer;
  std::optional<Chat> chat; // if the checkpoint has a template
  CallSyntax calls;         // that the template writes
  size_t longestToken = 0;  // bytes
  mutable Grammars grammars;

  // What the checkpoint says of generating text, or OpenAI's defaults.
  cria_sampler_options sampling = make<cria_sampler_options>();
  cria_generation_limits limits = {sizeof(cria_generation_limits), -1, -1};
  std::optional<int32_t> begin;
  std::vector<int32_t> ends;
  std::vector<std::string> stops;

  /// The adapters that `model` of a request names: null for the model itself.
  /// Nothing if there is no such model.
  std::optional<const LoraSet *> find(const std::string &model) const {
    auto found = adapters.find(model);
    if (found != adapters.end())
      return &found->second;
    if (model.empty() || model == name)
      return nullptr;
    return std::nullopt;
  }
};

struct EngineOptions {
  std::string artifact, weights; // of the checkpoint: a folder or file.gguf
  std::string drafter, drafterWeights; // an artifact and its checkpoint, or ""
  std::vector<std::string> parts;      // that read images
  std::string name;                    // "": that of `weights`
  std::optional<cria_pooling> pooling; // the checkpoint's, or the mean
  bool openAiDefaults = false;         // sampling is not the checkpoint's
  std::vector<std::string> allowUnknown; // keys of generation_config.json
  std::vector<std::pair<std::string, std::string>> loras; // names and folders
  std::vector<int32_t> devices;                           // see cria_device
  int32_t device = CRIA_DEVICE_AUTO;
  std::string weightCache;           // "": none
  const cria_ranks *ranks = nullptr; // that share the model; null: none
};

/// Throws `status` as an Error.
[[noreturn]] void raise(const Status &status);

/// Reads what says of text: fills the fields after `adapters`. Throws Error.
void loadText(const EngineOptions &options, Engine &engine);

/// Loads the model. `say` hears what the user should know. Throws Error.
void load(const EngineOptions &options, Engine &engine,
          void (*say)(const std::string &line));

} // namespace cria::serve
