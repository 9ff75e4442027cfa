"""execution.py BIN SCRATCH CPU OP...: the meaning of ops.

Compiles each program of cases.OP, variants.OP, experts.OP or states.OP, and runs it on
the numbers of tokens that the schedules differ in (one, tiles of dot products, packed
panels; several calls of @forward). Compares the logits with the reference:

- NMSE against f64 at most 1e-7 for f32, 1e-5 for bf16 and f16;
- for bf16 and f16 also an error at most twice that of NumPy in f32 that rounds
  each op's result to the storage type. If results are so few that NumPy's NMSE is more
  than 1e-5, NumPy's NMSE is the bar; of several ops, four times NumPy's NMSE.

CPU is a name for --cpu, or "emulated-amx" (test/amx/), or "emulated". With the last,
kernels for CUDA run on the emulated driver with all checks: prompts of each length and
tokens one by one. Each of these runs another quarter of the programs, or all of them for
scripts/test.sh --whole.
"""

import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from capi import LOGITS_LAST, Model  # noqa: E402
from harness import Tools, check, nmse, some  # noqa: E402

import cases  # noqa: E402
import experts  # noqa: E402
import states  # noqa: E402
import variants  # noqa: E402

TARGETS = ["native", "x86-64-v3", "emulated-amx", "emulated"]
WIDENED = {"emulated-amx": ["bf16"]}  # types that multiply widened weights
BAR = {"f32": 1e-7, "bf16": 1e-5, "f16": 1e-5}
SINGLE = 5  # tokens that are also fed one by one
LAST = 33  # tokens of which the last one's logits are also asked for alone


def compare(program, got, what):
    ids, bar = range(len(got)), BAR[program.dtype]
    exact = program.expected(ids)
    check(np.isfinite(got).all(), f"{what}: not finite")
    if not exact.any():
        return check(not got.any(), f"{what}: expected zeros")
    if program.dtype != "f32":
        peer = program.expected(ids, program.dtype)
        bar = max(bar, nmse(exact, peer) * program.slack)
        ours, theirs = (np.linalg.norm(a - exact) for a in (got, peer))
        check(
            ours <= 2 * theirs,
            f"{what}: error {ours:.2e}, expected at most twice that of NumPy "
            f"with the same types, {theirs:.2e}",
        )
    error = nmse(exact, got)
    check(error <= bar, f"{what}: NMSE {error:.2e}, expected at most {bar:.2e}")


def compiled(tools, program, cpu, what):
    """The artifact; its folder has the weights."""
    folder = what.replace(" ", "-")
    text, out = program.write(tools.scratch / folder), f"{folder}/model.cria"
    chunk = f"--chunk={program.chunk}"
    if cpu == "emulated-amx":
        return tools.compile_with_emulated_amx(text, chunk, out=out)
    target = "--target=cuda" if cpu == "emulated" else f"--cpu={cpu}"
    return tools.compile(text, chunk, target, out=out)


def run(tools, program, cpu, what):
    artifact = compiled(tools, program, cpu, what)
    for count in program.counts:
        weights = f"--weights={artifact.parent}"
        drawn = 0 if program.whole else 1
        got = tools.logits(artifact, range(count), weights, max_tokens=drawn)
        compare(program, got, f"{what}, {count} tokens")


def run_emulated(tools, program, what):
    artifact = compiled(tools, program, "emulated", what)
    vocab = program.results[0].shape[1]
    model = Model(tools, artifact, 0, vocab, "emulated", artifact.parent)
    session = model.session()
    for count in program.counts:
        session.rewind(0)
        got = session.feed(range(count))
        compare(program, got, f"{what}, {count} tokens")
        if count == LAST:
            session.rewind(0)
            last = session.feed(range(count), LOGITS_LAST)
            error = nmse(got[-1:], last) if got[-1:].any() else np.abs(last).max()
            check(error <= BAR["f32"], f"{what}, {count} tokens, the last: {error:.2e}")
    if program.whole:
        return
    session.rewind(0)
    program.chunk = 1
    got = np.concatenate([session.feed([i]) for i in range(SINGLE)])
    compare(program, got, f"{what}, token by token")


def main():
    bin, scratch, cpu, *ops = sys.argv[1:]
    tools, first = Tools(bin, scratch), TARGETS.index(cpu)
    for op in ops:
        modules = (cases, variants, experts, states)
        module = next(each for each in modules if hasattr(each, op))
        programs = getattr(module, op)
        taken = [
            what
            for what, program in programs()
            if cpu != "emulated" or program.on_cuda
        ]
        chosen = some(taken, len(TARGETS), first)
        # Made once more: a program reads variables of its maker, and so must run before the
        # next one is made.
        for what, program in programs():
            if what not in chosen:
                continue
            program.widened = WIDENED.get(cpu, ())
            if cpu == "emulated":
                run_emulated(tools, program, f"{op} {what}")
            else:
                run(tools, program, cpu, f"{op} {what}")


if __name__ == "__main__":
    main()
