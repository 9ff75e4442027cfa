"""fuzz_graphs.py BIN SCRATCH [OPTION...]: random programs, computed in several ways.

A seed makes a program (random_graphs.py). Its logits and caches must be those of NumPy in
f64, in whole calls and in uneven ones that end with single tokens:

- on the CPU, called by the artifact's ABI. Pages that cannot be read follow each array;
- in the emulated CUDA driver, by the runtime, with all checks;
- the same with a kernel for each op instead of fused ones, every other seed with MLIR's
  plain loops;
- for some seeds also by upstream's passes alone, from the text of the linalg phase.

The NMSE may be 4 times that of NumPy with the program's types, as the program may cancel
or sharpen errors, and as much as that of a model. A worker runs seeds until one fails,
so that a crash is a failure of one seed.
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
import blocks  # noqa: E402
import reference  # noqa: E402
from capi import LOGITS_ALL, LOGITS_LAST, Model  # noqa: E402
from entries import (  # noqa: E402
    Artifact,
    Upstream,
    encoded,
    guarded,
    upstream,
    widened,
)
from harness import Tools, check, execute, nmse  # noqa: E402
from random_graphs import Graph  # noqa: E402

# Of programs of several ops: in f32 that of a model.
BARS = {"f32": 1e-8, "bf16": 1e-5, "f16": 1e-5, "blocks": 5e-4}
UNFUSE = "--assign-slots --llama-specialize-entries --canonicalize --cse"
UNFUSE += " --llama-outline-kernels --describe-kernels"
UPSTREAM = 32  # one in this many seeds: also with the passes of upstream
SLACK, NOISES = 4, 2


class Memory:
    """The arrays that a program's entries are called with."""

    def __init__(self, graph, manifest):
        arrays = [None] * manifest["slots"]
        for weight in manifest["weights"]:
            rows = weight.get("rows", {"first": 0})["first"]
            for layer in range(max(weight["count"], 1)):
                name = weight["name"].replace("{}", str(layer + weight["first"]))
                values = graph.arrays[name][rows : rows + weight["shape"][0]]
                arrays[weight["slot"] + layer] = guarded(
                    blocks.quantize(values, weight["dtype"])
                    if weight["dtype"] in blocks.FORMATS
                    else encoded(values, weight["dtype"])
                )
        for table in manifest["rope"]:
            angles = reference.angles(np.arange(table["rows"]), table["inv_freq"])
            for i, turn in enumerate([np.cos, np.sin]):
                values = turn(angles.astype(np.float64)) * table["scale"]
                arrays[table["slot"] + i] = guarded(values.astype(np.float32))
        self.arrays, self.chunk = arrays, graph.chunk
        self.slots = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        self.caches = [guarded(empty(cache)) for cache in manifest["caches"]]
        columns = manifest["model"]["vocab_size"]
        self.logits = guarded(np.zeros((graph.chunk, columns), np.float32))
        # All bits are set: numbers that nothing wrote are no numbers.
        arena = np.full(manifest["cpu"][0]["arena"], 255, np.uint8)
        self.arena = guarded(arena) if arena.size else arena


