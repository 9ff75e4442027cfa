/// What a checkpoint says about generating text: generation_config.json.
#pragma once

#include "runtime/base/SamplerOptions.h"
#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cria {

/// The defaults of generation. As in transformers, top_k is 50 if a file does
/// not name it, and only the penalty counts unless do_sample is true.
struct Generation {
  bool sample = false;
  SamplerOptions options; // for when there is sampling
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;             // each of these ids ends the text
  std::vector<std::string> stopStrings; // each of these strings ends it, too
  std::optional<int64_t> maxNewTokens;  // after the prompt
  std::optional<int64_t> maxLength;     // with the prompt
  std::vector<std::string> irrelevant;  // keys without effect, and unknown keys
                                        // that were allowed
  std::vector<std::string> warnings;    // lines for the user

  Generation() { options.topK = 50; }

  /// Reads generation_config.json of `folder`, then takes the begin and end
  /// ids it leaves out from config.json. Either file may be missing. If
  /// `folder` is a GGUF file, takes these ids alone. A key that is unknown, or
  /// that would change the text and is not supported, is CRIA_UNIMPLEMENTED
  /// unless it is in `allowed`; see GenerationKeys.h.
  static Result<Generation> load(const std::string &folder,
                                 const std::vector<std::string> &allowed = {});

  /// Reads a generation_config.json; `name` stands for the file in errors.
  static Result<Generation> parse(const nlohmann::json &document,
                                  const std::string &name,
                                  const std::vector<std::string> &allowed = {});

  /// Takes begin and end ids that are not known yet from a config.json. An id
  /// of -1 stands for none, in either file; a warning says so.
  Status complete(const nlohmann::json &config, const std::string &name);

  /// Whether all ids, used or not, are below `vocabSize`.
  Status fits(int64_t vocabSize) const;

  /// The options that these defaults ask for: temperature 0 without sampling.
  SamplerOptions defaults() const;

  bool ends(int64_t id) const;
};

} // namespace cria
