/// Every key that transformers' GenerationConfig has had, from version 4.28 to
/// 5.
#include "runtime/text/GenerationKeys.h"

#include <iterator>

namespace cria {

using Cursor = JsonCursor;

static constexpr int64_t maxId = INT32_MAX;

template <double SamplerOptions::*field>
static void number(const Cursor &value, Generation &generation) {
  bool isPart =
      field == &SamplerOptions::topP || field == &SamplerOptions::minP;
  double least = field == &SamplerOptions::repetitionPenalty ? 1e-6 : 0;
  generation.options.*field = value.number(least, isPart ? 1 : 1e9);
}

template <std::optional<int64_t> Generation::*field>
static void count(const Cursor &value, Generation &generation) {
  generation.*field = value.integer(0, maxId);
}

/// null means all ids.
static void topK(const Cursor &value, Generation &generation) {
  generation.options.topK = value.raw().is_null() ? 0 : value.integer(0, maxId);
}

static void doSample(const Cursor &value, Generation &generation) {
  generation.sample = value.boolean();
}

std::optional<int64_t> readId(const Cursor &value, Generation &generation) {
  if (wholeNumber(value.raw()) == -1) {
    generation.warnings.push_back(
        value.say("is -1, which is no id: read as null"));
    return std::nullopt;
  }
  return value.integer(0, maxId);
}

static void bos(const Cursor &value, Generation &generation) {
  generation.bos = readId(value, generation);
}

static void eos(const Cursor &value, Generation &generation) {
  std::vector<Cursor> ids = {value};
  if (value.raw().is_array())
    ids = value.elements(1024);
  for (const Cursor &element : ids)
    if (std::optional<int64_t> id = readId(element, generation))
      generation.eos.push_back(*id);
}

static void stopStrings(const Cursor &value, Generation &generation) {
  std::vector<Cursor> strings = {value};
  if (value.raw().is_array())
    strings = value.elements(1024);
  for (const Cursor &element : strings) {
    std::string text = element.string();
    if (text.empty() || text.find('\0') != text.npos)
      element.expected("a text that is not empty and has no U+0000");
    generation.stopStrings.push_back(std::move(text));
  }
}

static constexpr char
    kHow[] = "changes speed or memory, not the numbers",
    kReturned[] = "chooses what Python returns", kProvenance[] = "provenance",
    kDrafts[] = "drafts change speed, not the text",
    kBeams[] = "beams are not searched",
    kForced[] = "ids are neither forced nor forbidden",
    kFilter[] = "this filter is not supported",
    kLength[] = "a text ends at an end id, a stop string or its largest length";

static const GenerationKey keys[] = {
    {"_commit_hash", "any", kProvenance, nullptr},
    {"_from_model_config", "any", kProvenance, nullptr},
    {"assistant_confidence_threshold", "any", kDrafts, nullptr},
    {"assistant_early_exit", "any", kDrafts, nullptr},
    {"assistant_ensemble_weight", "any", kDrafts, nullptr},
    {"assistant_lookbehind", "any", kDrafts, nullptr},
    {"bad_words_ids", "", kForced, nullptr},
    {"begin_suppress_tokens", "", kForced, nullptr},
    {"bos_token_id", "", "begins a text", bos},
    {"cache_config", "any", kHow, nullptr},
    {"cache_implementation", "any", kHow, nullptr},
    {"compile_config", "any", kHow, nullptr},
    {"constraints", "", kForced, nullptr},
    {"continuous_batching_config", "any", kHow, nullptr},
    {"decoder_start_token_id", "id", "the given ids begin a text", nullptr},
    {"disable_compile", "any", kHow, nullptr},
    {"diversity_penalty", "0", kBeams, nullptr},
    {"do_sample", "", "whether ids are drawn; if not, the likeliest is taken",
     doSample},
    {"dola_layers", "", kFilter, nullptr},
    {"early_stopping", "any", "for beam search, which is not supported",
     nullptr},
    {"encoder_no_repeat_ngram_size", "0", kFilter, nullptr},
    {"encoder_repetition_penalty", "1", kFilter, nullptr},
    {"eos_token_id", "", "ends a text; one id or several", eos},
    {"epsilon_cutoff", "0", kFilter, nullptr},
    {"eta_cutoff", "0", kFilter, nullptr},
    {"exponential_decay_length_penalty", "", kLength, nullptr},
    {"force_words_ids", "", kForced, nullptr},
    {"forced_bos_token_id", "", kForced, nullptr},
    {"forced_decoder_ids", "", kForced, nullptr},
    {"forced_eos_token_id", "", kForced, nullptr},
    {"generation_kwargs", "any", "read by Python's callers only", nullptr},
    {"guidance_scale", "1", kFilter, nullptr},
    {"is_assistant", "any", kDrafts, nullptr},
    {"length_penalty", "any", "for beam search, which is not supported",
     nullptr},
    {"low_memory", "any", kHow, nullptr},
    {"max_cache_len", "any", kHow, nullptr},
    {"max_length", "", "largest number of tokens, the prompt's included",
     count<&Generation::maxLength>},
    {"max_matching_ngram_size", "any", kDrafts, nullptr},
    {"max_new_tokens", "", "largest number of tokens to generate",
     count<&Generation::maxNewTokens>},
    {"max_time", "", kLength, nullptr},
    {"min_length", "0", kLength, nullptr},
    {"min_new_tokens", "0", kLength, nullptr},
    {"min_p", "",
     "draws from ids with at least this fraction of the best probability",
     number<&SamplerOptions::minP>},
    {"no_repeat_ngram_size", "0", kForced, nullptr},
    {"num_assistant_tokens", "any", kDrafts, nullptr},
    {"num_assistant_tokens_schedule", "any", kDrafts, nullptr},
    {"num_beam_groups", "1", kBeams, nullptr},
    {"num_beams", "1", kBeams, nullptr},
    {"num_return_sequences", "1", "there is one text", nullptr},
    {"output_attentions", "any", kReturned, nullptr},
    {"output_hidden_states", "any", kReturned, nullptr},
    {"output_logits", "any", kReturned, nullptr},
    {"output_scores", "any", kReturned, nullptr},
    {"pad_token_id", "id", "padding is never computed", nullptr},
    {"penalty_alpha", "0", kFilter, nullptr},
    {"prefill_chunk_size", "any", kHow, nullptr},
    {"prompt_lookup_num_tokens", "any", kDrafts, nullptr},
    {"remove_invalid_values", "any", "logits that are not finite are an error",
     nullptr},
    {"renormalize_logits", "any", "probabilities add up to 1 anyway", nullptr},
    {"repetition_penalty", "", "lowers the logits of ids in the text so far",
     number<&SamplerOptions::repetitionPenalty>},
    {"return_dict_in_generate", "any", kReturned, nullptr},
    {"return_legacy_cache", "any", kReturned, nullptr},
    {"sequence_bias", "", kForced, nullptr},
    {"speculation_type", "any", kDrafts, nullptr},
    {"stop_strings", "", "ends a text in which it occurs; one text or several",
     stopStrings},
    {"suppress_tokens", "", kForced, nullptr},
    {"target_lookbehind", "any", kDrafts, nullptr},
    {"temperature", "", "divides logits", number<&SamplerOptions::temperature>},
    {"token_healing", "", "prompts stay as they are", nullptr},
    {"top_h", "", kFilter, nullptr},
    {"top_k", "", "draws from this many likeliest ids; null or 0: from all",
     topK},
    {"top_p", "",
     "draws from the likeliest ids whose probabilities add up to this",
     number<&SamplerOptions::topP>},
    {"transformers_version", "any", kProvenance, nullptr},
    {"typical_p", "1", kFilter, nullptr},
    {"use_cache", "any", kHow, nullptr},
    {"use_mtp", "any", kDrafts, nullptr},
    {"watermarking_config", "", kFilter, nullptr},
};

const GenerationKey *GenerationKeys::begin() const { return std::begin(keys); }
const GenerationKey *GenerationKeys::end() const { return std::end(keys); }

std::string generationKeysText() {
  std::string read = "| honoured key | is |\n|---|---|\n",
              other = "\n| other key | may have | because |\n|---|---|---|\n";
  for (const GenerationKey &key : GenerationKeys()) {
    std::string name = std::string("| `") + key.name + "` | ",
                end = std::string(key.note) + " |\n", neutral = key.neutral;
    if (neutral == "any")
      neutral = "any value";
    else if (neutral == "id")
      neutral = "an id, null";
    else
      neutral = (neutral.empty() ? "" : "`" + neutral + "`, ") +
                std::string("null, false, empty");
    if (key.read)
      read += name + end;
    else
      other += name + neutral + " | " + end;
  }
  return read + other;
}

} // namespace cria
