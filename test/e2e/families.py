"""Small models of every family and every kind of RoPE. fidelity.py and the goldens
compare them with transformers.
"""

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 172,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}
# Scaled RoPE changes texts that are longer than this.
ORIGINAL = 64
ROPES = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": ORIGINAL},
    "yarn-mscale": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": ORIGINAL,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 0.7,
        "mscale_all_dim": 1.2,
        "truncate": False,
    },
    "longrope": {
        "factor": 8.0,
        "original_max_position_embeddings": ORIGINAL,
        "short_factor": [1.0 + 0.05 * i for i in range(8)],
        "long_factor": [1.0 + 0.9 * i for i in range(8)],
    },
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
}


def rope(name, **more):
    """rope_scaling of one kind."""
    return {"rope_type": name} | ROPES[name] | more


MROPE = {"rope_theta": 1e6, "mrope_interleaved": True, "mrope_section": [2, 2, 2]}


def config(family, changes, **more):
    return SMALL | {"model_type": family} | changes | more


GEMMA4 = {
    "head_dim": 24,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "num_hidden_layers": 7,
    "layer_types": 2 * [*2 * ["sliding_attention"], "full_attention"]
    + ["full_attention"],
    "sliding_window": 24,
    "hidden_size_per_layer_input": 0,
    "final_logit_softcapping": 1.5,
    "tie_word_embeddings": True,
}

MAMBA = {
    "embedding_multiplier": 12.0,
    "attention_multiplier": 0.11,
    "residual_multiplier": 0.22,
    "logits_scaling": 0.4,
    "shared_intermediate_size": 172,
    "num_local_experts": 0,
    "num_hidden_layers": 6,
    "layer_types": 2 * ["mamba", "mamba", "attention"],
    "mamba_n_heads": 8,
    "mamba_d_state": 20,
}

FALCON = {
    "head_dim": 24,
    "mamba_d_ssm": 96,
    "mamba_n_heads": 6,
    "mamba_d_state": 20,
    "mamba_n_groups": 2,
    "embedding_multiplier": 5.6,
    "lm_head_multiplier": 0.4,
    "attention_in_multiplier": 1.2,
    "attention_out_multiplier": 0.9,
    "key_multiplier": 0.4,
    "mlp_multipliers": [0.8, 0.6],
    "ssm_in_multiplier": 1.25,
    "ssm_multipliers": [0.4, 0.3, 0.6, 0.5, 0.7],
    "ssm_out_multiplier": 0.3,
}

