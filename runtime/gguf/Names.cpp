#include "runtime/gguf/Names.h"

#include "runtime/base/Concat.h"

#include <algorithm>
#include <iterator>

namespace cria::gguf {

static constexpr Architecture architectures[] = {
    {"arcee", true, false},
    {"chatglm", false, false},
    {"cohere2", false, false},
    {"command-r", false, false},
    {"deepseek2", false, false},
    {"dots1", false, false},
    {"ernie4_5", false, false},
    {"ernie4_5-moe", false, false},
    {"exaone4", false, false},
    {"falcon-h1", false, false},
    {"gemma", false, true},
    {"gemma2", false, true},
    {"gemma3", false, true},
    {"gemma4", false, false},
    {"glm4", false, false},
    {"glm4moe", false, false},
    {"gpt-oss", false, false},
    {"gpt2", false, false},
    {"gptneox", false, false, false, true},
    {"granite", true, false},
    {"granitehybrid", true, false},
    {"granitemoe", true, false},
    {"hunyuan-dense", false, false},
    {"hunyuan-moe", false, false},
    {"jais2", false, false},
    {"lfm2", false, false},
    {"lfm2moe", false, false},
    {"llama", true, false},
    {"minicpm3", false, false},
    {"minimax-m2", false, false},
    {"mistral3", true, false},
    {"nemotron", false, true},
    {"nemotron_h", true, false},
    {"nemotron_h_moe", true, false},
    {"olmo", true, false},
    {"olmo2", false, false},
    {"olmoe", false, false},
    {"phi2", false, false},
    {"phi3", false, false},
    {"qwen2", false, false},
    {"qwen2moe", false, false},
    {"qwen3", false, false},
    {"qwen35", false, true, true},
    {"qwen35moe", false, true, true},
    {"qwen3moe", false, false},
    {"qwen3next", false, true},
    {"qwen3vl", false, false},
    {"seed_oss", false, false},
    {"smollm3", true, false},
    {"stablelm", false, false},
    {"starcoder", false, false},
    {"starcoder2", false, false},
};

// Lists of modules, "name=module in Hugging Face's checkpoints". They are texts
// because tables of pointers would need relocations.

/// Modules and tensors that an architecture calls otherwise than most do, after
/// "@" and its name. "name=" is a module that the architecture does not have;
/// "blk" is what has the layers. "=lfm2": it has the names of lfm2, too.
static constexpr char ofArchitectures[] =
    "@chatglm "
    "ffn_up=mlp.gate_up_proj "
    "@ernie4_5-moe "
    "exp_probs_b.bias=mlp.moe_statics.e_score_correction_bias "
    "@exaone4 "
    "ffn_norm= "
    "@falcon-h1 "
    "=granitehybrid "
    "blk=model.scaled_layers "
    "ffn_down=feed_forward.down_proj "
    "ffn_gate.weight=feed_forward.gate_proj.weight "
    "ffn_norm=pre_ff_layernorm.weight "
    "ffn_up.weight=feed_forward.up_proj.weight "
    "output_norm=model.final_layernorm "
    "@gemma2 "
    "ffn_norm=pre_feedforward_layernorm "
    "@gemma3 "
    "=gemma2 "

