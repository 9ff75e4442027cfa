"""Programs of ops with a state: {what: Program}, as in cases.py.

The reference keeps a state in a form of its own: a convolution's rows lie in the order of
their positions. Texts are fed in chunks that are shorter and longer than what a state
keeps.
"""

import numpy as np

import reference
from cases import TYPES, rmsnorm_of
from program import Program, Value
from variants import ACTIVATIONS


def state_of(p, *shape, dtype=None):
    """A state, zero at first: (layers, rows, numbers)."""
    index = len(p.caches)
    value = Value(
        f"%state{index}", shape, dtype or p.dtype, lambda call: call.caches[index]
    )
    p.caches.append(value)
    return value


def both(p, op, result, state, mixed, after):
    """The two results of an op of a state."""
    name = f"%v{len(p.body)}"
    p.body.append(f"{name}:2 = {op}")
    return (
        Value(f"{name}#0", result.shape, result.dtype, mixed),
        Value(f"{name}#1", state.shape, state.dtype, after),
    )


def activated(p, activation, x):
    op = f"llama.activate {activation} {x.name} : {x.type}"
    return p.emit(op, x.shape, lambda call: ACTIVATIONS[activation](call[x]), x.dtype)


def causal_conv_of(p, x, weight, state, layer=0, bias=None):
    op = (
        f"llama.causal_conv {x.name}, {weight.name}, {state.name}[{p.index(layer)}] "
        f"at %position{f' bias({bias.name} : {bias.type})' if bias else ''} : "
        f"{x.type}, {weight.type}, {state.type}"
    )
    rows = lambda call: np.concatenate([call[state][layer], call[x]])

    def after(call):
        kept = call[state].copy()
        kept[layer] = rows(call)[-state.shape[1] :]
        return kept

    mixed = lambda call: reference.causal_conv(rows(call), call[weight], call[bias])
    return both(p, op, x, state, mixed, after)


def causal_conv():
    forms = [
        ("f32", 33, 3, False, 69),
        ("f32", 1, 2, False, 69),
        ("f32", 70, 4, True, 2),  # chunks that a state outlives
        *((dtype, 48, 4, True, 69) for dtype in TYPES),
    ]
    for dtype, columns, filter, biased, chunk in forms:
        p = Program(dtype, chunk=chunk)
        p.counts = [1, 2, 3, 33, 70]
        state = state_of(p, 3, filter - 1, columns)
        weight = p.weight(columns, filter)
        bias = p.weight(columns) if biased else None
        x = p.tokens(columns)
        y, state = causal_conv_of(p, x, weight, state, 1, bias)
        y, state = causal_conv_of(p, y, weight, state, 2, bias)
        p.slack = 4
        p.on_cuda = columns == 70 or dtype == "bf16"
        yield f"{dtype} {columns} {filter} {chunk}", p.returns(y, state)


def delta_rule_of(p, operands, state, scale, eps=1e-6):
    q, k, v, step, rate, log_decay = operands
    op = (
        f"llama.delta_rule {q.name}, {k.name}, {v.name} step({step.name}, {rate.name}) "
        f"decay({log_decay.name} : {log_decay.type}) on {state.name}[{p.index(1)}] "
        f"at %position {{scale = {scale:e} : f64, eps = {eps:e} : f64}} : "
        f"{q.type}, {v.type}, {step.type}, {state.type}"
    )

    rule = lambda *read: reference.delta_rule(*read, scale, eps)
    return matrices(p, op, operands, state, rule)


def matrices(p, op, operands, state, compute):
    """The two results of an op whose heads have a matrix in layer 1 of a state."""
    q, _, v = operands[:3]

    def run(call):
        layers = call[state].copy()
        heads = layers[1].reshape(v.shape[1], q.shape[2], v.shape[2])
        made, heads = compute(*(call[each] for each in operands), heads)
        layers[1] = heads.reshape(layers[1].shape)
        return made, layers

    return both(p, op, v, state, lambda call: run(call)[0], lambda call: run(call)[1])


def operands_of(p, groups, heads, size, width):
    """Queries, keys, values and steps, which are positive."""
    q, k = (p.heads(p.tokens(groups * size), groups, size) for _ in "qk")
    v = p.heads(p.tokens(heads * width), heads, width)
    return q, k, v, activated(p, "softplus", p.tokens(heads, dtype="f32"))


