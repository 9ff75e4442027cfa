"""Makes GGUF files from Hugging Face checkpoints with llama.cpp's own Python package.
Names, orders and values are those of llama.cpp's converter.
"""

import math
import re

import gguf
import numpy as np

TYPES = gguf.GGMLQuantizationType
# The others are called as in config.json.
ARCHITECTURES = {
    "cohere": "command-r",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "ernie4_5_moe": "ernie4_5-moe",
    "falcon_h1": "falcon-h1",
    "gemma3_text": "gemma3",
    "gemma4_text": "gemma4",
    "glm": "chatglm",
    "glm4_moe": "glm4moe",
    "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granitemoehybrid": "granite",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "lfm2_moe": "lfm2moe",
    "minimax_m2": "minimax-m2",
    "ministral3": "mistral3",
    "mistral": "llama",
    "mixtral": "llama",
    "olmo3": "olmo2",
    "phi": "phi2",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "qwen3_5_moe_text": "qwen35moe",
    "qwen3_5_text": "qwen35",
    "qwen3_next": "qwen3next",
    "qwen3_vl_text": "qwen3vl",
}
INTERLEAVED = (
    *("arcee", "granite", "granitemoe", "granitemoehybrid", "llama", "ministral3"),
    *("mistral", "mixtral", "nemotron_h", "olmo", "smollm3"),
)
DELTA = ("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next")
LATENT = ("deepseek_v2", "deepseek_v3")
WITH_STATES = ("granitemoehybrid", "lfm2", "lfm2_moe")
LAYER_EPS = ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
WINDOWED = (
    *("cohere2", "exaone4", "gemma2", "gemma3_text", "gemma4_text", "gpt_oss"),
    *("mistral", "olmo3", "phi3"),
)
OUTER = {
    "model.embed_tokens": "token_embd",
    "model.embed_tokens_per_layer": "per_layer_token_embd",
    "model.norm": "output_norm",
    "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm",
    "model.embedding_norm": "token_embd_norm",
    "lm_head": "output",
    "transformer.ln_f": "output_norm",
    "transformer.wpe": "position_embd",
    "transformer.wte": "token_embd",
    "model.final_layernorm": "output_norm",
    "embed_out": "output",
    "gpt_neox.embed_in": "token_embd",
    "gpt_neox.final_layer_norm": "output_norm",
    "backbone.embeddings": "token_embd",
    "backbone.norm_f": "output_norm",
}
LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "attention.query_key_value": "attn_qkv",
    "attention.dense": "attn_output",
    "mlp.dense_h_to_4h": "ffn_up",
    "mlp.dense_4h_to_h": "ffn_down",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
    "post_mlp_layernorm": "post_ffw_norm",
    "post_self_attn_layernorm": "post_attention_norm",
    "self_attn.dense": "attn_output",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_b_proj": "attn_kv_b",
    "self_attn.kv_b_proj.k": "attn_k_b",
    "self_attn.kv_b_proj.v": "attn_v_b",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.key_layernorm": "attn_k_norm",
    "self_attn.query_layernorm": "attn_q_norm",
    "shared_mlp.input_linear.0": "ffn_gate",
    "shared_mlp.input_linear.1": "ffn_up",
    "shared_mlp.output_linear": "ffn_down",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
    "mamba.conv1d": "ssm_conv1d",
    "mamba.in_proj": "ssm_in",
    "mamba.norm": "ssm_norm",
    "mamba.out_proj": "ssm_out",
    "mixer.conv1d": "ssm_conv1d",
    "mixer.in_proj": "ssm_in",
    "mixer.norm": "ssm_norm",
    "mixer.out_proj": "ssm_out",
    "mixer.q_proj": "attn_q",
    "mixer.k_proj": "attn_k",
    "mixer.v_proj": "attn_v",
    "mixer.o_proj": "attn_output",
    "mixer.up_proj": "ffn_up",
    "mixer.down_proj": "ffn_down",
    "norm": "attn_norm",
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_feedforward_layernorm_1": "post_ffw_norm_1",
    "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "post_per_layer_input_norm": "post_norm",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
    "router.proj": "ffn_gate_inp",
    "operator_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm",
    "feed_forward.gate_proj": "ffn_gate",
    "feed_forward.up_proj": "ffn_up",
    "feed_forward.down_proj": "ffn_down",
    "feed_forward.w1": "ffn_gate",
    "feed_forward.w2": "ffn_down",
    "feed_forward.w3": "ffn_up",
    "conv.conv": "shortconv.conv",
    "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj",
    # Mixtures of experts.
    "block_sparse_moe.experts.w1": "ffn_gate_exps",
    "block_sparse_moe.experts.w2": "ffn_down_exps",
    "block_sparse_moe.experts.w3": "ffn_up_exps",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "block_sparse_moe.input_linear.0": "ffn_gate_exps",
    "block_sparse_moe.input_linear.1": "ffn_up_exps",
    "block_sparse_moe.output_linear": "ffn_down_exps",
    "block_sparse_moe.router.layer": "ffn_gate_inp",
    "feed_forward.experts.w1": "ffn_gate_exps",
    "feed_forward.experts.w2": "ffn_down_exps",
    "feed_forward.experts.w3": "ffn_up_exps",
    "feed_forward.gate": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "mixer.experts.up_proj": "ffn_up_exps",
    "mixer.experts.down_proj": "ffn_down_exps",
    "mixer.gate": "ffn_gate_inp",
    "mixer.shared_experts.up_proj": "ffn_up_shexp",
    "mixer.shared_experts.down_proj": "ffn_down_shexp",
    "mlp.gate": "ffn_gate_inp",
    "mlp.gate.wg": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
