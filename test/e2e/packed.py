"""packed.py BIN SCRATCH: quantized checkpoints compute as dequantized ones.

NumPy packs the linears of a small model in each format, and computes the values of
the packed numbers in f64. A checkpoint with these values in f32 must give the same
logits, bit by bit.

Sources of the formulas: fp8: DeepSeek-V3's weight_dequant (inference/kernel.py)
and OCP's E4M3; GPTQ: AutoGPTQ's QuantLinear.pack and forward
(qlinear_cuda_old.py); AWQ: AutoAWQ's WQLinear_GEMM.from_linear; rows:
compressed-tensors' pack_to_int32 and dequantize; AutoRound: its qlinear_torch.py,
which stores zeros as they are, and qlinear_torch_zp.py, which stores them less one;
mxfp4: OCP's Microscaling formats, and transformers' convert_moe_packed_tensors.
"""

import json
import sys

import numpy as np

import weights
from harness import Tools, check, nmse, some

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 160,
    "intermediate_size": 320,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}
# The experts of gpt-oss, in 4-bit floats.
MIXED = CONFIG | {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": 64,
    "intermediate_size": 96,
    "head_dim": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
SEED = 5
IDS = list(range(3, 36))


def e4m3():
    """The value of each code of E4M3."""
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, (codes & 7).astype(np.float64)
    normal = (8 + mantissa) * 2.0 ** (exponent - 10)
    values = np.where(exponent == 0, mantissa * 2.0**-9, normal)
    values[codes & 127 == 127] = np.nan
    return np.where(codes < 128, values, -values)


def to_e4m3(array):
    """The codes of the values nearest to an array's."""
    values = e4m3()[:127]
    middles = (values[1:] + values[:-1]) / 2
    codes = np.searchsorted(middles, np.abs(array)).astype(np.uint8)
    return codes | np.where(array < 0, 128, 0).astype(np.uint8)


def spread(scales, size, shape):
    """Scales of blocks of `size`, repeated for each element."""
    wide = np.repeat(np.repeat(scales, size[0], 0), size[1], 1)
    return wide[: shape[0], : shape[1]]


def pack_fp8(name, array, size, suffix):
    """Packed tensors and their values, with a scale for each block of `size`."""
    counts = [-(-length // each) for length, each in zip(array.shape, size)]
    scales = np.zeros(counts, np.float32)
    for i, j in np.ndindex(*counts):
        block = array[i * size[0] :, j * size[1] :][: size[0], : size[1]]
        scales[i, j] = np.abs(block).max() / 448
    wide = spread(scales, size, array.shape).astype(np.float64)
    codes = to_e4m3(array / wide)
    tensors = {name: ("F8_E4M3", codes), name + suffix: ("F32", scales)}
    return tensors, e4m3()[codes] * wide


def fp8_blocks(name, array, _):
    return pack_fp8(name, array, (128, 128), "_scale_inv")


def fp8_other_blocks(name, array, _):
    return pack_fp8(name, array, (64, 100), "_scale")


def fp8_rows(name, array, _):
    return pack_fp8(name, array, (1, array.shape[1]), "_scale")


def fp8_tensor(name, array, _):
    tensors, meaning = pack_fp8(name, array, array.shape, "_scale")
    kind, scales = tensors[name + "_scale"]
    return tensors | {name + "_scale": (kind, scales.reshape(1))}, meaning


def to_groups(array, groups, random, zero=None):
    """q (N, K), zeros (groups, N) and scales (groups, N) for the columns' `groups`, and
    the values. Zeros are random, or all `zero`."""
    count = groups.max() + 1
    zeros = random.integers(1, 16, (count, array.shape[0]))
    if zero is not None:
        zeros[:] = zero
    largest = [np.abs(array[:, groups == g]).max(1) for g in range(count)]
    scales = (np.stack(largest) / 8).astype(np.float16)
    wide = scales[groups].T.astype(np.float64)
    q = np.clip(np.rint(array / wide) + zeros[groups].T, 0, 15).astype(int)
    return q, zeros, scales, (q - zeros[groups].T) * wide


def words(numbers, axis, order=range(8)):
    """Packs each eight numbers of 4 bits along `axis` into one number of 32 bits."""
    numbers = np.moveaxis(numbers, axis, -1).astype(np.uint32)
    eight = numbers.reshape(*numbers.shape[:-1], -1, 8)
    packed = sum(eight[..., at] << np.uint32(4 * i) for i, at in enumerate(order))
    return np.moveaxis(packed, -1, axis).view(np.int32)


def gptq(name, array, random, act_order=False, zero=None, less=1):
    groups = np.arange(array.shape[1]) // 32
    if act_order:
        groups = random.permutation(groups)
    q, zeros, scales, meaning = to_groups(array, groups, random, zero)
    module = name.removesuffix("weight")
    tensors = {
        module + "qweight": ("I32", words(q.T, 0)),
        module + "qzeros": ("I32", words(zeros - less, 1)),
        module + "scales": ("F16", scales),
        module + "g_idx": ("I32", groups.astype(np.int32)),
    }
    return tensors, meaning


def gptq_act_order(name, array, random):
    return gptq(name, array, random, act_order=True)


def gptq_version_2(name, array, random):
    return gptq(name, array, random, less=0)


def symmetric_zeros_stored_as_8(name, array, random):
    return gptq(name, array, random, zero=8, less=0)


def rows(name, array, random, size=32, zero=None):
    groups = np.arange(array.shape[1]) // size
    q, zeros, scales, meaning = to_groups(array, groups, random, zero)
    tensors = {
        name + "_packed": ("I32", words(q, 1)),
        name + "_scale": ("F16", scales.T),
        name + "_shape": ("I64", np.array(array.shape)),
    }
    if zero is None:
        tensors[name + "_zero_point"] = ("I32", words(zeros.T, 0))
    return tensors, meaning


def rows_symmetric(name, array, random):
    return rows(name, array, random, zero=8)


def rows_channel(name, array, random):
    return rows(name, array, random, size=array.shape[1])


def awq(name, array, random):
    groups = np.arange(array.shape[1]) // 32
    q, zeros, scales, meaning = to_groups(array, groups, random)
    module = name.removesuffix("weight")
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    tensors = {
        module + "qweight": ("I32", words(q.T, 1, order)),
        module + "qzeros": ("I32", words(zeros, 1, order)),
        module + "scales": ("F16", scales),
    }
    return tensors, meaning


def write(folder, tensors):
    """A safetensors file of {name: (type, array)}."""
    folder.mkdir(parents=True)
    header, data = {}, b""
    for name, (kind, array) in tensors.items():
        begin = len(data)
        data += np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + data
    )


# What stays as it is in blocks of fp8.
KEPT = [fp8_blocks, fp8_rows, fp8_tensor]


def check_kept(tools, artifacts, folder):
    """In blocks of fp8 the numbers are those of bf16: rounded where several rows multiply
    them. Scales are rounded to 11 bits."""
    expected = tools.logits(artifacts["bf16"], IDS, f"--weights={folder / 'plain'}")
    got = tools.logits(artifacts["fp8"], IDS, f"--weights={folder / 'packed'}")
    error = nmse(expected, got)
    check(error < 1e-4, f"{folder.name}: in blocks of fp8: NMSE {error:.2e}")


def check_format(tools, artifacts, pack, quantization):
    random = np.random.default_rng(SEED)
    packed, plain = {}, {}
    for name, array in weights.llama_weights(CONFIG, SEED, "f32").items():
        packed[name] = plain[name] = ("F32", array)
        if "_proj." in name:
            tensors, meaning = pack(name, array.astype(np.float64), random)
            del packed[name]
            packed |= tensors
            plain[name] = ("F32", meaning.astype(np.float32))
    folder = tools.scratch / pack.__name__
    write(folder / "packed", packed)
    write(folder / "plain", plain)
    config = json.dumps(CONFIG | {"quantization_config": quantization})
    (folder / "packed" / "config.json").write_text(config)
    if pack in KEPT:
        check_kept(tools, artifacts, folder)
    for dtype in "f32", "bf16":
        artifact = artifacts[dtype]
        expected = tools.logits(artifact, IDS, f"--weights={folder / 'plain'}")
        got = tools.logits(artifact, IDS, f"--weights={folder / 'packed'}")
        check(np.isfinite(got).all(), f"{pack.__name__}: {dtype}: no numbers")
        same = np.array_equal(expected, got)
        check(same, f"{pack.__name__}: {dtype}: other logits")


def experts_of(name, shape, random):
    """mxfp4: the tensors of matrices (E, N, K), and the values, transposed."""
    experts, rows, columns = shape
    blocks = random.integers(0, 256, (experts, rows, columns // 32, 16), np.uint8)
    scales = random.integers(119, 125, blocks.shape[:3], np.uint8)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    codes = np.stack([blocks & 15, blocks >> 4], -1).reshape(*scales.shape, 32)
    meaning = np.where(codes & 8, -1, 1) * values[codes & 7]
    meaning = np.ldexp(meaning, scales[..., None].astype(int) - 127).reshape(shape)
    packed = {name + "_blocks": ("U8", blocks), name + "_scales": ("U8", scales)}
    return packed, {name: ("F32", meaning.swapaxes(1, 2).astype(np.float32))}


def check_mxfp4(tools):
    """The same, of all experts of gpt-oss."""
    folder = tools.scratch / "mxfp4"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(MIXED))
    random = np.random.default_rng(SEED)
    hidden, inner, experts = 64, 96, 4
    shapes = weights.llama_shapes(MIXED | {"attention_bias": True})
    packed, plain = {}, {}
    for layer in range(2):
        at = f"model.layers.{layer}."
        shapes[at + "self_attn.sinks"] = (4,)
        shapes[at + "mlp.router.weight"] = (experts, hidden)
        shapes[at + "mlp.router.bias"] = (experts,)
        for name, rows, columns in [
            ("gate_up_proj", 2 * inner, hidden),
            ("down_proj", hidden, inner),
        ]:
            name = f"{at}mlp.experts.{name}"
            shapes[name + "_bias"] = (experts, rows)
            tensors, values = experts_of(name, (experts, rows, columns), random)
            packed |= tensors
            plain |= values
    for name, shape in shapes.items():
        if ".mlp.down" not in name and "gate_proj" not in name and ".up_" not in name:
            array = random.normal(0, 0.3, shape).astype(np.float32)
            packed[name] = plain[name] = ("F32", array)
    write(folder / "packed", packed)
    write(folder / "plain", plain)
    quantization = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    config = json.dumps(MIXED | {"quantization_config": quantization})
    (folder / "packed" / "config.json").write_text(config)
    artifact = tools.compile(folder / "packed" / "config.json", "--plain", out="mixed")
    expected, got = (
        tools.logits(artifact, IDS, f"--weights={folder / each}")
        for each in ("plain", "packed")
    )
    check(np.isfinite(got).all() and got.std() > 0.1, "mxfp4: no numbers")
    check(np.array_equal(expected, got), "mxfp4: other logits")


def of_groups(strategy, symmetric, size=None):
    """The config of compressed-tensors."""
    weights = {"num_bits": 4, "type": "int", "strategy": strategy}
    weights |= {"symmetric": symmetric, "group_size": size}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }


def main():
    tools = Tools(*sys.argv[1:])
    file = tools.scratch / "config.json"
    file.write_text(json.dumps(CONFIG))
    # By plain loops, which compile in a third of the time: what is tested is how
    # checkpoints are read.
    artifacts = {
        dtype: tools.compile(file, f"--dtype={dtype}", "--plain", out=dtype)
        for dtype in ["f32", "bf16"]
    }
    kept = "--quantize=fp8,embedding=none,head=none"
    artifacts["fp8"] = tools.compile(file, "--dtype=bf16", kept, "--plain", out="fp8")
    fp8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    groups = {"bits": 4, "group_size": 32}
    method = groups | {"quant_method": "gptq", "sym": False, "desc_act": False}
    symmetric = method | {"sym": True, "checkpoint_format": "gptq"}
    gemm = {"quant_method": "awq", "zero_point": True, "version": "gemm"}
    rounded = {"quant_method": "auto-round", "packing_format": "auto_round:gptqmodel"}
    formats = [
        (fp8_blocks, fp8 | {"weight_block_size": [128, 128]}),
        (fp8_other_blocks, fp8 | {"weight_block_size": [64, 100]}),
        (fp8_rows, fp8),
        (fp8_tensor, fp8),
        (gptq, method),
        (gptq_act_order, method | {"desc_act": True}),
        (gptq_version_2, groups | rounded | {"sym": False}),
        (symmetric_zeros_stored_as_8, symmetric),
        (awq, groups | gemm),
        (rows, of_groups("group", False, 32)),
        (rows_symmetric, of_groups("group", True, 32)),
        (rows_channel, of_groups("channel", False)),
    ]
    for pack, config in some(formats, 2):
        check_format(tools, artifacts, pack, config)
    check_mxfp4(tools)


if __name__ == "__main__":
    main()