def delta_rule():
    forms = [
        ("f32", 1, 1, 8, 8, 69),
        ("f32", 2, 4, 5, 7, 69),
        ("f32", 2, 2, 16, 8, 3),
        ("bf16", 2, 6, 8, 16, 69),
        ("bf16", 1, 2, 32, 64, 69),  # the least columns that iterations share
        ("bf16", 2, 4, 128, 32, 21),  # GPUs' chunks of 16 tokens in two calls
    ]
    for dtype, groups, heads, size, width, chunk in forms:
        p = Program(dtype, chunk=chunk)
        p.slack, p.on_cuda = 4, chunk == 3 or size >= 32
        p.counts = [7] if chunk == 3 else [1, 2, 33] if p.on_cuda else [1, 2, 33, 70]
        q, k, v, step = operands_of(p, groups, heads, size, width)
        # Rates are between 0 and 1.
        rate = activated(p, "sigmoid", p.tokens(heads, dtype="f32"))
        log_decay = p.weight(heads, scale=0.3, shift=-2.0)
        state = state_of(p, 3, heads * size, width, dtype="f32")
        operands = (q, k, v, step, rate, log_decay)
        y, state = delta_rule_of(p, operands, state, size**-0.5)
        yield f"{dtype} {heads} on {groups}, {size} {width} {chunk}", p.returns(y, state)


def selective_scan_of(p, operands, state):
    q, _, v, step, log_decay, skip = operands
    names = ", ".join(each.name for each in operands[:3])
    op = (
        f"llama.selective_scan {names} step({step.name}) "
        f"decay({log_decay.name} : {log_decay.type}) skip({skip.name} : {skip.type}) "
        f"on {state.name}[{p.index(1)}] at %position : "
        f"{q.type}, {v.type}, {step.type}, {state.type}"
    )
    return matrices(p, op, operands, state, reference.selective_scan)


def selective_scan():
    forms = [
        ("f32", 2, 4, 5, 7, 3),
        ("f32", 1, 1, 32, 80, 3),  # GPUs' blocks share the columns of an iteration
        ("bf16", 1, 2, 32, 64, 69),  # the least columns that iterations share
        ("bf16", 2, 2, 64, 80, 21),  # GPUs' chunks of 16 tokens, blocks of 16 columns
    ]
    for dtype, groups, heads, size, width, chunk in forms:
        p = Program(dtype, chunk=chunk)
        p.slack, p.on_cuda = 4, size >= 32
        p.counts = [7] if chunk == 3 else [1, 2, 33]
        operands = operands_of(p, groups, heads, size, width)
        log_decay = p.weight(heads, scale=0.3, shift=-2.0)
        state = state_of(p, 3, heads * size, width, dtype="f32")
        operands += (log_decay, p.weight(heads))
        y, state = selective_scan_of(p, operands, state)
        # A norm whose weight has a row for each head.
        y = rmsnorm_of(p, y, p.weight(heads, width, scale=0.1, shift=1.0))
        yield f"{dtype} {heads} on {groups}, {size} {width} {chunk}", p.returns(y, state)


def recurrence_chunks():
    """A delta rule whose results a scan reads, of heads that AMX's tiles fit: chunks of 32
    tokens and some more tokens, from no state and from one."""
    p = Program("bf16", chunk=40)
    p.slack, p.counts = 4, [33, 75]
    groups, heads, width = 1, 2, 48  # an odd tile of columns
    q, k, v, step = operands_of(p, groups, heads, 64, width)
    rate = activated(p, "sigmoid", p.tokens(heads, dtype="f32"))
    log_decay = p.weight(heads, scale=0.3, shift=-2.0)
    state = state_of(p, 3, heads * 64, width, dtype="f32")
    y, first = delta_rule_of(p, (q, k, v, step, rate, log_decay), state, 64**-0.5)
    q, k, _, step = operands_of(p, groups, heads, 96, width)
    log_decay = p.weight(heads, scale=0.3, shift=-2.0)
    state = state_of(p, 3, heads * 96, width, dtype="f32")
    y, second = selective_scan_of(
        p, (q, k, y, step, log_decay, p.weight(heads)), state
    )
    yield "bf16", p.returns(y, first, second)
