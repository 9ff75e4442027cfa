/// The keys that llama.cpp's converter writes for the supported architectures.
#include "lowering/import/gguf/Keys.h"

#include "lowering/import/gguf/Config.h"

#include <string_view>

namespace cria::gguf {

static constexpr char
    everywhere[] = "*",
    none[] = "", provenance[] = "provenance",
    runtimes[] = "the runtime reads the tokenizer",
    drawn[] = "options of the runtime say how ids are drawn",
    experts[] = "the architecture has no experts",
    groups[] = "deepseek2 dots1 glm4moe",
    sigmoids[] = "dots1 glm4moe lfm2moe minimax-m2",
    withStates[] = "lfm2 lfm2moe",
    ofOwnWidth[] = "deepseek2 dots1 ernie4_5-moe glm4moe hunyuan-moe "
                   "lfm2moe qwen2moe qwen35moe qwen3moe qwen3next",
    deltas[] = "qwen35 qwen35moe qwen3next",
    softmaxes[] = "ernie4_5-moe granitemoe hunyuan-moe llama "
                  "olmoe qwen2moe qwen35moe qwen3moe qwen3next",
    withExperts[] = "deepseek2 dots1 glm4moe gpt-oss granitemoe lfm2moe llama "
                    "minimax-m2 olmoe qwen2moe qwen35moe qwen3moe qwen3next",
    chosen[] = "experts that a token chooses",
    shared[] = "width of the MLP beside the experts, in "
               "experts",
    ofLayer[] = "experts of a layer",
    layerNorms[] = "cohere2 command-r gpt2 jais2 nemotron "
                   "olmo phi2 stablelm starcoder starcoder2",
    split[] = "numbers the parts of a file";

static const Key keys[] = {
    {".attention.causal", everywhere, KeyUse::Neutral, "true",
     "a token sees only the tokens before it"},
    {".attention.head_count", everywhere, KeyUse::Whole, "num_attention_heads",
     "query heads"},
    {".attention.head_count_kv", "deepseek2", KeyUse::Read, none,
     "1, or query heads: latent numbers make a key for each query head"},
    {".attention.head_count_kv", withStates, KeyUse::Read, none,
     "KV heads; 0 for a layer that has a state in place of attention"},
    {".attention.head_count_kv", everywhere, KeyUse::Whole,
     "num_key_value_heads", "KV heads; default: as many as query heads"},
    {".attention.head_dim", everywhere, KeyUse::Read, none,
     "the same as key_length, as ollama writes it"},
    {".attention.key_length", "deepseek2", KeyUse::Read, none,
     "numbers of a key: those that make it, or its own if there is no "
     "key_length_mla"},
    {".attention.key_length", everywhere, KeyUse::Whole, "head_dim",
     "size of a head; default: embedding_length / heads"},
    {".attention.key_length_mla", "deepseek2", KeyUse::Read, none,
     "numbers of a key"},
    {".attention.kv_lora_rank", "deepseek2", KeyUse::Whole, "kv_lora_rank",
     "latent numbers of a token"},
    {".attention.layer_norm_epsilon",
     "cohere2 command-r gpt2 jais2 phi2 stablelm starcoder", KeyUse::Number,
     "layer_norm_eps", "epsilon of norms"},
    {".attention.layer_norm_epsilon", "nemotron", KeyUse::Number, "norm_eps",
     "epsilon of norms"},
    {".attention.layer_norm_epsilon", "starcoder2", KeyUse::Number,
     "norm_epsilon", "epsilon of norms"},
    {".attention.layer_norm_epsilon", "olmo", KeyUse::Neutral, "1e-05",
     "epsilon of norms"},
    {".attention.layer_norm_epsilon", everywhere, KeyUse::Any, none,
     "norms are RMS norms"},
    {".attention.layer_norm_rms_epsilon", layerNorms, KeyUse::Any, none,
     "norms are layer norms"},
    {".attention.layer_norm_rms_epsilon", "lfm2 lfm2moe", KeyUse::Number,
     "norm_eps", "epsilon of norms"},
    {".attention.layer_norm_rms_epsilon", everywhere, KeyUse::Number,
     "rms_norm_eps", "epsilon of norms"},
    {".attention.max_alibi_bias", everywhere, KeyUse::Neutral, "0",
     "positions are rotated"},
    {".attention.q_lora_rank", "deepseek2", KeyUse::Whole, "q_lora_rank",
     "latent numbers of a query; default: queries are made without"},
    {".attention.recurrent_layers", deltas, KeyUse::Read, none,
     "which layers have a state in place of attention"},
    {".attention.scale", "granite granitemoe", KeyUse::Number,
     "attention_multiplier", "factor of attention scores"},
    {".attention.sliding_window",
     "cohere2 exaone4 gemma2 gemma3 gpt-oss llama phi3", KeyUse::Read, none,
     "keys that a token sees; with it, a llama is of the family mistral"},
    {".attention.sliding_window_pattern", "cohere2 exaone4", KeyUse::Read, none,
     "which layers have a window: only three of four, the fourth has none"},
    {".attention.temperature_scale", "mistral3", KeyUse::Read, none,
     "with it, the model is of the family ministral3"},
    {".attention.value_length", "deepseek2", KeyUse::Read, none,
     "numbers of a value: those that make it, or its own if there is no "
     "value_length_mla"},
    {".attention.value_length", everywhere, KeyUse::Read, none,
     "the same as key_length"},
    {".attention.value_length_mla", "deepseek2", KeyUse::Read, none,
     "numbers of a value"},
    {".attn_logit_softcapping", "gemma2", KeyUse::Number,
     "attn_logit_softcapping", "soft cap of attention scores"},
    {".block_count", everywhere, KeyUse::Whole, "num_hidden_layers", "layers"},
    {".context_length", everywhere, KeyUse::Whole, "max_position_embeddings",
     "positions that the model knows"},
    {".embedding_length", everywhere, KeyUse::Whole, "hidden_size",
     "width of the residual stream"},
    {".embedding_scale", "granite granitemoe", KeyUse::Number,
     "embedding_multiplier", "factor of embeddings"},
    {".expert_count", groups, KeyUse::Whole, "n_routed_experts", ofLayer},
    {".expert_count", "ernie4_5-moe", KeyUse::Whole, "moe_num_experts",
     ofLayer},
    {".expert_count", "gpt-oss granitemoe llama minimax-m2", KeyUse::Whole,
     "num_local_experts", ofLayer},
    {".expert_count",
     "hunyuan-moe lfm2moe olmoe qwen2moe qwen35moe qwen3moe qwen3next",
     KeyUse::Whole, "num_experts", ofLayer},
    {".expert_count", everywhere, KeyUse::Neutral, "0", experts},
    {".expert_feed_forward_length", ofOwnWidth, KeyUse::Whole,
     "moe_intermediate_size", "width of an expert"},
    {".expert_feed_forward_length", "gpt-oss minimax-m2", KeyUse::Whole,
     "intermediate_size", "the same as feed_forward_length"},
    {".expert_gating_func", "deepseek2", KeyUse::Read, none,
     "2, sigmoids: of the family deepseek_v3; else deepseek_v2"},
    {".expert_gating_func", sigmoids, KeyUse::Neutral, "2",
     "scores are sigmoids"},
    {".expert_gating_func", softmaxes, KeyUse::Neutral, "1",
     "scores are softmaxes"},
    {".expert_group_count", groups, KeyUse::Whole, "n_group",
     "groups of experts"},
    {".expert_group_used_count", groups, KeyUse::Whole, "topk_group",
     "groups that a token chooses its experts from"},
    {".expert_shared_count", groups, KeyUse::Whole, "n_shared_experts", shared},
    {".expert_shared_count", "ernie4_5-moe", KeyUse::Whole,
     "moe_num_shared_experts", shared},
    {".expert_shared_count", "hunyuan-moe", KeyUse::Whole, "num_shared_expert",
     shared},
    {".expert_shared_feed_forward_length", "ernie4_5-moe hunyuan-moe",
     KeyUse::Read, none, "the same in elements"},
    {".expert_shared_feed_forward_length", "granite", KeyUse::Read, none,
     "width of an MLP, instead of feed_forward_length"},
    {".expert_shared_feed_forward_length", "qwen2moe qwen35moe qwen3next",
     KeyUse::Whole, "shared_expert_intermediate_size",
     "width of the MLP beside the experts"},
    {".expert_used_count", "ernie4_5-moe", KeyUse::Whole, "moe_k", chosen},
    {".expert_used_count", "hunyuan-moe", KeyUse::Whole, "moe_topk", chosen},
    {".expert_used_count", withExperts, KeyUse::Whole, "num_experts_per_tok",
     chosen},
    {".expert_used_count", everywhere, KeyUse::Neutral, "0", experts},
    {".expert_weights_norm", groups, KeyUse::Flag, "norm_topk_prob",
     "the weights of a token's experts are divided by their sum; default: not"},
    {".expert_weights_scale", groups, KeyUse::Number, "routed_scaling_factor",
     "factor of the weights of a token's experts"},
    {".feed_forward_length", everywhere, KeyUse::Whole, "intermediate_size",
     "width of an MLP"},
    {".final_logit_softcapping", "gemma2 gemma3", KeyUse::Number,
     "final_logit_softcapping", "soft cap of logits"},
    {".full_attention_interval", deltas, KeyUse::Whole,
     "full_attention_interval",
     "each n-th layer has attention, without recurrent_layers"},
    {".interleave_moe_layer_step", "ernie4_5-moe", KeyUse::Whole,
     "moe_layer_interval", "each n-th layer has experts"},
    {".leading_dense_block_count", "ernie4_5-moe", KeyUse::Whole,
     "moe_layer_start_index", "the first layers have no experts"},
    {".leading_dense_block_count", "lfm2moe", KeyUse::Whole, "num_dense_layers",
     "the first layers have no experts"},
    {".leading_dense_block_count", groups, KeyUse::Whole,
     "first_k_dense_replace", "the first layers have no experts"},
    {".logit_scale", "cohere2 command-r", KeyUse::Number, "logit_scale",
     "factor of logits"},
    {".logit_scale", "granite granitemoe", KeyUse::Number, "logits_scaling",
     "divisor of logits"},
    {".n_deepstack_layers", "qwen3vl", KeyUse::Any, none,
     "images are not read"},
    {".nextn_predict_layers",
     "deepseek2 exaone4 glm4 glm4moe qwen35 qwen35moe qwen3next", KeyUse::Read,
     none,
     "layers after the last, which predict a token more; they are left out"},
    {".pooling_type", everywhere, KeyUse::Any, none,
     "--pooling says how hidden states are pooled"},
    {".residual_scale", "granite granitemoe", KeyUse::Number,
     "residual_multiplier",
     "factor of what a layer adds to the residual stream"},
    {".rope.dimension_count", everywhere, KeyUse::Read, none,
     "rotated elements of a head; default: all"},
    {".rope.dimension_sections", "qwen35 qwen35moe qwen3vl", KeyUse::Any, none,
     "a token of text has one position for all sections"},
    {".rope.freq_base", everywhere, KeyUse::Number, "rope_theta",
     "base of rope's frequencies"},
    {".rope.freq_base_swa", "gemma3", KeyUse::Number, "rope_local_base_freq",
     "base of rope's frequencies in layers with a window"},
    {".rope.scale_linear", everywhere, KeyUse::Read, none,
     "older name of rope.scaling.factor, of linear"},
    {".rope.scaling.attn_factor", everywhere, KeyUse::Read, none,
     "of yarn and longrope: factor of cosines and sines"},
    {".rope.scaling.factor", everywhere, KeyUse::Read, none,
     "of linear and yarn: factor by which positions are stretched"},
    {".rope.scaling.finetuned", everywhere, KeyUse::Any, none, "training"},
    {".rope.scaling.original_context_length", everywhere, KeyUse::Read, none,
     "positions before rope was scaled"},
    {".rope.scaling.type", everywhere, KeyUse::Read, none,
     "none, linear, yarn or longrope"},
    {".rope.scaling.yarn_attn_factor", everywhere, KeyUse::Neutral, "1",
     "only rope.scaling.attn_factor is read"},
    {".rope.scaling.yarn_beta_fast", everywhere, KeyUse::Read, none,
     "of yarn: frequencies with more turns are not stretched"},
    {".rope.scaling.yarn_beta_slow", everywhere, KeyUse::Read, none,
     "of yarn: frequencies with fewer turns are stretched in full"},
    {".rope.scaling.yarn_ext_factor", everywhere, KeyUse::Neutral, "1",
     "yarn blends fully"},
    {".rope.scaling.yarn_log_multiplier", "mistral3", KeyUse::Neutral, "1",
     "mscale_all_dim is 1, as mscale is"},
    {".rope.scaling.yarn_log_multiplier", "deepseek2", KeyUse::Read, none,
     "a tenth of mscale_all_dim, as which mscale is"},
    {".rope.scaling.yarn_log_multiplier", everywhere, KeyUse::Neutral, "0",
     "mscale_all_dim is not supported"},
    {".shortconv.l_cache", "lfm2 lfm2moe", KeyUse::Whole, "conv_L_cache",
     "tokens that a convolution's filter reads"},
    {".ssm.conv_kernel", deltas, KeyUse::Whole, "linear_conv_kernel_dim",
     "tokens that a convolution's filter reads"},
    {".ssm.group_count", deltas, KeyUse::Whole, "linear_num_key_heads",
     "heads of keys of states"},
    {".ssm.inner_size", deltas, KeyUse::Read, none,
     "numbers of the values of all heads of states"},
    {".ssm.state_size", deltas, KeyUse::Whole, "linear_key_head_dim",
     "size of a key of states"},
    {".ssm.time_step_rank", deltas, KeyUse::Whole, "linear_num_value_heads",
     "heads of states"},
    {".ssm.", "granite granitemoe", KeyUse::Any, none,
     "no layer is a Mamba layer"},
    {".tensor_data_layout", "llama", KeyUse::Neutral,
     "\"Meta AI original pth\"", "rows of queries and keys are in pairs"},
    {".use_parallel_residual", everywhere, KeyUse::Neutral, "false",
     "the MLP follows attention"},
    {".vocab_size", everywhere, KeyUse::Read, none,
     "must equal the rows of token_embd.weight"},
    {"general.alignment", everywhere, KeyUse::Read, none,
     "where tensors begin"},
    {"general.architecture", everywhere, KeyUse::Read, none, "the family"},
    {"general.author", everywhere, KeyUse::Any, none, provenance},
    {"general.base_model.", everywhere, KeyUse::Any, none, provenance},
    {"general.basename", everywhere, KeyUse::Any, none, provenance},
    {"general.dataset.", everywhere, KeyUse::Any, none, provenance},
    {"general.datasets", everywhere, KeyUse::Any, none, provenance},
    {"general.description", everywhere, KeyUse::Any, none, provenance},
    {"general.doi", everywhere, KeyUse::Any, none, provenance},
    {"general.file_type", everywhere, KeyUse::Any, none,
     "each tensor says its type"},
    {"general.finetune", everywhere, KeyUse::Any, none, provenance},
    {"general.languages", everywhere, KeyUse::Any, none, provenance},
    {"general.license", everywhere, KeyUse::Any, none, provenance},
    {"general.license.", everywhere, KeyUse::Any, none, provenance},
    {"general.name", everywhere, KeyUse::Any, none, provenance},
    {"general.organization", everywhere, KeyUse::Any, none, provenance},
    {"general.parameter_count", everywhere, KeyUse::Any, none, provenance},
    {"general.quantization_version", everywhere, KeyUse::Neutral, "2",
     "ggml's blocks since May 2023"},
    {"general.quantized_by", everywhere, KeyUse::Any, none, provenance},
    {"general.repo_url", everywhere, KeyUse::Any, none, provenance},
    {"general.sampling.", everywhere, KeyUse::Any, none, drawn},
    {"general.size_label", everywhere, KeyUse::Any, none, provenance},
    {"general.source.", everywhere, KeyUse::Any, none, provenance},
    {"general.tags", everywhere, KeyUse::Any, none, provenance},
    {"general.type", everywhere, KeyUse::Neutral, "\"model\"",
     "adapters and vocabularies are no models"},
    {"general.url", everywhere, KeyUse::Any, none, provenance},
    {"general.uuid", everywhere, KeyUse::Any, none, provenance},
    {"general.version", everywhere, KeyUse::Any, none, provenance},
    {"mradermacher.", everywhere, KeyUse::Any, none, provenance},
    {"quantize.imatrix.", everywhere, KeyUse::Any, none, provenance},
    {"split.count", everywhere, KeyUse::Read, none, split},
    {"split.no", everywhere, KeyUse::Read, none, split},
    {"split.tensors.count", everywhere, KeyUse::Read, none, split},
    {"tokenizer.chat_template", everywhere, KeyUse::Any, none, runtimes},
    {"tokenizer.chat_template.", everywhere, KeyUse::Any, none, runtimes},
    {"tokenizer.chat_templates", everywhere, KeyUse::Any, none, runtimes},
    {"tokenizer.ggml.bos_token_id", everywhere, KeyUse::Whole, "bos_token_id",
     "begins a text, for the runtime"},
    {"tokenizer.ggml.eos_token_id", everywhere, KeyUse::Whole, "eos_token_id",
     "ends a text, for the runtime"},
    {"tokenizer.ggml.", everywhere, KeyUse::Any, none, runtimes},
    {"tokenizer.huggingface.json", everywhere, KeyUse::Any, none,
     "tokenizer.ggml says the same"},
};

/// Whether the list `names` has `name`.
static bool lists(std::string_view names, const std::string &name) {
  return names == everywhere ||
         (" " + std::string(names) + " ").find(" " + name + " ") !=
             std::string::npos;
}

const Key *findKey(const std::string &key, const std::string &architecture) {
  std::string_view name = key;
  if (key.compare(0, architecture.size() + 1, architecture + ".") == 0)
    name.remove_prefix(architecture.size());
  for (const Key &entry : keys) {
    std::string_view pattern = entry.name;
    bool isPrefix = pattern.back() == '.';
    bool fits =
        isPrefix ? name.substr(0, pattern.size()) == pattern : name == pattern;
    if (fits && lists(entry.architectures, architecture))
      return &entry;
  }
  return nullptr;
}

std::string keysText() {
  std::string text = "| key | read for | is |\n|---|---|---|\n";
  for (const Key &key : keys) {
    std::string name = key.name, note = key.note;
    if (name.front() == '.')
      name = "ARCH" + name;
    if (name.back() == '.')
      name += "*";
    if (key.use == KeyUse::Neutral)
      note = "only `" + std::string(key.config) + "`: " + note;
    else if (key.use == KeyUse::Any)
      note = "irrelevant: " + note;
    bool all = lists(key.architectures, "*");
    text += "| `" + name + "` | " +
            (all ? "all" : std::string(key.architectures)) + " | " + note +
            " |\n";
  }
  return text;
}

} // namespace cria::gguf
