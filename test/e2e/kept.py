"""kept.py BIN SCRATCH: a session keeps the beginning of a text whose RoPE depends on the
length.

The frequencies of dynamic NTK and longrope are those of the whole prompt. Whatever a
session held before, and however it came to hold it, a prompt has the logits of a new
session, bit by bit, and so has what is generated then. So it is in many families, on the
CPU and on the emulated GPU.
"""

import itertools
import json
import sys

import numpy as np

import families
from capi import LOGITS_LAST, Model
from harness import Tools, check, some

SEED, ORIGINAL, CONTEXT = 11, 16, 64
IDS = np.random.default_rng(SEED).integers(3, 320, CONTEXT).tolist()
# Ids held, ids kept of them, ids of the prompt.
TEXTS = [(40, 10, 14), (40, 10, 15), (9, 8, 40), (40, 30, 50), (16, 15, 17)]


def longrope(columns):
    return {
        "rope_type": "longrope",
        "short_factor": [1.0 + 0.1 * i for i in range(columns)],
        "long_factor": [1.0 + 1.1 * i for i in range(columns)],
    }


def config(family, kind, columns=8):
    if kind == "dynamic":
        lengths = {"max_position_embeddings": ORIGINAL}
        scaling = families.rope("dynamic")
    else:
        lengths = {"original_max_position_embeddings": ORIGINAL}
        scaling = longrope(columns)
    few = {"num_hidden_layers": 2, "rope_scaling": scaling}
    return families.FAMILIES[family] | few | lengths


MODELS = {
    "llama-dynamic": config("llama", "dynamic"),
    "llama-longrope": config("llama", "longrope"),
    "phi3-longrope": config("phi3", "longrope", 6),
    "qwen3-dynamic": config("qwen3", "dynamic"),
    "gemma2-longrope": config("gemma2", "longrope", 12),
}
ON_GPU = ["llama-dynamic"]


def rewound(model, session):
    return session


def restored(model, session):
    other = model.session()
    other.restore(session.save())
    return other


def copied(model, session):
    other = model.session()
    other.feed(IDS)
    session.copy_to(other)
    return other


def check_text(model, keep, held, kept, whole, what):
    session, fresh = model.session(), model.session()
    is_anew = "dynamic" in what or (held > ORIGINAL) != (whole > ORIGINAL)
    # Generated, in part: each id of its own length.
    session.feed(IDS[: held - 3])
    for id in IDS[held - 3 : held]:
        session.feed([id])
    check(session.drop(kept, held) is None, what)  # the end: a rewind
    session = keep(model, session)
    session.expect_prompt(whole)
    # The last token's alone: a CPU may add up a head's products over few rows in another
    # order than over many.
    got = session.feed(IDS[kept:whole], LOGITS_LAST)
    if not is_anew:
        # What is kept was computed in the steps of the text held, so the new session takes
        # these as well, and knows from the first which frequencies it needs.
        fresh.expect_prompt(whole)
        fresh.feed(IDS[: held - 3])
        fresh.rewind(kept)
    want = fresh.feed(IDS[0 if is_anew else kept : whole], LOGITS_LAST)
    for id in IDS[whole : whole + 4]:
        got = np.concatenate([got, session.feed([id])])
        want = np.concatenate([want, fresh.feed([id])])
    apart = np.abs(got - want).max()
    check(np.array_equal(got, want), f"{what}, {(held, kept, whole)}: {apart:.2e} apart")
    for each in {session, fresh}:
        each.free()


def main():
    tools = Tools(*sys.argv[1:3])
    for name, content in MODELS.items():
        on_gpu = name in ON_GPU
        flags = ["--max-seq=64", "--chunk=16"] + ["--target=cpu,cuda"] * on_gpu
        path = tools.scratch / f"{name}.json"
        path.write_text(json.dumps(content))
        artifact = tools.compile(path, *flags, out=f"{name}.cria")
        for device in ["cpu", "emulated"] if on_gpu else ["cpu"]:
            model = Model(tools, artifact, SEED, content["vocab_size"], device)
            texts = TEXTS if device == "cpu" else TEXTS[2:3]
            for keep, text in some(itertools.product([rewound, restored, copied], texts), 3):
                check_text(model, keep, *text, f"{name}, {device}, {keep.__name__}")
            model.free()


main()
