#include "lowering/import/Ledger.h"

using namespace cria;
using nlohmann::json;

namespace {
enum class Fate {
  Honoured,   // parseConfig reads it
  Irrelevant, // does not change what a forward pass computes
  Fixed,      // one value is supported, the one that means nothing special
  Refused,    // never supported; `why` is the message
};

struct Rule {
  llvm::StringLiteral key;
  Fate fate;
  llvm::StringLiteral why; // Fixed: the supported value, as JSON
};
} // namespace

// One table for everything transformers writes for a Llama, from version 4.28
// to 5. What is not here is refused.
static constexpr Rule configRules[] = {
    {"attention_bias", Fate::Honoured, ""},
    {"dtype", Fate::Honoured, ""},
    {"head_dim", Fate::Honoured, ""},
    {"hidden_size", Fate::Honoured, ""},
    {"intermediate_size", Fate::Honoured, ""},
    {"max_position_embeddings", Fate::Honoured, ""},
    {"mlp_bias", Fate::Honoured, ""},
    {"model_type", Fate::Honoured, ""},
    {"num_attention_heads", Fate::Honoured, ""},
    {"num_hidden_layers", Fate::Honoured, ""},
    {"num_key_value_heads", Fate::Honoured, ""},
    {"original_max_position_embeddings", Fate::Honoured, ""},
    {"rms_norm_eps", Fate::Honoured, ""},
    {"rope_parameters", Fate::Honoured, ""},
    {"rope_scaling", Fate::Honoured, ""},
    {"rope_theta", Fate::Honoured, ""},
    {"tie_word_embeddings", Fate::Honoured, ""},
    {"torch_dtype", Fate::Honoured, ""},
    {"vocab_size", Fate::Honoured, ""},

    {"architectures", Fate::Fixed, R"(["LlamaForCausalLM"])"},
    {"hidden_act", Fate::Fixed, R"("silu")"},
    {"partial_rotary_factor", Fate::Fixed, "1.0"},
    {"pretraining_tp", Fate::Fixed, "1"},
    {"add_cross_attention", Fate::Fixed, "false"},
    {"chunk_size_feed_forward", Fate::Fixed, "0"},
    {"is_decoder", Fate::Fixed, "false"},
    {"is_encoder_decoder", Fate::Fixed, "false"},
    {"pruned_heads", Fate::Fixed, "{}"},
    {"tie_encoder_decoder", Fate::Fixed, "false"},
    {"use_bfloat16", Fate::Fixed, "false"},

    {"auto_map", Fate::Refused, "custom model code is not run"},
    {"quantization_config", Fate::Refused,
     "quantized checkpoints are not supported"},
    {"sliding_window", Fate::Refused, "a window is not part of a Llama"},

    {"_attn_implementation", Fate::Irrelevant, "how, not what"},
    {"_attn_implementation_autoset", Fate::Irrelevant, "how, not what"},
    {"_name_or_path", Fate::Irrelevant, "provenance"},
    {"attention_dropout", Fate::Irrelevant, "training"},
    {"bos_token_id", Fate::Irrelevant, "the runtime reads it"},
    {"eos_token_id", Fate::Irrelevant, "the runtime reads it"},
    {"finetuning_task", Fate::Irrelevant, "provenance"},
    {"id2label", Fate::Irrelevant, "classification"},
    {"initializer_range", Fate::Irrelevant, "training"},
    {"label2id", Fate::Irrelevant, "classification"},
    {"max_sequence_length", Fate::Irrelevant, "never read by transformers"},
    {"output_attentions", Fate::Irrelevant, "what Python returns"},
    {"output_hidden_states", Fate::Irrelevant, "what Python returns"},
    {"pad_token_id", Fate::Irrelevant, "padding is never computed"},
    {"problem_type", Fate::Irrelevant, "classification"},
    {"return_dict", Fate::Irrelevant, "what Python returns"},
    {"task_specific_params", Fate::Irrelevant, "never read for a Llama"},
    {"tokenizer_class", Fate::Irrelevant, "tokenizer.json says more"},
    {"torchscript", Fate::Irrelevant, "how, not what"},
    {"transformers.js_config", Fate::Irrelevant, "another runtime"},
    {"transformers_version", Fate::Irrelevant, "provenance"},
    {"unsloth_fixed", Fate::Irrelevant, "provenance"},
    {"unsloth_version", Fate::Irrelevant, "provenance"},
    {"use_cache", Fate::Irrelevant, "how, not what"},

    // Generation, as old files hold it; generation_config.json replaced it.
    {"diversity_penalty", Fate::Fixed, "0"},
    {"do_sample", Fate::Fixed, "false"},
    {"early_stopping", Fate::Fixed, "false"},
    {"encoder_no_repeat_ngram_size", Fate::Fixed, "0"},
    {"length_penalty", Fate::Fixed, "1"},
    {"max_length", Fate::Fixed, "20"},
    {"min_length", Fate::Fixed, "0"},
    {"no_repeat_ngram_size", Fate::Fixed, "0"},
    {"num_beam_groups", Fate::Fixed, "1"},
    {"num_beams", Fate::Fixed, "1"},
    {"num_return_sequences", Fate::Fixed, "1"},
    {"output_scores", Fate::Fixed, "false"},
    {"remove_invalid_values", Fate::Fixed, "false"},
    {"repetition_penalty", Fate::Fixed, "1"},
    {"return_dict_in_generate", Fate::Fixed, "false"},
    {"temperature", Fate::Fixed, "1"},
    {"top_k", Fate::Fixed, "50"},
    {"top_p", Fate::Fixed, "1"},
    {"typical_p", Fate::Fixed, "1"},
};

static constexpr Rule ropeRules[] = {
    {"partial_rotary_factor", Fate::Fixed, "1.0"},
    {"rope_theta", Fate::Honoured, ""},
    {"rope_type", Fate::Honoured, ""},
    {"type", Fate::Honoured, ""},
};

static constexpr Rule llama3Rules[] = {
    {"factor", Fate::Honoured, ""},
    {"high_freq_factor", Fate::Honoured, ""},
    {"low_freq_factor", Fate::Honoured, ""},
    {"original_max_position_embeddings", Fate::Honoured, ""},
};

static const Rule *findRule(llvm::ArrayRef<Rule> rules, llvm::StringRef key) {
  const Rule *rule = llvm::find_if(
      rules, [&](const Rule &candidate) { return candidate.key == key; });
  return rule == rules.end() ? nullptr : rule;
}

static void checkKey(const Rule *rule, llvm::StringRef key, const json &value,
                     ObjectReader &reader) {
  if (!rule)
    return reader.failKey(key, "unknown key, got " + shownJson(value) +
                                   "; what is not understood is not ignored");
  if (rule->fate == Fate::Refused)
    return reader.failKey(key, rule->why);
  if (rule->fate == Fate::Fixed && value != json::parse(rule->why))
    reader.failKey(key, "only " + rule->why + " is supported, got " +
                            shownJson(value));
}

void cria::checkConfigKeys(const json &config, ObjectReader &reader) {
  for (const auto &[key, value] : config.items())
    if (!value.is_null())
      checkKey(findRule(configRules, key), key, value, reader);
}

void cria::checkRopeKeys(const json &rope, bool llama3, ObjectReader &reader) {
  for (const auto &[key, value] : rope.items()) {
    if (value.is_null())
      continue;
    const Rule *rule = findRule(ropeRules, key);
    if (!rule && llama3)
      rule = findRule(llama3Rules, key);
    checkKey(rule, key, value, reader);
  }
}
