"""witness.py BIN SCRATCH DTYPE: upstream's tools run what `linalg` prints.

`mlir-opt-22`, `mlir-translate-22` and `llc-22` alone lower the text of a model,
as --target=cpu and --target=cuda print it; a C file of a few lines hands its
functions the weights. Fed in uneven chunks and then token by token, logits and
caches are those of the artifact: on the CPU, called by its ABI, and logits in
the emulated CUDA driver.

In f32 by the bar of f32; in bf16 by that of bf16, the text being the peer: what
schedules compute is as near to f32 as what it says. Caches of the CPU are no
further from the text's than its roundings take those from f32.
"""

import ctypes
import json
import math
import re
import subprocess
import sys

import numpy as np

import families
import weights
from capi import Model
from graphs import GRAPHS
from harness import HERE, Tools, check, check_as_faithful, check_close, execute, nmse

SEED = 7
CHUNK = 16
PIECES = [16, 7, 1, 5, 1, 1]
FAMILIES = {
    "llama": families.FAMILIES["llama"],
    "gemma2": families.FAMILIES["gemma2"],
    "qwen3": families.FAMILIES["qwen3"],
    "phi3": json.loads((HERE / "goldens/f32-phi3-longrope/config.json").read_text()),
    "bart": None,
}
DECOMPOSE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op {transform.readonly}) {
    %s = transform.structured.match ops{["linalg.softmax"]} in %m : (!transform.any_op) -> !transform.any_op
    %d = transform.structured.decompose_interface %s : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
# linalg.softmax has no loops of its own; the rest is upstream's usual order.
PASSES = """
--canonicalize --transform-preload-library=transform-library-paths={decompose}
--transform-interpreter --eliminate-empty-tensors
--one-shot-bufferize=bufferize-function-boundaries=1\0function-boundary-type-conversion=identity-layout-map
--canonicalize --drop-equivalent-buffer-results --canonicalize --cse --canonicalize
--convert-linalg-to-loops --convert-scf-to-cf --expand-strided-metadata
--lower-affine --llvm-request-c-wrappers --arith-expand=include-bf16=true
--convert-math-to-llvm --convert-to-llvm --reconcile-unrealized-casts
"""
DECLARED = re.compile(
    r"func\.func private @([\w.]+)\((index)?\) -> tensor<([\dx]+)x\w+> "
    r"attributes \{(?:weight|rope) = \{slot = (\d+)"
)


def descriptor(array):
    """An array as a memref, and what keeps it alive."""

    class MemRef(ctypes.Structure):
        _fields_ = [
            ("allocated", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
            ("sizes", ctypes.c_int64 * array.ndim),
            ("strides", ctypes.c_int64 * array.ndim),
        ]

    sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (n // array.itemsize for n in array.strides)
    data = array.ctypes.data
    return MemRef(data, data, 0, sizes, (ctypes.c_int64 * array.ndim)(*strides))


def harness_source(text):
    """C functions that stand for the weights and tables: the slot's memory."""
    lines = ["typedef long i64;", "void **slots;"]
    for number, found in enumerate(DECLARED.finditer(text)):
        name, layered, sizes, slot = found.groups()
        sizes = [int(size) for size in sizes.split("x")]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        rank, layer = len(sizes), "layer" if layered else "0"
        lines += [
            f"struct m{number} {{ void *a, *p; i64 o, s[{rank}], t[{rank}]; }};",
            f"void f{number}(struct m{number} *r{', i64 layer' if layered else ''})"
            f' __asm__("_mlir_ciface_{name}");',
            f"void f{number}(struct m{number} *r{', i64 layer' if layered else ''}) {{",
            f"  *r = (struct m{number}){{slots[{slot} + {layer}], "
            f"slots[{slot} + {layer}], 0, {{{', '.join(map(str, sizes))}}}, "
            f"{{{', '.join(map(str, strides))}}}}};",
            "}",
        ]
    return "\n".join(lines) + "\n"


def upstream(tools, text, name):
    """The text lowered by upstream's tools, as a library."""
    base = tools.scratch / name
    decompose = tools.scratch / "decompose.mlir"
    decompose.write_text(DECOMPOSE)
    base.with_suffix(".mlir").write_text(text)
    base.with_suffix(".c").write_text(harness_source(text))
    passes = [
        option.replace("\0", " ").replace("{decompose}", str(decompose))
        for option in PASSES.split()
    ]
    folder = execute(["llvm-config-22", "--libdir"]).ok().text.strip()
    runner = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lmlir_c_runner_utils"]
    out = {kind: base.with_suffix(kind) for kind in (".llvm", ".ll", ".o", ".so")}
    for command in [
        ["mlir-opt-22", base.with_suffix(".mlir"), *passes, "-o", out[".llvm"]],
        ["mlir-translate-22", "--mlir-to-llvmir", out[".llvm"], "-o", out[".ll"]],
        ["llc-22", "-O1", "-relocation-model=pic", "-filetype=obj", out[".ll"]]
        + ["-o", out[".o"]],
        ["cc", "-O1", "-shared", "-fPIC", base.with_suffix(".c"), out[".o"]]
        + [*runner, "-lm", "-o", out[".so"]],
    ]:
        execute(command).ok()
    return ctypes.CDLL(str(out[".so"]))


def encoded(array, dtype):
    """f64 values in the storage type."""
    array = weights.rounded(array, dtype)
    if dtype == "bf16":
        return (array.view(np.uint32) >> 16).astype(np.uint16)
    return array


def widened(array):
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def drawn(weight, layer):
    """A slot's weight in f64: rows of a tensor of the checkpoint."""
    rows = weight.get("rows", {"first": 0, "of": weight["shape"][0]})
    name = weight["name"].replace("{}", str(layer + weight["first"]))
    whole = weights.values(SEED, name, [rows["of"], *weight["shape"][1:]])
    return whole[rows["first"] :][: weight["shape"][0]]


class Memory:
    """Weights, tables and caches, for whoever is called with them."""

    def __init__(self, manifest, dtype, stored):
        self.arrays = [None] * manifest["slots"]
        symbols = {weight["symbol"]: weight for weight in manifest["weights"]}
        for weight in manifest["weights"]:
            if "tied" in weight:
                weight = symbols[weight["tied"]] | {"slot": weight["slot"]}
            for layer in range(max(weight["count"], 1)):
                values = weights.rounded(drawn(weight, layer), dtype)
                self.arrays[weight["slot"] + layer] = encoded(values, stored)
        for table in manifest.get("rope", []):
            angles = np.outer(np.arange(table["rows"]), table["inv_freq"])
            for i, turn in enumerate([np.cos, np.sin]):
                values = turn(angles) * table["scale"]
                self.arrays[table["slot"] + i] = values.astype(np.float32)
        self.slots = (ctypes.c_void_p * len(self.arrays))(
            *(array.ctypes.data for array in self.arrays)
        )
        kind = np.uint16 if stored == "bf16" else np.float32
        self.caches = [np.zeros(c["shape"], kind) for c in manifest["caches"]]
        self.vocab = manifest["model"]["vocab_size"]
        self.arena = np.zeros(manifest["arena"]["bytes"] // 64 + 2, "V64")


class Upstream:
    """Calls entries as MLIR's C wrappers take them."""

    def __init__(self, library, memory):
        self.library, self.memory = library, memory
        ctypes.c_void_p.in_dll(library, "slots").value = ctypes.addressof(memory.slots)

    def call(self, entry, ids, position, source, rows):
        memory = self.memory
        room = 1 if entry == "decode" else CHUNK
        padded = np.zeros(room, np.int32)
        padded[: len(ids)] = ids
        logits = np.zeros((room, memory.vocab) if rows else (1, 1), np.float32)
        numbers = [len(ids), position, 0, source]
        buffers = [padded, logits, *memory.caches]
        memrefs = [ctypes.byref(descriptor(array)) for array in buffers]
        arguments = [memrefs[0], *map(ctypes.c_int64, numbers), *memrefs[1:]]
        results = ctypes.create_string_buffer(128 * len(buffers))
        getattr(self.library, f"_mlir_ciface_{entry}")(results, *arguments)
        return logits[: len(ids)]


class Artifact:
    """Calls the entries of an artifact, as runtime/Abi.h has them."""

    BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, BODY, ctypes.c_void_p, ctypes.c_int64)

    def __init__(self, path, memory):
        self.library, self.memory = ctypes.CDLL(str(path)), memory
        self.parallel = self.FOR(lambda host, body, context, n: body(context, 0, n))
        self.host = (ctypes.c_void_p * 1)(ctypes.cast(self.parallel, ctypes.c_void_p))

    def call(self, entry, ids, position, source, rows):
        memory = self.memory
        ids = np.array(ids, np.int32)
        logits = np.zeros((len(ids), memory.vocab), np.float32)
        caches = (ctypes.c_void_p * len(memory.caches))(
            *(cache.ctypes.data for cache in memory.caches)
        )
        arena = memory.arena.ctypes.data + 63 & ~63
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        getattr(self.library, f"cria_{entry}")(
            pointer(ids.ctypes.data),
            *map(number, [len(ids), position, 0, source]),
            pointer(logits.ctypes.data),
            caches,
            pointer(arena),
            memory.slots,
            self.host,
        )
        return logits


def fed(program, ids, source):
    """Logits of all ids, in PIECES."""
    if source:
        program.call("encode", source, 0, 0, False)
    rows, position = [], 0
    for count in PIECES:
        part = ids[position : position + count]
        entry = "decode" if count == 1 else "prefill"
        rows.append(program.call(entry, part, position, len(source), True))
        position += count
    return np.concatenate(rows)



def text_of(tools, program, flags):
    """What the linalg phase prints."""
    command = [tools.bin / "cria-compile", program, "--emit=linalg", *flags]
    return execute(command).ok().text


def bf16_program(tools):
    """examples/graphs/bart.mlir with weights and activations in bf16."""
    text = (GRAPHS / "bart.mlir").read_text()
    logits = re.search(r"-> \((tensor<\?x\d+xf32>)", text)[1]
    text = text.replace("xf32>", "xbf16>")
    text = text.replace(logits.replace("f32", "bf16"), logits)
    path = tools.scratch / "bart.mlir"
    path.write_text(text)
    return path


def check_family(tools, name, dtype):
    flags = [f"--chunk={CHUNK}"]
    if FAMILIES[name] is None:
        program = bf16_program(tools) if dtype == "bf16" else GRAPHS / "bart.mlir"
        exact = GRAPHS / "bart.mlir"
        exact_flags = flags
    else:
        exact = program = tools.scratch / f"{name}.json"
        program.write_text(json.dumps(FAMILIES[name]))
        exact_flags = [*flags, "--dtype=f32"]
        flags = [*flags, f"--dtype={dtype}"]
    artifact = tools.compile(program, *flags, "--target=cpu,cuda", out=f"{name}.cria")
    inspect = [tools.bin / "cria-inspect", artifact, "--json"]
    manifest = json.loads(execute(inspect).ok().out)
    generator = np.random.default_rng(0)
    vocab = manifest["model"]["vocab_size"]
    ids = generator.integers(3, vocab, sum(PIECES)).tolist()
    encodes = manifest["model"].get("encoder", False)
    source = generator.integers(3, vocab, 11).tolist() if encodes else []

    text = text_of(tools, program, flags)
    stated = Upstream(
        upstream(tools, text, f"{name}-{dtype}"), Memory(manifest, dtype, dtype)
    )
    cpu = Artifact(artifact, Memory(manifest, dtype, dtype))
    logits, got = fed(stated, ids, source), fed(cpu, ids, source)
    session = Model(tools, artifact, SEED, vocab, "emulated").session()
    if source:
        session.encode(source)
    ends = np.cumsum(PIECES)
    gpu = [session.feed(ids[end - n : end]) for end, n in zip(ends, PIECES)]
    results = {"CPU": got, "emulated GPU": np.concatenate(gpu)}
    spread = np.abs(logits - logits.mean(0)).max()
    check(spread > 0.01, f"{name}: logits that depend on nothing")

    if dtype == "f32":
        for device, result in results.items():
            check_close(logits, result, f"{name}, {device}")
        for i, caches in enumerate(zip(stated.memory.caches, cpu.memory.caches)):
            check_close(*caches, f"{name}, cache {i}")
        return
    text = text_of(tools, exact, exact_flags)
    wide = Upstream(upstream(tools, text, f"{name}-f32"), Memory(manifest, dtype, "f32"))
    exact = fed(wide, ids, source)
    for device, result in results.items():
        check_as_faithful(exact, logits, result, f"{name}, {device}")
    for i, arrays in enumerate(
        zip(wide.memory.caches, stated.memory.caches, cpu.memory.caches)
    ):
        exact, want, got = map(widened, arrays)
        apart, most = nmse(want, got), nmse(exact, want)
        check(apart <= most, f"{name}, cache {i}: NMSE {apart:.2e} > {most:.2e}")


def main():
    tools = Tools(*sys.argv[1:3])
    for name in sys.argv[4:] or FAMILIES:
        check_family(tools, name, sys.argv[3])


main()
