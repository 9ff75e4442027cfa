"""Blocks of 32 numbers, in NumPy: ggml's, after ggml-quants.c, and fp8."""

import numpy as np

INTEGERS = ["q8_0", "q4_0"]
FORMATS = INTEGERS + ["fp8"]

# The E4M3 of bytes 0 to 126, in order.
E4M3 = np.array([(m % 8 + 8 * (m > 7)) * 2.0 ** (max(m // 8, 1) - 10) for m in range(127)])


def split(array):
    """(..., K) as blocks (..., K / 32, 32), in f32."""
    return array.astype(np.float32).reshape(*array.shape[:-1], -1, 32)


def inverse(scale):
    """1 / scale, or 0, in f32."""
    with np.errstate(divide="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def to_e4m3(x):
    """The bytes of the nearest numbers, of ties the even ones."""
    size = np.minimum(np.abs(x), E4M3[-1])
    above = np.clip(np.searchsorted(E4M3, size), 1, 126)
    to_above, to_below = E4M3[above] - size, size - E4M3[above - 1]
    below = (to_below < to_above) | ((to_below == to_above) & (above % 2 == 1))
    return np.where(np.signbit(x), 128, 0).astype(np.uint8) + (above - below).astype(np.uint8)


def quantize(array, format):
    """(..., K) as bytes of blocks: quantize_row_q8_0_ref, quantize_row_q4_0_ref; or with
    256 times a scale of which 448 are the largest number."""
    x = split(array)
    if format == "fp8":
        most = np.abs(x).max(-1, keepdims=True)
        scale = (most * np.float32(256 / 448)).astype(np.float16)
        codes = to_e4m3(x * (inverse(scale.astype(np.float32)) * np.float32(256)))
        return np.concatenate([scale.view(np.uint8), codes], -1)
    if format == "q8_0":
        scale = np.abs(x).max(-1, keepdims=True) / np.float32(127)
        scaled = (x * inverse(scale)).astype(np.float64)
        codes = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled).astype(np.int8)
    else:
        largest = np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)
        scale = largest / np.float32(-8)
        halves = np.trunc(x * inverse(scale) + np.float32(8.5)).astype(np.uint8)
        halves = np.minimum(halves, 15)
        codes = halves[..., :16] | halves[..., 16:] << 4
    scale = scale.astype(np.float16).view(np.uint8)
    return np.concatenate([scale, codes.view(np.uint8)], -1)


def dequantize(blocks, format):
    """Bytes of blocks as the numbers (..., K), in f64."""
    scale = np.ascontiguousarray(blocks[..., :2]).view(np.float16)
    codes = blocks[..., 2:]
    if format == "fp8":
        codes = np.append(E4M3, np.nan)[codes & 127] * np.where(codes > 127, -1, 1) / 256
    elif format == "q8_0":
        codes = codes.view(np.int8)
    else:
        halves = np.concatenate([codes & 15, codes >> 4], -1)
        codes = halves.astype(np.int8) - 8
    numbers = codes * scale.astype(np.float64)
    return numbers.reshape(*blocks.shape[:-2], -1)


def rounded_rows(x):
    """Rows as products with blocks see them, in f64: integers to nearest even
    and scales in f16."""
    blocks = split(x)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    codes = np.rint(blocks * inverse(scale)).astype(np.float64)
    return (codes * scale.astype(np.float16)).reshape(x.shape)