SHARED = re.compile(r"mlp\.shared_(?:experts?|mlp)\.(gate|up|down)_proj")
# Tensors that are not called MODULE.weight or MODULE.bias.
TENSORS = {
    "experts.down_proj": "ffn_down_exps.weight",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "layer_scalar": "layer_output_scale.weight",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "mamba.A_log": "ssm_a",
    "mamba.D": "ssm_d",
    "mamba.dt_bias": "ssm_dt.bias",
    "mixer.A_log": "ssm_a",
    "mixer.D": "ssm_d",
    "mixer.dt_bias": "ssm_dt.bias",
    "pre_ff_layernorm.weight": "ffn_norm",
    "router.per_expert_scale": "ffn_down_exps.scale",
    "router.scale": "ffn_gate_inp.scale",
    "self_attn.sinks": "attn_sinks.weight",
    "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
    "mlp.experts.gate_up_proj.0": "ffn_gate_exps.weight",
    "mlp.experts.gate_up_proj.1": "ffn_up_exps.weight",
    "mlp.experts.gate_up_proj_bias.0": "ffn_gate_exps.bias",
    "mlp.experts.gate_up_proj_bias.1": "ffn_up_exps.bias",
}


def tensor_name(name, family, shares=False):
    """blk.0.attn_q.weight for model.layers.0.self_attn.q_proj.weight. `shares`: an MLP is
    beside experts."""
    module, kind = name.rsplit(".", 1)
    for tensor, part in TENSORS.items():
        if name.endswith(f".{tensor}"):
            return f"blk.{name.split('.')[2]}.{part}"
    if module in OUTER:
        return f"{OUTER[module]}.{kind}"
    layer, module = re.fullmatch(r"[a-z_.]+\.(\d+)\.(.*)", module).groups()
    if kind in ("e_score_correction_bias", "expert_bias"):
        return f"blk.{layer}.exp_probs_b.bias"
    if shares and module.startswith("shared_mlp."):
        return f"blk.{layer}.{LAYER[module]}_shexp.{kind}"
    if shared := SHARED.fullmatch(module):
        return f"blk.{layer}.ffn_{shared[1]}_shexp.{kind}"
    if module == "post_attention_layernorm":
        behind = family in (
            *("exaone4", "gemma2", "gemma3_text", "gemma4_text", "glm4_moe"),
            *("gpt_oss", "olmo2", "olmo3"),
            *("seed_oss", *DELTA),
        )
        part = "post_attention_norm" if behind else "ffn_norm"
    else:
        part = LAYER[module]
    return f"blk.{layer}.{part}.{kind}"


