"""gguf_models.py BIN SCRATCH [NAME...]: a GGUF file gives the results of the checkpoint
that it was made from.

Small random models of every family are compiled and run from a GGUF file. Their logits
are those of config.json and safetensors, bit for bit. Quantized tensors (NAME is their
type) give the logits of the values that gguf's own Python package reads. A file in parts
(NAME is "parts") gives the logits of the whole file.
"""

import json
import re
import sys

import gguf
import numpy as np

import families
import gguf_files
import weights
from gguf_files import TYPES
from harness import Tools, check, execute, nmse, some

IDS = [1, 5, 9, 200, 33, 7, 7, 12]
ROUNDED = 5e-4  # NMSE of products that round rows to integers of 8 bits
# Of logits in f32: files have -exp(A_log), and gates of Qwen 3 Next apart. Weights of
# Falcon-H1 hold the factors of what they read and make.
NEARLY, TYPE = 5e-6, dict.fromkeys(["falcon_h1", "falcon_h1-norm", "qwen3_next"], ["f32"])
# Their names in families of layer norms; OLMo 1 has none.
EPSILONS = dict.fromkeys(
    ["cohere", "cohere2", "gpt2", "gpt_bigcode", "gpt_neox", "jais2", "phi", "stablelm"],
    "layer_norm_eps",
) | {"olmo": "", "starcoder2": "norm_epsilon"}
EPSILONS["nemotron_h"] = "layer_norm_epsilon"
EPSILONS |= dict.fromkeys(["lfm2", "lfm2_moe", "nemotron"], "norm_eps")
PLAIN = {"f32": TYPES.F32, "f16": TYPES.F16, "bf16": TYPES.BF16}


def family(name, **changes):
    """Says what a file says, too, and families have different defaults for."""
    eps = EPSILONS.get(name, "rms_norm_eps")
    config = {eps: 1e-6, "rope_theta": 1e4, "dtype": "float32"}
    config.pop("", None)
    config |= families.FAMILIES[name] | changes
    config = {key: value for key, value in config.items() if value is not None}
    return config | {"bos_token_id": None, "pad_token_id": None}


def rope(name, **changes):
    original = {"original_max_position_embeddings": families.ORIGINAL}
    scaling = families.rope(name)
    outer = {}
    if name == "longrope":
        scaling = {k: v for k, v in scaling.items() if k not in original}
        scaling.pop("factor")
        outer = original
    return family("llama", rope_scaling=scaling, **outer, **changes)


