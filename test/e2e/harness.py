"""What the end-to-end tests share: the tools as functions, and the bars.

A test is a program `NAME.py BIN SCRATCH ...`: the folder of the tools and a folder for
the test's own files. A test exits with a message if a check fails.
"""

import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import numpy as np

import cases

HERE = pathlib.Path(__file__).resolve().parent
TIMEOUT = 1000  # seconds a tool may take
CUDA_TARGETS = {"--target=cuda", "--target=cpu,cuda"}

WHOLE = "CRIA_TEST_WHOLE" in os.environ  # by scripts/test.sh --whole


def some(cases, share, first=0):
    """One in `share` of the cases, the same in every run; all of them for scripts/test.sh
    --whole.

    The values 0 to `share` - 1 of `first` share the cases out, each case to one of them.
    """
    cases = list(cases)
    if not WHOLE:
        random.Random(1).shuffle(cases)
        cases = cases[first % min(share, len(cases)) :: share]
    return cases


def check(condition, message):
    """Ends the test with `message` unless `condition` holds."""
    if not condition:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")


@dataclasses.dataclass
class Run:
    """The result of a run of a tool."""

    command: list
    status: int  # as a shell sees it: 128 + N if signal N ended the tool
    out: bytes
    errors: str

    def __str__(self):
        line = " ".join(map(str, self.command))
        return f"{line}\nexit {self.status}\n{self.errors}"

    def ok(self):
        """Returns the run itself, which must have succeeded."""
        check(self.status == 0, self)
        return self

    @property
    def text(self):
        return self.out.decode()

    def ids(self):
        """The ids of --print-ids, which are all of stdout."""
        plain = re.fullmatch(rb"\d+(,\d+)*\n", self.out)
        check(plain, f"{self}\nexpected one line of ids, got {self.out!r}")
        return [int(i) for i in self.out.split(b",")]


def execute(command, **options):
    """Runs a command to its end."""
    done = subprocess.run(
        [part if isinstance(part, bytes) else str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        **options,
    )
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    errors = done.stderr.decode(errors="replace")
    return Run(command, status, done.stdout or b"", errors)


class Tools:
    """The tools of `bin`, with files in `scratch`, which is emptied first."""

    def __init__(self, bin, scratch):
        self.bin = pathlib.Path(bin).resolve()
        self.scratch = pathlib.Path(scratch).resolve()
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)

    def compile_command(self, config, out, *flags):
        """For GPUs the code is sm_80's, unless `flags` name chips: three take longer."""
        given = [str(flag) for flag in flags]
        if CUDA_TARGETS & {*given} and not any(flag.startswith("--chip=") for flag in given):
            flags += ("--chip=sm_80",)
        compiler = self.bin / "cria-compile"
        return [compiler, config, "-o", out, *flags]

    def compile(self, config, *flags, out="model.cria"):
        """Path of the artifact of a config.json."""
        path = self.scratch / out
        execute(self.compile_command(config, path, *flags)).ok()
        return path

    def compile_with_emulated_amx(self, config, *flags, out="model.cria"):
        """As `compile`, by the schedules for AMX, with AMX as loops for any CPU."""
        path = self.scratch / out
        linalg, tile = (path.with_suffix(f".{name}.mlir") for name in ("linalg", "tile"))
        emulate = [self.bin.parent / "test/amx/emulate-amx", "--tile-with-emulated-amx"]
        stated = ["--emit=linalg", "--cpu=sapphirerapids", *flags]
        execute(self.compile_command(config, linalg, *stated)).ok()
        execute([*emulate, linalg, "-o", tile]).ok()
        execute(self.compile_command(tile, path)).ok()
        return path

    def run_command(self, artifact, *flags):
        return [self.bin / "cria-run", artifact, *flags]

    def run(self, artifact, *flags):
        return execute(self.run_command(artifact, *flags))

    def logits(self, artifact, ids, *flags, max_tokens=1):
        """(tokens, vocab) f32 logits of the prompt `ids`."""
        return self.outputs(artifact, ids, ["logits"], *flags, max_tokens=max_tokens)[0]

    def outputs(self, artifact, ids, names, *flags, max_tokens=1):
        """(tokens, ...) f32 of the prompt `ids`: "logits" or "hidden"."""
        files = [self.scratch / f"{name}.npy" for name in names]
        for file in files:
            file.unlink(missing_ok=True)
        prompt = "--ids=" + ",".join(map(str, ids))
        wanted = [f"--{name}={file}" for name, file in zip(names, files)]
        wanted += [prompt, f"--max-tokens={max_tokens}", "--temperature=0"]
        self.run(artifact, *wanted, *flags).ok()
        results = list(map(np.load, files))
        for file, result in zip(files, results):
            check(result.dtype == np.float32, f"{file}: {result.dtype}")
            check(result.shape[0] == len(ids), f"{file}: shape {result.shape}")
        return results

    def greedy(self, artifact, ids, count, *flags):
        """The `count` ids that continue `ids`."""
        prompt = "--ids=" + ",".join(map(str, ids))
        wanted = [prompt, f"--max-tokens={count}", "--temperature=0"]
        return self.run(artifact, *wanted, "--print-ids", *flags).ok().ids()


