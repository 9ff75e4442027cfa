"""hidden.py BIN SCRATCH: hidden states and embeddings, on the CPU and emulated.

goldens/*.test compare hidden states with transformers. Here they are the same in chunks,
in pieces and token by token, on both devices. Asking for them changes no logits.
Embeddings equal those that NumPy pools from the hidden states.
"""

import json
import sys

import numpy as np

import families
from capi import Model
from harness import Tools, check, check_close, nmse, some

SEED, CHUNK, WIDTH = 5, 16, families.SMALL["hidden_size"]
MODELS = {
    "f32": (families.FAMILIES["llama"], []),
    "bf16": (families.FAMILIES["gemma2"], ["--dtype=bf16"]),
    "blocks": (families.FAMILIES["olmo2"], ["--quantize=q8_0"]),
}
MEAN, LAST, FIRST = range(3)


def check_pieces(session, name, ids):
    """Returns the states of all ids. Pieces must give the same states."""
    logits = session.feed(ids)
    session.rewind(0)
    same, whole = session.forward(ids, WIDTH)
    check(np.array_equal(logits, same), f"{name}: asking changes logits")
    for pieces in [[1] * 6 + [len(ids) - 6], [7, len(ids) - 7]]:
        session.rewind(0)
        ends = np.cumsum(pieces)
        parts = [ids[end - n : end] for end, n in zip(ends, pieces)]
        states = np.concatenate([session.forward(part, WIDTH)[1] for part in parts])
        error = nmse(whole, states)
        limit = 1e-8 if name.startswith("f32") else 1e-3
        check(error <= limit, f"{name}: NMSE {error:.2e} in pieces of {pieces[:2]}")
    return whole


def check_embeddings(session, name, ids, states):
    pooled = {MEAN: states.astype(np.float64).mean(0), LAST: states[-1], FIRST: states[0]}
    for kind, want in pooled.items():
        for normalize in (0, 1):
            session.rewind(0)
            got = session.embed(ids, WIDTH, kind, normalize)
            length = np.linalg.norm(want) if normalize else 1
            check_close(want / length, got, f"{name}, pooling {kind}, {normalize}")


def main():
    tools = Tools(*sys.argv[1:3])
    ids = np.random.default_rng(SEED).integers(3, 320, 3 * CHUNK + 5).tolist()
    for name, (config, flags) in some(MODELS.items(), 3):
        path = tools.scratch / f"{name}.json"
        path.write_text(json.dumps(config | {"num_hidden_layers": 2}))
        flags = [*flags, f"--chunk={CHUNK}", "--target=cpu,cuda"]
        artifact = tools.compile(path, *flags, out=f"{name}.cria")
        found = {}
        for device in ["cpu", "emulated"]:
            session = Model(tools, artifact, SEED, 320, device).session()
            states = check_pieces(session, f"{name}, {device}", ids)
            check_embeddings(session, f"{name}, {device}", ids, states)
            found[device] = states
        if name == "f32":
            check_close(found["cpu"], found["emulated"], "f32, devices")
        else:
            error = nmse(found["cpu"], found["emulated"])
            check(error <= 1e-3, f"{name}: NMSE {error:.2e} between devices")


main()