# What a file says and what it does not: gemma2's query_pre_attn_scalar is the
# size of a head, SmolLM3's layers without rope are every fourth.
MODELS = {
    "llama": family("llama"),
    "llama-tied": family("llama", tie_word_embeddings=True),
    "llama-biases": family("llama", attention_bias=True, mlp_bias=True),
    "llama3": rope("llama3"),
    "linear": rope("linear"),
    "yarn": rope("yarn"),
    "longrope": rope("longrope"),
    "mistral": family("mistral"),
    "qwen2": family("qwen2"),
    "qwen3": family("qwen3"),
    "phi3": family("phi3"),
    "smollm3": family("smollm3", no_rope_layer_interval=4, rope_theta=2e6),
    "granite": family("granite"),
    "olmo2": family("olmo2"),
    "gemma": family("gemma"),
    "gemma2": family("gemma2", query_pre_attn_scalar=24),
    "gemma3": family(
        "gemma3_text",
        query_pre_attn_scalar=24,
        sliding_window_pattern=6,
        rope_theta=1e6,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
    ),
    "gemma4": family("gemma4_text", rope_theta=None),
    "gemma4-experts": family("gemma4_text-experts", rope_theta=None),
    "gemma4-embeddings": family(
        "gemma4_text-embeddings", num_global_key_value_heads=None, rope_theta=None
    ),
    "arcee": family("arcee"),
    "seed_oss": family("seed_oss"),
    "cohere": family("cohere"),
    "cohere2": family("cohere2", sliding_window_pattern=4),
    "ernie4_5": family("ernie4_5"),
    "exaone4": family("exaone4"),
    "falcon_h1": family("falcon_h1"),
    "falcon_h1-norm": family("falcon_h1-norm", mamba_norm_before_gate=False),
    "glm": family("glm", head_dim=16, partial_rotary_factor=0.5),
    "glm-joined": family("glm", head_dim=16, partial_rotary_factor=0.5),
    "glm4": family("glm4", partial_rotary_factor=0.5),
    "gpt2": family("gpt2", num_key_value_heads=None),
    "gpt_bigcode": family("gpt_bigcode"),
    "gpt_neox": family(
        "gpt_neox", num_key_value_heads=None, partial_rotary_factor=0.5
    ),
    "granitemoehybrid": family("granitemoehybrid", intermediate_size=96),
    "granitemoehybrid-mamba": family(
        "granitemoehybrid-mamba", intermediate_size=172, position_embedding_type="nope"
    ),
    "granitemoehybrid-experts": family(
        "granitemoehybrid-experts", position_embedding_type="nope"
    ),
    # A file has the base that alpha stretches.
    "hunyuan_v1_dense": family(
        "hunyuan_v1_dense", rope_scaling=None, rope_theta=11158840.0
    ),
    "jais2": family("jais2"),
    "lfm2": family("lfm2"),
    "lfm2_moe": family("lfm2_moe", routed_scaling_factor=1.0),
    "minicpm3": family("minicpm3", dim_model_base=256),
    "ministral3": family("ministral3", rope_theta=None),
    "nemotron": family("nemotron", partial_rotary_factor=0.5),
    "nemotron_h": family(
        "nemotron_h",
        hybrid_override_pattern="M-M*-M-M*-M-",
        **dict.fromkeys(["n_routed_experts", "num_experts_per_tok", "n_group"]),
        **dict.fromkeys(["topk_group", "moe_intermediate_size"]),
        **dict.fromkeys(["moe_shared_expert_intermediate_size", "rope_theta"]),
        routed_scaling_factor=None,
    ),
    "nemotron_h-experts": family(
        "nemotron_h",
        hybrid_override_pattern="MEM*EMEM*EME",
        intermediate_size=40,
        norm_topk_prob=True,
        rope_theta=None,
    ),
    "olmo": family("olmo"),
    # transformers' windows have the base 5e5, whatever rope_theta says.
    "olmo3": family("olmo3", rope_theta=5e5),
    "phi": family("phi", partial_rotary_factor=0.5),
    "qwen3_5_moe_text": family(
        "qwen3_5_moe_text", rope_theta=None, linear_num_value_heads=6
    ),
    "qwen3_5_moe_text-fused": family("qwen3_5_moe_text", rope_theta=None),
    "qwen3_5_text": family("qwen3_5_text", rope_theta=None),
    "qwen3_next": family("qwen3_next", norm_topk_prob=True),
    "qwen3_vl_text": family("qwen3_vl_text"),
    "stablelm": family("stablelm", partial_rotary_factor=0.25),
    "starcoder2": family("starcoder2", sliding_window=None),
    "mixtral": family("mixtral", sliding_window=None),
    "qwen2_moe": family("qwen2_moe", norm_topk_prob=False),
    "qwen3_moe": family("qwen3_moe"),
    "olmoe": family("olmoe", norm_topk_prob=False),
    "granitemoe": family("granitemoe"),
    "glm4_moe": family("glm4_moe", norm_topk_prob=True, partial_rotary_factor=0.5),
    "ernie4_5_moe": family("ernie4_5_moe", moe_norm_min=1e-12, use_bias=False),
    "gpt_oss": family("gpt_oss", swiglu_limit=7.0),
    "gpt_oss-unscaled": family(
        "gpt_oss", swiglu_limit=7.0, rope_scaling={"rope_type": "default"}
    ),
    "hunyuan_v1_moe": family(
        "hunyuan_v1_moe",
        num_shared_expert=1,
        rope_scaling=None,
        rope_theta=11158840.0,
    ),
    "minimax_m2": family("minimax_m2"),
    # llama.cpp rounds the bounds of YaRN, and knows one mscale.
    "deepseek_v2": family(
        "deepseek_v2",
        rope_scaling=families.rope("yarn-mscale")
        | {"mscale": 0.707, "mscale_all_dim": 0.707, "truncate": True},
    )
    | {"q_lora_rank": None},
    "deepseek_v3": family(
        "deepseek_v3",
        attention_bias=False,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
    ),
    "dots1": family(
        "dots1", norm_topk_prob=False, routed_scaling_factor=2.5, sliding_window=None
    ),
}


