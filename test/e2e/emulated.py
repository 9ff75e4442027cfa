"""emulated.py BIN SCRATCH [short] NAME... [FLAG...]: goldens on the emulated CUDA
driver. FLAGs go to cria-compile.

The kernels of an artifact for both devices run in the emulated driver. If one of its
checks finds an error, the session fails. Logits of prompts of several lengths meet the
bar of the model's type against transformers. Against the CPU they meet the bar of f32 or
transformers' own distance from f32. So do tokens fed one by one. The same ids fed again
give the same bits. The greedy continuation in f32 is that of transformers. With `short`
there is one prompt, and its last tokens are fed one by one; the CPU computes only the
prompts that transformers did not.
"""

import json
import sys

import numpy as np

import cases
from capi import Model
from harness import Golden, Tools, check, check_close, divergence, some

LENGTHS = [1, 33, 300]
SINGLE = 12  # tokens fed one by one
SHORT = 33  # tokens of the only prompt


def check_beside(golden, reference, got, what):
    if golden.stored is None:
        return check_close(reference, got, what)
    apart = divergence(reference, got)
    limit = divergence(golden.exact, golden.stored)
    check(apart <= limit, f"{what}: KLD {apart:.2e}, expected <= {limit:.2e}")


def fed(session, ids, pieces=None):
    """The logits of ids from position 0 on, as one prompt or in pieces."""
    session.rewind(0)
    pieces = pieces or [len(ids)]
    ends = np.cumsum(pieces)
    parts = [ids[end - n : end] for end, n in zip(ends, pieces)]
    return np.concatenate([session.feed(part) for part in parts])


def check_prompts(golden, session, cpu):
    for length in LENGTHS:
        ids, what = golden.ids[:length], f"{golden.name}, {length} tokens"
        if length > len(golden.ids):
            break
        got = fed(session, ids)
        check_beside(golden, fed(cpu, ids), got, f"{what}, beside the CPU")
        long = length == len(golden.ids)
        known = golden.has_prefixes or long
        if known and (golden.stored is None or length > 1):
            golden.check(got, what)


def check_single(golden, session):
    """Ids one by one, and in pieces of uneven lengths."""
    ids = golden.ids[:SINGLE]
    whole = fed(session, ids)
    for pieces in [[1] * len(ids), [len(ids) - 2, 1, 1], [3, len(ids) - 3]]:
        what = f"{golden.name}, in pieces of {pieces[:3]}"
        got = fed(session, ids, pieces)
        if golden.has_prefixes:
            golden.check(got, what)
        check_beside(golden, whole, got, f"{what}, beside one prompt")
    same = np.array_equal(got, fed(session, ids, pieces))
    check(same, f"{what}: other bits the second time")


def check_greedy(golden, session):
    logits, got = fed(session, golden.start), []
    while len(got) < cases.GREEDY:
        got.append(int(logits[-1].argmax()))
        logits = session.feed(got[-1:])
    check(got == golden.greedy, f"{golden.name}: {got} != {golden.greedy}")


def check_short(golden, session, cpu):
    ids = golden.ids[:SHORT]
    whole = fed(session, ids)
    if golden.has_prefixes:
        golden.check(whole, golden.name)
    else:
        check_beside(golden, fed(cpu(), ids), whole, f"{golden.name}, beside the CPU")
    got = fed(session, ids, [len(ids) - 3, 1, 1, 1])
    check_beside(golden, whole, got, f"{golden.name}, in pieces, beside one prompt")


def check_golden(tools, golden, artifact, device, short=False):
    """All checks on `device`, and logits against the CPU's."""
    vocab = json.loads(golden.config.read_text())["vocab_size"]

    def on(name):
        return Model(tools, artifact, golden.seed, vocab, name).session()

    session = on(device)
    if short:
        return check_short(golden, session, lambda: on("cpu"))
    check_prompts(golden, session, on("cpu"))
    check_single(golden, session)
    if golden.stored is None:
        check_greedy(golden, session)


def main():
    tools = Tools(*sys.argv[1:3])
    given = [argument for argument in sys.argv[3:] if argument.startswith("-")]
    names = sys.argv[3 : len(sys.argv) - len(given)]
    short = names[0] == "short"
    for name in some(names[short:], 6):
        golden = Golden(name)
        target = "cuda" if short and golden.has_prefixes else "cpu,cuda"
        flags = [f"--target={target}", "--max-seq=512", *given]
        artifact = tools.compile(golden.config, *flags, out=f"{name}.cria")
        check_golden(tools, golden, artifact, "emulated", short)


if __name__ == "__main__":
    main()
