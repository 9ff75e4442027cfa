"""invariances.py BIN SCRATCH NAME: all ways to feed the same ids give one result.

With the model of golden NAME: decoding n tokens, prefilling them in pieces and
in chunks of several sizes equals prefilling them at once, by the bar of f32, or
for bf16 and f16 by transformers' own distance from f32. Two runs, one thread
and two, two sessions that take turns, and a session that was rewound give the
same bits.
"""

import json
import sys

import numpy as np

from capi import Model
from harness import Golden, Tools, check, check_close, divergence

CHUNKS = [1, 64, 100]  # tokens a prefill call takes
PIECES = [[1] * 300, [299, 1], [1, 299], [7, 33, 100, 3, 157], [256, 44]]


def feed_in(session, ids, pieces):
    """The logits of ids fed piece by piece."""
    starts = np.cumsum([0, *pieces])
    parts = [ids[a:b] for a, b in zip(starts, starts[1:])]
    return np.concatenate([session.feed(part) for part in parts if part])


def check_same(golden, whole, got, what):
    if golden.stored is None:
        check_close(whole, got, what)
        return
    limit = divergence(golden.exact, golden.stored)
    apart = divergence(whole, got)
    check(
        apart <= limit,
        f"{what}: KLD {apart:.2e}, expected at most that of transformers' own "
        f"rounding, {limit:.2e}",
    )


def check_bits(a, b, what):
    check(np.array_equal(a, b), f"{what}: max |d| {np.abs(a - b).max():.2e}")


def check_chunks(tools, golden, whole):
    for chunk in CHUNKS:
        artifact = tools.compile(golden.config, f"--chunk={chunk}")
        seed = f"--random-weights={golden.seed}"
        got = tools.logits(artifact, golden.ids, seed)
        golden.check(got, f"chunks of {chunk}")
        check_same(golden, whole, got, f"chunks of {chunk}")


def check_turns(model, ids):
    """A session is not disturbed by another of the same model."""
    one, two = model.session(threads=1), model.session(threads=1)
    turns = []
    for start in range(0, len(ids), 100):
        turns.append(one.feed(ids[start : start + 100]))
        two.feed(ids[::-1][start : start + 100])
    solo = feed_in(model.session(threads=1), ids, [100] * 3)
    check_bits(solo, np.concatenate(turns), "beside another session")


def check_rewind(golden, session, ids, whole):
    """The last ids again, twice, in a session that has seen all ids. A model with a state
    computes the text before them anew."""
    parts = []
    for _ in range(2):
        session.rewind(200)
        parts.append(session.feed(ids[200:]))
    check_bits(*parts, "after a rewind")
    check_same(golden, whole[200:], parts[0], "after a rewind")


def check_states(golden, model, ids, whole):
    """A text that was rewound, saved, restored and copied goes on as it was."""
    session, restored, copied = (model.session(threads=1) for _ in range(3))
    session.feed(ids[:150])
    session.rewind(90)
    restored.feed(ids[7:30])  # another text, which `restore` replaces
    restored.restore(session.save())
    session.copy_to(copied)
    parts = [each.feed(ids[90:]) for each in (session, restored, copied)]
    check_same(golden, whole[90:], parts[0], "rewound")
    for got, what in zip(parts[1:], ("restored", "copied")):
        check_bits(parts[0], got, what)
    parts = [each.save() for each in (session, restored, copied)]
    check(parts[0] == parts[1] == parts[2], "states of one text differ")


def main():
    tools, golden = Tools(*sys.argv[1:3]), Golden(sys.argv[3])
    vocab = json.loads(golden.config.read_text())["vocab_size"]
    artifact = tools.compile(golden.config)
    model = Model(tools, artifact, golden.seed, vocab)
    ids = golden.ids
    session = model.session(threads=1)
    whole = session.feed(ids)
    golden.check(whole, "C API")
    for pieces in PIECES:
        what = f"fed in pieces of {pieces[:5]}"
        other = model.session(threads=2)
        pieced = feed_in(other, ids, pieces)
        check_same(golden, whole, pieced, what)
        other.rewind(0)
        check_bits(pieced, feed_in(other, ids, pieces), f"{what}, once more")
    check_bits(whole, model.session(threads=2).feed(ids), "two threads")
    check_turns(model, ids)
    check_rewind(golden, session, ids, whole)
    check_states(golden, model, ids, whole)
    check_chunks(tools, golden, whole)


main()
