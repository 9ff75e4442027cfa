"""rings.py BIN SCRATCH: layers with a window keep their keys in rings.

A model whose caches are rings has the logits of the same model with whole caches, over
several turns of a ring: on the CPU bit by bit, however the text is cut, on the emulated
GPU up to the bar of f32. A session that goes back, is saved, copied, or loses positions
has the bits of a new session that was fed what is left. A session goes back without
computing the text anew as far as the ring still has the window.
"""

import json
import sys

import numpy as np

import families
from capi import LOGITS_LAST, Model
from harness import Tools, check, nmse, some

# A ring has 128 places: a window, a call of at most 64 tokens, and whole tiles.
SEED, CHUNK, CONTEXT, LENGTH, HELD = 7, 48, 448, 300, 200
ON_DEVICE = [48, 48, 33, 1, 1]  # pieces that an emulated GPU is fed
PIECES = [48, 1, 1, 30, 7, 1, 90, 48, 1]
FLAGS = [f"--max-seq={CONTEXT}", f"--chunk={CHUNK}"]
KINDS = 2 * ["sliding_attention", "full_attention"]
GEMMA4 = families.GEMMA4 | {"num_hidden_layers": 4, "layer_types": KINDS}
WIDE = {"sliding_window": 40, "head_dim": 32}
MODELS = {
    "mistral": (families.FAMILIES["mistral"], []),
    "gemma4": (families.config("gemma4_text", GEMMA4), []),
    "shared": (families.FAMILIES["gemma4_text-embeddings"], []),  # caches of several layers
    "gemma2": (families.FAMILIES["gemma2"], ["--dtype=bf16"]),
    "blocks": (families.config("mistral", WIDE), ["--kv=q8_0"]),
}
ON_GPU, KEPT = ["gemma4"], ["mistral", "shared"]


def fed(session, ids, pieces=()):
    """The logits of ids, in `pieces` and then the rest."""
    session.rewind(0)
    rows, at = [], 0
    for count in [*pieces, len(ids)]:
        if part := ids[at : at + count]:
            rows.append(session.feed(part))
        at += count
    return np.concatenate(rows)


def check_kept(rings, whole, ids, what):
    """What a session does with a text whose rings have turned."""
    session, other, fresh = rings.session(), rings.session(), whole.session()
    tail, held = ids[-5:], ids[:HELD]

    def check_same(session, left, how):
        """`left` ids are left: as in whole caches. Or these ids are fed anew, in one
        text with those that follow."""
        anew = not isinstance(left, int)
        fresh.rewind(0)
        if not anew:
            fresh.feed(held)
            fresh.rewind(left)
        for new, given in [(tail, left + tail if anew else tail), ([5], [5])]:
            got, want = session.feed(new, LOGITS_LAST), fresh.feed(given, LOGITS_LAST)
            apart = np.abs(got - want).max()
            check(np.array_equal(got, want), f"{what}, {how}: {apart:.2e} apart")

    for left in [HELD - 60, 80]:  # the second needs the text anew
        fed(session, held)
        session.rewind(left)
        other.restore(session.save())
        text = left if left > 80 else held[:left]
        check_same(session, text, f"{left} left")
        check_same(other, text, f"{left} left, restored")
    fed(session, held)
    session.rewind(HELD - 40)
    session.copy_to(other)
    other.rewind(HELD - 80)
    check_same(other, HELD - 80, "copied")
    fed(session, held)
    check(session.drop(10, 150) is None, what)
    check_same(session, held[:10] + held[150:], "without 10 to 150")
    for each in session, other, fresh:
        each.free()


def main():
    tools = Tools(*sys.argv[1:3])
    ids = np.random.default_rng(SEED).integers(3, 320, LENGTH).tolist()
    for name, (content, flags) in some(MODELS.items(), 2):
        on_gpu = name in ON_GPU
        path = tools.scratch / f"{name}.json"
        path.write_text(json.dumps(content))
        target = ["--target=cpu,cuda"] * on_gpu
        made = [
            tools.compile(path, *FLAGS, *flags, *extra, out=f"{name}{i}.cria")
            for i, extra in enumerate([target, ["--window-cache=whole"]])
        ]
        whole, rings = (
            Model(tools, artifact, SEED, content["vocab_size"])
            for artifact in reversed(made)
        )
        sessions = rings.session(threads=2), whole.session()
        want = fed(sessions[1], ids, PIECES)
        got = fed(sessions[0], ids, PIECES)
        apart = np.abs(got - want).max()
        check(np.array_equal(got, want), f"{name}, rings: {apart:.2e} apart")
        if name in KEPT:
            check_kept(rings, whole, ids, name)
        if on_gpu:
            device = Model(tools, made[0], SEED, content["vocab_size"], "emulated")
            few = ids[: sum(ON_DEVICE)]
            error = nmse(want[: len(few)], fed(device.session(), few, ON_DEVICE))
            check(error <= 1e-8, f"{name}, emulated: NMSE {error:.1e}, expected 1e-8")
            device.free()
        for each in rings, whole:
            each.free()


if __name__ == "__main__":
    main()