def nmse(reference, got):
    """Squared error over the squared norm of the reference."""
    reference = reference.astype(np.float64)
    return ((got - reference) ** 2).sum() / (reference**2).sum()


def check_close(reference, got, what):
    """The bar of f32: max |d| <= 1e-3 and NMSE <= 1e-8."""
    worst, error = np.abs(reference - got).max(), nmse(reference, got)
    check(
        worst <= 1e-3 and error <= 1e-8,
        f"{what}: max |d| {worst:.2e}, expected at most 1e-3; "
        f"NMSE {error:.2e}, expected at most 1e-8",
    )


def log_softmax(logits):
    logits = logits.astype(np.float64)
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def divergence(p, q):
    """Mean KL divergence of the distributions of two arrays of logits."""
    p, q = log_softmax(p), log_softmax(q)
    return (np.exp(p) * (p - q)).sum(-1).mean()


def check_as_faithful(exact, peer, got, what):
    """The bar of bf16 and f16: as close to the f32 logits as the peer's logits are."""
    ours, theirs = divergence(exact, got), divergence(exact, peer)
    check(
        ours <= 1.25 * theirs,
        f"{what}: KLD from f32 {ours:.2e}, expected at most 1.25 times "
        f"that of transformers, {theirs:.2e}",
    )
    apart = divergence(peer, got)
    check(apart <= 1e-3, f"{what}: KLD from transformers {apart:.2e}")
    for row, (a, b) in enumerate(zip(peer, got)):
        top, best = np.argsort(a)[-5:], np.argsort(b)[-5:]
        mutual = best[-1] in top and top[-1] in best
        check(mutual, f"{what}: row {row}: best ids {best} against {top}")


def check_hidden(exact, peer, got, what):
    """The bar of bf16 and f16 for hidden states: at most twice as far from those in f32
    as the peer's are."""
    ours, theirs = nmse(exact, got), nmse(exact, peer)
    check(
        ours <= 4 * theirs,
        f"{what}: NMSE of hidden states {ours:.2e}, expected at most 4 times that of "
        f"the peer, {theirs:.2e}",
    )


@dataclasses.dataclass
class Golden:
    """The results of transformers; see make_goldens.py."""

    name: str

    def __post_init__(self):
        self.folder = HERE / "goldens" / self.name
        self.config = self.folder / "config.json"
        with np.load(self.folder / "golden.npz") as arrays:
            data = dict(arrays)
        self.ids = data["ids"].tolist()
        self.rows = data["rows"]
        self.exact = data["f32"]
        self.greedy = data["greedy"].tolist()
        self.seed = int(data.get("seed", 0))
        self.stored = self.widened(data)

    def widened(self, data):
        """The results of transformers in the storage type; None for f32."""
        if "stored" not in data:
            return None
        if self.name.startswith("bf16"):
            return (data["stored"].astype(np.uint32) << 16).view(np.float32)
        return data["stored"].view(np.float16).astype(np.float32)

    @property
    def start(self):
        """The first ids, which the greedy continuation continues."""
        return self.ids[: cases.CASES[self.name].greedy_from]

    @property
    def has_prefixes(self):
        """Whether the logits of a shorter prompt are the first ones of the longest prompt.
        They are not if RoPE depends on the length."""
        config = json.loads(self.config.read_text())
        scaling = config.get("rope_scaling") or {}
        kind = scaling.get("rope_type", scaling.get("type"))
        return kind not in ("dynamic", "longrope")

    def check(self, logits, what):
        """Logits of the first len(logits) tokens against the bar."""
        few = self.rows < len(logits)
        got, exact = logits[self.rows[few]], self.exact[few]
        if self.stored is None:
            check_close(exact, got, what)
        else:
            check_as_faithful(exact, self.stored[few], got, what)

    def check_hidden(self, hidden, what):
        """Hidden states of all tokens against those of the last rows."""
        with np.load(self.folder / "hidden.npz") as arrays:
            data = dict(arrays)
        exact = data["f32"]
        got = hidden[self.rows[-len(exact) :]]
        if self.stored is None:
            check_close(exact, got, what)
        else:
            check_hidden(exact, self.widened(data), got, what)