class Model:
    """A config and weights, as Hugging Face has them."""

    def __init__(self, tools, kind, name):
        self.tools, self.name = tools, name
        self.config = MODELS[kind]
        self.folder = tools.scratch / name
        self.folder.mkdir()
        self.path = self.folder / "config.json"
        self.path.write_text(json.dumps(families.in_own_names(self.config)))
        self.artifacts = {}
        self.arrays = self.random()

    def random(self):
        """Weights of the shapes that the artifact binds."""
        artifact = self.compile(self.path, "bf16")
        inspect = execute([self.tools.bin / "cria-inspect", artifact, "--json"])
        arrays = {}
        for weight in json.loads(inspect.ok().text)["weights"]:
            shape = list(weight["shape"])
            shape[0] = weight.get("rows", {}).get("of", shape[0])
            if weight.get("transposed"):
                shape[-2:] = shape[:-3:-1]
            first, experts = weight["first"], weight.get("experts", 0)
            for layer in range(first, first + max(weight["count"], 1)):
                name = weight["name"].replace("{}", str(layer), 1)
                names = [name.replace("{}", str(i)) for i in range(max(experts, 1))]
                size = [experts, *shape] if experts and "{}" not in name else shape
                for name in names:
                    values = weights.values(0, name, size)
                    arrays[name] = weights.rounded(values, "f32")
        if self.config["tie_word_embeddings"]:
            arrays.pop("lm_head.weight", None)
        return arrays

    def compile(self, source, dtype, *flags):
        """By plain loops, which compile in a third of the time: what is tested is how
        files are read."""
        key = source, dtype, flags
        if key not in self.artifacts:
            flags = [f"--dtype={dtype}", "--max-seq=64", "--plain", *flags]
            out = f"{self.name}-{len(self.artifacts)}.cria"
            self.artifacts[key] = self.tools.compile(source, *flags, out=out)
        return self.artifacts[key]

    def write(self, arrays, dtype):
        """Writes the safetensors. All other files must give their logits."""
        path = self.folder / f"{dtype}.safetensors"
        weights.write_safetensors(path, arrays, dtype)
        return path

    def logits(self, source, checkpoint, dtype, *flags):
        artifact = self.compile(source, dtype, *flags)
        return self.tools.logits(artifact, IDS, f"--weights={checkpoint}")


def check_plain(model, dtype):
    """Bit for bit, with a type that the file has itself; nearly if products round
    otherwise, because the file parts a tensor in two."""
    arrays = {
        name: weights.rounded(array, dtype)
        for name, array in model.arrays.items()
    }
    expected = model.logits(model.path, model.write(arrays, dtype), dtype)
    file = model.folder / f"{dtype}.gguf"
    if model.name.endswith("-fused"):
        arrays = gguf_files.fused(arrays)
    if model.name.endswith("-joined"):
        arrays = gguf_files.joined(arrays)
    gguf_files.write(file, model.config, arrays, PLAIN[dtype])
    apart = np.abs(expected - model.logits(file, file, dtype)).max()
    bound = NEARLY if model.name in TYPE else 0
    check(apart <= bound, f"{model.name} in {dtype}: max |d| {apart:.2e}")


NONLINEAR = TYPES.IQ4_NL, TYPES.IQ4_XS
# Of these, gguf's Python package only reads blocks.
BIG = TYPES.Q2_K, TYPES.Q3_K, TYPES.Q4_K, TYPES.Q5_K, TYPES.Q6_K, *NONLINEAR


