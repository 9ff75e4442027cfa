"""The tiny models of the goldens and their config.json."""

import dataclasses

import families

GREEDY = 24  # tokens of a greedy continuation
SHORT = 33  # tokens of a short prompt
LONG = 300  # tokens of a long one: more than a prefill chunk

BASE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 172,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-05,
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
ODD = {
    "vocab_size": 509,
    "hidden_size": 72,
    "head_dim": 24,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 173,
}
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


@dataclasses.dataclass
class Case:
    """One model: `base` with `changes`, in one or both spellings of the keys.

    config.json is in the older spelling of transformers 4. `both_spellings` adds
    a file in the spelling of transformers 5, with the same meaning.
    """

    dtype: str
    changes: dict = dataclasses.field(default_factory=dict)
    theta: float = 10000.0
    scaling: dict | None = None
    tokens: int = SHORT
    greedy_from: int = 7  # tokens of the prompt that are continued greedily
    both_spellings: bool = False
    drop: tuple = ()
    base: dict = dataclasses.field(default_factory=lambda: BASE)

    @property
    def config(self):
        older = {
            "rope_theta": self.theta,
            "rope_scaling": self.scaling,
            "torch_dtype": DTYPES[self.dtype],
        }
        merged = self.base | self.changes | older
        kept = {k: v for k, v in merged.items() if k not in self.drop}
        return families.in_own_names(kept)

    def configs(self):
        """{file name: config.json}. All mean the same."""
        files = {"config.json": self.config}
        if self.both_spellings:
            rope = self.scaling or {"rope_type": "default"}
            files["config-v5.json"] = self.base | self.changes | {
                "rope_parameters": rope | {"rope_theta": self.theta},
                "dtype": DTYPES[self.dtype],
            }
        return files

    def rows(self):
        """The positions whose logits are kept."""
        every = range(self.tokens) if self.dtype != "f32" else range(12)
        edges = [31, 32, 63, 64, 127, 128, 129, 200, 255, 256, 257, 280, 299]
        first = range(SHORT) if self.tokens > SHORT else every
        return sorted({row for row in [*first, *edges] if row < self.tokens})


def family(name, dtype="f32", scaling=None, greedy_from=7, **changes):
    """A case of a family, longer than its window; few ids keep it small."""
    changes = {"vocab_size": 128, "eos_token_id": 2} | changes
    base = families.FAMILIES[name]
    return Case(
        dtype,
        changes,
        scaling=scaling,
        tokens=LONG,
        greedy_from=greedy_from,
        base=base,
    )


SMALL_HEADS = {"head_dim": 6, "global_head_dim": 8}


def own_rope(name, **changes):
    """A case of a family whose config has a rope of its own."""
    case = family(name, **changes)
    return dataclasses.replace(case, drop=("rope_theta", "rope_scaling"))


def alone(name):
    """A case of a family that differs from Llama in its modules, not in its rope."""
    return family(name, scaling=families.FAMILIES[name].get("rope_scaling"))


# Matrices that tensor cores update by chunks of tokens.
RULE = {
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 64,
    "num_hidden_layers": 2,
    "full_attention_interval": 2,
}
SCAN = {
    "layer_types": ["mamba", "attention"],
    "mamba_n_heads": 2,
    "mamba_d_head": 64,
    "mamba_d_state": 32,
    "num_hidden_layers": 2,
}

PHI3 = {
    "scaling": {
        "type": "longrope",
        "short_factor": [1.0 + 0.1 * i for i in range(6)],
        "long_factor": [1.0 + 1.1 * i for i in range(6)],
    },
    "original_max_position_embeddings": families.ORIGINAL,
}


CASES = {
    "f32-multi-head": Case("f32", both_spellings=True),
    "f32-grouped-tied": Case(
        "f32",
        {"num_attention_heads": 8, "num_key_value_heads": 2}
        | {"tie_word_embeddings": True},
        tokens=LONG,
    ),
    "f32-multi-query": Case("f32", {"num_key_value_heads": 1}),
    "f32-odd": Case("f32", ODD),
    "f32-wide-heads": Case("f32", {"head_dim": 48, "num_key_value_heads": 2}),
    "f32-llama3-rope": Case(
        "f32",
        {"num_key_value_heads": 2},
        theta=500000.0,
        scaling=LLAMA3,
        tokens=LONG,
        both_spellings=True,
    ),
    "f32-bias": Case("f32", {"attention_bias": True, "mlp_bias": True}),
    "f32-defaults": Case(
        "f32",
        drop=("num_key_value_heads", "rms_norm_eps", "hidden_act")
        + ("max_position_embeddings", "attention_bias", "mlp_bias")
        + ("tie_word_embeddings", "rope_theta", "rope_scaling", "torch_dtype"),
    ),
    "bf16-multi-head": Case("bf16"),
    "bf16-llama3-rope-tied": Case(
        "bf16",
        {"num_attention_heads": 8, "num_key_value_heads": 2}
        | {"tie_word_embeddings": True},
        theta=500000.0,
        scaling=LLAMA3,
        tokens=LONG,
    ),
    "bf16-multi-query-bias": Case(
        "bf16",
        {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True},
        both_spellings=True,
    ),
    "bf16-odd": Case("bf16", ODD),
    "f16-grouped": Case("f16", {"num_key_value_heads": 2}, tokens=LONG),
    "f16-odd-tied": Case("f16", ODD | {"tie_word_embeddings": True}),
    "f32-mistral-window": family("mistral"),
    "f32-qwen2-window": family("qwen2-window"),
    "f32-qwen3-yarn": family("qwen3", scaling=families.rope("yarn")),
    # Generation goes beyond the original positions.
    "f32-phi3-longrope": family("phi3", greedy_from=57, **PHI3),
    "f32-smollm3": family("smollm3"),
    "f32-granite": family("granite"),
    "f32-olmo2-linear": family("olmo2", scaling=families.rope("linear")),
    "f32-gemma": family("gemma"),
    "f32-gemma2": family("gemma2"),
    "f32-dynamic-rope": family(
        "llama",
        scaling=families.rope("dynamic"),
        max_position_embeddings=families.ORIGINAL,
    ),
    "f32-qwen3_5_text": own_rope("qwen3_5_text"),
    **{f"f32-{name}": alone(name) for name in families.OTHERS},
    "f32-ministral3": own_rope("ministral3"),
    # Scores have no factor: larger heads would make a random model's answers depend on
    # the rounding of its numbers.
    "f32-gemma4_text-experts": own_rope("gemma4_text-experts", **SMALL_HEADS),
    "f32-gemma4_text-embeddings": own_rope(
        "gemma4_text-embeddings",
        num_hidden_layers=5,
        num_kv_shared_layers=2,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"]
        + ["sliding_attention", "full_attention"],
        **SMALL_HEADS,
    ),
    "bf16-qwen3": family("qwen3", "bf16"),
    "bf16-olmo2": family("olmo2", "bf16"),
    "bf16-gemma2": family("gemma2", "bf16"),
    "bf16-granite": family("granite", "bf16"),
    "bf16-qwen3_5_text": own_rope("qwen3_5_text", dtype="bf16", **RULE),
    "bf16-qwen3_next": family("qwen3_next", "bf16", mlp_only_layers=[0], **RULE),
    "bf16-granitemoehybrid": family("granitemoehybrid-mamba", "bf16", **SCAN),
}
