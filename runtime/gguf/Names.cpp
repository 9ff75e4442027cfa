#include "runtime/gguf/Names.h"

#include "runtime/base/Concat.h"

#include <algorithm>
#include <iterator>

namespace cria::gguf {

static constexpr char postAttention[] = "post_attention_layernorm",
                      preMlp[] = "pre_feedforward_layernorm";

static const Architecture architectures[] = {
    {"arcee", "arcee", true, false, postAttention},
    {"gemma", "gemma", false, true, postAttention},
    {"gemma2", "gemma2", false, true, preMlp},
    {"gemma3", "gemma3_text", false, true, preMlp},
    {"granite", "granite", true, false, postAttention},
    {"llama", "llama", true, false, postAttention},
    {"olmo2", "olmo2", false, false, ""},
    {"phi3", "phi3", false, false, postAttention},
    {"qwen2", "qwen2", false, false, postAttention},
    {"qwen3", "qwen3", false, false, postAttention},
    {"seed_oss", "seed_oss", false, false, ""},
    {"smollm3", "smollm3", true, false, postAttention},
};

namespace {

/// A module of a model, without ".weight" or ".bias".
struct Module {
  std::string_view name, checkpoint;
};

} // namespace

static constexpr Module outerModules[] = {
    {"token_embd", "model.embed_tokens"},
    {"output", "lm_head"},
    {"output_norm", "model.norm"},
};

/// Modules of a layer. ffn_norm and phi3's ffn_up depend on the architecture.
static constexpr Module layerModules[] = {
    {"attn_k", "self_attn.k_proj"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_norm", "input_layernorm"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

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

template <size_t size>
static std::string_view find(const Module (&modules)[size],
                             std::string_view name) {
  for (const Module &module : modules)
    if (module.name == name)
      return module.checkpoint;
  return "";
}

/// The module of a layer; "" if there is none.
static std::string_view layerModule(const Architecture &architecture,
                                    std::string_view name) {
  if (name == "ffn_norm")
    return architecture.mlpNorm;
  if (name == "ffn_up" && architecture.modelType == std::string_view("phi3"))
    return "mlp.gate_up_proj";
  return find(layerModules, name);
}

std::string checkpointName(const Architecture &architecture,
                           std::string_view name) {
  size_t dot = name.rfind('.');
  if (dot == name.npos)
    return "";
  std::string_view kind = name.substr(dot); // ".weight"
  std::string_view module = name.substr(0, dot);
  if (kind != ".weight" && kind != ".bias")
    return "";
  std::string before;
  std::string_view found;
  if (eat(module, "blk.")) {
    size_t digits =
        std::min(module.find_first_not_of("0123456789"), module.size());
    std::string_view layer = module.substr(0, digits);
    bool isNumber =
        digits > 0 && digits <= 4 && (layer == "0" || layer.front() != '0');
    module.remove_prefix(digits);
    if (!isNumber || !eat(module, "."))
      return "";
    before = concat({"model.layers.", layer, "."});
    found = layerModule(architecture, module);
  } else {
    found = find(outerModules, module);
  }
  if (found.empty())
    return "";
  return before + std::string(found) + std::string(kind);
}

bool isRopeTensor(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
         name == "rope_factors_short.weight";
}

} // namespace cria::gguf
