"""execution.py BIN SCRATCH CPU OP...: the meaning of ops.

Compiles each program of cases.OP, variants.OP, experts.OP or states.OP, and runs it on
the numbers of tokens that the schedules differ in (one, tiles of dot products, packed
panels; several calls of @forward). Compares the logits with the reference:

- NMSE against f64 at most 1e-7 for f32, 1e-5 for bf16 and f16;
- for bf16 and f16 also an error at most twice that of NumPy in f32 that rounds
  each op's result to the storage type. If results are so few that NumPy's NMSE is more
  than 1e-5, NumPy's NMSE is the bar; of several ops, four times NumPy's NMSE.

CPU is a name for --cpu, or "emulated-amx" (test/amx/), or "emulated", or
"emulated-hopper". With the last two, kernels for CUDA, of sm_80 or sm_90a, run on the
emulated driver with all checks: prompts of each length and tokens one by one. Each of
these but the last runs another quarter of the programs, and the last one the quarter of
the first, or all of them for scripts/test.sh --whole.
"""

import json
import os
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
from program import ROWS  # noqa: E402

TARGETS = ["native", "x86-64-v3", "emulated-amx", "emulated"]
CHIPS = {"emulated": "sm_80", "emulated-hopper": "sm_90a"}
# On sm_90a a block has several tiles, and a slot of its ring is used again soon.
FEW_BLOCKS = {"gemm_warpgroups": {"blocks": 8, "stages": 2}}
# Types of rows that multiply widened weights.
WIDENED = {"emulated-amx": ["bf16"], **dict.fromkeys(CHIPS, ["bf16", "f16"])}
BAR = {"f32": 1e-7, "bf16": 1e-5, "f16": 1e-5}
SINGLE = 5  # tokens that are also fed one by one
LAST = 33  # tokens of which the last one's logits are also asked for alone


def ids_of(count):
    return [i % ROWS for i in range(count)]


def compare(program, got, what):
    ids, bar = ids_of(len(got)), program.bar or BAR[program.dtype]
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
    chip = CHIPS.get(cpu)
    target = ["--target=cuda", f"--chip={chip}"] if chip else [f"--cpu={cpu}"]
    if chip == "sm_90a":
        sizes = tools.scratch / "sizes.json"
        sizes.write_text(json.dumps(FEW_BLOCKS))
        target.append(f"--schedules={sizes}")
    return tools.compile(text, chunk, *target, out=out)


def run(tools, program, cpu, what):
    artifact = compiled(tools, program, cpu, what)
    for count in program.counts:
        weights = f"--weights={artifact.parent}"
        drawn = 0 if program.whole else 1
        got = tools.logits(artifact, ids_of(count), weights, max_tokens=drawn)
        compare(program, got, f"{what}, {count} tokens")


def run_emulated(tools, program, cpu, what):
    artifact = compiled(tools, program, cpu, what)
    vocab = program.results[0].shape[1]
    model = Model(tools, artifact, 0, vocab, "emulated", artifact.parent)
    session = model.session()
    for count in program.counts:
        session.rewind(0)
        got = session.feed(ids_of(count))
        compare(program, got, f"{what}, {count} tokens")
        if count == LAST:
            session.rewind(0)
            last = session.feed(ids_of(count), LOGITS_LAST)
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
    tools, on_cuda = Tools(bin, scratch), cpu in CHIPS
    first = TARGETS.index(cpu) if cpu in TARGETS else 0
    if on_cuda:
        os.environ["CRIA_EMULATOR_DEVICE"] = CHIPS[cpu].rstrip("a")
    for op in ops:
        modules = (cases, variants, experts, states)
        module = next(each for each in modules if hasattr(each, op))
        programs = getattr(module, op)
        taken = [
            what
            for what, program in programs()
            if not on_cuda or program.on_cuda
        ]
        chosen = some(taken, len(TARGETS), first)
        # Made once more: a program reads variables of its maker, and so must run before the
        # next one is made.
        for what, program in programs():
            if what not in chosen:
                continue
            program.widened = WIDENED.get(cpu, ())
            if on_cuda:
                run_emulated(tools, program, cpu, f"{op} {what}")
            else:
                run(tools, program, cpu, f"{op} {what}")


if __name__ == "__main__":
    main()