def interleaved(array, heads):
    """Rows of queries or keys as llama.cpp rotates them."""
    parts = array.reshape(heads, 2, len(array) // heads // 2, *array.shape[1:])
    return parts.swapaxes(1, 2).reshape(array.shape)


def in_turns(name, array, config):
    """Heads of values as llama.cpp has them: the first of each key, then the second of
    each. Elements may have any number of bytes."""
    groups, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    keys = 2 * groups * config["linear_key_head_dim"]

    def turned(part):
        parts = part.reshape(groups, heads // groups, -1, *part.shape[1:])
        return parts.swapaxes(0, 1).reshape(part.shape)

    if name.endswith((".in_proj_qkv.weight", ".conv1d.weight")):
        return np.concatenate([array[:keys], turned(array[keys:])])
    if name.endswith(".out_proj.weight"):
        columns = array.reshape(len(array), groups, heads // groups, -1)
        return columns.swapaxes(1, 2).reshape(array.shape)
    return array if name.endswith(".norm.weight") else turned(array)


def scaled(name, array, config):
    """A weight of Falcon-H1 with the factors of what it reads and makes."""
    gate, mlp = config["mlp_multipliers"]
    reads, ssm = config["attention_in_multiplier"], config["ssm_in_multiplier"]
    for module, factor in (
        ("embed_tokens", config["embedding_multiplier"]),
        ("lm_head", config["lm_head_multiplier"]),
        ("gate_proj", gate),
        ("down_proj", mlp),
        ("q_proj", reads),
        ("k_proj", config["key_multiplier"] * reads),
        ("v_proj", reads),
        ("o_proj", config["attention_out_multiplier"]),
        ("in_proj", ssm),
        ("out_proj", config["ssm_out_multiplier"]),
    ):
        if f".{module}." in f".{name}":
            array = array * np.float32(factor)
    if name.endswith(".in_proj.weight") and config.get("ssm_multipliers"):
        groups, heads, state = mamba(config)
        inner = config["mamba_d_ssm"]
        sizes = [inner, inner, groups * state, groups * state, heads]
        rows = np.repeat(config["ssm_multipliers"], sizes)
        array = array * rows[:, None].astype("f4")
    return array


def converted(name, array, config):
    """The elements that the file holds."""
    family = config["model_type"]
    if family == "falcon_h1":
        array = scaled(name, array, config)
    heads = config["num_attention_heads"]
    if ".k_proj." in name:
        heads = config.get("num_key_value_heads") or heads
    if family in INTERLEAVED and re.search(r"\.[qk]_proj\.", name):
        return interleaved(array, heads)
    if ".query_key_value." in name:
        parts = array.reshape(heads, 3, -1, *array.shape[1:])
        return parts.swapaxes(0, 1).reshape(array.shape)
    if ".linear_attn." in name and family != "qwen3_next":
        array = in_turns(name, array, config)
    if name.endswith(".A_log"):
        array = -np.exp(array)
        return array if ".linear_attn." in name else array[:, None]
    if name.endswith((".mamba.D", ".mixer.D")):
        return array[:, None]
    if name.endswith((".mamba.norm.weight", ".mixer.norm.weight")):
        return array.reshape(mamba(config)[0], -1)
    plus_one = family in ("gemma", "gemma2", "gemma3_text", "nemotron", *DELTA)
    if plus_one and re.search(r"norm\.weight$(?<!attn\.norm\.weight)", name):
        return array + np.float32(1)  # norms are f32
    if name.endswith((".conv.weight", ".conv1d.weight")):
        return array[:, 0]
    return array


def rope_frequencies(config):
    """The factors that the converter makes of Llama 3's rope_scaling."""
    rope = config.get("rope_scaling") or {}
    if rope.get("rope_type") != "llama3":
        return None
    dims = head_size(config)
    base = config.get("rope_theta", 10000.0)
    factor, original = rope["factor"], rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    factors = []
    for frequency in 1.0 / base ** (np.arange(0, dims, 2) / dims):
        length = 2 * math.pi / frequency
        smooth = (original / length - low) / (high - low)
        if length < original / high:
            factors.append(1.0)
        elif length > original / low:
            factors.append(factor)
        else:
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, np.float32)


def head_size(config):
    heads = config["num_attention_heads"]
    return config.get("head_dim") or config["hidden_size"] // heads


def mamba(config):
    """The groups, the heads, and the size of a state."""
    return (
        config.get("mamba_n_groups", config.get("n_groups", 1)),
        config.get("mamba_n_heads") or config["mamba_num_heads"],
        config.get("mamba_d_state") or config["ssm_state_size"],
    )


def kv_heads(config):
    """0 for layers that have a state in place of attention."""
    if config["model_type"] in LATENT:
        return 1
    count = config.get("num_key_value_heads") or config["num_attention_heads"]
    if "num_global_key_value_heads" in config:
        full = config["num_global_key_value_heads"]
        windows = [kind == "sliding_attention" for kind in config["layer_types"]]
        return [count if window else full for window in windows]
    if letters := config.get("hybrid_override_pattern"):
        return [count * (letter == "*") for letter in letters]
    if config["model_type"] not in WITH_STATES:
        return count
    counts = [count * ("attention" in kind) for kind in config["layer_types"]]
    return counts if 0 in counts else count


def add_config(writer, config):
    """The metadata of config.json."""
    family, head = config["model_type"], head_size(config)
    heads = config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    widths = config["intermediate_size"]
    if config.get("use_double_wide_mlp"):
        layers = config["num_hidden_layers"]
        shared = config["num_kv_shared_layers"]
        widths = (layers - shared) * [widths] + shared * [2 * widths]
    if letters := config.get("hybrid_override_pattern"):
        widths = [widths * (letter in "-E") for letter in letters]
    writer.add_feed_forward_length(widths)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads(config))
    rms = [config[key] for key in ("rms_norm_eps", "norm_eps") if key in config]
    layer = [config[key] for key in LAYER_EPS if key in config]
    for eps in rms:
        writer.add_layer_norm_rms_eps(eps)
    for eps in layer or (rms if family == "nemotron" else []):
        writer.add_layer_norm_eps(eps)
    if family == "olmo":
        writer.add_layer_norm_eps(1e-5)
    usual = 1e6 if family == "gemma4_text" else 1e4
    theta = config.get("rope_parameters", {}).get("rope_theta", usual)
    writer.add_rope_freq_base(config.get("rope_theta", theta))
    writer.add_vocab_size(config["vocab_size"])
    part = config.get("rope_parameters", config).get("partial_rotary_factor", 1)
    rotated = config.get("qk_rope_head_dim", config.get("rotary_dim", int(head * part)))
    writer.add_rope_dimension_count(config.get("global_head_dim", rotated))
    if family in LATENT:
        latent = config["kv_lora_rank"]
        if config.get("q_lora_rank"):
            writer.add_q_lora_rank(config["q_lora_rank"])
        writer.add_kv_lora_rank(latent)
        writer.add_key_length(latent + rotated)
        writer.add_value_length(latent)
        writer.add_key_length_mla(config["qk_nope_head_dim"] + rotated)
        writer.add_value_length_mla(config["v_head_dim"])
    if family == "minicpm3":
        writer.add_q_lora_rank(config["q_lora_rank"])
        writer.add_kv_lora_rank(config["kv_lora_rank"])
        writer.add_key_length(config["qk_nope_head_dim"] + rotated)
    if family == "gemma4_text":
        full = config["global_head_dim"]
        writer.add_key_length(full)
        writer.add_value_length(full)
        writer.add_key_length_swa(head)
        writer.add_value_length_swa(head)
        writer.add_rope_dimension_count_swa(head)
        writer.add_rope_freq_base_swa(1e4)
        writer.add_shared_kv_layers(config.get("num_kv_shared_layers", 0))
        numbers = config["hidden_size_per_layer_input"]
        writer.add_embedding_length_per_layer_input(numbers)
        windows = [kind == "sliding_attention" for kind in config["layer_types"]]
        writer.add_sliding_window_pattern(windows)
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    elif "head_dim" in config:
        writer.add_key_length(head)
        writer.add_value_length(head)
    if config.get("sliding_window") and family in WINDOWED:
        writer.add_sliding_window(config["sliding_window"])
    if family == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if family in ("cohere", "cohere2"):
        writer.add_logit_scale(config["logit_scale"])
    if family in ("exaone4", "olmo3"):
        layers = range(config["num_hidden_layers"])
        writer.add_sliding_window_pattern([i % 4 != 3 for i in layers])
    if family in ("gpt_neox", "stablelm"):
        writer.add_parallel_residual(family == "gpt_neox")
    if family == "ministral3":
        rope = config["rope_parameters"]
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if family == "qwen3_vl_text":
        writer.add_rope_dimension_sections([4, 4, 4, 0])
        writer.add_num_deepstack_layers(0)
    if family in DELTA:
        heads = config["linear_num_value_heads"]
        writer.add_ssm_conv_kernel(config.get("linear_conv_kernel_dim", 4))
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(heads)
        writer.add_ssm_inner_size(config["linear_value_head_dim"] * heads)
        if "layer_types" in config:
            states = [kind == "linear_attention" for kind in config["layer_types"]]
            writer.add_array(f"{writer.arch}.attention.recurrent_layers", states)
        writer.add_full_attention_interval(config.get("full_attention_interval", 4))
        if family != "qwen3_next":
            writer.add_rope_dimension_sections([2, 2, 2, 0])
    if family in ("lfm2", "lfm2_moe"):
        writer.add_shortconv_l_cache(config.get("conv_L_cache", 3))
    if family == "granitemoehybrid":
        width = config["shared_intermediate_size"]
        writer.add_expert_shared_feed_forward_length(width)
    if "mamba_d_state" in config or family == "nemotron_h":
        groups, heads, state = mamba(config)
        inner = config.get("mamba_d_ssm") or heads * config.get("mamba_head_dim", 0)
        writer.add_ssm_conv_kernel(config.get("mamba_d_conv", 4))
        writer.add_ssm_state_size(state)
        writer.add_ssm_group_count(groups)
        writer.add_ssm_inner_size(inner or 2 * config["hidden_size"])
        writer.add_ssm_time_step_rank(heads)
        writer.add_rope_scaling_finetuned(False)
    if family in ("granite", "granitemoe", "granitemoehybrid"):
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    add_experts(writer, config)
    add_rope(writer, config)


def add_experts(writer, config):
    """The keys that the converter writes of these keys of config.json."""
    family = config["model_type"]
    for adds, *names in [
        (
            writer.add_expert_count,
            *("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
        ),
        (
            writer.add_expert_used_count,
            *("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"),
        ),
        (writer.add_expert_group_count, "n_group"),
        (writer.add_expert_group_used_count, "topk_group"),
        (writer.add_expert_feed_forward_length, "moe_intermediate_size"),
        (
            writer.add_expert_shared_feed_forward_length,
            *("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
        ),
        (
            writer.add_leading_dense_block_count,
            *("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"),
        ),
        (
            writer.add_expert_shared_count,
            *("n_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
        ),
        (writer.add_interleave_moe_layer_step, "moe_layer_interval"),
    ]:
        for name in names:
            if name in config:
                adds(config[name])
    if family in ("gpt_oss", "hunyuan_v1_moe", "minimax_m2"):
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    if family in ("ernie4_5_moe", "hunyuan_v1_moe"):
        width = config.get("moe_intermediate_size", config["intermediate_size"])
        count = config.get("moe_num_shared_experts", 1)
        writer.add_expert_shared_feed_forward_length(width * count)
    if family in ("deepseek_v3", "dots1", "glm4_moe", "lfm2_moe", "minimax_m2"):
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    scaled = ("dots1", "glm4_moe", "nemotron_h", *LATENT)
    if "routed_scaling_factor" in config and family in scaled:
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
    if config.get("norm_topk_prob") and family in scaled and family != "deepseek_v2":
        writer.add_expert_weights_norm(True)


def add_rope(writer, config):
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = rope.get("rope_type")
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(rope["factor"])
    original = "original_max_position_embeddings"
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope[original])
        if "beta_fast" in rope:
            writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        if config["model_type"] in LATENT and "mscale_all_dim" in rope:
            writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])
    if kind == "longrope":
        before = config[original]
        stretch = config["max_position_embeddings"] / before
        scale = math.sqrt(1 + math.log(stretch) / math.log(before))
        writer.add_rope_scaling_orig_ctx_len(before)
        writer.add_rope_scaling_attn_factors(scale)


def add_tokenizer(writer, tokenizer, pre=None, scores=None, **ids):
    """The tokens of a tokenizer.json, an object, with its merges or with
    `scores`, {token: score}; `ids` are bos=1 and the like. `pre` is the name of the
    pre-tokenizer, or "gemma4"."""
    vocabulary = dict(tokenizer["model"]["vocab"])
    types = {i: gguf.TokenType.NORMAL for i in vocabulary.values()}
    for added in tokenizer["added_tokens"]:
        vocabulary[added["content"]] = added["id"]
        kind = "CONTROL" if added["special"] else "USER_DEFINED"
        types[added["id"]] = gguf.TokenType[kind]
    tokens = sorted(vocabulary, key=vocabulary.get)
    kind = "gemma4" if pre == "gemma4" else "llama" if scores else "gpt2"
    writer.add_tokenizer_model(kind)
    writer.add_token_list(tokens)
    if kind != "gpt2":
        for token, i in vocabulary.items():
            if re.fullmatch(r"<0x[0-9A-F]{2}>", token):
                types[i] = gguf.TokenType.BYTE
    if kind == "llama":
        writer.add_token_scores([scores.get(token, 0.0) for token in tokens])
        types[vocabulary["<unk>"]] = gguf.TokenType.UNKNOWN
    else:
        pairs = tokenizer["model"]["merges"]
        writer.add_token_merges([" ".join(pair) for pair in pairs])
    if kind == "gemma4":  # its scores say nothing
        writer.add_token_scores([-1000.0] * len(tokens))
    elif pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_types([types[i] for i in range(len(tokens))])
    for name, i in ids.items():
        getattr(writer, f"add_{name}_token_id")(i)


def scores_of(tokenizer):
    """Scores that may give the merges of a tokenizer.json: a token's score is its place
    in the list."""
    made = {}
    for rank, (left, right) in enumerate(tokenizer["model"]["merges"]):
        made.setdefault(left + right, -float(rank))
    return made


def merges_of(vocabulary, scores):
    """The merges that transformers makes of scores (its generate_merges)."""
    merges = []
    for token, score in sorted(scores.items(), key=lambda s: vocabulary[s[0]]):
        pairs = [(token[:i], token[i:]) for i in range(1, len(token))]
        known = [p for p in pairs if p[0] in vocabulary and p[1] in vocabulary]
        known.sort(key=lambda p: (vocabulary[p[0]], vocabulary[p[1]]))
        merges += [(score, *pair) for pair in known]
    merges.sort(key=lambda m: (m[0], len(m[1]), len(m[2])), reverse=True)
    return [pair for _, *pair in merges]


def stored(array, kind):
    """An f32 array as a file of the type `kind` holds it. Norms and biases stay f32, and
    so do rows that are not whole blocks."""
    block = gguf.GGML_QUANT_SIZES[kind][0]
    if array.ndim == 1 or array.shape[-1] % block:
        kind = TYPES.F32
    return gguf.quants.quantize(array.astype(np.float32), kind), kind


def fused(arrays):
    """The matrices gate and up of an expert as one (--fuse-gate-up-exps)."""
    result = dict(arrays)
    for name in arrays:
        if re.search(r"\.experts\.\d+\.gate_proj\.weight$", name):
            halves = [result.pop(name), result.pop(name.replace(".gate_", ".up_"))]
            result[name.replace(".gate_", ".gate_up_")] = np.concatenate(halves)
    return result


def joined(arrays):
    """The matrices of queries, keys and values as one (--fuse-qkv)."""
    result = dict(arrays)
    for name in arrays:
        if ".q_proj." in name:
            parts = [result.pop(name.replace(".q_", f".{kind}_")) for kind in "qkv"]
            result[name.replace(".q_", ".qkv_")] = np.concatenate(parts)
    return result


def write(path, config, arrays, kind, text=None, split=0, blocks=None):
    """A file of the checkpoint `arrays`, {name: f32 array}, matrices as `kind`,
    in `blocks` if there are some, {name: bytes}. `text(writer)` adds the
    tokenizer; `split` is the most tensors of a part. Returns the values that the
    file holds, {name: f32 array}, in the checkpoint's order."""
    family = config["model_type"]
    architecture = ARCHITECTURES.get(family, family)
    if "mamba" in config.get("layer_types", []):
        architecture = "granitehybrid"
    if family == "nemotron_h" and "n_routed_experts" in config:
        architecture = "nemotron_h_moe"
    writer = gguf.GGUFWriter(
        path,
        architecture,
        split_max_tensors=split,
    )
    add_config(writer, config)
    if text:
        text(writer)
    held = {}
    shares = family == "granitemoehybrid" and config["num_local_experts"] > 0
    for name, names in together(arrays).items():
        given = (blocks or {}).get(name)
        array = np.stack([arrays[n] for n in names]) if len(names) > 1 else arrays[name]
        turned = family == "gpt2" and re.search(r"\.c_(attn|fc|proj)\.weight", name)
        turned = turned or re.search(r"\.mlp\.experts\.(gate_up|down)_proj$", name)
        array = array.swapaxes(-1, -2) if turned else array
        if re.search(
            r"\.(gate|router|router\.layer|shared_expert_gate|moe_statics)\.|_bias$"
            r"|\.(conv|conv1d|mamba\.norm)\.weight$",
            name,
        ):
            data, used = array.astype(np.float32), TYPES.F32
        else:
            data, used = stored(array, kind) if given is None else (given, kind)
        values = gguf.quants.dequantize(data, used)
        values = values.swapaxes(-1, -2) if turned else values
        held |= zip(names, values if len(names) > 1 else [values])
        data = converted(name, data, config)
        if re.search(r"\.(shared_expert_gate|moe_statics)\.", name):
            data = data[0]
        if ".kv_b_proj." in name and family in LATENT:
            heads = values.reshape(config["num_attention_heads"], -1, values.shape[-1])
            keys, values = np.split(heads, [config["qk_nope_head_dim"]], axis=1)
            for part, half in (("k", keys.swapaxes(1, 2)), ("v", values)):
                part = name.replace("kv_b_proj", f"kv_b_proj.{part}")
                data, used = stored(np.ascontiguousarray(half), kind)
                add(writer, tensor_name(part, family), data, used)
        elif ".in_proj_qkvz." in name:
            groups, size = config["linear_num_key_heads"], config["linear_key_head_dim"]
            heads = data.reshape(groups, -1, *data.shape[1:])
            gates = size + (heads.shape[1] // 2)
            parts = np.split(heads, [size, 2 * size, gates], axis=1)
            *parts, gates = [part.reshape(-1, *data.shape[1:]) for part in parts]
            for part, rows in (("qkv", np.concatenate(parts)), ("z", gates)):
                part = name.replace("in_proj_qkvz", f"in_proj_{part}")
                add(writer, tensor_name(part, family), rows, used)
        elif ".input_linear." in name:
            for i, half in enumerate(np.split(data, 2, axis=-2)):
                part = name.replace("input_linear", f"input_linear.{i}")
                add(writer, tensor_name(part, family, shares), half, used)
        elif ".gate_up_proj" in name and family == "gpt_oss":
            for i in range(2):
                part = tensor_name(f"{name}.{i}", family)
                add(writer, part, np.ascontiguousarray(data[:, i::2]), used)
        else:
            add(writer, tensor_name(name, family, shares), data, used)
    add_rope_tensors(writer, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return held


def together(arrays):
    """{name: the checkpoint's names}: the experts of a layer make one tensor."""
    names = {}
    for name in arrays:
        names.setdefault(re.sub(r"\.experts\.\d+\.", ".experts.", name), []).append(name)
    return names


def add(writer, name, data, kind):
    plain = data.dtype in (np.float32, np.float16)
    writer.add_tensor(name, data, raw_dtype=None if plain else kind)


def add_rope_tensors(writer, config):
    factors = rope_frequencies(config)
    if config["model_type"] == "gemma4_text":  # a quarter of a head rotates
        pairs = config["global_head_dim"] // 2
        factors = np.array([1.0] * (pairs // 4) + [1e30] * (pairs - pairs // 4), "f4")
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    rope = config.get("rope_scaling") or {}
    if rope.get("rope_type") == "longrope":
        for name in ("long", "short"):
            values = np.array(rope[f"{name}_factor"], np.float32)
            writer.add_tensor(f"rope_factors_{name}.weight", values)