def random_blocks(shape, kind, draw):
    """Blocks of random bits, with scales that keep their values small."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = draw.integers(0, 256, (shape[0], shape[1] // elements, size), "u1")
    scale = draw.uniform(1e-4, 2e-4, (*blocks.shape[:2], 1)).astype("<f2")
    scales = {TYPES.Q2_K: [80, 82], TYPES.Q3_K: [108], TYPES.Q6_K: [208]}
    for at in scales.get(kind, [0] if kind in NONLINEAR else [0, 2]):
        blocks[:, :, at : at + 2] = scale.view("u1")
    return blocks.reshape(shape[0], -1)


def check_quantized(tools, kind):
    """Tensors of blocks have the values that gguf's Python package reads, rounded to the
    type that is computed in."""
    big = kind in BIG
    sizes = {"hidden_size": 256, "intermediate_size": 512} if big else {}
    sizes |= {"num_hidden_layers": 2, "intermediate_size": 256, "head_dim": 64}
    name = {TYPES.Q4_0: "mixtral", TYPES.MXFP4: "gpt_oss"}.get(kind, "llama")
    sizes |= {"swiglu_limit": 7.0} if name == "gpt_oss" else {}
    MODELS["quantized"] = family(name, **sizes, sliding_window=None)
    model = Model(tools, "quantized", f"quantized-{kind.name}")
    draw = np.random.default_rng(1)
    given = {}
    if big:
        for name, array in model.arrays.items():
            if array.ndim == 2:
                given[name] = random_blocks(array.shape, kind, draw)
    file = model.folder / "model.gguf"
    source = (model.config, model.arrays)
    held = gguf_files.write(file, *source, kind, blocks=given)
    for dtype in ("f32", "bf16"):
        arrays = {n: weights.rounded(a, dtype) for n, a in held.items()}
        expected = model.logits(model.path, model.write(arrays, dtype), dtype)
        got = model.logits(file, file, dtype, "--quantize=none")
        same = np.array_equal(expected, got)
        check(same, f"{kind.name} in {dtype}: {np.abs(expected - got).max()}")
        exact = expected if dtype == "f32" else exact
    if kind in (TYPES.Q8_0, TYPES.Q4_0):
        check_in_place(model, file, held, kind.name.lower(), exact)


def check_in_place(model, file, held, format, exact):
    """Blocks are used in place in the file, except the rows of queries and keys. Numbers
    that come from blocks become the same blocks. Beside products with these numbers in
    f32, only rows are rounded, too."""
    same = model.write(held, "f32")
    expected = model.logits(model.path, same, "f32", f"--quantize={format}")
    got = model.logits(file, file, "f32")
    apart = np.abs(expected - got).max()
    check(np.array_equal(expected, got), f"{format} in place: {apart}")
    error = nmse(exact, got)
    check(error <= ROUNDED, f"{format}: NMSE {error:.2e} from f32")
    artifact = model.compile(file, "f32")
    inspect = [model.tools.bin / "cria-inspect", artifact, f"--weights={file}"]
    text = execute(inspect).ok().text
    found = re.search(r"weights: ([\d.]+) MiB in place, ([\d.]+) MiB copied", text)
    in_place, copied = map(float, found.groups())
    check(copied < in_place / 2, f"{format}: {in_place} MiB in place, {copied}")


def check_parts(tools):
    """A file in parts is read as a whole, whichever part is given."""
    model = Model(tools, "llama", "parts")
    whole = model.folder / "whole.gguf"
    gguf_files.write(whole, model.config, model.arrays, TYPES.F32)
    gguf_files.write(
        model.folder / "m.gguf", model.config, model.arrays, TYPES.F32, split=9
    )
    parts = sorted(model.folder.glob("m-*.gguf"))
    check(len(parts) > 2, f"parts: {parts}")
    expected = model.logits(whole, whole, "f32")
    for part in (parts[0], parts[-1]):
        got = model.logits(part, part, "f32")
        check(np.array_equal(expected, got), f"{part.name}: other logits")


def main():
    tools = Tools(*sys.argv[1:3])
    names = sys.argv[3:] or MODELS
    for name in some(names, 7 if len(names) > 10 else 5):
        if name in TYPES.__members__:
            check_quantized(tools, TYPES[name])
        elif name == "parts":
            check_parts(tools)
        else:
            model = Model(tools, name, name)
            for dtype in PLAIN if name == "llama" else TYPE.get(name, ["bf16"]):
                check_plain(model, dtype)
        print(name, "ok", flush=True)


if __name__ == "__main__":
    main()
