"""execution.py BIN SCRATCH CPU OP: the meaning of an op.

Compiles each program of cases.OP, runs it on as many tokens as every schedule
wants (one, tiles of dot products, packed panels; several calls of @forward),
and compares the logits with the reference:

- NMSE against f64 at most 1e-7 for f32, 1e-5 for bf16 and f16;
- for bf16 and f16 also an error at most twice that of NumPy in f32 that rounds
  each op's result to the storage type; where few numbers make that one's NMSE
  more than 1e-5, it is the bar, and of several ops four times it.
"""

import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from harness import Tools, check, execute, nmse  # noqa: E402

import cases  # noqa: E402

BAR = {"f32": 1e-7, "bf16": 1e-5, "f16": 1e-5}
# Tokens. Chunks are 69 tokens, then the last of 70 is decoded, or 33, then the
# last of 34 is, and 70 make calls at several positions.
COUNTS = [1, 3, 31, 32, 33, 34, 70]


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


def run(tools, program, cpu, what):
    folder = tools.scratch / what.replace(" ", "-")
    text = program.write(folder)
    flags = [f"--cpu={cpu}", f"--chunk={program.chunk}"]
    command = tools.compile_command(text, folder / "model.cria", *flags)
    execute(command).ok()
    for count in COUNTS:
        weights = f"--weights={folder}"
        got = tools.logits(folder / "model.cria", range(count), weights)
        compare(program, got, f"{what}, {count} tokens")


def main():
    bin, scratch, cpu, op = sys.argv[1:]
    tools = Tools(bin, scratch)
    for what, program in getattr(cases, op)():
        run(tools, program, cpu, f"{op} {what}")


if __name__ == "__main__":
    main()