def empty(cache):
    *outer, size = cache["shape"]
    if cache["dtype"] == "q8_0":
        return np.zeros([*outer, size // 32, 34], np.uint8)
    kinds = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}
    return np.zeros(cache["shape"], kinds[cache["dtype"]])


def numbers(cache):
    """The values of a cache in f64."""
    in_blocks = cache.dtype == np.uint8
    cache = blocks.dequantize(cache, "q8_0") if in_blocks else widened(cache)
    return cache.astype(np.float64)


class Wanted:
    """What a graph must give for the pieces of a text, and how close."""

    def __init__(self, graph, pieces):
        self.graph, self.pieces = graph, pieces
        # Logits of all tokens of every other call, else of the last one.
        odd = graph.seed + len(pieces)
        self.firsts = [(i + odd) % 2 * (n - 1) for i, n in enumerate(pieces)]
        self.logits, self.caches = graph.expected(pieces, self.firsts)
        self.bar = BARS["blocks" if "llama.blocks" in graph.text() else graph.dtype]
        self.logits_bar, self.cache_bars = self.bar, [self.bar] * len(self.caches)
        # One order of roundings may be close to f64 by chance.
        for noise in [None, *np.random.default_rng(graph.seed).spawn(NOISES)]:
            logits, caches = graph.expected(pieces, self.firsts, graph.dtype, noise)
            error = nmse_of(np.concatenate(self.logits), np.concatenate(logits))
            self.logits_bar = max(self.logits_bar, SLACK * error)
            for i, pair in enumerate(zip(self.caches, caches)):
                self.cache_bars[i] = max(self.cache_bars[i], SLACK * nmse_of(*pair))

    def compare(self, got, caches, what):
        want, got = np.concatenate(self.logits), np.concatenate(got)
        compare(want, got, self.logits_bar, f"{what}, logits")
        for i, cache in enumerate(caches):
            name = f"{what}, cache {i}"
            compare(self.caches[i], numbers(cache), self.cache_bars[i], name)


def nmse_of(want, got):
    return nmse(want, got) if want.any() else float(np.abs(got).max(initial=0) > 1e-3)


def compare(want, got, bar, what):
    check(np.isfinite(got).all(), f"{what}: not finite")
    error = nmse_of(want, got)
    check(error <= bar, f"{what}: NMSE {error:.2e}, expected at most {bar:.2e}")


def called(program, wanted):
    """Logits of calls of the entries."""
    rows, at, memory = [], 0, program.memory
    for count, first in zip(wanted.pieces, wanted.firsts):
        ids = wanted.graph.ids[at : at + count].tolist()
        memory.logits[:] = np.nan
        program.call("decode" if count == 1 else "prefill", ids, at, 0, first)
        rows.append(memory.logits[: count - first].copy())
        at += count
    return rows


def fed(session, wanted):
    """Logits of a session of the runtime."""
    rows, at = [], 0
    session.rewind(0)
    for count, first in zip(wanted.pieces, wanted.firsts):
        ids = wanted.graph.ids[at : at + count]
        rows.append(session.feed(ids, LOGITS_LAST if first else LOGITS_ALL))
        at += count
    return rows


class Runner:
    def __init__(self, tools, seed, graph, chip):
        self.tools, self.seed, self.graph, self.chip = tools, seed, graph, chip
        self.folder = tools.scratch / "graph"
        self.program = graph.write(self.folder)
        self.ways = [Wanted(graph, pieces) for pieces in graph.pieces()]
        self.chunk = f"--chunk={graph.chunk}"

    def compiler(self, *options):
        return execute([self.tools.bin / "cria-compile", self.chunk, "-j1", *options])

    def compiled(self, program, what, cuda):
        """The path of an artifact for the CPU, maybe also for CUDA, and its manifest."""
        path = self.folder / f"{what}{self.seed}.cria"
        flags = ["--target=cpu,cuda", f"--chip={self.chip}"] if cuda else []
        flags += ["--plain"] if what == "plain" else []
        self.compiler(program, *flags, "-o", path).ok()
        inspect = [self.tools.bin / "cria-inspect", path, "--json"]
        return path, json.loads(execute(inspect).ok().out)

    def unfused(self):
        """The program with a kernel for each op."""
        text, path = (self.folder / f"{name}.mlir" for name in ("import", "unfused"))
        text.write_bytes(self.compiler(self.program, "--emit=import").ok().out)
        command = [self.tools.bin / "cria-opt", text, *UNFUSE.split(), "-o", path]
        execute(command).ok()
        return path

    def check_cpu(self, path, manifest, what):
        for wanted in self.ways:
            program = Artifact(path, Memory(self.graph, manifest))
            got = called(program, wanted)
            name = f"{what}, calls of {wanted.pieces}"
            wanted.compare(got, program.memory.caches, name)

    def check_gpu(self, path, manifest, what):
        columns = manifest["model"]["vocab_size"]
        model = Model(self.tools, path, 0, columns, "emulated", path.parent)
        session = model.session()
        for wanted in self.ways:
            name = f"{what}, calls of {wanted.pieces}"
            wanted.compare(fed(session, wanted), [], name)
        session.free()
        model.free()

    def check_upstream(self, manifest):
        text = self.compiler(self.program, "--emit=linalg").ok().text
        library = upstream(self.tools, text, f"upstream{self.seed}")
        for wanted in self.ways:
            program = Upstream(library, Memory(self.graph, manifest))
            got = called(program, wanted)
            wanted.compare(got, program.memory.caches, f"upstream, {wanted.pieces}")

    def run(self):
        gpu = self.seed % 2 == 0
        fused = self.compiled(self.program, "fused", gpu)
        self.check_cpu(*fused, "CPU")
        if gpu:
            self.check_gpu(*fused, "emulated")
        if self.seed % 4 == 1:
            plain = self.compiled(self.unfused(), "plain", False)
            self.check_cpu(*plain, "CPU, unfused, plain loops")
        if self.seed % 8 == 2:
            unfused = self.compiled(self.unfused(), "unfused", True)
            self.check_cpu(*unfused, "CPU, unfused")
            self.check_gpu(*unfused, "emulated, unfused")
        if self.seed % UPSTREAM == 1:
            self.check_upstream(fused[1])
        for path in self.folder.glob("*.cria"):
            path.unlink()


def made(options, seed):
    return Graph(seed, options.ops, options.without.split(","))


def work(options):
    """Runs seeds. The file `seed` says which one runs."""
    tools = Tools(options.bin, options.scratch)
    seed, end = options.first, time.monotonic() + options.seconds
    while seed < options.first + options.count and time.monotonic() < end:
        (tools.scratch / "seed").write_text(str(seed))
        Runner(tools, seed, made(options, seed), options.chip).run()
        seed += 1
    (tools.scratch / "seed").write_text(str(seed))


def reason(worker, errors):
    """One line of why a worker ended."""
    if worker.returncode < 0:
        return f"signal {-worker.returncode}"
    lines = [line for line in errors.splitlines() if line] or ["no message"]
    return next((line for line in lines if "error:" in line), lines[-1])


def supervise(options):
    """Runs seeds to the end of the time. Returns how many ran, and how many failed."""
    state = pathlib.Path(options.scratch) / "seed"
    end, seed, failed = time.monotonic() + options.seconds, options.first, 0
    last = seed + options.count
    while seed < last and (left := end - time.monotonic()) > 0:
        command = [sys.executable, __file__, options.bin, options.scratch, f"{left}"]
        command += ["--worker", f"--first={seed}", f"--count={last - seed}"]
        command += [f"--without={options.without}", f"--chip={options.chip}"]
        command += [f"--ops={options.ops}"] if options.ops else []
        worker = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        seed = int(state.read_text())
        if worker.returncode:
            why = reason(worker, worker.stderr)
            again = f"scripts/fuzz_graphs.sh --seed={seed} --chip={options.chip}"
            again += f" --without={options.without}" if options.without else ""
            print(f"{again}  # {why}", flush=True)
            if options.count == 1:
                print(worker.stderr, file=sys.stderr)
            failed, seed = failed + 1, seed + 1
    return seed - options.first, failed


def parsed():
    parser = argparse.ArgumentParser(usage="see scripts/fuzz_graphs.sh --help")
    parser.add_argument("bin")
    parser.add_argument("scratch")
    parser.add_argument("seconds", type=float, nargs="?", default=600)
    parser.add_argument("--first", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--ops", type=int)
    parser.add_argument("--chip", default="sm_80")
    parser.add_argument("--without", default="")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--worker", action="store_true")
    options = parser.parse_args()
    if options.seed is not None:
        options.first, options.count = options.seed, 1
    if options.first is None:
        options.first = int(time.time()) % 10**6 * 1000
    return options


def main():
    options = parsed()
    if options.print:
        return print(made(options, options.first).text(), end="")
    if options.worker:
        return work(options)
    pathlib.Path(options.scratch).mkdir(parents=True, exist_ok=True)
    os.environ.pop("CRIA_EMULATOR_CACHE", None)  # no kernel comes again
    os.environ["CRIA_EMULATOR_OPTIMIZATION"] = "0"
    # A device of compute capability 9.0 runs code for sm_90a.
    os.environ["CRIA_EMULATOR_DEVICE"] = options.chip.removesuffix("a")
    ran, failed = supervise(options)
    print(f"{ran} graphs from seed {options.first} on, {failed} wrong")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
