"""The weights of `--random-weights=SEED`, in NumPy.

Element i of the tensor with checkpoint name t depends only on SEED, t and i:

  u = (mix(SEED + fnv1a64(t) + (i + 1) * 0x9E3779B97F4A7C15) >> 40) * 2^-24

with the finalizer of splitmix64 as `mix` and all modulo 2^64; the value is
(2u - 1) * 0.02 * sqrt(3), or 1 + (2u - 1) * 0.1 for one-dimensional
`*.weight`, in f64, rounded once to the storage type.
"""

import json
import math

import numpy as np

MASK = 2**64 - 1


def fnv1a64(text):
    """FNV-1a of text or bytes, 64 bits."""
    state = 0xCBF29CE484222325
    for byte in text.encode() if isinstance(text, str) else text:
        state = (state ^ byte) * 0x100000001B3 & MASK
    return state


def mix(x):
    """The finalizer of splitmix64 on an array of uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def values(seed, name, shape):
    """The tensor `name` in f64, not rounded."""
    index = np.arange(1, math.prod(shape) + 1, dtype=np.uint64)
    start = np.uint64((seed + fnv1a64(name)) & MASK)
    state = mix(start + index * np.uint64(0x9E3779B97F4A7C15))
    u = (state >> np.uint64(40)).astype(np.float64) * 2.0**-24
    if len(shape) == 1 and name.endswith(".weight"):
        result = 1 + (2 * u - 1) * 0.1
    else:
        result = (2 * u - 1) * 0.02 * math.sqrt(3)
    return result.reshape(shape)


def round_bf16(array):
    """f64 values rounded to nearest even at bf16's 8 bits; results in f64."""
    bits = array.astype(np.float64).view(np.uint64)
    odd = (bits >> np.uint64(45)) & np.uint64(1)
    bits = bits + np.uint64((1 << 44) - 1) + odd
    return (bits & ~np.uint64((1 << 45) - 1)).view(np.float64)


def rounded(array, dtype):
    """f64 values rounded once to 'f32', 'f16' or 'bf16'; results in f32."""
    if dtype == "bf16":
        array = round_bf16(array)
    elif dtype == "f16":
        array = array.astype(np.float16)
    return array.astype(np.float32)


def llama_shapes(config):
    """{checkpoint name: shape} of a LlamaForCausalLM with this config.json."""
    hidden = config["hidden_size"]
    heads = config["num_attention_heads"]
    groups = config.get("num_key_value_heads") or heads
    head = config.get("head_dim") or hidden // heads
    inner = config["intermediate_size"]
    linears = {
        "self_attn.q_proj": (heads * head, hidden),
        "self_attn.k_proj": (groups * head, hidden),
        "self_attn.v_proj": (groups * head, hidden),
        "self_attn.o_proj": (hidden, heads * head),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    shapes = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
    }
    if not config.get("tie_word_embeddings", False):
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes[at + "input_layernorm.weight"] = (hidden,)
        shapes[at + "post_attention_layernorm.weight"] = (hidden,)
        for name, shape in linears.items():
            kind = "attention_bias" if "attn" in name else "mlp_bias"
            shapes[f"{at}{name}.weight"] = shape
            if config.get(kind, False):
                shapes[f"{at}{name}.bias"] = shape[:1]
    return shapes


def llama_weights(config, seed, dtype):
    """{checkpoint name: f32 array}, rounded to `dtype`."""
    return {
        name: rounded(values(seed, name, shape), dtype)
        for name, shape in llama_shapes(config).items()
    }


def encoded(array, dtype):
    """The little-endian bytes of an array that `rounded` made."""
    if dtype == "bf16":
        return (array.view(np.uint32) >> 16).astype("<u2").tobytes()
    return array.astype({"f32": "<f4", "f16": "<f2"}[dtype]).tobytes()


def read_safetensors(path):
    """{checkpoint name: f32 array} of a file of floats."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    arrays = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        part = data[start + begin : start + end]
        if entry["dtype"] == "BF16":
            wide = np.frombuffer(part, "<u2").astype(np.uint32) << 16
            array = wide.view(np.float32)
        else:
            plain = {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]
            array = np.frombuffer(part, plain)
        arrays[name] = array.astype(np.float32).reshape(entry["shape"])
    return arrays


def write_safetensors(path, arrays, dtype, align=1):
    """Writes {checkpoint name: array} in the order given, the first of them at
    a multiple of `align`."""
    header, offset, parts = {}, 0, []
    for name, array in arrays.items():
        parts.append(encoded(array, dtype))
        end = offset + len(parts[-1])
        header[name] = {
            "dtype": dtype.upper(),
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % align)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(parts)


def write_adapter(folder, shapes, seed=7):
    """A LoRA adapter of rank 4 of the weights called `shapes`."""
    folder.mkdir()
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    random, tensors = np.random.default_rng(seed), {}
    for name, (rows, columns) in shapes.items():
        module = "base_model.model." + name.removesuffix(".weight")
        for letter, shape in zip("AB", [(4, columns), (rows, 4)]):
            matrix = random.normal(0, 0.05, shape).astype(np.float32)
            tensors[f"{module}.lora_{letter}.weight"] = matrix
    write_safetensors(folder / "adapter_model.safetensors", tensors, "f32")
