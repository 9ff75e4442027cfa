"""rows.py BIN SCRATCH DEVICE: tensors with other numbers of rows than tokens.

Logits of all tokens, then, in another session, of the last token of a prompt and of the
next token, against NumPy: queries of the last tokens beside keys and values of all, each
head as a row of its own, and heads that are merged again.
"""

import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from capi import LOGITS_LAST, Model  # noqa: E402
from harness import Tools, check, nmse  # noqa: E402

from cases import elementwise, gqa_of, linear_of, rmsnorm_of, rope_of  # noqa: E402
from execution import compiled  # noqa: E402
from program import ROWS, Call, Program  # noqa: E402

PROMPT = 21


def ends(p, x, *caches):
    """Ends a program with rows x, those of the tokens whose logits are wanted."""
    identity = p.weight(ROWS, x.shape[1], array=np.eye(ROWS, x.shape[1]))
    return p.ends(p.head_of(x, identity), *caches)


def last_queries(form):
    """One kernel makes queries of the last tokens, and keys and values of all."""
    p = Program(chunk=24)
    x = p.tokens(64)
    wanted = linear_of(p, p.last(x), p.weight(64, 64, scale=0.1))
    q = p.heads(wanted, 2, 32, "%m")
    caches = [p.cache(1, 1, 32, form) for _ in "kv"]
    keys, values = (
        p.append(p.heads(linear_of(p, x, p.weight(32, 64, scale=0.1)), 1, 32), cache, 0)
        for cache in caches
    )
    return ends(p, p.flat(gqa_of(p, q, keys, values)), keys, values)


def reshaped(p, x, shape, groups, rows, compute):
    """x in another shape; `rows` is its first size, or None where dimensions merge."""
    types = "x".join("?" if n is None else str(n) for n in shape)
    result = f"tensor<{types}x{x.dtype}>"
    sizes = f" output_shape [{', '.join([rows, *map(str, shape[1:])])}]" if rows else ""
    op = "expand" if rows else "collapse"
    text = f"tensor.{op}_shape {x.name} {groups}{sizes} : {x.type} into {result}"
    return p.emit(text, shape, lambda call: compute(call[x]), x.dtype)


def head_rows():
    """Norm and product of each head, as 4 rows for each token."""
    p = Program(chunk=24)
    x = p.tokens(64)
    h = p.heads(x, 4, 16)
    each = reshaped(p, h, (None, 16), "[[0, 1], [2]]", None, lambda a: a.reshape(-1, 16))
    y = rmsnorm_of(p, each, p.weight(16, scale=0.1, shift=1.0))
    y = linear_of(p, y, p.weight(16, 16))
    back = reshaped(
        p, y, (None, 4, 16), "[[0, 1], [2]]", "%n", lambda a: a.reshape(-1, 4, 16)
    )
    z = elementwise(p, "residual", x, p.flat(back), lambda a, b: a + b)
    return p.returns(z)


def merged_heads():
    """Rotated heads, and normed heads of attention, that are merged and read."""
    p = Program(chunk=24)
    x = p.tokens(64)
    caches = [p.cache(1, 2, 8) for _ in "kv"]
    q, k, v = (
        p.heads(linear_of(p, x, p.weight(n * 8, 64, scale=0.1)), n, 8)
        for n in (4, 2, 2)
    )
    rotated = rope_of(p, k)
    keys, values = p.append(rotated, caches[0], 0), p.append(v, caches[1], 0)
    out = rmsnorm_of(p, gqa_of(p, q, keys, values), p.weight(8, scale=0.1, shift=1.0))
    out = linear_of(p, p.flat(out), p.weight(64, 32, scale=0.1))
    other = linear_of(p, p.flat(rotated), p.weight(64, 16, scale=0.1))
    z = elementwise(p, "residual", out, other, lambda a, b: a + b)
    return p.returns(z, keys, values)


def compare(got, want, what):
    check(got.shape == want.shape, f"{what}: {got.shape}, expected {want.shape}")
    error = nmse(want, got)
    check(error <= 1e-7, f"{what}: NMSE {error:.2e}")


def run(tools, program, device, what):
    artifact = compiled(tools, program, "native" if device == "cpu" else device, what)
    model = Model(tools, artifact, 0, ROWS, device, artifact.parent)
    ids = np.arange(PROMPT)
    width = program.results[0].shape[1]
    caches = [np.zeros(cache.shape) for cache in program.caches]
    call = Call(ids, 0, caches)
    compare(model.session().feed(ids.tolist()), call[program.results[0]], what)
    call = Call(ids, 0, caches, first=PROMPT - 1)
    session = model.session()
    last = session.feed(ids.tolist(), LOGITS_LAST)
    compare(last.reshape(1, width), call[program.results[0]], f"{what}, the last")
    call = Call(ids[:1], PROMPT, [call[cache] for cache in program.results[1:]])
    compare(session.feed([0]), call[program.results[0]], f"{what}, the next")


def main():
    tools = Tools(*sys.argv[1:3])
    for form in ["q8_0"] if sys.argv[3] == "emulated" else ["f32", "q8_0"]:
        run(tools, last_queries(form), sys.argv[3], f"last queries {form}")
    run(tools, head_rows(), sys.argv[3], "head rows")
    run(tools, merged_heads(), sys.argv[3], "merged heads")


if __name__ == "__main__":
    main()
