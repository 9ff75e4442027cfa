"""linalg_kernels.py BIN SCRATCH CPU|cuda: every program of linalg ops runs.

Each file of Inputs/linalg is an entry, written by hand at the linalg phase, that calls a
kernel that no llama op describes. Compiled for CPU, for one token and for many, the entry
gives the results of the same text lowered by upstream's passes, and of NumPy in f64. A
missed-optimization remark names each op that no fast schedule takes. The code for a CPU
needs no library; code for CUDA runs in the emulated driver. Each target takes another
quarter of the files, or all of them for scripts/test.sh --whole.
"""

import ctypes
import dataclasses
import functools
import math
import os
import pathlib
import re
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from driver import Plan, plan_of, ptx_of  # noqa: E402
from entries import (  # noqa: E402
    DECLARED,
    Artifact,
    Upstream,
    encoded,
    guarded,
    upstream,
    widened,
)
from harness import Tools, check, execute, nmse, some  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "Inputs/linalg"
CHUNK = 20
COUNTS = [1, 19]
POSITION = 23
IMPORTS = {"memcpy", "memmove", "memset"}
REMARK = re.compile(r"remark: \[Missed\] (\S+) \|.*?Function=(\w+) \|.*?Reason=\"(.*?)\"")
KINDS = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "bf16": np.uint16}


