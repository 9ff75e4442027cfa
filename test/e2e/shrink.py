"""shrink.py BIN SCRATCH: small versions of every family's config.

The config that cria-compile --shrink writes has the sizes that were asked for. All other
keys are unchanged unless they depend on these sizes, and one layer of each kind is left.
The small config compiles and runs.
"""

import json
import sys

import families
from harness import HERE, Tools, check, execute, some

# Keys that may differ from the config.
FOLLOWS = {
    "layers": {"num_hidden_layers", "layer_types", "no_rope_layers"}
    | {"no_rope_layer_interval", "max_window_layers"}
    | {"mlp_only_layers", "decoder_sparse_step", "first_k_dense_replace"}
    | {"moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"}
    | {"mlp_layer_types", "num_kv_shared_layers", "hybrid_override_pattern"},
    "hidden": {"hidden_size", "intermediate_size", "head_dim"}
    | {"shared_intermediate_size", "moe_intermediate_size"}
    | {"shared_expert_intermediate_size", "rotary_dim", "word_embed_proj_dim"}
    | {"kv_lora_rank", "q_lora_rank", "dim_model_base"}
    | {"num_attention_heads", "num_key_value_heads", "rope_scaling"}
    | {"global_head_dim", "num_global_key_value_heads"}
    | {"hidden_size_per_layer_input", "moe_shared_expert_intermediate_size"}
    | {"mamba_n_groups", "mamba_n_heads", "mamba_d_head", "mamba_d_ssm"}
    | {"n_groups", "mamba_num_heads", "mamba_head_dim"},
    "vocab": {"vocab_size_per_layer_input"}
    | {"vocab_size", "bos_token_id", "eos_token_id", "pad_token_id"},
}
SIZES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "vocab": "vocab_size",
}
# Families as they are published: layers that differ in kind, large ids.
LARGE = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 128256,
    "bos_token_id": 128000,
    "eos_token_id": [128001, 128009],
}


def configs():
    """{name: config}"""
    every = {"llama-small": families.FAMILIES["llama"]}
    for name in ("llama-2-70b", "llama-3.2-1b"):
        every[name] = json.loads((HERE / "Inputs" / f"{name}.json").read_text())
    longrope = HERE / "goldens" / "f32-phi3-longrope" / "config.json"
    every["phi3-longrope"] = json.loads(longrope.read_text())
    for name, config in families.FAMILIES.items():
        every[name] = config | LARGE
        for key in ("layer_types", "mlp_layer_types", "hybrid_override_pattern"):
            if key in config:
                every[name] |= {key: (config[key] * 8)[-LARGE["num_hidden_layers"] :]}
        if "kv_lora_rank" in config:
            every[name] |= {"num_key_value_heads": LARGE["num_attention_heads"]}
    mixed = {"layer_types": ["full_attention"] * 28 + ["sliding_attention"] * 4}
    every["qwen3-types"] = every["qwen3"] | mixed
    every["qwen3-types"] |= {"use_sliding_window": True, "sliding_window": 9}
    every["smollm3-list"] = every["smollm3"] | {
        "no_rope_layers": [1, 1, 1, 0] * 8
    }
    every["qwen2-window"] |= {"max_window_layers": 28}
    every["gemma4_text-embeddings"] |= {"vocab_size_per_layer_input": 128256}
    for name in ("gpt2", "gpt_neox", "opt"):  # have as many KV heads as heads
        every[name] |= {"num_key_value_heads": LARGE["num_attention_heads"]}
    every["gpt_bigcode"] |= {"num_key_value_heads": 1}
    every["opt"] |= {"word_embed_proj_dim": LARGE["hidden_size"]}
    every["dots1"] |= {"first_k_dense_replace": 0, "max_window_layers": 28}
    return every


def shrunk(tools, name, config, sizes):
    """The small config and its path."""
    whole = tools.scratch / f"{name}.json"
    small = tools.scratch / f"{name}-small.json"
    whole.write_text(json.dumps(families.in_own_names(config)))
    asked = ",".join(f"{key}={value}" for key, value in sizes.items())
    compiler = tools.bin / "cria-compile"
    execute([compiler, whole, f"--shrink={asked}", "-o", small]).ok()
    usual = {own: key for key, own in families.own_names(config).items()}
    # Older configs of lfm2 call these otherwise.
    usual |= {"block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"}
    config = json.loads(small.read_text())
    return {usual.get(key, key): value for key, value in config.items()}, small


