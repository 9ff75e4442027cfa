"""ggml's blocks of 32 numbers, in NumPy, after ggml-quants.c."""

import numpy as np

FORMATS = ["q8_0", "q4_0"]


def split(array):
    """(..., K) as blocks (..., K / 32, 32), in f32."""
    return array.astype(np.float32).reshape(*array.shape[:-1], -1, 32)


def inverse(scale):
    """1 / scale, or 0, in f32."""
    with np.errstate(divide="ignore"):
        return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def quantize(array, format):
    """(..., K) as bytes of blocks: quantize_row_q8_0_ref, quantize_row_q4_0_ref."""
    x = split(array)
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
    if format == "q8_0":
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