# The special features of each family in small sizes: windows are shorter than prompts.
FAMILIES = {
    "llama": config("llama", {"rms_norm_eps": 1e-5}),
    "mistral": config("mistral", {"sliding_window": 24, "head_dim": 24}),
    "qwen2": config("qwen2", {}),
    "qwen2-window": config(
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 24}
        | {"max_window_layers": 1},
    ),
    "qwen3": config("qwen3", {"head_dim": 24}),
    "phi3": config(
        "phi3",
        {"sliding_window": 48, "partial_rotary_factor": 0.75}
        | {"rms_norm_eps": 1e-5, "original_max_position_embeddings": 512},
    ),
    "smollm3": config(
        "smollm3", {"num_hidden_layers": 5, "no_rope_layer_interval": 2}
    ),
    "granite": config(
        "granite",
        {"embedding_multiplier": 12.0, "attention_multiplier": 0.11}
        | {"residual_multiplier": 0.22, "logits_scaling": 0.4}
        | {"attention_bias": True, "mlp_bias": True},
    ),
    "olmo2": config("olmo2", {"rms_norm_eps": 1e-5}),
    "gemma": config(
        "gemma",
        {"head_dim": 24, "num_key_value_heads": 1}
        | {"tie_word_embeddings": True},
    ),
    "gemma2": config(
        "gemma2",
        {"head_dim": 24, "sliding_window": 24, "query_pre_attn_scalar": 20}
        | {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 1.5}
        | {"tie_word_embeddings": True, "num_hidden_layers": 5},
    ),
    # Other norms, MLPs, biases, ropes and windows than Llama's.
    "arcee": config("arcee", {"head_dim": 24, "rms_norm_eps": 1e-5}),
    "exaone4": config("exaone4", {"head_dim": 24, "sliding_window": 24}),
    "gemma3_text": config(
        "gemma3_text",
        {"head_dim": 24, "sliding_window": 24, "query_pre_attn_scalar": 20}
        | {"sliding_window_pattern": 3, "num_hidden_layers": 7}
        | {"tie_word_embeddings": True},
    ),
    # Heads and caches of two shapes; then experts beside the MLP; then embeddings of
    # each layer, and layers that read others' keys and values.
    "gemma4_text": config("gemma4_text", GEMMA4),
    "gemma4_text-experts": config(
        "gemma4_text",
        GEMMA4
        | {"enable_moe_block": True, "num_experts": 6, "top_k_experts": 3}
        | {"moe_intermediate_size": 40},
    ),
    "gemma4_text-embeddings": config(
        "gemma4_text",
        GEMMA4
        | {"attention_k_eq_v": False, "num_hidden_layers": 9}
        | {"layer_types": 3 * GEMMA4["layer_types"][:3]}
        | {"hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 320}
        | {"num_kv_shared_layers": 3, "use_double_wide_mlp": True},
    ),
    "granitemoehybrid": config(
        "granitemoehybrid",
        {"embedding_multiplier": 12.0, "attention_multiplier": 0.11}
        | {"residual_multiplier": 0.22, "logits_scaling": 0.4}
        | {"shared_intermediate_size": 172, "position_embedding_type": "rope"}
        | {"num_local_experts": 0, "layer_types": ["attention"] * 4}
        | {"mamba_n_heads": 8},
    ),
    # Mamba in place of attention; then experts beside the MLP.
    "granitemoehybrid-mamba": config("granitemoehybrid", MAMBA),
    "granitemoehybrid-experts": config(
        "granitemoehybrid",
        MAMBA
        | {"mamba_n_groups": 2, "intermediate_size": 40}
        | {"num_local_experts": 6, "num_experts_per_tok": 3},
    ),
    "hunyuan_v1_dense": config(
        "hunyuan_v1_dense",
        {"head_dim": 24}
        | {"rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1000.0}},
    ),
    "internlm3": config("internlm3", {"head_dim": 24}),
    "jais2": config("jais2", {"head_dim": 24}),
    "ministral3": config(
        "ministral3",
        {"head_dim": 24}
        | {
            "rope_parameters": rope("yarn", mscale=1.0, mscale_all_dim=1.0)
            | {"rope_theta": 1e6, "original_max_position_embeddings": 512}
            | {"llama_4_scaling_beta": 0.1}
        },
    ),
    # Convolutions in place of attention, in a pattern that does not repeat.
    "lfm2": config(
        "lfm2",
        {"num_hidden_layers": 6, "tie_word_embeddings": True}
        | {"block_auto_adjust_ff_dim": False, "conv_bias": True}
        | {"layer_types": ["conv"] * 2 + ["full_attention", "conv"] * 2}
        | {"norm_eps": 1e-5},
    ),
    # Of the first layers, which are convolutions, only one has no experts.
    "lfm2_moe": config(
        "lfm2_moe",
        {"num_hidden_layers": 6, "tie_word_embeddings": True, "norm_eps": 1e-5}
        | {"layer_types": ["conv"] * 2 + ["full_attention", "conv"] * 2}
        | {"num_dense_layers": 1, "moe_intermediate_size": 40, "num_experts": 8}
        | {"num_experts_per_tok": 3, "routed_scaling_factor": 1.5},
    ),
    "olmo": config("olmo", {}),
    "olmo3": config(
        "olmo3", {"sliding_window": 24, "rope_scaling": rope("yarn")}
    ),
    "phi": config("phi", {}),
    "qwen3_vl_text": config("qwen3_vl_text", {"head_dim": 24}),
    "qwen3_5_text": config(
        "qwen3_5_text",
        {"head_dim": 24, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
        | {"linear_key_head_dim": 12, "linear_value_head_dim": 20}
        | {"num_hidden_layers": 6, "full_attention_interval": 3}
        | {"rope_parameters": rope("default", partial_rotary_factor=0.5) | MROPE},
    ),
    "qwen3_5_moe_text": config(
        "qwen3_5_moe_text",
        {"head_dim": 24, "linear_num_key_heads": 2, "linear_num_value_heads": 2}
        | {"linear_key_head_dim": 12, "linear_value_head_dim": 12}
        | {"layer_types": ["linear_attention", "full_attention"] * 2}
        | {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40}
        | {"shared_expert_intermediate_size": 56}
        | {"rope_parameters": rope("default", partial_rotary_factor=0.5) | MROPE},
    ),
    # Two heads share a key. The first layer of three has no experts. Of shorter keys some
    # are so near zero that half a last place of the weights decides what they become.
    "qwen3_next": config(
        "qwen3_next",
        {"head_dim": 24, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
        | {"linear_key_head_dim": 24, "linear_value_head_dim": 20}
        | {"num_hidden_layers": 6, "full_attention_interval": 3}
        | {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40}
        | {"shared_expert_intermediate_size": 56, "mlp_only_layers": [0, 3]}
        | {"partial_rotary_factor": 0.5, "rope_theta": 1e6},
    ),
    "seed_oss": config("seed_oss", {"head_dim": 24}),
    "stablelm": config("stablelm", {"use_qkv_bias": True}),
    "starcoder2": config("starcoder2", {"sliding_window": 24}),
    # A row for each position in place of rope.
    "gpt2": config("gpt2", {"tie_word_embeddings": True}),
    "gpt_bigcode": config(
        "gpt_bigcode", {"tie_word_embeddings": True, "num_key_value_heads": 1}
    ),
    "opt": config("opt", {"tie_word_embeddings": True, "word_embed_proj_dim": 64}),
    "gpt_neox": config("gpt_neox", {}),
    # Rope of neighbours, and layer norms with 1 + weight.
    "cohere": config("cohere", {"logit_scale": 0.4, "tie_word_embeddings": True}),
    "cohere2": config(
        "cohere2",
        {"logit_scale": 0.4, "tie_word_embeddings": True}
        | {"sliding_window": 24, "sliding_window_pattern": 2},
    ),
    "ernie4_5": config("ernie4_5", {"head_dim": 24, "use_bias": True}),
    "glm": config("glm", {"head_dim": 24, "eos_token_id": []}),
    "glm4": config("glm4", {"head_dim": 24, "eos_token_id": []}),
    "helium": config("helium", {"head_dim": 16}),
    "nemotron": config("nemotron", {}),
    # Attention and Mamba side by side, and factors; then a norm after the scan.
    "falcon_h1": config("falcon_h1", FALCON),
    "falcon_h1-norm": config(
        "falcon_h1", FALCON | {"mamba_rms_norm": True, "ssm_multipliers": None}
    ),
    # A layer is Mamba, attention, an MLP or a mixture of experts.
    "nemotron_h": config(
        "nemotron_h",
        {"head_dim": 24, "hybrid_override_pattern": "M-ME*M-ME*M-"}
        | {"num_hidden_layers": 12, "mamba_num_heads": 8, "mamba_head_dim": 12}
        | {"n_groups": 4, "ssm_state_size": 20, "time_step_min": 1e-9}
        | {"n_routed_experts": 6, "num_experts_per_tok": 3, "n_group": 2}
        | {"topk_group": 1, "routed_scaling_factor": 1.5}
        | {"moe_intermediate_size": 40, "moe_shared_expert_intermediate_size": 56},
    ),
    # Mixtures of experts.
    "mixtral": config(
        "mixtral",
        {"sliding_window": 24, "num_local_experts": 4, "intermediate_size": 48},
    ),
    "qwen3_moe": config(
        "qwen3_moe",
        {"head_dim": 24, "moe_intermediate_size": 40, "mlp_only_layers": [0]}
        | {"num_experts": 6, "num_experts_per_tok": 3, "norm_topk_prob": True},
    ),
    "qwen3_moe-given": config(
        "qwen3_moe",
        {"head_dim": 24, "moe_intermediate_size": 40, "norm_topk_prob": False}
        | {"num_experts": 6, "num_experts_per_tok": 3}
        | {"use_sliding_window": True, "sliding_window": 24},
    ),
    "olmoe": config("olmoe", {"num_experts": 12, "intermediate_size": 24}),
    "qwen2_moe": config(
        "qwen2_moe",
        {"moe_intermediate_size": 40, "shared_expert_intermediate_size": 56}
        | {"num_experts": 6, "decoder_sparse_step": 1, "mlp_only_layers": [0, 1]},
    ),
    "granitemoe": config(
        "granitemoe",
        {"embedding_multiplier": 12.0, "attention_multiplier": 0.11}
        | {"residual_multiplier": 0.22, "logits_scaling": 0.4}
        | {"attention_bias": True, "intermediate_size": 40},
    ),
    "glm4_moe": config(
        "glm4_moe",
        {"head_dim": 24, "moe_intermediate_size": 24, "use_qk_norm": True}
        | {"n_routed_experts": 12, "num_experts_per_tok": 4, "n_shared_experts": 2}
        | {"n_group": 3, "topk_group": 2, "routed_scaling_factor": 1.5}
        | {"attention_bias": True},
    ),
    # Layers with and without experts take turns.
    "ernie4_5_moe": config(
        "ernie4_5_moe",
        {"head_dim": 24, "moe_intermediate_size": 40, "use_bias": True}
        | {"moe_num_experts": 6, "moe_k": 3, "moe_num_shared_experts": 2}
        | {"moe_layer_start_index": 1, "moe_layer_end_index": 3}
        | {"moe_layer_interval": 2, "moe_norm_min": 0.6, "num_hidden_layers": 5},
    ),
    "hunyuan_v1_moe": config(
        "hunyuan_v1_moe",
        {"head_dim": 24, "intermediate_size": 40, "num_experts": 6, "moe_topk": 3}
        | {"rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1000.0}},
    ),
    "gpt_oss": config(
        "gpt_oss",
        {"head_dim": 16, "intermediate_size": 40, "sliding_window": 24}
        | {"num_local_experts": 6, "num_experts_per_tok": 3}
        | {"swiglu_limit": 1.5, "rope_scaling": rope("yarn", truncate=False)},
    ),
    "minimax_m2": config(
        "minimax_m2",
        {"head_dim": 24, "intermediate_size": 40, "rotary_dim": 12}
        | {"num_local_experts": 6, "num_experts_per_tok": 3},
    ),
    # Latent attention.
    "deepseek_v2": config(
        "deepseek_v2",
        {"kv_lora_rank": 32, "q_lora_rank": None, "v_head_dim": 24}
        | {"qk_nope_head_dim": 16, "qk_rope_head_dim": 8}
        | {"num_key_value_heads": 4, "first_k_dense_replace": 1}
        | {"moe_intermediate_size": 24, "n_routed_experts": 12}
        | {"num_experts_per_tok": 4, "n_shared_experts": 2}
        | {"topk_method": "group_limited_greedy", "n_group": 3, "topk_group": 2}
        | {"routed_scaling_factor": 1.5, "rope_scaling": rope("yarn-mscale")},
    ),
    "deepseek_v3": config(
        "deepseek_v3",
        {"kv_lora_rank": 48, "q_lora_rank": 40, "v_head_dim": 16}
        | {"qk_nope_head_dim": 24, "qk_rope_head_dim": 16}
        | {"num_key_value_heads": 4, "first_k_dense_replace": 2}
        | {"moe_intermediate_size": 24, "n_routed_experts": 12}
        | {"num_experts_per_tok": 4, "n_shared_experts": 1}
        | {"n_group": 3, "topk_group": 2, "attention_bias": True},
    ),
    "glm4_moe_lite": config(
        "glm4_moe_lite",
        {"kv_lora_rank": 48, "q_lora_rank": 40, "v_head_dim": 32}
        | {"qk_nope_head_dim": 24, "qk_rope_head_dim": 8}
        | {"num_key_value_heads": 4, "rope_interleave": False}
        | {"mlp_layer_types": ["sparse", "dense", "sparse", "sparse"]}
        | {"moe_intermediate_size": 24, "n_routed_experts": 6}
        | {"num_experts_per_tok": 2},
    ),
    "minicpm3": config(
        "minicpm3",
        {"kv_lora_rank": 32, "q_lora_rank": 40, "qk_nope_head_dim": 16}
        | {"qk_rope_head_dim": 8, "num_key_value_heads": 4}
        | {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 24},
    ),
    "dots1": config(
        "dots1",
        {"head_dim": 24, "moe_intermediate_size": 24, "first_k_dense_replace": 2}
        | {"n_routed_experts": 6, "num_experts_per_tok": 2, "n_shared_experts": 1}
        | {"sliding_window": 24, "max_window_layers": 3},
    ),
}

GPT_NAMES = {
    "hidden_act": "activation_function",
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "layer_norm_eps": "layer_norm_epsilon",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}


def own_names(config):
    """What its family calls keys, by the usual names."""
    opt = {"intermediate_size": "ffn_dim"}
    neox = {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}
    families = {"gpt2": GPT_NAMES, "gpt_bigcode": GPT_NAMES, "gpt_neox": neox, "opt": opt}
    return families.get(config["model_type"], {})


def in_own_names(config):
    names = own_names(config)
    return {names.get(key, key): value for key, value in config.items()}


# Families with a golden each, beside those that are written down in cases.py.
OTHERS = [
    *("deepseek_v2", "deepseek_v3", "minicpm3"),
    *("arcee", "cohere", "cohere2", "dots1", "ernie4_5", "ernie4_5_moe", "exaone4"),
    *("gemma3_text", "glm", "glm4", "glm4_moe", "gpt2", "gpt_neox", "gpt_oss", "granitemoe", "granitemoehybrid", "helium", "hunyuan_v1_dense", "jais2", "lfm2", "lfm2_moe"),
    *("falcon_h1", "granitemoehybrid-experts", "nemotron_h"),
    *("mixtral", "nemotron", "olmo", "olmo3", "olmoe", "opt", "phi", "qwen2_moe"),
    *("qwen3_moe", "qwen3_moe-given", "qwen3_next", "seed_oss", "stablelm", "starcoder2"),
]


def text_of(name):
    """The text_config of a family."""
    return FAMILIES[name] | {"model_type": name}


QWEN_VISION = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "depth": 1,
    "num_heads": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 16,
}
QWEN_TOKENS = {
    "image_token_id": 319,
    "video_token_id": 318,
    "vision_start_token_id": 316,
    "vision_end_token_id": 317,
}

# Models that read images, too: their text is a family of its own. Compiled is the text.
COMPOSITES = {
    "gemma3": {
        "model_type": "gemma3",
        "text_config": text_of("gemma3_text"),
        "vision_config": {
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 28,
            "patch_size": 14,
        },
        "mm_tokens_per_image": 4,
        "image_token_index": 319,
        "boi_token_index": 317,
        "eoi_token_index": 318,
    },
    "gemma4": {
        "model_type": "gemma4",
        "text_config": text_of("gemma4_text"),
        "vision_config": None,
        "audio_config": None,
    },
    "mistral3": {
        "model_type": "mistral3",
        "text_config": text_of("ministral3"),
        "vision_config": {
            "model_type": "pixtral",
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "head_dim": 8,
            "image_size": 28,
            "patch_size": 14,
        },
        "image_token_index": 319,
        "tie_word_embeddings": False,
    },
    "qwen3_vl": {
        "model_type": "qwen3_vl",
        "text_config": text_of("qwen3_vl_text")
        | {
            "rope_scaling": {
                "rope_type": "default",
                "mrope_interleaved": True,
                "mrope_section": [4, 4, 4],
            },
            "rope_theta": 5e6,
        },
        "vision_config": QWEN_VISION | {"deepstack_visual_indexes": [0]},
    }
    | QWEN_TOKENS,
    "qwen3_5": {
        "model_type": "qwen3_5",
        "text_config": text_of("qwen3_5_text") | {"num_hidden_layers": 3},
        "vision_config": QWEN_VISION,
    }
    | QWEN_TOKENS,
}
