"""quantize.py BIN SCRATCH [emulated]: the model of examples/tiny with weights in
blocks.

Compared with a model in f32 whose weights are the values of the blocks, only the rounding
of activations differs. Compared with transformers in f32, the model loses no more than
its format allows. Prompts and single tokens agree, and a cache of weights holds the
quantized weights.

On the emulated CUDA driver a prompt and single tokens give the CPU's logits. So does a
model whose rows are multiples of 16 bytes, which those of examples/tiny are not. In bf16
its prompts multiply widened weights: they are as near to the model in f32 as those of the
CPU, which rounds activations, or nearer.
"""

import json
import sys

import numpy as np

import blocks
import families
from capi import Model
from harness import HERE, Tools, check, divergence, nmse
from weights import read_safetensors, write_safetensors

TINY = HERE.parent.parent / "examples" / "tiny"
# Formats, and the most that they may lose against transformers.
FORMATS = {"q8_0": 2e-3, "q4_0": 3e-2, "q4_0,head=q8_0": 3e-2, "fp8": 5e-3}
SAME = 1e-3  # beside the same weights in f32
AGREEMENT = 0.99
BESIDE_CPU = 5e-4  # NMSE: a sum with another last bit may round to another integer
SINGLE = 6  # tokens fed one by one


def held(arrays, formats):
    """The values of a model in blocks, with a head of its own."""
    main, *others = formats.split(",")
    head = dict(other.split("=") for other in others).get("head", main)
    arrays = arrays | {"lm_head.weight": arrays["model.embed_tokens.weight"]}
    result = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            format = head if name == "lm_head.weight" else main
            array = blocks.dequantize(blocks.quantize(array, format), format)
        result[name] = array
    return result


def check_format(tools, formats, bar, arrays, exact, ids):
    config, weights = TINY / "config.json", f"--weights={TINY}"
    flags = [f"--quantize={formats}", "--dtype=f32"]
    artifact = tools.compile(config, *flags, out="blocks.cria")
    got = tools.logits(artifact, ids, weights)
    loss = divergence(exact, got)
    check(loss <= bar, f"{formats}: KLD from transformers {loss:.2e} > {bar:.0e}")

    folder = tools.scratch / formats.replace(",", "-")
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "model.safetensors", held(arrays, formats), "f32")
    wide = tools.compile(config, "--dtype=f32", out="wide.cria")
    same = tools.logits(wide, ids, f"--weights={folder}")
    apart = divergence(same, got)
    check(apart <= SAME, f"{formats}: KLD from its own weights {apart:.2e}")
    check(apart < loss, f"{formats}: KLD {apart:.2e} from weights of no format")
    agreement = (same.argmax(-1) == got.argmax(-1)).mean()
    check(agreement >= AGREEMENT, f"{formats}: best ids agree at {agreement:.3f}")

    single = tools.compile(config, *flags, "--chunk=1", out="single.cria")
    decoded = tools.logits(single, ids, weights)
    apart = divergence(got, decoded)
    # In fp8 only the rows of a prompt multiply rounded numbers.
    bar = 1e-5 if formats == "fp8" else 1e-9
    check(apart <= bar, f"{formats}: KLD of single tokens {apart:.2e}")
    kept = f"--cache={tools.scratch / 'kept'}"
    for turn in ["quantized", "kept"]:
        again = tools.logits(artifact, ids, weights, kept)
        check(np.array_equal(got, again), f"{formats}: other logits, {turn}")
    print(f"{formats}: KLD {loss:.2e}, {divergence(same, got):.2e} of activations")


def check_emulated(tools, what, config, formats, ids, vocab, weights=None):
    flags = [f"--quantize={formats}", "--dtype=f32", "--target=cpu,cuda"]
    artifact = tools.compile(config, *flags, out="both.cria")
    cpu, cuda = (
        Model(tools, artifact, 1, vocab, device, weights).session()
        for device in ("cpu", "emulated")
    )
    expected = cpu.feed(ids)
    prompt = cuda.feed(ids)
    cuda.rewind(0)
    single = np.concatenate([cuda.feed([id]) for id in ids[:SINGLE]])
    for how, got in [("a prompt", prompt), ("token by token", single)]:
        error = nmse(expected[: len(got)], got)
        check(error <= BESIDE_CPU, f"{what}, {formats}, {how}: NMSE {error:.2e}")


def check_widened(tools, config, formats, ids, vocab):
    def logits(dtype, target, device):
        flags = [f"--quantize={formats}", f"--dtype={dtype}", f"--target={target}"]
        artifact = tools.compile(config, *flags, out=f"{target}.cria")
        return Model(tools, artifact, 1, vocab, device).session().feed(ids)

    exact = logits("f32", "cpu", "cpu")
    cpu, cuda = logits("bf16", "cpu", "cpu"), logits("bf16", "cuda", "emulated")
    ours, others = divergence(exact, cuda), divergence(exact, cpu)
    check(ours <= 1.25 * others, f"{formats}, bf16: KLD {ours:.2e}, CPU {others:.2e}")


def emulated(tools, ids):
    tiny = TINY / "config.json"
    sizes = {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 300}
    wide = tools.scratch / "wide.json"
    wide.write_text(json.dumps(families.config("llama", sizes)))
    for formats in ["q8_0", "q4_0,head=q8_0"]:
        check_emulated(tools, "tiny", tiny, formats, ids, 768, TINY)
        check_emulated(tools, "wide", wide, formats, range(3, 40), 300)
        check_widened(tools, wide, formats, range(3, 40), 300)


def main():
    tools = Tools(*sys.argv[1:3])
    expected = json.loads((TINY / "expected.json").read_text())
    ids = expected["prompts"][0]["ids"]
    if sys.argv[3:] == ["emulated"]:
        return emulated(tools, ids)
    with np.load(TINY / "expected.npz") as stored:
        exact = stored["f32"]
    arrays = read_safetensors(TINY / "model.safetensors")
    for formats, bar in FORMATS.items():
        check_format(tools, formats, bar, arrays, exact, ids)


main()
