"""The ops of the llama dialect in NumPy, written from the formulas of their papers and of
torch, not from the compiler.

Inputs and outputs are arrays of one float type, in which all is computed.
"""

import numpy as np


def rmsnorm(x, weight, eps):
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps))
    return y if weight is None else y * weight


def layernorm(x, gamma, beta, eps):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    y = centred / np.sqrt(variance + x.dtype.type(eps))
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def linear(x, weight, bias):
    y = x @ weight.T
    return y if bias is None else y + bias


def swiglu(gate, up):
    with np.errstate(over="ignore"):
        return gate / (1 + np.exp(-gate)) * up


def angles(positions, inv_freq):
    """(positions, D/2): the product is taken in f32, as the op says."""
    positions = np.asarray(positions, np.float32)
    return positions[:, None] * np.asarray(inv_freq, np.float32)


def rope(x, position, inv_freq):
    """x (tokens, heads, D)."""
    angle = angles(position + np.arange(len(x)), inv_freq).astype(x.dtype)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    low, high = np.split(x, 2, axis=-1)
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


def append(cache, rows, layer, position):
    """cache (layers, heads, positions, D) with rows (tokens, heads, D)."""
    cache = cache.copy()
    cache[layer, :, position : position + len(rows)] = rows.swapaxes(0, 1)
    return cache


def capped(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def gqa(query, keys, values, layer, position, scale, causal, window, cap=None):
    """query (tokens, heads, D); keys, values (layers, KV heads, positions, D)."""
    tokens, heads, _ = query.shape
    end, group = position + tokens, heads // keys.shape[1]
    keys = keys[layer, :, :end].repeat(group, axis=0)
    values = values[layer, :, :end].repeat(group, axis=0)
    scores = np.einsum("thd,hsd->hts", query, keys) * query.dtype.type(scale)
    scores = capped(scores, cap)
    p, s = position + np.arange(tokens)[:, None], np.arange(end)[None]
    hidden = np.zeros((tokens, end), bool)
    if causal:
        hidden |= s > p
    if window:
        hidden |= s <= p - window
    scores[:, hidden] = -np.inf
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    p = scores / scores.sum(-1, keepdims=True)
    return np.einsum("hts,hsd->thd", p, values)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def largest(row, count):
    """Indices of the largest numbers: NaN first; of equal numbers, the lower index."""
    number = lambda i: np.inf if np.isnan(row[i]) else row[i]
    key = lambda i: (not np.isnan(row[i]), -number(i), i)
    return sorted(range(len(row)), key=key)[:count]


def route(
    logits,
    k,
    score="softmax",
    correction=None,
    normalize="none",
    floor=0.0,
    scale=1.0,
    groups=None,
    kept_groups=None,
    group_best=2,
    logit_scale=1.0,
    factors=None,
):
    """Experts and weights (tokens, k), as a token at a time is sorted."""
    logits = logits * logits.dtype.type(logit_scale)
    scores = {"softmax": softmax, "sigmoid": sigmoid, "logits": np.array}[score](logits)
    choices = scores if correction is None else scores + correction
    experts = np.zeros((len(logits), k), int)
    for t, row in enumerate(choices):
        row = row.copy()
        if groups:
            parts = row.reshape(groups, -1)
            best = [part[largest(part, group_best)].sum() for part in parts]
            kept = largest(best, kept_groups)
            for g in set(range(groups)) - set(kept):
                parts[g] = -np.inf
        experts[t] = largest(row, k)
    w = np.take_along_axis(scores, experts, 1)
    floor = w.dtype.type(floor)
    if normalize.startswith("sum"):
        sums = w.sum(-1, keepdims=True)
        w = w / (sums + floor if normalize == "sum" else np.maximum(sums, floor))
    elif normalize != "none":
        w = {"softmax": softmax, "sigmoid": sigmoid}[normalize](w)
    w = w * w.dtype.type(scale)
    return experts, w if factors is None else w * factors[experts]


def expert_linear(x, weight, experts, bias=None):
    """x (tokens, K), or (tokens, chosen, K); weight (experts, N, K)."""
    rows = x if x.ndim == 3 else np.repeat(x[:, None], experts.shape[1], 1)
    y = np.zeros((*experts.shape, weight.shape[1]), x.dtype)
    for t, chosen in enumerate(experts):
        for s, e in enumerate(chosen):
            y[t, s] = weight[e] @ rows[t, s]
    return y if bias is None else y + bias[experts]


def combine(weights, x):
    return np.einsum("ts,tsn->tn", weights.astype(x.dtype), x)


def causal_conv(rows, weight, bias):
    """rows: those that are kept, and those of the call's tokens, by position."""
    columns, size = weight.shape
    tokens = len(rows) - size + 1
    y = sum(weight[:, j] * rows[j : j + tokens] for j in range(size))
    return y if bias is None else y + bias


def delta_rule(q, k, v, step, rate, log_decay, state, scale, eps):
    """q, k (tokens, key heads, D), v (tokens, heads, V), state (heads, D, V)."""
    group, state = v.shape[1] // q.shape[1], state.astype(v.dtype)
    length = lambda x: np.sqrt((x * x).sum(-1, keepdims=True) + x.dtype.type(eps))
    q, k = ((x / length(x)).repeat(group, axis=1) for x in (q, k))
    made = []
    for t in range(len(q)):
        state = state * np.exp(-np.exp(log_decay) * step[t])[:, None, None]
        known = np.einsum("hdv,hd->hv", state, k[t])
        error = rate[t][:, None] * (v[t] - known)
        state = state + k[t][:, :, None] * error[:, None]
        made.append(np.einsum("hdv,hd->hv", state, q[t]) * q.dtype.type(scale))
    return np.stack(made), state


def selective_scan(q, k, v, step, log_decay, skip, state):
    """Arguments as of delta_rule; a factor of each head's values that pass by."""
    group, state = v.shape[1] // q.shape[1], state.astype(v.dtype)
    q, k = (x.repeat(group, axis=1) for x in (q, k))
    made = []
    for t in range(len(q)):
        state = state * np.exp(-np.exp(log_decay) * step[t])[:, None, None]
        state = state + k[t][:, :, None] * (step[t][:, None] * v[t])[:, None]
        made.append(np.einsum("hdv,hd->hv", state, q[t]) + skip[:, None] * v[t])
    return np.stack(made), state
