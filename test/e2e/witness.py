"""witness.py BIN SCRATCH DTYPE: upstream's tools run the text of the `linalg` phase.

`mlir-opt-22`, `mlir-translate-22` and `llc-22` alone lower the text of a model. A C file
of a few lines gives the weights to its functions. Ids are fed in uneven chunks and then
one by one. The artifact must give the same logits and caches: on the CPU, called by its
ABI, and with its plan and PTX in the emulated CUDA driver.

In f32 the bar is that of f32. In bf16 it is that of bf16 with the text as the peer: the
artifact's logits are as close to f32 as the text's. The artifact's caches are no further
from the text's than rounding takes the text's from f32. Hidden states are as close to f32
as the text's, within a factor of 2.

A recurrence is a loop over chunks of tokens in the text for CPUs with AVX2, and a loop over
tokens in that for GPUs. Both are the same function. With AMX a chunk's products take each
number as the sum of two of bf16: the first layer's state, whose input does not depend on the
form, meets the bar of f32.
"""

import ctypes
import json
import re
import sys

import numpy as np

import blocks
import families
import weights
from driver import Plan
from entries import Artifact, Upstream, encoded, guarded, upstream, widened
from graphs import GRAPHS
from harness import (
    HERE,
    Tools,
    check,
    check_as_faithful,
    check_close,
    check_hidden,
    execute,
    nmse,
    some,
)