def kinds(tools, path):
    """The kinds of layers in the program: windows, and layers without RoPE."""
    command = [tools.bin / "cria-compile", path, "--emit=import"]
    text = execute(command).ok().text
    attention = [line for line in text.splitlines() if "llama.gqa" in line]
    windows = {"window" in line for line in attention}
    # Queries are rotated, and the keys of layers that have keys.
    rotated = len(attention) + text.count("llama.kv_append") // 2
    return windows, text.count("llama.rope ") < rotated


def ids_of(config):
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        value = config.get(key)
        yield from value if isinstance(value, list) else [value]


def check_sizes(name, config, small, sizes):
    """The sizes that were asked for are changed, and nothing else."""
    for key, value in sizes.items():
        check(small[SIZES[key]] == value, f"{name}: {small}")
    may = set().union(*(FOLLOWS[key] for key in sizes))
    for key in small.keys() | config.keys():
        same = key in config and small.get(key) == config[key]
        check(same or key in may, f"{name}: '{key}' is {small.get(key)}")
    grouped = config["num_attention_heads"] > config["num_key_value_heads"]
    heads, shared = small["num_attention_heads"], small["num_key_value_heads"]
    check((heads > shared) == grouped and heads % shared == 0, f"{name}: heads")
    for old, new in zip(ids_of(config), ids_of(small)):
        check((old is None) == (new is None), f"{name}: {old} became {new}")
        check(new is None or 0 <= new < small["vocab_size"], f"{name}: id {new}")
    given = [set(ids_of(c)) - {None} for c in (config, small)]
    check(len(given[0]) == len(given[1]), f"{name}: ids {given}")


def check_family(tools, name, config):
    config = {"num_key_value_heads": config["num_attention_heads"], **config}
    sizes = {"layers": 2, "hidden": config["hidden_size"] // 2, "vocab": 128}
    if config["hidden_size"] > 512:
        sizes = {"layers": 2, "hidden": 64, "vocab": 512}
    if "hybrid_override_pattern" in config:  # layers of four kinds
        sizes["layers"] = 4
    if config["model_type"] == "qwen3_next":  # layers of three kinds
        sizes["layers"] = 3
    small, path = shrunk(tools, name, config, sizes)
    check_sizes(name, config, small, sizes)
    whole = tools.scratch / f"{name}.json"
    check(kinds(tools, path) == kinds(tools, whole), f"{name}: kinds of layers")
    # By plain loops, which compile in a third of the time: the model is what is tested.
    artifact = tools.compile(path, "--max-seq=256", "--plain", out=f"{name}.cria")
    ids = tools.greedy(artifact, [3, 1, 4], 4, "--random-weights=1")
    check(0 < len(ids) <= 4, f"{name}: {ids}")
    for key, value in sizes.items():
        one, _ = shrunk(tools, name, config, {key: value})
        check_sizes(name, config, one, {key: value})


def check_refusals(tools, config):
    path = tools.scratch / "whole.json"
    path.write_text(json.dumps(config))

    def refused(sizes, why, *flags):
        command = [tools.bin / "cria-compile", path, f"--shrink={sizes}"]
        run = execute([*command, *flags])
        wanted = f"cria-compile: error: --shrink: {why}"
        check(run.status == 1 and run.errors.startswith(wanted), run)
        check(run.errors.count("\n") == 1 and not run.out, run)

    refused("", ": expected layers=N, hidden=N or vocab=N")
    refused("depth=2", "depth=2: expected layers=N, hidden=N or vocab=N")
    refused("layers=5", "layers=5: expected 1 to 4, the config's number")
    refused("layers=0", "layers=0: expected 1 to 4")
    refused("vocab=x", "vocab=x: expected 1 to 320")
    refused("vocab", "vocab: expected 1 to 320")
    refused("hidden=32,layers=", "layers=: expected 1 to 4")
    refused("layers=2,layers=1", "layers=1: is given twice")
    refused("hidden=63", "hidden=63: no even head size from 8 on divides it")
    refused("hidden=4", "hidden=4: no even head size")
    refused("layers=2", "expected no --emit", "--emit=import")


def main():
    tools = Tools(*sys.argv[1:3])
    for name, config in some(configs().items(), 4):
        check_family(tools, name, config)
    check_refusals(tools, families.FAMILIES["llama"])
    # Without -o, to standard output.
    command = [tools.bin / "cria-compile", tools.scratch / "whole.json"]
    text = execute([*command, "--shrink=layers=1"]).ok().text
    check(json.loads(text)["num_hidden_layers"] == 1, text)


main()
