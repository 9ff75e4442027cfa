/// The ledger: everything transformers writes for a Llama, from version 4.28 to
/// 5. What is in no table is refused.
#include "lowering/import/Ledger.h"

using namespace cria;
using llvm::StringLiteral;
using nlohmann::json;

namespace {
/// A key, and why it is irrelevant, or refused, or its one supported value.
struct Entry {
  StringLiteral key, text;
};
} // namespace

// What the importer reads.
static constexpr StringLiteral honoured[] = {
    "attention_bias",
    "dtype",
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "mlp_bias",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "original_max_position_embeddings",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "tie_word_embeddings",
    "torch_dtype",
    "vocab_size",
};

// What may only have the value that means nothing special, as JSON.
static constexpr Entry fixed[] = {
    {"architectures", R"(["LlamaForCausalLM"])"},
    {"hidden_act", R"("silu")"},
    {"partial_rotary_factor", "1.0"},
    {"pretraining_tp", "1"},
    {"add_cross_attention", "false"},
    {"chunk_size_feed_forward", "0"},
    {"is_decoder", "false"},
    {"is_encoder_decoder", "false"},
    {"pruned_heads", "{}"},
    {"tie_encoder_decoder", "false"},
    {"use_bfloat16", "false"},
};

// The same for generation, as old files hold it; generation_config.json
// replaced it.
static constexpr Entry fixedGeneration[] = {
    {"diversity_penalty", "0"},
    {"do_sample", "false"},
    {"early_stopping", "false"},
    {"encoder_no_repeat_ngram_size", "0"},
    {"length_penalty", "1"},
    {"max_length", "20"},
    {"min_length", "0"},
    {"no_repeat_ngram_size", "0"},
    {"num_beam_groups", "1"},
    {"num_beams", "1"},
    {"num_return_sequences", "1"},
    {"output_scores", "false"},
    {"remove_invalid_values", "false"},
    {"repetition_penalty", "1"},
    {"return_dict_in_generate", "false"},
    {"temperature", "1"},
    {"top_k", "50"},
    {"top_p", "1"},
    {"typical_p", "1"},
};

// What is never supported.
static constexpr Entry refused[] = {
    {"auto_map", "custom model code is not run"},
    {"quantization_config", "quantized checkpoints are not supported"},
    {"sliding_window", "a window is not part of a Llama"},
};

// What does not change a forward pass.
static constexpr Entry irrelevant[] = {
    {"_attn_implementation", "how, not what"},
    {"_attn_implementation_autoset", "how, not what"},
    {"_name_or_path", "provenance"},
    {"attention_dropout", "training"},
    {"bos_token_id", "the runtime reads it"},
    {"eos_token_id", "the runtime reads it"},
    {"finetuning_task", "provenance"},
    {"id2label", "classification"},
    {"initializer_range", "training"},
    {"label2id", "classification"},
    {"max_sequence_length", "never read by transformers"},
    {"output_attentions", "what Python returns"},
    {"output_hidden_states", "what Python returns"},
    {"pad_token_id", "padding is never computed"},
    {"problem_type", "classification"},
    {"return_dict", "what Python returns"},
    {"task_specific_params", "never read for a Llama"},
    {"tokenizer_class", "tokenizer.json says more"},
    {"torchscript", "how, not what"},
    {"transformers.js_config", "another runtime"},
    {"transformers_version", "provenance"},
    {"unsloth_fixed", "provenance"},
    {"unsloth_version", "provenance"},
    {"use_cache", "how, not what"},
};

// Of rope_scaling and rope_parameters.
static constexpr StringLiteral honouredRope[] = {"rope_theta", "rope_type",
                                                 "type"};
static constexpr StringLiteral honouredLlama3[] = {
    "factor", "high_freq_factor", "low_freq_factor",
    "original_max_position_embeddings"};

static const Entry *find(llvm::ArrayRef<Entry> table, llvm::StringRef key) {
  const Entry *entry = llvm::find_if(
      table, [&](const Entry &candidate) { return candidate.key == key; });
  return entry == table.end() ? nullptr : entry;
}

static void checkValue(const Entry &entry, const json &value,
                       ObjectReader &reader) {
  if (value != json::parse(entry.text))
    reader.failKey(entry.key, "only " + entry.text + " is supported, got " +
                                  shownJson(value));
}

static void failUnknown(llvm::StringRef key, const json &value,
                        ObjectReader &reader) {
  reader.failKey(key, "unknown key, got " + shownJson(value) +
                          "; what is not understood is not ignored");
}

void cria::checkConfigKeys(const json &config, ObjectReader &reader) {
  for (const auto &[key, value] : config.items()) {
    if (value.is_null() || llvm::is_contained(honoured, key) ||
        find(irrelevant, key))
      continue;
    if (const Entry *entry = find(fixed, key))
      checkValue(*entry, value, reader);
    else if (const Entry *entry = find(fixedGeneration, key))
      checkValue(*entry, value, reader);
    else if (const Entry *entry = find(refused, key))
      reader.failKey(key, entry->text);
    else
      failUnknown(key, value, reader);
  }
}

void cria::checkRopeKeys(const json &rope, bool llama3, ObjectReader &reader) {
  for (const auto &[key, value] : rope.items()) {
    if (value.is_null() || llvm::is_contained(honouredRope, key) ||
        (llama3 && llvm::is_contained(honouredLlama3, key)))
      continue;
    if (key == "partial_rotary_factor")
      checkValue(*find(fixed, key), value, reader);
    else
      failUnknown(key, value, reader);
  }
}