    "@gemma4 "
    "attn_qkv= "
    "ffn_down_exps.scale=router.per_expert_scale "
    "ffn_down_exps.weight=experts.down_proj "
    "ffn_gate_inp.scale=router.scale "
    "ffn_gate_inp=router.proj "
    "ffn_gate_up_exps.weight=experts.gate_up_proj "
    "ffn_norm=pre_feedforward_layernorm "
    "inp_gate=per_layer_input_gate "
    "layer_output_scale.weight=layer_scalar "
    "per_layer_model_proj=model.per_layer_model_projection "
    "per_layer_proj_norm=model.per_layer_projection_norm "
    "per_layer_token_embd=model.embed_tokens_per_layer "
    "post_ffw_norm_1=post_feedforward_layernorm_1 "
    "post_ffw_norm_2=post_feedforward_layernorm_2 "
    "post_norm=post_per_layer_input_norm "
    "pre_ffw_norm_2=pre_feedforward_layernorm_2 "
    "proj=per_layer_projection "
    "@glm4 "
    "=chatglm "
    "post_attention_norm=post_self_attn_layernorm "
    "post_ffw_norm=post_mlp_layernorm "
    "@glm4moe "
    "ffn_norm= "
    "@gpt-oss "
    "attn_sinks.weight=self_attn.sinks "
    "ffn_down_exps.bias=mlp.experts.down_proj_bias "
    "ffn_down_exps.weight=mlp.experts.down_proj[rows] "
    "ffn_gate_exps.bias=mlp.experts.gate_up_proj_bias[0%2] "
    "ffn_gate_exps.weight=mlp.experts.gate_up_proj[0%2] "
    "ffn_gate_inp=mlp.router "
    "ffn_norm= "
    "ffn_up_exps.bias=mlp.experts.gate_up_proj_bias[1%2] "
    "ffn_up_exps.weight=mlp.experts.gate_up_proj[1%2] "
    "@gpt2 "
    "=starcoder "
    "attn_output.weight=attn.c_proj.weight[rows] "
    "attn_qkv.weight=attn.c_attn.weight[rows] "
    "ffn_down.weight=mlp.c_proj.weight[rows] "
    "ffn_up.weight=mlp.c_fc.weight[rows] "
    "@gptneox "
    "attn_output=attention.dense "
    "attn_qkv=attention.query_key_value "
    "blk=gpt_neox.layers "
    "ffn_down=mlp.dense_4h_to_h "
    "ffn_up=mlp.dense_h_to_4h "
    "output=embed_out "
    "output_norm=gpt_neox.final_layer_norm "
    "token_embd=gpt_neox.embed_in "
    "@granitehybrid "
    "=granitemoe "
    "ffn_down=shared_mlp.output_linear "
    "ffn_down_shexp=shared_mlp.output_linear "
    "ffn_gate.weight=shared_mlp.input_linear.weight[0/2] "
    "ffn_gate_shexp.weight=shared_mlp.input_linear.weight[0/2] "
    "ffn_up.weight=shared_mlp.input_linear.weight[1/2] "
    "ffn_up_shexp.weight=shared_mlp.input_linear.weight[1/2] "
    "ssm_a=mamba.A_log "
    "ssm_conv1d=mamba.conv1d "
    "ssm_d=mamba.D "
    "ssm_dt.bias=mamba.dt_bias "
    "ssm_in=mamba.in_proj "
    "ssm_norm=mamba.norm "
    "ssm_out=mamba.out_proj "
    "@granitemoe "
    "ffn_down_exps=block_sparse_moe.output_linear "
    "ffn_gate_exps.weight=block_sparse_moe.input_linear.weight[0/2] "
    "ffn_gate_inp=block_sparse_moe.router.layer "
    "ffn_up_exps.weight=block_sparse_moe.input_linear.weight[1/2] "
    "@hunyuan-dense "
    "attn_k_norm=self_attn.key_layernorm "
    "attn_q_norm=self_attn.query_layernorm "
    "@hunyuan-moe "
    "=hunyuan-dense "
    "ffn_down_shexp=mlp.shared_mlp.down_proj "
    "ffn_gate_inp=mlp.gate.wg "
    "ffn_gate_shexp=mlp.shared_mlp.gate_proj "
    "ffn_up_shexp=mlp.shared_mlp.up_proj "
    "@lfm2 "
    "attn_k_norm=self_attn.k_layernorm "
    "attn_norm=operator_norm "
    "attn_output=self_attn.out_proj "
    "attn_q_norm=self_attn.q_layernorm "
    "exp_probs_b.bias=feed_forward.expert_bias "
    "ffn_down=feed_forward.w2 "
    "ffn_down_exps=feed_forward.experts.{}.w2 "
    "ffn_gate=feed_forward.w1 "
    "ffn_gate_exps=feed_forward.experts.{}.w1 "
    "ffn_gate_inp=feed_forward.gate "
    "ffn_norm=ffn_norm "
    "ffn_up=feed_forward.w3 "
    "ffn_up_exps=feed_forward.experts.{}.w3 "
    "output_norm= "
    "shortconv.conv=conv.conv "
    "shortconv.in_proj=conv.in_proj "
    "shortconv.out_proj=conv.out_proj "
    "token_embd_norm=model.embedding_norm "
    "@lfm2moe "
    "=lfm2 "
    "@llama "
    "ffn_down_exps=block_sparse_moe.experts.{}.w2 "
    "ffn_gate_exps=block_sparse_moe.experts.{}.w1 "
    "ffn_gate_inp=block_sparse_moe.gate "
    "ffn_up_exps=block_sparse_moe.experts.{}.w3 "
    "@minimax-m2 "
    "=llama "
    "exp_probs_b.bias=block_sparse_moe.e_score_correction_bias "
    "@nemotron_h "
    "attn_k=mixer.k_proj "
    "attn_norm=norm "
    "attn_output=mixer.o_proj "
    "attn_q=mixer.q_proj "
    "attn_v=mixer.v_proj "
    "blk=backbone.layers "
    "exp_probs_b.bias=mixer.gate.e_score_correction_bias "
    "ffn_down=mixer.down_proj "
    "ffn_down_exps=mixer.experts.{}.down_proj "
    "ffn_down_shexp=mixer.shared_experts.down_proj "
    "ffn_gate_inp=mixer.gate "
    "ffn_up=mixer.up_proj "
    "ffn_up_exps=mixer.experts.{}.up_proj "
    "ffn_up_shexp=mixer.shared_experts.up_proj "
    "output_norm=backbone.norm_f "
    "ssm_a=mixer.A_log "
    "ssm_conv1d=mixer.conv1d "
    "ssm_d=mixer.D "
    "ssm_dt.bias=mixer.dt_bias "
    "ssm_in=mixer.in_proj "
    "ssm_norm=mixer.norm "
    "ssm_out=mixer.out_proj "
    "token_embd=backbone.embeddings "
    "@nemotron_h_moe "
    "=nemotron_h "
    "@olmo2 "
    "ffn_norm= "
    "@phi2 "
    "attn_output=self_attn.dense "
    "ffn_down=mlp.fc2 "
    "ffn_up=mlp.fc1 "
    "output_norm=model.final_layernorm "
    "@phi3 "
    "=chatglm "
    "attn_qkv=self_attn.qkv_proj "
    "@qwen2moe "
    "ffn_down_shexp=mlp.shared_expert.down_proj "
    "ffn_gate_shexp=mlp.shared_expert.gate_proj "
    "ffn_up_shexp=mlp.shared_expert.up_proj "
    "@qwen35 "
    "=qwen2moe "
    "attn_gate=linear_attn.in_proj_z "
    "attn_qkv=linear_attn.in_proj_qkv "
    "ffn_norm= "
    "ssm_a=linear_attn.A_log "
    "ssm_alpha=linear_attn.in_proj_a "
    "ssm_ba=linear_attn.in_proj_ba "
    "ssm_beta=linear_attn.in_proj_b "
    "ssm_conv1d=linear_attn.conv1d "
    "ssm_dt.bias=linear_attn.dt_bias "
    "ssm_norm=linear_attn.norm "
    "ssm_out=linear_attn.out_proj "
    "@qwen35moe "
    "=qwen35 "
    "@qwen3next "
    "=qwen35 "
    "@seed_oss "
    "ffn_norm= "
    "@starcoder "
    "=starcoder2 "
    "attn_norm=ln_1 "
    "attn_output=attn.c_proj "
    "attn_qkv=attn.c_attn "
    "blk=transformer.h "
    "ffn_norm=ln_2 "
    "output_norm=transformer.ln_f "
    "position_embd=transformer.wpe "
    "token_embd=transformer.wte "
    "@starcoder2 "
    "ffn_down=mlp.c_proj "
    "ffn_up=mlp.c_fc";

/// Modules of the model, and modules and tensors of a layer, of most
/// architectures.
static constexpr char outerModules[] = "blk=model.layers "
                                       "token_embd=model.embed_tokens "
                                       "output=lm_head "
                                       "output_norm=model.norm",
                      layerModules[] =
                          "attn_k=self_attn.k_proj "
                          "attn_k_b=self_attn.k_b_proj "
                          "attn_k_norm=self_attn.k_norm "
                          "attn_kv_a_mqa=self_attn.kv_a_proj_with_mqa "
                          "attn_kv_a_norm=self_attn.kv_a_layernorm "
                          "attn_kv_b=self_attn.kv_b_proj "
                          "attn_norm=input_layernorm "
                          "attn_output=self_attn.o_proj "
                          "attn_q=self_attn.q_proj "
                          "attn_q_a=self_attn.q_a_proj "
                          "attn_q_a_norm=self_attn.q_a_layernorm "
                          "attn_q_b=self_attn.q_b_proj "
                          "attn_q_norm=self_attn.q_norm "
                          "attn_qkv=self_attn.*_proj "
                          "attn_v=self_attn.v_proj "
                          "attn_v_b=self_attn.v_b_proj "
                          "exp_probs_b.bias=mlp.gate.e_score_correction_bias "
                          "ffn_down=mlp.down_proj "
                          "ffn_down_exps=mlp.experts.{}.down_proj "
                          "ffn_down_shexp=mlp.shared_experts.down_proj "
                          "ffn_gate=mlp.gate_proj "
                          "ffn_gate_exps=mlp.experts.{}.gate_proj "
                          "ffn_gate_inp=mlp.gate "
                          "ffn_gate_inp_shexp=mlp.shared_expert_gate "
                          "ffn_gate_shexp=mlp.shared_experts.gate_proj "
                          "ffn_gate_up_exps.weight=mlp.experts.gate_up_proj "
                          "ffn_norm=post_attention_layernorm "
                          "ffn_up=mlp.up_proj "
                          "ffn_up_exps=mlp.experts.{}.up_proj "
                          "ffn_up_shexp=mlp.shared_experts.up_proj "
                          "post_attention_norm=post_attention_layernorm "
                          "post_ffw_norm=post_feedforward_layernorm";

const Architecture *findArchitecture(std::string_view name) {
  auto found =
      std::find_if(std::begin(architectures), std::end(architectures),
                   [&](const Architecture &a) { return a.name == name; });
  return found == std::end(architectures) ? nullptr : &*found;
}

std::string architectureNames() {
  std::string names;
  for (const Architecture &architecture : architectures) {
    bool last = &architecture == std::end(architectures) - 1;
    names += (names.empty() ? "" : last ? " or " : ", ");
    names += architecture.name;
  }
  return names;
}

/// Takes `prefix` off the front of `text`; false if it is not there.
static bool eat(std::string_view &text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix)
    return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// Sets `name` to its module in a list "name=module ..."; false if the list
/// does not have it.
static bool translate(std::string_view list, std::string_view &name) {
  while (!list.empty()) {
    std::string_view entry = list.substr(0, list.find(' '));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    if (!eat(entry, name) || !eat(entry, "="))
      continue;
    name = entry;
    return true;
  }
  return false;
}

/// Takes "blk.N." off the front of `name`, and returns N, or "" if there is
/// none.
static std::string_view eatLayer(std::string_view &name) {
  std::string_view rest = name;
  if (!eat(rest, "blk."))
    return "";
  size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  std::string_view layer = rest.substr(0, digits);
  rest.remove_prefix(digits);
  bool isNumber =
      digits > 0 && digits <= 4 && (layer == "0" || layer.front() != '0');
  if (!isNumber || !eat(rest, "."))
    return "";
  name = rest;
  return layer;
}

/// The part of `ofArchitectures` that follows "@" and `architecture`.
static std::string_view namesOf(std::string_view architecture) {
  std::string_view names = ofArchitectures;
  std::string before = concat({"@", architecture, " "});
  size_t found = names.find(before);
  if (found == names.npos)
    return "";
  names.remove_prefix(found + before.size());
  return names.substr(0, names.find('@'));
}

/// Sets `name` to what Hugging Face's checkpoints call the tensor, or the
/// module, `name` of an architecture; false if the architecture has none.
static bool translate(const Architecture &architecture, bool isOfLayer,
                      std::string_view &name) {
  bool hasMore = true;
  for (std::string_view like = architecture.name; hasMore;) {
    std::string_view names = namesOf(like);
    if (translate(names, name))
      return true;
    like = "";
    hasMore = translate(names, like);
  }
  return translate(isOfLayer ? layerModules : outerModules, name);
}

std::string checkpointName(const Architecture &architecture,
                           std::string_view name) {
  size_t dot = name.rfind('.');
  if (dot == name.npos)
    return "";
  std::string_view kind = name.substr(dot); // ".weight"
  std::string_view layer = eatLayer(name), layers = "blk";
  if (translate(architecture, !layer.empty(), name)) {
    kind = "";
  } else {
    if (kind != ".weight" && kind != ".bias")
      return "";
    name.remove_suffix(kind.size());
    if (!translate(architecture, !layer.empty(), name))
      return "";
  }
  if (name.empty())
    return "";
  if (layer.empty())
    return concat({name, kind});
  translate(architecture, /*isOfLayer=*/false, layers);
  return concat({layers, ".", layer, ".", name, kind});
}

int64_t countOf(const Header &header, const Architecture &architecture,
                std::string_view key) {
  const Value *value = header.find(concat({architecture.name, ".", key}));
  int64_t count = value ? value->integer().value_or(0) : 0;
  return count >= 0 && count <= mostLayers ? count : 0;
}

bool isLeftOut(const Header &header, const Architecture &architecture,
               std::string_view name) {
  if (name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
      name == "rope_factors_short.weight")
    return true;
  int64_t extra = countOf(header, architecture, "nextn_predict_layers"),
          number = 0;
  std::string_view layer = eatLayer(name);
  for (char digit : layer)
    number = 10 * number + (digit - '0');
  return extra && !layer.empty() &&
         number + extra >= countOf(header, architecture, "block_count");
}

} // namespace cria::gguf
