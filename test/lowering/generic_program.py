"""generic_program.py BIN SCRATCH [DEVICE]: compares Inputs/generic.mlir with NumPy
in f64, on the CPU or another device.
"""

import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / folder) for folder in ("e2e", "execution")]
import reference as ref  # noqa: E402
from harness import Tools, check_close  # noqa: E402
from weights import rounded, values  # noqa: E402

SEED, LAYERS, FIRST_LAYER, CHUNK = 7, 3, 4, 40


def weight(name, *shape):
    """A tensor of --random-weights, in f64."""
    return rounded(values(SEED, name, shape), "f32").astype(np.float64)


def layer(x, at, position, keys, values):
    """The layer `at` for tokens x; writes to the caches."""
    w = lambda name, *shape: weight(f"h.{FIRST_LAYER + at}.{name}", *shape)
    y = ref.layernorm(x, w("norm.weight", 24), w("norm.bias", 24), 1e-3)
    q = ref.linear(y, w("q", 24, 24), w("q.bias", 24)).reshape(-1, 4, 6)
    k = ref.linear(y, w("k", 12, 24), None).reshape(-1, 2, 6)
    v = ref.linear(y, w("v", 12, 24), None).reshape(-1, 2, 6)
    keys[:] = ref.append(keys, k, at, position)
    values[:] = ref.append(values, v, at, position)
    a = ref.gqa(q, keys, values, at, position, 4.0, causal=True, window=10)
    o = ref.linear(a.reshape(-1, 24), w("o", 24, 24), w("o.bias", 24))
    return x + ref.swiglu(ref.linear(y, w("gate", 24, 24), None), o) + o


def forward(ids):
    """Logits of ids, CHUNK of them at a time."""
    keys, values = np.zeros((2, LAYERS, 2, 96, 6))
    rows, ids = [], np.array(ids)
    for position in range(0, len(ids), CHUNK):
        x = weight("wte", 96, 24)[ids[position : position + CHUNK]]
        for at in range(LAYERS):
            x = layer(x, at, position, keys, values)
        rows.append(x @ weight("head", 96, 24).T)
    return np.concatenate(rows)


def main():
    tools = Tools(*sys.argv[1:3])
    device = sys.argv[3] if sys.argv[3:] else "cpu"
    program = HERE / "Inputs" / "generic.mlir"
    target = "cpu" if device == "cpu" else "cuda"
    artifact = tools.compile(program, f"--chunk={CHUNK}", f"--target={target}")
    for count in [1, 5, CHUNK, CHUNK + 1, 95]:
        ids = [(7 * i + 3) % 96 for i in range(count)]
        flags = [f"--random-weights={SEED}", f"--device={device}"]
        got = tools.logits(artifact, ids, *flags)
        check_close(forward(ids), got, f"{count} tokens")


if __name__ == "__main__":
    main()