SEED = 7
CHUNK = 16
PIECES = [16, 7, 1, 5, 1, 1]
LONG = 40  # two chunks of a recurrence and a half
LONG_PIECES = [LONG, 1, 35, 16, 3]
FORMATS = "q4_0,head=q8_0"
FLIPPED = 1e-3  # of the integers in caches, that may be one more or less
FAMILIES = {
    "llama": families.FAMILIES["llama"],
    "gemma2": families.FAMILIES["gemma2"],
    "gemma3": families.COMPOSITES["gemma3"],
    "qwen3": families.FAMILIES["qwen3"],
    "minicpm3": families.FAMILIES["minicpm3"],
    "lfm2": families.FAMILIES["lfm2"]
    | {"num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]},
    "phi3": json.loads((HERE / "goldens/f32-phi3-longrope/config.json").read_text()),
    "blocks": families.config(
        "llama", {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16}
    ),
    "cache": families.config("llama", {"head_dim": 32}),  # in blocks
    "bart": None,  # programs
    "mixtral": None,
}
TARGETS = [["--target=cuda"], ["--target=cpu", "--cpu=x86-64-v3"]]
RECURRENT = {
    "qwen3_5_text": ["linear_attention", "full_attention"],
    "granitemoehybrid-mamba": ["mamba", "attention"],
}
# Goldens whose first layer has a state, of heads that tiles of AMX fit.
IN_PARTS = ["bf16-qwen3_5_text", "bf16-granitemoehybrid"]
PIECES_IN_PARTS = [3, LONG, 32]  # the last one is a chunk: a state soon forgets


def drawn(weight, layer, rank=0, ranks=1):
    """A layer's weight in f64: rows of a checkpoint's tensor, or a rank's share of its
    rows or columns; or the matrices of all experts."""
    if "experts" in weight:
        of_layer = weight["name"].replace("{}", str(layer + weight["first"]), 1)
        each = [of_layer.replace("{}", str(e)) for e in range(weight["experts"])]
        return np.stack([weights.values(SEED, name, weight["shape"]) for name in each])
    shape, split = weight["shape"], weight.get("split")
    rows = weight.get("rows", {"first": 0, "of": shape[0]})
    first, of, rest = rows["first"], rows["of"], shape[1:]
    if split == "rows":
        first += rank * shape[0]
        of = rows["of"] if "rows" in weight else shape[0] * ranks
    if split == "cols":
        rest = [shape[1] * ranks]
    name = weight["name"].replace("{}", str(layer + weight["first"]))
    mine = weights.values(SEED, name, [of, *rest])[first:][: shape[0]]
    return mine[:, rank * shape[1] :][:, : shape[1]] if split == "cols" else mine


def empty_cache(cache, stored):
    if cache["dtype"] == "q8_0":
        *outer, size = cache["shape"]
        return np.zeros([*outer, size // 32, 34], np.uint8)
    narrow = stored == "bf16" and cache["dtype"] != "f32"
    return np.zeros(cache["shape"], np.uint16 if narrow else np.float32)


def numbers(cache):
    """The values of a cache as floats."""
    in_blocks = cache.dtype == np.uint8
    return blocks.dequantize(cache, "q8_0") if in_blocks else widened(cache)


def check_caches(want, got, what):
    """The bar of f32. A value between two integers may be rounded to either."""
    if want.dtype != np.uint8:
        return check_close(want, got, what)
    check_close(*(cache[..., :2].view(np.float16) for cache in (want, got)), what)
    codes = (cache[..., 2:].view(np.int8).astype(int) for cache in (want, got))
    apart = np.abs(np.subtract(*codes))
    flipped = (apart == 1).mean()
    check(apart.max() <= 1, f"{what}: integers {apart.max()} apart")
    check(flipped <= FLIPPED, f"{what}: {flipped:.2e} of the integers differ")


class Memory:
    """The weights, tables and caches that a program is called with."""

    def __init__(self, manifest, dtype, stored, rank=0, chunk=CHUNK):
        model = manifest["model"]
        share = rank, model.get("shards", 1)
        self.arrays = [None] * manifest["slots"]
        symbols = {weight["symbol"]: weight for weight in manifest["weights"]}
        for weight in manifest["weights"]:
            if "tied" in weight:
                origin = symbols[weight["tied"]]
                weight = weight | {"name": origin["name"]}
            for layer in range(max(weight["count"], 1)):
                exact = drawn(weight, layer, *share)
                values = weights.rounded(exact, dtype)
                array = guarded(
                    blocks.quantize(exact, weight["dtype"])
                    if weight["dtype"] in blocks.FORMATS
                    else encoded(values, stored)
                )
                # Upstream and GPUs read the experts of a layer from the first slot on.
                slots = weight.get("experts", 1)
                first = weight["slot"] + layer * slots
                self.arrays[first] = array
                for i in range(1, slots):
                    self.arrays[first + i] = array[i]
        for table in manifest.get("rope", []):
            angles = np.outer(np.arange(table["rows"]), table["inv_freq"])
            for i, turn in enumerate([np.cos, np.sin]):
                values = turn(angles) * table["scale"]
                self.arrays[table["slot"] + i] = guarded(values.astype(np.float32))
        self.weights = dict(enumerate(self.arrays))
        self.slots = (ctypes.c_void_p * len(self.arrays))(
            # Layers without a weight leave a slot of it empty, which nothing reads.
            *(None if array is None else array.ctypes.data for array in self.arrays)
        )
        self.caches = [empty_cache(cache, stored) for cache in manifest["caches"]]
        self.chunk = chunk
        columns = model.get("logits", model["vocab_size"])
        self.logits = np.zeros((chunk, columns), np.float32)
        if "hidden" in manifest["model"]:
            self.hidden = np.zeros((chunk, manifest["model"]["hidden"]), np.float32)
        self.arena = np.zeros(manifest["cpu"][0]["arena"] // 64 + 2, "V64")


def fed(program, ids, source, sees_ahead=False, pieces=PIECES):
    """Logits of all ids, fed in `pieces`; and hidden states of pieces of several ids. If
    tokens may see ahead, those of a piece see one another, as those of an image do."""
    if source:
        program.call("encode", source, 0, 0)
    rows, hidden, position = [], [np.zeros((0, 1))], 0
    for count in pieces:
        part = ids[position : position + count]
        entry = "decode" if count == 1 else "prefill"
        program.call(entry, part, position, count - 1 if sees_ahead else len(source))
        rows.append(program.memory.logits[:count].copy())
        if entry == "prefill" and hasattr(program.memory, "hidden"):
            hidden.append(program.memory.hidden[:count].copy())
        position += count
    return np.concatenate(rows), np.concatenate(hidden[1:] or hidden)


def text_of(tools, program, flags):
    """The output of the linalg phase."""
    command = [tools.bin / "cria-compile", program, "--emit=linalg", *flags]
    return execute(command).ok().text


def bf16_program(tools, name):
    """A program of examples/graphs with weights and activations in bf16, without logits,
    and without what is f32 in programs of all types."""
    text = (GRAPHS / f"{name}.mlir").read_text()
    logits = re.search(r"-> \((tensor<\?x\d+xf32>)", text)
    narrow = lambda line: line[0].replace("xf32>", "xbf16>")
    text = re.sub(r"^(?!!f32_).*$", narrow, text, flags=re.M)
    if logits:
        text = text.replace(logits[1].replace("f32", "bf16"), logits[1])
    path = tools.scratch / f"{name}.mlir"
    path.write_text(text)
    return path


def check_family(tools, name, dtype):
    flags = [f"--chunk={CHUNK}"]
    if name == "blocks":
        flags.append(f"--quantize={FORMATS}")
    if name == "cache":
        flags.append("--kv=q8_0")
    if FAMILIES[name] is None:
        wide_program, wide_flags = GRAPHS / f"{name}.mlir", flags
        program = bf16_program(tools, name) if dtype == "bf16" else wide_program
    else:
        wide_program = program = tools.scratch / f"{name}.json"
        program.write_text(json.dumps(FAMILIES[name]))
        wide_flags = [*flags, "--dtype=f32"]
        flags = [*flags, f"--dtype={dtype}"]
    artifact = tools.compile(program, *flags, "--target=cpu,cuda", out=f"{name}.cria")
    inspect = [tools.bin / "cria-inspect", artifact, "--json"]
    manifest = json.loads(execute(inspect).ok().out)
    generator = np.random.default_rng(0)
    vocab = manifest["model"]["vocab_size"]
    ids = generator.integers(3, vocab, sum(PIECES)).tolist()
    encodes = manifest["model"].get("encoder", False)
    source = generator.integers(3, vocab, 11).tolist() if encodes else []
    texts = ids, source, manifest["model"].get("sees_ahead", False)

    text = text_of(tools, program, flags)
    stated = Upstream(
        upstream(tools, text, f"{name}-{dtype}"), Memory(manifest, dtype, dtype)
    )
    ptx = execute(
        [tools.bin / "cria-compile", program, "--target=cuda", "--emit=ptx", *flags]
    ).ok()
    programs = {
        "CPU": Artifact(artifact, Memory(manifest, dtype, dtype)),
        "emulated GPU": Plan(
            tools, ptx.out, manifest["cuda"], Memory(manifest, dtype, dtype)
        ),
    }
    logits, hidden = fed(stated, *texts)
    spread = np.abs(logits - logits.mean(0)).max()
    check(spread > 0.01, f"{name}: logits that depend on nothing")
    if dtype == "f32":
        for device, program in programs.items():
            got, states = fed(program, *texts)
            check_close(logits, got, f"{name}, {device}")
            if hidden.size:
                check_close(hidden, states, f"{name}, {device}, hidden states")
            for i, caches in enumerate(
                zip(stated.memory.caches, program.memory.caches)
            ):
                check_caches(*caches, f"{name}, {device}, cache {i}")
        return
    text = text_of(tools, wide_program, wide_flags)
    library = upstream(tools, text, f"{name}-f32")
    wide = Upstream(library, Memory(manifest, dtype, "f32"))
    exact, exact_hidden = fed(wide, *texts)
    for device, program in programs.items():
        got, states = fed(program, *texts)
        check_as_faithful(exact, logits, got, f"{name}, {device}")
        if hidden.size:
            check_hidden(exact_hidden, hidden, states, f"{name}, {device}")
        for i, arrays in enumerate(
            zip(wide.memory.caches, stated.memory.caches, program.memory.caches)
        ):
            unrounded, want, got = map(numbers, arrays)
            apart, most = nmse(want, got), nmse(unrounded, want)
            check(
                apart <= most,
                f"{name}, {device}, cache {i}: NMSE {apart:.2e} > {most:.2e}",
            )


def check_recurrence(tools, name, layers):
    """A model with a state, in both forms and as an artifact, in f32."""
    program, flags = tools.scratch / f"{name}.json", [f"--chunk={LONG}", "--dtype=f32"]
    changes = {"num_hidden_layers": len(layers), "layer_types": layers}
    program.write_text(json.dumps(families.FAMILIES[name] | changes))
    artifact = tools.compile(program, *flags, *TARGETS[1], out=f"{name}.cria")
    inspect = [tools.bin / "cria-inspect", artifact, "--json"]
    manifest = json.loads(execute(inspect).ok().out)
    memory = lambda: Memory(manifest, "f32", "f32", chunk=LONG)
    vocab = manifest["model"]["vocab_size"]
    ids = np.random.default_rng(0).integers(3, vocab, sum(LONG_PIECES)).tolist()
    texts = [text_of(tools, program, [*flags, *target]) for target in TARGETS]
    check(texts[0] != texts[1], f"{name}: one form for both targets")
    # The numbers of a batch do not depend on where a text is cut.
    batches = {text_of(tools, program, [*flags, "--batch=4", *t]) for t in TARGETS}
    check(len(batches) == 1, f"{name}: chunks in a batch")
    tokens, chunks = (
        Upstream(upstream(tools, text, f"{name}-{i}"), memory())
        for i, text in enumerate(texts)
    )
    want, _ = fed(tokens, ids, [], pieces=LONG_PIECES)
    spread = np.abs(want - want.mean(0)).max()
    check(spread > 0.01, f"{name}: logits that depend on nothing")
    for what, made in ("chunks", chunks), ("artifact", Artifact(artifact, memory())):
        got, _ = fed(made, ids, [], pieces=LONG_PIECES)
        check_close(want, got, f"{name}, {what}")
        for i, caches in enumerate(zip(tokens.memory.caches, made.memory.caches)):
            check_caches(*caches, f"{name}, {what}, state {i}")


def check_parts(tools, name):
    """A model with a state in bf16, by chunks in parts and token by token."""
    program, flags = HERE / f"goldens/{name}/config.json", [f"--chunk={LONG}"]
    artifact = tools.compile_with_emulated_amx(program, *flags, out=f"{name}.cria")
    inspect = [tools.bin / "cria-inspect", artifact, "--json"]
    manifest = json.loads(execute(inspect).ok().out)
    vocab = manifest["model"]["vocab_size"]
    ids = np.random.default_rng(0).integers(3, vocab, sum(PIECES_IN_PARTS)).tolist()
    memory = lambda stored: Memory(manifest, "bf16", stored, chunk=LONG)
    fed_by = lambda made: fed(made, ids, [], pieces=PIECES_IN_PARTS)[0]

    def stated(what, stored, *more):
        text = text_of(tools, program, [*flags, *more])
        library = upstream(tools, text, f"{name}-{what}")
        return Upstream(library, memory(stored)), text

    wide, _ = stated("f32", "f32", "--dtype=f32", "--cpu=znver4")
    tokens, plain = stated("tokens", "bf16", "--cpu=znver4")
    parts, text = stated("parts", "bf16", "--cpu=sapphirerapids")
    check(text != plain, f"{name}: one form for both targets")
    exact, want = fed_by(wide), fed_by(tokens)
    for what, made in ("parts", parts), ("tiles", Artifact(artifact, memory("bf16"))):
        check_as_faithful(exact, want, fed_by(made), f"{name}, {what}")
        caches = zip(manifest["caches"], tokens.memory.caches, made.memory.caches)
        states = [both for cache, *both in caches if cache["dtype"] == "f32"]
        check(states, f"{name}: no state")
        for old, new in states:
            check_close(old[0], new[0], f"{name}, {what}")
            check((old != new).any(), f"{name}, {what}: nothing in parts")


def main():
    tools = Tools(*sys.argv[1:3])
    if sys.argv[3] == "bf16" and not sys.argv[4:]:
        for name in IN_PARTS:
            check_parts(tools, name)
    if sys.argv[3] == "f32" and not sys.argv[4:]:
        for name, layers in RECURRENT.items():
            check_recurrence(tools, name, layers)
    for name in some(sys.argv[4:] or FAMILIES, 8, sys.argv[3] == "bf16"):
        check_family(tools, name, sys.argv[3])


if __name__ == "__main__":
    main()
