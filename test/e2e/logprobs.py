"""logprobs.py BIN SCRATCH: what cria-run --logprobs prints of each drawn id is the softmax
of the logits that --logits writes for the same ids.
"""

import json
import sys

import numpy as np

from harness import Tools, check, execute
from run_faults import TINY

PROMPT, TOP, NEW = [1, 257, 413], 3, 12


def lines_of(tools, artifact, *flags):
    run = execute(tools.run_command(
        artifact, f"--weights={TINY}", f"--max-tokens={NEW}", f"--logprobs={TOP}", *flags)).ok()
    return [json.loads(line) for line in run.text.splitlines()]


def main():
    tools = Tools(*sys.argv[1:])
    artifact = tools.compile(TINY / "config.json", "--dtype=f32")
    given = "--ids=" + ",".join(map(str, PROMPT))
    file = tools.scratch / "logits.npy"
    for flags in (["--temperature=0"], ["--temperature=2", "--seed=3"],
                  ["--temperature=0", f"--logits={tools.scratch}/prompt.npy"]):
        lines = lines_of(tools, artifact, given, *flags)
        check(len(lines) == NEW, lines)
        ids = PROMPT + [line["id"] for line in lines]
        execute(tools.run_command(
            artifact, f"--weights={TINY}", "--ids=" + " ".join(map(str, ids)),
            "--max-tokens=0", f"--logits={file}")).ok()
        for line, logits in zip(lines, np.load(file)[len(PROMPT) - 1:]):
            expected = logits.astype(np.float64) - np.logaddexp.reduce(logits.astype(np.float64))
            check(abs(line["logprob"] - expected[line["id"]]) < 1e-3, (flags, line))
            order = np.argsort(-logits, kind="stable")[:TOP]
            top = {one["id"]: one["logprob"] for one in line["top"]}
            check(np.allclose([top[i] for i in order], expected[order], atol=1e-3), (line, order))
    for flags, others in {
        ("--repetition-penalty=1e6",): PROMPT,
        ("--presence-penalty=1e6",): [],
        ("--frequency-penalty=1e6", f"--penalty-window={NEW}"): [],
    }.items():
        drawn = [line["id"] for line in lines_of(
            tools, artifact, given, "--temperature=0", *flags)]
        check(len(set(drawn + others)) == len(drawn + others),
              f"{flags}: an id came twice: {drawn}")


main()
