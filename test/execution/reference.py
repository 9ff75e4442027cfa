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
