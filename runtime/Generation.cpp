#include "runtime/Generation.h"

#include "runtime/tokenizer/Json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

namespace cria {

static constexpr int64_t maxId = INT32_MAX;

/// Keys that change the text unless they have this value (null and empty lists
/// never do). NAN: no number is harmless; of switches, false is.
static const struct {
  std::string_view key;
  double neutral;
} neutralKeys[] = {{"num_beams", 1},
                   {"num_beam_groups", 1},
                   {"num_return_sequences", 1},
                   {"penalty_alpha", 0},
                   {"dola_layers", NAN},
                   {"typical_p", 1},
                   {"top_h", NAN},
                   {"epsilon_cutoff", 0},
                   {"eta_cutoff", 0},
                   {"diversity_penalty", 0},
                   {"encoder_repetition_penalty", 1},
                   {"no_repeat_ngram_size", 0},
                   {"encoder_no_repeat_ngram_size", 0},
                   {"bad_words_ids", NAN},
                   {"force_words_ids", NAN},
                   {"constraints", NAN},
                   {"forced_bos_token_id", NAN},
                   {"forced_eos_token_id", NAN},
                   {"forced_decoder_ids", NAN},
                   {"suppress_tokens", NAN},
                   {"begin_suppress_tokens", NAN},
                   {"sequence_bias", NAN},
                   {"exponential_decay_length_penalty", NAN},
                   {"guidance_scale", 1},
                   {"low_memory", NAN},
                   {"min_length", 0},
                   {"min_new_tokens", 0},
                   {"max_time", NAN},
                   {"stop_strings", NAN},
                   {"token_healing", NAN},
                   {"watermarking_config", NAN},
                   {"renormalize_logits", NAN},
                   {"remove_invalid_values", NAN}};

/// Keys that change nothing here: how transformers computes and what it
/// returns, other architectures, beam search, provenance.
static const std::string_view irrelevantKeys[] = {
    "transformers_version",
    "_from_model_config",
    "_commit_hash",
    "generation_kwargs",
    "pad_token_id",
    "decoder_start_token_id",
    "is_assistant",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "target_lookbehind",
    "prompt_lookup_num_tokens",
    "max_matching_ngram_size",
    "use_cache",
    "cache_config",
    "cache_implementation",
    "return_legacy_cache",
    "prefill_chunk_size",
    "compile_config",
    "disable_compile",
    "length_penalty",
    "early_stopping",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "output_logits",
    "return_dict_in_generate"};

static bool isNeutral(const nlohmann::json &value, double neutral) {
  if (value.is_boolean())
    return !value.get<bool>();
  if (value.is_number())
    return value.get<double>() == neutral;
  return value.is_null() || value.empty();
}

/// Checks a key that has no effect here; false where the key is unknown.
static bool readOther(const JsonCursor &root, const std::string &key,
                      Generation &generation) {
  if (std::find(std::begin(irrelevantKeys), std::end(irrelevantKeys), key) !=
      std::end(irrelevantKeys)) {
    generation.irrelevant.push_back(key);
    return true;
  }
  for (const auto &[name, neutral] : neutralKeys)
    if (key == name) {
      if (!isNeutral(root.raw()[key], neutral))
        refuse(root[key],
               std::isnan(neutral) ? "none" : std::to_string(int(neutral)));
      return true;
    }
  return false;
}

static void readSampling(const JsonCursor &root, Generation &generation) {
  SamplerOptions &options = generation.options;
  if (auto value = root.find("do_sample"))
    generation.sample = value->boolean();
  if (auto value = root.find("temperature"))
    options.temperature = value->number(0, 1e9);
  if (root.raw().contains("top_k")) { // null: all
    auto value = root.find("top_k");
    options.topK = value ? value->integer(0, maxId) : 0;
  }
  if (auto value = root.find("top_p"))
    options.topP = value->number(0, 1);
  if (auto value = root.find("min_p"))
    options.minP = value->number(0, 1);
  if (auto value = root.find("repetition_penalty"))
    options.repetitionPenalty = value->number(1e-6, 1e9);
}

static void readIds(const JsonCursor &root, Generation &generation) {
  if (auto bos = root.find("bos_token_id"); bos && !generation.bos)
    generation.bos = bos->integer(0, maxId);
  auto eos = root.find("eos_token_id");
  if (!eos || !generation.eos.empty())
    return;
  if (!eos->raw().is_array())
    generation.eos.push_back(eos->integer(0, maxId));
  else
    for (const JsonCursor &id : eos->elements(1024))
      generation.eos.push_back(id.integer(0, maxId));
}

Result<Generation> Generation::parse(const nlohmann::json &document,
                                     const std::string &name) {
  static const std::string_view readKeys[] = {
      "do_sample",    "temperature",    "top_k",
      "top_p",        "min_p",          "bos_token_id",
      "eos_token_id", "max_new_tokens", "repetition_penalty",
      "max_length"};
  Status status;
  Generation generation;
  JsonCursor root(document, name, status);
  if (!document.is_object()) {
    root.expected("an object");
    return status;
  }
  readSampling(root, generation);
  readIds(root, generation);
  if (auto value = root.find("max_new_tokens"))
    generation.maxNewTokens = value->integer(0, maxId);
  if (auto value = root.find("max_length"))
    generation.maxLength = value->integer(0, maxId);
  for (const auto &[key, value] : document.items())
    if (std::find(std::begin(readKeys), std::end(readKeys), key) ==
            std::end(readKeys) &&
        !readOther(root, key, generation))
      root[key].fail("is not supported", CRIA_UNIMPLEMENTED);
  if (!status.ok())
    return status;
  return generation;
}

Status Generation::complete(const nlohmann::json &config,
                            const std::string &name) {
  Status status;
  if (config.is_object())
    readIds(JsonCursor(config, name, status), *this);
  return status;
}

Result<Generation> Generation::load(const std::string &folder) {
  Generation generation;
  std::string path = folder + "/generation_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    Result<JsonDocument> document = readJson(path);
    if (!document.ok())
      return document.status();
    Result<Generation> parsed = parse(document->root(), path);
    if (!parsed.ok())
      return parsed.status();
    generation = *parsed;
  }
  path = folder + "/config.json";
  if (std::filesystem::exists(path, ignored)) {
    Result<JsonDocument> config = readJson(path);
    if (!config.ok())
      return config.status();
    if (Status status = generation.complete(config->root(), path); !status.ok())
      return status;
  }
  return generation;
}

static Status checkId(const char *name, int64_t id, int64_t vocabSize) {
  if (id < vocabSize)
    return Status();
  return Status(CRIA_INVALID_ARGUMENT,
                std::string(name) + " " + std::to_string(id) +
                    ", expected less than the model's vocab_size " +
                    std::to_string(vocabSize));
}

Status Generation::fits(int64_t vocabSize) const {
  Status status = checkId("bos_token_id is", bos.value_or(0), vocabSize);
  for (int64_t id : eos)
    if (status.ok())
      status = checkId("eos_token_id has", id, vocabSize);
  return status;
}

SamplerOptions Generation::defaults() const {
  SamplerOptions result = options;
  if (!sample)
    result.temperature = 0;
  return result;
}

bool Generation::ends(int64_t id) const {
  return std::find(eos.begin(), eos.end(), id) != eos.end();
}

} // namespace cria
