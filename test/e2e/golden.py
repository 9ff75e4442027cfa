"""golden.py BIN SCRATCH NAME [FLAGS]: one tiny random model against transformers,
compiled with FLAGS. The flag "emulated-amx" stands for schedules for AMX, which run as
loops (test/amx/).

Logits of prompts of several lengths, and hidden states of the longest, meet the bar
of the model's type; a greedy continuation in f32 is the same; every spelling of the
config means the same.
"""

import sys

import numpy as np

import cases
from harness import Golden, Tools, check

MAX_SEQ = 512
LENGTHS = [1, 7, 33, 150, 300]


def check_prompts(tools, golden, artifact, flags, outputs):
    """One thread and two; `outputs` of the longest prompt. Returns its logits."""
    for length in LENGTHS if golden.has_prefixes else [len(golden.ids)]:
        if length > len(golden.ids):
            break
        # One token has too few logits for a mean divergence.
        if golden.stored is not None and length == 1:
            continue
        threads = f"--threads={1 + length % 2}"
        names = outputs if length == len(golden.ids) else ["logits"]
        ids = golden.ids[:length]
        logits, *hidden = tools.outputs(artifact, ids, names, threads, *flags)
        golden.check(logits, f"{golden.name}, {length} tokens")
        for states in hidden:
            golden.check_hidden(states, f"{golden.name}, hidden states")
    return logits


def main():
    tools, golden = Tools(*sys.argv[1:3]), Golden(sys.argv[3])
    flags = [f"--random-weights={golden.seed}"]
    # Dynamic rope knows what becomes of texts longer than the model's own.
    given = sys.argv[4:]
    build = tools.compile
    if "emulated-amx" in given:
        given.remove("emulated-amx")
        build = tools.compile_with_emulated_amx
    compiled = [f"--max-seq={MAX_SEQ}", *given]
    artifact = build(golden.config, *compiled)
    # Artifacts for batches return no hidden states.
    batched = any(flag.startswith("--batch") for flag in compiled)
    outputs = ["logits"] if batched else ["logits", "hidden"]
    logits = check_prompts(tools, golden, artifact, flags, outputs)
    if golden.stored is None:
        got = tools.greedy(artifact, golden.start, cases.GREEDY, *flags)
        check(got == golden.greedy, f"greedy: {got}, expected {golden.greedy}")
    for other in golden.folder.glob("config-*.json"):
        artifact = build(other, *compiled)
        threads = f"--threads={1 + len(logits) % 2}"
        same = tools.logits(
            artifact, golden.ids[: len(logits)], threads, *flags
        )
        same_bits = np.array_equal(logits, same)
        check(same_bits, f"{other.name} means something else than config.json")


main()