class Memory:
    """Weights and caches of a text, drawn at random, and room for its logits."""

    def __init__(self, text, arena):
        generator = np.random.default_rng(1)
        self.weights, slots = {}, []
        for name, _, sizes, kind, *_ in DECLARED.findall(text):
            shape = [int(size) for size in sizes.split("x")]
            values = generator.standard_normal(shape)
            if kind == "i8":
                values = generator.integers(-128, 128, shape).astype(np.int8)
                values[..., 0] = -128
            elif kind == "f64":
                pass
            else:
                values = encoded(values, kind)
            self.weights[name] = guarded(values)
            slots.append(self.weights[name])
        self.slots = (ctypes.c_void_p * len(slots))(*(s.ctypes.data for s in slots))
        entry = text[text.index("func.func @prefill") :]
        shapes = re.findall(r"%\w+: tensor<([\dx]+)xf32>", entry)
        logits, *caches = ([int(n) for n in s.split("x")] for s in shapes)
        self.logits = np.zeros(logits, np.float32)
        self.caches = [
            generator.standard_normal(shape).astype(np.float32) for shape in caches
        ]
        self.chunk = CHUNK
        self.arena = np.zeros(arena // 64 + 2, "V64")

    def values(self):
        """Weights and caches in f64, by name."""
        caches = zip(("keys", "values"), self.caches)
        all = self.weights | dict(caches)
        return {name: widened(a).astype(np.float64) for name, a in all.items()}


def ids_of(count):
    return (np.arange(count) * 7 + 3) % CHUNK


# What kernels compute: from f64 arrays by name, all rows; `n` are wanted.


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def gate(x, w, n):
    p = x @ w.T
    return p * np.tanh(np.logaddexp(p, 0))


def attention(score, query, keys, values, n, sinks=None):
    """(n, 60) of layer 1 at POSITION."""
    length = min(POSITION + n, keys.shape[2])
    k, v = keys[1, :, :length], values[1, :, :length]
    scores = score(np.einsum("thgd,hsd->hgts", query[:n], k))
    seen = np.arange(length) <= POSITION + np.arange(n)[:, None]
    scores = np.where(seen, scores, -np.inf)
    if sinks is not None:
        column = np.broadcast_to(sinks[..., None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([scores, column], -1)
    p = softmax(scores)[..., :length]
    return np.einsum("hgts,hsd->thgd", p, v).reshape(n, -1)


def attention_bias(bias, n, keys, **rest):
    length = min(POSITION + n, keys.shape[2])
    return attention(lambda s: s + bias[:, :, :n, :length], n=n, keys=keys, **rest)


def attention_head_scales(scales, **rest):
    return attention(lambda s: s * scales[..., None, None], **rest)


def attention_sink(**rest):
    return attention(lambda s: s, **rest)


def dequantize(x, q, scales, n):
    return x @ (q * np.repeat(scales, 32, 1)[:, : q.shape[1]]).T


def block_product(x, scales, w, n):
    rows = (x * scales[..., None]).reshape(len(x), -1)
    return rows @ (0.0965576171875 * w).reshape(len(w), -1).T


def unusual_operands(x, w, u, h, codes, entries, n):
    left, rows = x[:, :20], np.zeros((len(x), 37))
    rows[0] = (np.abs(left) @ w.T)[2]
    strided = x[:, 1:61:3] @ w.T + left @ u[:, ::2].T
    squares = np.square(x - x.mean(1, keepdims=True)).sum(1, keepdims=True)
    read = entries[codes.astype(np.int8).view(np.uint8)]
    parts = [strided, (left @ w.T) * (left @ h.T), x[:, :32] / squares, read, rows]
    return np.concatenate(parts, 1)


def argmax(x, n):
    rows = x[np.resize(ids_of(n), len(x))]
    return np.stack([rows.argmax(1), rows.max(1) > 0], 1)


def convolution(x, kernel, n):
    padded = np.concatenate([np.zeros((2, x.shape[1])), x])
    return sum(padded[w : w + len(x)] * kernel[w] for w in range(3))


def bf16_arithmetic(x, gamma, n):
    def rounded(a):
        return widened(encoded(a, "bf16")).astype(np.float64)

    return rounded(rounded(np.exp(x)) * rounded(x + gamma))


def softmax_alone(x, n):
    return softmax(softmax(x[:n], 1), 0)


def recurrence(x, n):
    a, b = np.abs(x), np.exp(x)
    for _ in range(3):
        a, b = b, a + b
    return a / b


def functions(x, other, n):
    # The arguments of functions are rounded to f32.
    narrow = x.astype(np.float32)
    a, b = np.abs(narrow) + np.float32(0.1), np.abs(narrow) + 1
    a, b, u = (v.astype(np.float64) for v in (a, b, narrow / b))
    erf = np.vectorize(math.erf)
    columns = [np.exp(x), np.exp2(x), np.expm1(x), np.log(a), np.log2(a)]
    columns += [np.log10(a), np.log1p(a), np.sin(x), np.cos(x), np.tan(x)]
    columns += [np.arcsin(u), np.arccos(u), np.arctan(x), np.sinh(x), np.cosh(x)]
    columns += [np.tanh(x), np.arcsinh(x), np.arccosh(b), np.arctanh(u)]
    columns += [erf(x), 1 - erf(x), np.cbrt(x), np.sqrt(a), 1 / np.sqrt(a)]
    columns += [np.floor(x), np.ceil(x), np.trunc(x + np.copysign(0.5, x))]
    columns += [np.rint(x), np.trunc(x), a**x, np.arctan2(x, other[:, None])]
    return np.stack([values[:, i] for i, values in enumerate(columns)], 1)


@dataclasses.dataclass
class Kernel:
    expected: object
    remarks: list = ()  # (name, reason) of each
    bar: float = 1e-12  # NMSE against f64
    peer: float = 1e-12  # NMSE against upstream, which rounds less in bf16
    by_column: bool = False  # columns are of different functions
    whole: int = 0  # launches of one thread that computes all, on a GPU


def no_vectors(reason):
    return ("scalar-loops", reason)


STORED = ("scores-stored", "its input does not come from a product that only the softmax reads")
ORDERED = ("scalar-sum", "its terms may not be added in another order")
UNTAKEN = "no fast schedule takes it"
ELEMENTS = "a thread computes each element"
WHOLE = "one thread computes all"
KERNELS = {
    "gate": Kernel(gate),
    "three_linears": Kernel(lambda x, w, u, v, n: (x @ w.T) * (x @ u.T) * (x @ v.T)),
    "biases": Kernel(lambda x, w, row, column, n: x @ w.T + row[:, None] + column),
    "abs_norm": Kernel(
        lambda x, gamma, n: x / (np.abs(x).mean(1, keepdims=True) + 1e-3) * gamma,
        [ORDERED],
    ),
    "attention_bias": Kernel(attention_bias),
    "attention_head_scales": Kernel(attention_head_scales),
    "attention_sink": Kernel( # whose sinks are a slice of three dimensions
        attention_sink,
        [
            ("scores-stored", "its sinks are not behind the scores, and dropped after it"),
            *2 * [no_vectors("it is not a product of two matrices")],
        ],
    ),
    "column_slices": Kernel(lambda x, w, u, n: x[:, :23] @ w.T + x[:, 14:] @ u.T),
    "bf16_slices": Kernel(lambda x, w, u, n: x[:, :67] @ w[:, 3:].T + x[:, 41:] @ u.T),
    "transposed_output": Kernel(
        lambda x, w, n: (x[:n] @ w.T).T,
        [no_vectors("its result is not indexed by the two outer loops")],
    ),
    "dequantize": Kernel(dequantize),
    "masked_sum": Kernel(lambda x, n: x.cumsum(1)),
    "running_sum": Kernel(lambda x, n: x.cumsum(1), whole=1),
    "recurrence": Kernel(recurrence),
    "called_twice": Kernel(lambda x, w, n: x @ w.T @ w.T),
    "half_the_rows": Kernel(
        lambda x, w, n: x @ w.T * (np.arange(len(x)) < (n + 1) // 2)[:, None]
    ),
    "branch": Kernel(lambda x, n: np.tanh(x) if n < 3 else np.exp(x), whole=1),
    "batch": Kernel(
        lambda x, w, n: np.einsum("thk,hkn->thn", x, w).reshape(len(x), -1),
        [no_vectors("it is not a product of two matrices")],
    ),
    "both_transposed": Kernel(
        lambda x, w, n: x.T @ w.T,
        [no_vectors("no schedule accepts how its operands are transposed")],
    ),
    "integer_product": Kernel(
        lambda x, w, n: x @ w.T,
        [no_vectors("it does more than multiply and add floats")],
        bar=0,
    ),
    "block_product": Kernel(block_product),
    "argmax": Kernel(argmax, bar=0),
    "unusual_operands": Kernel(
        unusual_operands,
        2 * [no_vectors("the elements of a row are not adjacent in memory")],
    ),
    "max_pool": Kernel(
        lambda x, n: np.maximum(np.maximum(x[:, :-2:2], x[:, 1:-1:2]), x[:, 2::2]),
        bar=0,
    ),
    "outer_product": Kernel(lambda a, b, n: np.outer(a, b)),
    "softmax_alone": Kernel(softmax_alone, 2 * [STORED]),
    "convolution": Kernel(convolution, [ORDERED]),
    "doubles": Kernel(
        lambda x, w, n: np.sqrt(np.abs(x @ w.T)),
        [no_vectors("it does not add products of f32, f16 or bf16 in f32")],
    ),
    "bf16_arithmetic": Kernel(bf16_arithmetic, bar=0, peer=1e-5),
    "functions": Kernel(functions, bar=4e-12, peer=4e-12, by_column=True),
    "payload_product": Kernel(
        lambda x, w, n: np.abs(x) @ np.exp(w).T,
        [no_vectors("it does more than multiply and add floats")],
    ),
}


def compiled(tools, path, cpu):
    """The library that the text becomes, its arena and its remarks."""
    base = tools.scratch / f"{path.stem}-{cpu}"
    tile, llvm, object, library = (
        base.with_suffix(kind) for kind in (".tile", ".llvm", ".o", ".so")
    )
    lowered = execute(
        [tools.bin / "cria-opt", path, f"--cria-tile=cpu={cpu}", "--remarks-filter=.*"]
        + ["-o", tile]
    ).ok()
    machine = ["llc-22", "-O2", f"-mcpu={cpu}", "-relocation-model=pic"]
    for command in [
        [tools.bin / "cria-opt", tile, f"--cria-llvm=cpu={cpu}", "-o", llvm],
        ["mlir-translate-22", "--mlir-to-llvmir", llvm, "-o", f"{base}.ll"],
        ["opt-22", "-O3", f"-mcpu={cpu}", "-mtriple=x86_64-unknown-linux-gnu"]
        + [f"{base}.ll", "-o", f"{base}.bc"],
        [*machine, "-filetype=obj", f"{base}.bc", "-o", object],
        ["cc", "-shared", "-nostdlib", object, "-o", library],
    ]:
        execute(command).ok()
    symbols = execute(["llvm-nm-22", "-D", "--undefined-only", library]).ok().text
    needed = {line.split()[-1] for line in symbols.splitlines()} - IMPORTS
    check(not needed, f"{path.stem}: needs {sorted(needed)} of libraries")
    text = tile.read_text()
    arena = int(re.search(r"cria.arena_bytes = (\d+) : index", text)[1])
    return library, arena, lowered.errors, text


def compiled_for_cuda(tools, path):
    """What runs the text on the emulated GPU, its plan and its remarks."""
    base = tools.scratch / f"{path.stem}-cuda"
    tile, llvm, binary = (base.with_suffix(kind) for kind in (".tile", ".llvm", ".bin"))
    opt = tools.bin / "cria-opt"
    # Kernels wait for the launch before, which mlir-opt compiles for sm_90 and later.
    chip = "target=cuda chips=sm_90"
    command = [opt, path, f"--cria-tile={chip}", "--remarks-filter=.*", "-o", tile]
    lowered = execute(command).ok()
    to_binary = "--gpu-module-to-binary=format=isa"
    for command in [
        [opt, tile, f"--cria-llvm={chip}", "-o", llvm],
        ["mlir-opt-22", llvm, to_binary, "-o", binary],
    ]:
        execute(command).ok()
    plan, ptx = plan_of(llvm.read_text()), ptx_of(binary.read_text())
    return functools.partial(Plan, tools, ptx, plan), plan, lowered.errors


def run(program, text, arena, count):
    memory = Memory(text, arena)
    program(memory).call("prefill", ids_of(count), POSITION, 0)
    return memory


def error_of(kernel, reference, got):
    """The NMSE; or where each column is of its own, the worst one's, the error of
    elements near zero counted as of ones.
    """
    if not kernel.by_column:
        return nmse(reference, got)
    return (np.square((got - reference) / np.maximum(np.abs(reference), 1))).max()


def check_remarks(name, errors, expected):
    remarks = [
        (what, reason)
        for what, function, reason in REMARK.findall(errors)
        if function == name
    ]
    check(
        remarks == expected and errors.count("[Missed]") == len(remarks),
        f"{name}: expected the remarks {expected}, got {remarks}\n{errors}",
    )


def for_cpu(tools, name, kernel, path, cpu):
    """What runs the kernel, and the size of its arena."""
    library, arena, errors, tile = compiled(tools, path, cpu)
    check_remarks(name, errors, list(kernel.remarks))
    # Flash attention makes no buffer of all scores.
    if name.startswith("attention"):
        stored = "to memref<2x3x?x?xf32>" in tile
        wanted = any(what == "scores-stored" for what, _ in kernel.remarks)
        check(stored == wanted, f"{name}: all scores stored: {stored}, not {wanted}")
    return functools.partial(Artifact, library), arena


def for_cuda(tools, name, kernel, path):
    """What runs the kernel: each launch that no schedule makes has a remark."""
    program, plan, errors = compiled_for_cuda(tools, path)
    # What a schedule takes has no remark.
    untaken = [r[::2] for r in REMARK.findall(errors) if r[0] == "no-schedule"]
    expected = list(untaken)
    if untaken:
        softmaxes = path.read_text().count("= linalg.softmax")
        steps = plan["entries"]["prefill"]
        launches = sum(len(step.get("body", [step])) for step in steps)
        reasons = [*(launches - kernel.whole) * [ELEMENTS], *kernel.whole * [WHOLE]]
        expected += softmaxes * [("scores-stored", UNTAKEN)]
        expected += [("generic-launch", f"{UNTAKEN}: {reason}") for reason in reasons]
    check_remarks(name, errors, expected)
    return program


def check_kernel(tools, name, kernel, target):
    path = FOLDER / f"{name.replace('_', '-')}.mlir"
    text = path.read_text()
    if target == "cuda":
        program, arena = for_cuda(tools, name, kernel, path), 0
    else:
        program, arena = for_cpu(tools, name, kernel, path, target)
    stock = upstream(tools, text, f"{path.stem}-upstream")
    for count in COUNTS:
        got = run(program, text, arena, count)
        peer = run(functools.partial(Upstream, stock), text, 0, count)
        exact = np.zeros_like(got.logits, np.float64)
        rows = kernel.expected(**got.values(), n=count)
        if name == "transposed_output":
            exact[:, :count] = rows
        else:
            exact[:count] = rows[:count]
        check(np.abs(exact).max() > 0, f"{name}: expected nothing but zeros")
        for who, result, bar in [
            ("NumPy", exact, kernel.bar),
            ("upstream", peer.logits, kernel.peer),
        ]:
            error = error_of(kernel, result, got.logits)
            check(
                error <= bar,
                f"{name}, {count} tokens, {target}: NMSE {error:.2e} against {who}, "
                f"expected at most {bar:.0e}",
            )


def main():
    tools, target = Tools(*sys.argv[1:3]), sys.argv[3]
    os.environ["CRIA_EMULATOR_DEVICE"] = "sm_90"
    files = {path.stem.replace("-", "_") for path in FOLDER.glob("*.mlir")}
    check(files == set(KERNELS), f"{files ^ set(KERNELS)}: a file or a reference lacks")
    targets = ["native", "x86-64-v3", "x86-64-v4", "cuda"]
    for name in sys.argv[4:] or some(KERNELS, len(targets), targets.index(target)):
        check_kernel(tools, name, KERNELS[name], target)


if __name__ == "__main__":
    main()
