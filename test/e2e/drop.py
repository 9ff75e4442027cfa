"""drop.py BIN SCRATCH: positions are dropped from the middle of a text.

In a model of one layer a token's keys and values depend on that token alone. So after a
drop the caches hold those of the shorter text, and the next logits are the same: in f32
up to rounding, for every kind of RoPE with fixed frequencies and for layers without RoPE;
in other types up to their rounding. Sessions that keep their text compute what is left of
it anew. Dropping the end of a text is a rewind. A drop that is impossible is refused with
the reason.
"""

import json
import sys

import numpy as np

import families
from capi import LOGITS_LAST, Model
from graphs import GRAPHS, VOCAB
from harness import HERE, Tools, check, check_close, divergence, nmse, some

SEED, LENGTH = 11, 90
DROPS = [[(0, 1)], [(10, 47)], [(60, 70), (20, 33)]]
ONE_LAYER = {"num_hidden_layers": 1}
MODELS = {
    "llama3": (families.FAMILIES["llama"] | {"rope_scaling": families.rope("llama3")}, []),
    "yarn": (families.FAMILIES["qwen3"] | {"rope_scaling": families.rope("yarn")}, []),
    "partial": (families.FAMILIES["phi3"], []),  # of a head's columns, and a window
    "without": (families.FAMILIES["smollm3"] | {"no_rope_layer_interval": 1}, []),
    "capped": (families.FAMILIES["gemma2"], []),
    "bf16": (families.FAMILIES["llama"], ["--dtype=bf16"]),
    "blocks": (families.config("llama", {"head_dim": 32}), ["--kv=q8_0"]),
}
# NMSE that logits may differ by if a type rounds keys once more.
ROUNDED = {"bf16": 3e-4, "blocks": 1e-3}


def apart(name, want, got, what):
    if name not in ROUNDED:
        return check_close(want, got, what)
    error = nmse(want, got)
    check(error <= ROUNDED[name], f"{what}: NMSE {error:.2e} > {ROUNDED[name]}")


def check_drops(model, name, device):
    """Drops from the middle, also several one after the other."""
    generator = np.random.default_rng(SEED)
    ids = generator.integers(3, model.vocab, LENGTH).tolist()
    tail = generator.integers(3, model.vocab, 9).tolist()
    left, fresh = model.session(), model.session()
    for drops in DROPS if device == "cpu" else DROPS[-1:]:
        left.rewind(0)
        fresh.rewind(0)
        left.feed(ids)
        kept, what = list(ids), f"{name}, {device}, without {drops}"
        for begin, end in drops:
            check(left.drop(begin, end) is None, what)
            del kept[begin:end]
        fresh.feed(kept)
        want, got = fresh.feed(tail), left.feed(tail)
        apart(name, want, got, what)
        moved = fresh.feed(tail[:1]), left.feed(tail[:1])
        apart(name, *moved, f"{what}, decoded")
    # It is not the text before, nor rows that only moved.
    left.rewind(0)
    whole = left.feed(ids + tail)[-len(tail) :]
    check(divergence(want, whole) > 10 * divergence(want, got), f"{name}: no other text")


def check_end(model, name):
    """Dropping the end of a text leaves the same bits as a rewind."""
    ids = list(range(3, 33))
    dropped, rewound = model.session(), model.session()
    for session in dropped, rewound:
        session.feed(ids)
    check(dropped.drop(12, 30) is None, f"{name}: the end")
    rewound.rewind(12)
    same = np.array_equal(dropped.feed(ids[:7]), rewound.feed(ids[:7]))
    check(same, f"{name}: other logits than after a rewind")


def compiled(tools, name, config, *flags):
    path = tools.scratch / f"{name}.json"
    path.write_text(json.dumps(config))
    return tools.compile(path, *flags, out=f"{name}.cria")


def check_models(tools):
    for name, (config, flags) in some(MODELS.items(), 2):
        on_gpu = name in ("llama3", "blocks")
        target = ["--target=cpu,cuda"] if on_gpu else []
        artifact = compiled(tools, name, config | ONE_LAYER, *flags, *target)
        for device in ["cpu", "emulated"] if on_gpu else ["cpu"]:
            model = Model(tools, artifact, SEED, config["vocab_size"], device)
            check_drops(model, name, device)
            model.free()


def check_anew(tools):
    """Where a text is kept, what is left of it is computed anew: the same bits."""
    phi3 = json.loads((HERE / "goldens/f32-phi3-longrope/config.json").read_text())
    dynamic = {"rope_scaling": families.rope("dynamic")}
    cases = {
        "dynamic": families.FAMILIES["llama"] | dynamic,
        "longrope": phi3,
        "lfm2": families.FAMILIES["lfm2"],
    }
    for name, config in cases.items():
        model = Model(tools, compiled(tools, name, config), SEED, config["vocab_size"])
        left, fresh = model.session(), model.session()
        ids, tail = list(range(3, 83)), [7, 8, 9]
        for begin, end in [(1, 3), (0, 40), (70, 79)]:
            left.rewind(0)
            left.feed(ids)
            left.drop(begin, begin + 1)
            check(left.drop(begin, end - 1) is None, name)
            fresh.rewind(0)
            want = fresh.feed(ids[:begin] + ids[end:] + tail, LOGITS_LAST)
            same = np.array_equal(left.feed(tail, LOGITS_LAST), want)
            check(same, f"{name}, without {begin} to {end}: other logits")
        model.free()


def check_refusals(tools):
    """Refusals give the reason; the end of a text can be dropped all the same."""
    cases = {
        "opt": "adds a learned row for each position",
        "bert": "tokens see later tokens",
        "bart": "attends to a text that was encoded",
    }
    for name, why in cases.items():
        artifact = tools.compile(GRAPHS / f"{name}.mlir", out=f"{name}.cria")
        model = Model(tools, artifact, SEED, VOCAB)
        session = model.session()
        if name == "bart":
            session.encode([1, 2, 3])
        session.feed([3, 4, 5, 6, 7])
        problem = session.drop(1, 3)
        check(problem and why in problem, f"{name}: {problem}, expected {why}")
        check(session.drop(1, 5) is None, f"{name}: the end")
        if name != "bert":
            check_end(model, name) if name == "opt" else session.feed([8])
        model.free()


def main():
    tools = Tools(*sys.argv[1:3])
    check_models(tools)
    artifact = compiled(tools, "layers", families.FAMILIES["llama"])
    check_end(Model(tools, artifact, SEED, families.SMALL["vocab_size"]), "llama")
    check_anew(tools)
    check_refusals(tools)


main()
