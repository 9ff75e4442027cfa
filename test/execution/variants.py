"""Programs for the variants of ops in families of models: {variant: Program}, as in
cases.py.
"""

import numpy as np

import reference
from cases import TYPES, gqa_of, linear_of, rope_of
from program import ROWS, Program
from weights import rounded

TANH = np.tanh


def capped(x, cap):
    return cap * TANH(x / cap) if cap else x


def gelu_tanh(x):
    return x / 2 * (1 + TANH(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu(x):
    # erf by its series and its asymptotic end, in f64.
    wide = x.astype(np.float64) / np.sqrt(2)
    t = np.linspace(0, 1, 2001)
    values = np.exp(-np.square(wide[..., None] * t))
    step = (values[..., 1:-1:2] * 4 + values[..., :-2:2] + values[..., 2::2]).sum(-1)
    erf = 2 / np.sqrt(np.pi) * wide * step / 6000
    return (x / 2 * (1 + erf)).astype(x.dtype)


GATES = {
    "gelu_tanh": gelu_tanh,
    "gelu": gelu,
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "quick_gelu": lambda x: x / (1 + np.exp(x.dtype.type(-1.702) * x)),
    "identity": lambda x: x,
    "softplus": lambda x: np.logaddexp(x, x.dtype.type(0)),
}


ACTIVATIONS = {"silu": lambda x: x / (1 + np.exp(-x)), **GATES}


def gated(p, gate, up, activation):
    op = f"llama.swiglu {gate.name}, {up.name} activation {activation} : {gate.type}"
    compute = lambda call: GATES[activation](call[gate]) * call[up]
    return p.emit(op, gate.shape, compute)


def limited(p, gate, up):
    """The gate of gpt-oss."""
    op = f"llama.swiglu {gate.name}, {up.name} {{limit = 0.75, alpha = 1.5}} : {gate.type}"

    def compute(call):
        g, u = np.minimum(call[gate], 0.75), np.clip(call[up], -0.75, 0.75)
        return g / (1 + np.exp(g.dtype.type(-1.5) * g)) * (u + 1)

    return p.emit(op, gate.shape, compute)


def norm_of(p, x, weight, flags, eps=1e-5):
    offset = 1 if "unit_offset" in flags else 0
    op = (
        f"llama.rmsnorm {x.name}, {weight.name} "
        f"{{{', '.join([f'eps = {eps:e}', *flags])}}} : {x.type}, {weight.type}"
    )
    norm = lambda call: reference.rmsnorm(call[x], call[weight] + offset, eps)
    return p.emit(op, x.shape, norm)


def scaled_embed():
    for dtype in TYPES:
        p = Program(dtype)
        table = p.weight(ROWS, 33)
        op = f"llama.embed %ids, {table.name} {{scale = 5.75}} : tensor<?xi32>, {table.type}"
        x = p.emit(op, (None, 33), lambda call: call[table][call.ids] * 5.75)
        yield dtype, p.returns(x)


def norms():
    for dtype in TYPES:
        for flags in [["round_once"], ["round_once", "unit_offset"]]:
            p = Program(dtype)
            x = p.tokens(83)
            y = norm_of(p, x, p.weight(83, scale=0.1), flags)
            yield f"{dtype} {' '.join(flags)}", p.returns(y)


def gates():
    for dtype in TYPES:
        for activation in GATES:
            p = Program(dtype)
            gate = p.tokens(35, scale=2 if dtype == "f16" else 5)
            y = gated(p, gate, p.tokens(35), activation)
            yield f"{dtype} {activation}", p.returns(y)
        p = Program(dtype)
        yield f"{dtype} limited", p.returns(limited(p, p.tokens(35), p.tokens(35)))


def activated(p, x, name):
    op = f"llama.activate {name} {x.name} : {x.type}"
    return p.emit(op, x.shape, lambda call: ACTIVATIONS[name](call[x]))


def activate():
    for dtype in TYPES:
        for name in ACTIVATIONS:
            p = Program(dtype)
            x = p.tokens(35, scale=2 if dtype == "f16" else 5)
            yield f"{dtype} {name}", p.returns(activated(p, x, name))
        p = Program(dtype)
        x = linear_of(p, p.tokens(37), p.weight(21, 37), p.weight(21))
        yield f"{dtype} linear", p.returns(activated(p, x, "relu"))


def add_rows():
    for dtype, size in [("f32", 1), ("f32", 35), ("bf16", 35), ("f16", 16)]:
        p = Program(dtype, chunk=33)
        x, table, row = p.tokens(size), p.weight(100, size), p.weight(1, size)
        from_position = lambda call: (
            call[x] + call[table][call.position : call.position + len(call.ids)]
        )
        y = p.emit(
            f"llama.add_rows {x.name}, {table.name} at %position : "
            f"{x.type}, {table.type}",
            x.shape,
            from_position,
        )
        z = p.emit(
            f"llama.add_rows {y.name}, {row.name} : {y.type}, {row.type}",
            x.shape,
            lambda call: call[y] + call[row],
        )
        yield f"{dtype} {size}", p.returns(z)


def rows_in_front():
    """Rows in place of the first tokens, and positions from a later token on."""
    for dtype, size in [("f32", 1), ("f32", 35), ("bf16", 35), ("f16", 16)]:
        p = Program(dtype, chunk=33)
        x, table = p.tokens(size), p.weight(100, size)
        y = x
        for first, count in [(0, 3), (3, 1), (30, 7)]:
            rows = p.weight(count, size)

            def put(call, y=y, rows=rows, first=first, count=count):
                at = call.position + np.arange(len(call.ids)) - first
                given = call[rows][np.clip(at, 0, count - 1)]
                return np.where(((at >= 0) & (at < count))[:, None], given, call[y])

            op = f"llama.set_rows {y.name}, {rows.name} at %position {{first = {first}}}"
            y = p.emit(f"{op} : {y.type}, {rows.type}", x.shape, put)

        def from_fourth(call):
            at = call.position + np.arange(len(call.ids)) - 4
            return call[y] + np.where(at[:, None] < 0, 0, call[table][at])

        op = f"llama.add_rows {y.name}, {table.name} at %position {{first = 4}}"
        z = p.emit(f"{op} : {y.type}, {table.type}", x.shape, from_fourth)
        yield f"{dtype} {size}", p.returns(z)


def factor_of(p, size):
    factor = p.weight(size)
    return factor, f" factor({factor.name} : {factor.type})"


def scaled_residual():
    for dtype in TYPES:
        p = Program(dtype)
        x, y = p.tokens(35), p.tokens(35)
        op = f"llama.residual {x.name}, {y.name} {{scale = 0.22}} : {x.type}"
        z = p.emit(op, x.shape, lambda call: call[x] + 0.22 * call[y])
        yield dtype, p.returns(z)
        p = Program(dtype)
        p.slack = 4
        x = p.tokens(35)
        y = linear_of(p, x, p.weight(35, 35, scale=0.3), p.weight(35))
        factor, given = factor_of(p, 35)
        op = f"llama.residual {x.name}, {y.name}{given} : {x.type}"
        z = p.emit(op, x.shape, lambda call: call[x] + call[factor] * call[y])
        yield f"{dtype} factor", p.returns(z)
        p = Program(dtype)
        p.slack = 4
        x = p.tokens(35)
        y = linear_of(p, x, p.weight(35, 35, scale=0.3), p.weight(35))
        times = p.weight(1)
        op = f"llama.residual {x.name}, {y.name} times({times.name} : {times.type})"
        z = p.emit(
            f"{op} : {x.type}",
            x.shape,
            lambda call: (call[x] + call[y]) * call[times],
        )
        yield f"{dtype} times", p.returns(z)


def heads():
    for dtype, scale, cap, biased in [
        ("f32", 0.125, None, False),
        ("f32", 0.5, 2.0, True),
        ("bf16", 0.5, None, False),
        ("bf16", 1, None, True),
    ]:
        p = Program(dtype)
        x, w = p.last(p.tokens(37)), p.weight(71, 37)
        bias = p.weight(71) if biased else None
        op = f"llama.head {x.name}, {w.name}"
        op += f" bias({bias.name} : {bias.type})" if bias else ""
        more = f", softcap = {cap}" if cap else ""
        op += f" {{scale = {scale:e}{more}}} : {x.type}, {w.type}"
        logits = lambda call: capped(
            reference.linear(call[x] * scale, call[w], call[bias]), cap
        )
        what = f"{dtype} {scale} {cap} {biased}"
        yield what, p.ends(p.emit(op, (None, 71), logits, "f32"))


def part_rope():
    for dtype, size, half in [("f32", 10, 3), ("f32", 6, 1), ("bf16", 16, 4)]:
        p = Program(dtype, chunk=33)
        x = p.heads(p.tokens(3 * size), 3, size)
        yield f"{dtype} {2 * half} of {size}", p.returns(rope_of(p, x, half=half))


def capped_gqa_of(p, query, keys, values, cap, window, sinks):
    scale = 3 * query.shape[2] ** -0.5
    more = f", window = {window} : i64" if window else ""
    more += f", softcap = {cap}" if cap else ""
    behind = f"sinks({sinks.name} : {sinks.type}) " if sinks else ""
    op = (
        f"llama.gqa {query.name}, {keys.name}, {values.name}[{p.index(0)}] at "
        f"%position {behind}{{scale = {scale:e}, causal{more}}} : "
        f"{query.type}, {keys.type}"
    )

    def attend(call):
        q, k, v = call[query], call[keys][0], call[values][0]
        end = call.position + len(q)
        group = q.shape[1] // k.shape[0]
        k, v = (c[:, :end].repeat(group, axis=0) for c in (k, v))
        scores = capped(np.einsum("thd,hsd->hts", q, k) * q.dtype.type(scale), cap)
        at, s = call.position + np.arange(len(q))[:, None], np.arange(end)[None]
        scores[:, (s > at) | bool(window) & (s <= at - (window or 0))] = -np.inf
        if sinks:
            last = np.broadcast_to(call[sinks][:, None, None], (*scores.shape[:2], 1))
            scores = np.concatenate([scores, last], -1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        weights = scores / scores.sum(-1, keepdims=True)
        return np.einsum("hts,hsd->thd", weights[..., :end], v)

    return p.emit(op, query.shape, attend)


def capped_gqa():
    """Scores with a cap, and sinks."""
    for dtype, size, window, cap, sinks in [
        ("f32", 8, None, 1.5, False),
        ("bf16", 32, 9, 1.5, False),
        ("f16", 64, None, 1.5, True),
        ("f32", 8, 9, None, True),
        ("bf16", 64, None, None, True),
    ]:
        p = Program(dtype, chunk=33)
        rows = [p.heads(p.tokens(n * size), n, size) for n in (4, 2, 2)]
        caches = [p.cache(1, 2, size) for _ in range(2)]
        keys, values = (p.append(r, c, 0) for r, c in zip(rows[1:], caches))
        sinks = p.weight(4, scale=3.0) if sinks else None
        out = capped_gqa_of(p, rows[0], keys, values, cap, window, sinks)
        what = f"{dtype} {size} window {window} sinks {sinks is not None}"
        yield what, p.returns(out, keys, values)


def part_of(p, x, first, size):
    """Numbers of the last dimension."""
    shape = (*x.shape[:-1], size)
    sizes = ", ".join(["%n", *map(str, shape[1:])])
    zeros, ones = "0, " * (len(shape) - 1), ", ".join("1" for _ in shape)
    if x.shape[0] is not None:
        sizes = ", ".join(map(str, shape))
    made = type(x)("", shape, x.dtype, None)
    op = f"tensor.extract_slice {x.name}[{zeros}{first}] [{sizes}] [{ones}] : {x.type} to "
    cut = lambda call: call[x][..., first : first + size]
    return p.emit(op + made.type, shape, cut, x.dtype)


def joined(p, a, b):
    op = f"tensor.concat dim(2) {a.name}, {b.name} : ({a.type}, {b.type}) -> "
    shape = (*a.shape[:2], a.shape[2] + b.shape[2])
    made = type(a)("", shape, a.dtype, None)
    join = lambda call: np.concatenate([call[a], call[b]], -1)
    return p.emit(op + made.type, shape, join, a.dtype)


def head_linear(p, x, matrices, transposed=False):
    how = "transposed " * transposed
    op = f"llama.head_linear {x.name}, {matrices.name} {how}: {x.type}, {matrices.type}"
    form = "thk,hkn->thn" if transposed else "thk,hnk->thn"
    multiply = lambda call: np.einsum(form, call[x], call[matrices])
    shape = (*x.shape[:2], matrices.shape[2 if transposed else 1])
    return p.emit(op, shape, multiply)


def latent_gqa(p, query, cache, size, window):
    more = f", window = {window} : i64" if window else ""
    scale = query.shape[2] ** -0.5
    op = (
        f"llama.gqa {query.name}, {cache.name}, {cache.name}[{p.index(0)}] at "
        f"%position values {size} {{scale = {scale:e}, causal{more}}} : "
        f"{query.type}, {cache.type}"
    )
    attend = lambda call: reference.gqa(
        *(call[query], call[cache], call[cache][..., :size]),
        *(0, call.position, scale, True, window),
    )
    return p.emit(op, (*query.shape[:2], size), attend)


def latent():
    """Values that are the first numbers of their keys, in one cache, and matrices of
    heads, which are slices of a weight. More than 8 queries of a KV head are split."""
    for dtype, heads, size, rotated, plain, value, window in [
        ("f32", 4, 12, 4, 6, 5, None),
        ("f32", 20, 16, 8, 8, 16, 9),
        ("bf16", 16, 32, 32, 24, 16, None),
        ("f16", 2, 40, 8, 16, 24, None),
    ]:
        p = Program(dtype, chunk=33)
        p.slack = 8
        x = p.tokens(24)

        def made(count, size):
            y = linear_of(p, x, p.weight(count * size, 24, scale=0.3))
            return p.heads(y, count, size)

        q, row = made(heads, plain + rotated), made(1, size + rotated)
        half = min(rotated // 2, 5)
        turned = lambda x, first: rope_of(p, part_of(p, x, first, rotated), half=half)
        gamma = p.weight(size, scale=0.1, shift=1.0)
        row = joined(p, norm_of(p, part_of(p, row, 0, size), gamma, []), turned(row, size))
        cache = p.append(row, p.cache(1, 1, size + rotated), 0)
        matrices = p.weight(heads, plain + value, size, scale=0.2)
        cut = lambda first, count: rows_of(p, matrices, first, count)
        query = head_linear(p, part_of(p, q, 0, plain), cut(0, plain), transposed=True)
        query = joined(p, query, turned(q, plain))
        out = latent_gqa(p, query, cache, size, window)
        out = head_linear(p, out, cut(plain, value))
        yield f"{dtype} {heads}x{size}", p.returns(out, cache)


def rows_of(p, x, first, count):
    """Rows of each of some matrices."""
    heads, _, size = x.shape
    made = type(x)("", (heads, count, size), x.dtype, None)
    op = f"tensor.extract_slice {x.name}[0, {first}, 0] [{heads}, {count}, {size}] "
    cut = lambda call: call[x][:, first : first + count]
    return p.emit(f"{op}[1, 1, 1] : {x.type} to {made.type}", made.shape, cut, x.dtype)


def normed_heads():
    """Norms between the linears and attention: of each head, and of all."""
    for dtype in TYPES:
        for each in (True, False):
            p = Program(dtype, chunk=33)
            p.slack = 4
            x = p.tokens(24)

            def made(count, normed):
                y = linear_of(p, x, p.weight(count * 6, 24, scale=0.3))
                size = 6 if each else count * 6
                weight = p.weight(size, scale=0.1, shift=1.0) if normed else None
                if normed and not each:
                    y = norm_of(p, y, weight, ["round_once"])
                y = p.heads(y, count, 6)
                return norm_of(p, y, weight, []) if normed and each else y

            q, k, v = made(4, True), made(2, True), made(2, False)
            caches = [p.cache(1, 2, 6) for _ in range(2)]
            keys = p.append(rope_of(p, k), caches[0], 0)
            values = p.append(v, caches[1], 0)
            out = gqa_of(p, rope_of(p, q), keys, values)
            yield f"{dtype} each {each}", p.returns(out, keys, values)


def neighbours():
    """Rope of neighbours between the linears and attention: of whole heads, of a part, and
    with norms of each head after it."""
    cases = [("f32", 3, False), ("bf16", 4, False), ("f32", 4, True)]
    for dtype, half, normed in cases:
        p = Program(dtype, chunk=33)
        p.slack = 4
        x = p.tokens(24)

        def rotated(count):
            y = linear_of(p, x, p.weight(count * 8, 24, scale=0.3))
            y = rope_of(p, p.heads(y, count, 8), half=half, interleaved=True)
            weight = p.weight(8, scale=0.1, shift=1.0) if normed else None
            return norm_of(p, y, weight, []) if normed else y

        q, k = rotated(4), rotated(2)
        v = p.heads(linear_of(p, x, p.weight(16, 24, scale=0.3)), 2, 8)
        caches = [p.cache(1, 2, 8) for _ in range(2)]
        keys, values = p.append(k, caches[0], 0), p.append(v, caches[1], 0)
        out = gqa_of(p, q, keys, values)
        yield f"{dtype} {half} normed {normed}", p.returns(out, keys, values)


def added(p, x, y):
    op = f"llama.residual {x.name}, {y.name} : {x.type}"
    return p.emit(op, x.shape, lambda call: call[x] + call[y])


def head_norms():
    """A norm of each head of what no linear makes."""
    for dtype in TYPES:
        p = Program(dtype)
        x = p.heads(p.tokens(24), 4, 6)
        yield dtype, p.returns(norm_of(p, x, p.weight(6, scale=0.1), []))


def last_rows():
    """Ops between the slice of the last rows and the head."""
    for dtype in TYPES:
        p = Program(dtype)
        p.slack = 4
        x = p.last(p.tokens(35))
        y = norm_of(p, x, p.weight(35, scale=0.1), [])
        z = added(p, x, linear_of(p, y, p.weight(35, 35, scale=0.3)))
        table = p.weight(ROWS, 35, dtype=dtype, array=np.eye(ROWS, 35))
        op = f"llama.head {z.name}, {table.name} : {z.type}, {table.type}"
        logits = p.emit(op, (None, ROWS), lambda call: call[z] @ call[table].T, "f32")
        yield dtype, p.ends(logits)


def first_rows():
    """The first row of a weight, and a sum of weights: both stay as they are."""
    for dtype in TYPES:
        p = Program(dtype)
        x, table, row = p.tokens(35), p.weight(4, 35), p.weight(1, 35)
        op = f"tensor.extract_slice {table.name}[0, 0] [1, 35] [1, 1] : "
        op += f"{table.type} to {row.type}"
        first = p.emit(op, row.shape, lambda call: call[table][:1])
        both = added(p, row, first)
        op = f"llama.add_rows {x.name}, {both.name} : {x.type}, {both.type}"
        yield dtype, p.returns(p.emit(op, x.shape, lambda call: call[x] + call[both]))


def weights_in_loops():
    """Loops that begin with a weight, or a row of one: the weight stays."""

    def total(call, begin, more, dtype):
        sum = call[begin]
        for _ in range(3):
            sum = sum + call[more]
            sum = rounded(sum, dtype) if call.storage else sum
        return sum

    for dtype in TYPES:
        p = Program(dtype)
        p.slack = 4
        x, table, whole = p.tokens(35), p.weight(4, 35), p.weight(1, 35)
        op = f"tensor.extract_slice {table.name}[0, 0] [1, 35] [1, 1] : "
        op += f"{table.type} to {whole.type}"
        part = p.emit(op, whole.shape, lambda call: call[table][:1])
        more = p.weight(1, 35)
        for begin in [whole, part]:
            zero, one, three = p.index(0), p.index(1), p.index(3)
            op = (
                f"scf.for %l = {zero} to {three} step {one} "
                f"iter_args(%s = {begin.name}) -> ({begin.type}) {{ "
                f"%t = llama.residual %s, {more.name} : {begin.type} "
                f"scf.yield %t : {begin.type} }}"
            )
            row = p.emit(
                op, begin.shape, lambda call, w=begin: total(call, w, more, dtype)
            )
            op = f"llama.add_rows {x.name}, {row.name} : {x.type}, {row.type}"
            rows = lambda call, x=x, row=row: call[x] + call[row]
            x = p.emit(op, x.shape, rows)
        yield dtype, p.returns(x)


def normed_update():
    """A norm behind a linear, in front of the stream."""
    for dtype in TYPES:
        p = Program(dtype)
        p.slack = 4
        x = p.tokens(35)
        y = linear_of(p, x, p.weight(35, 35, scale=0.3))
        y = norm_of(p, y, p.weight(35, scale=0.1), ["round_once", "unit_offset"])
        op = f"llama.residual {x.name}, {y.name} : {x.type}"
        z = p.emit(op, x.shape, lambda call: call[x] + call[y])
        yield dtype, p.returns(z)
