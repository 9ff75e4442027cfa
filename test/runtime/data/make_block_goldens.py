#!/usr/bin/env python3
"""Makes block_goldens.json: blocks of ggml's formats, by the gguf package of
llama.cpp, whose results are those of its C code bit for bit.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install numpy==2.2.6 gguf==0.19.0
    /tmp/v/bin/python make_block_goldens.py

Run by hand when cases are added; the result is committed. Each case has the
format, f32 elements to quantize ("" where the package cannot), the blocks, and
their elements in f32, all as the hexadecimal digits of their bytes.
"""
import json
import pathlib

import gguf
import numpy as np

Types = gguf.GGMLQuantizationType
rng = np.random.default_rng(8)


def hard_rows():
    """Rows of 32 elements that a mistake in rounding would betray."""
    ramp = np.arange(32, dtype=np.float32)
    yield "random", rng.standard_normal(32)
    yield "small", rng.standard_normal(32) * 0.02
    yield "positive", np.abs(rng.standard_normal(32))
    yield "zeros", np.zeros(32)
    yield "one element", np.where(ramp == 17, 0.3, 0)
    yield "negative extreme", np.where(ramp == 5, -3, ramp / 16)
    yield "extremes of both signs, negative first", np.where(
        ramp == 3, -2, np.where(ramp == 20, 2, ramp / 32))
    yield "extremes of both signs, positive first", np.where(
        ramp == 3, 2, np.where(ramp == 20, -2, ramp / 32))
    yield "ties of q8_0", np.where(ramp == 0, 127, ramp - 15.5)
    yield "below ties of q8_0", np.nextafter(
        np.where(ramp == 0, 127, ramp - 15.5).astype(np.float32), np.float32(0))
    yield "ties of q4_0", np.where(ramp == 0, -8, ramp / 2 - 8)
    yield "above ties of q4_0", np.nextafter(
        np.where(ramp == 0, -8, ramp / 2 - 8).astype(np.float32), np.float32(9))
    yield "scale rounds up to a subnormal f16", (ramp - 16) * 2e-7
    yield "scale rounds to zero in f16", (ramp - 16) * 1e-10
    yield "largest scale", np.where(ramp == 9, -500000, ramp * 1000)
    yield "bf16 values", (rng.standard_normal(32).astype(np.float32).view(
        np.uint32) & 0xffff0000).view(np.float32)


def case(name, kind, values, blocks):
    elements = gguf.quants.dequantize(blocks, kind).astype(np.float32)
    return {"case": name, "type": kind.name.lower(),
            "from": values.tobytes().hex(), "blocks": blocks.tobytes().hex(),
            "elements": elements.tobytes().hex()}


def main():
    cases = []
    for kind in (Types.Q8_0, Types.Q4_0):
        for name, row in hard_rows():
            values = np.asarray(row, np.float32)
            cases.append(case(name, kind, values,
                              gguf.quants.quantize(values, kind)))
    none = np.empty(0, np.float32)
    for kind in (Types.Q8_0, Types.Q4_0, Types.Q4_K, Types.Q6_K):
        size = gguf.GGML_QUANT_SIZES[kind][1]
        scales = {Types.Q4_K: (0, 2), Types.Q6_K: (208,)}.get(kind, (0,))
        for name in ("random bytes", "other random bytes"):
            blocks = rng.integers(0, 256, size, np.uint8)
            for at in scales:  # finite
                blocks[at:at + 2] = np.frombuffer(
                    np.float16(rng.standard_normal()).tobytes(), np.uint8)
            cases.append(case(name, kind, none, blocks))
    for kind in (Types.Q4_1, Types.Q5_0, Types.Q5_1, Types.Q5_K):
        size = gguf.GGML_QUANT_SIZES[kind][1]
        for name in ("random bytes", "other random bytes"):
            blocks = rng.integers(0, 256, size, np.uint8)
            for at in (0,) if kind == Types.Q5_0 else (0, 2):  # finite
                blocks[at:at + 2] = np.frombuffer(
                    np.float16(rng.standard_normal()).tobytes(), np.uint8)
            cases.append(case(name, kind, none, blocks))
    # Every code, with the exponents at both ends.
    codes = np.arange(16, dtype=np.uint8) * 17
    for scale in (0, 1, 2, 127, 254, 255):
        blocks = np.concatenate([np.array([scale], np.uint8), codes])
        cases.append(case(f"exponent {scale}", Types.MXFP4, none, blocks))
    for kind, scales in {Types.Q2_K: (80, 82), Types.Q3_K: (108,), Types.IQ4_NL: (0,),
                         Types.IQ4_XS: (0,)}.items():
        for name in ("random bytes", "other random bytes"):
            blocks = rng.integers(0, 256, gguf.GGML_QUANT_SIZES[kind][1], np.uint8)
            for at in scales:  # finite
                blocks[at:at + 2] = np.frombuffer(
                    np.float16(rng.standard_normal()).tobytes(), np.uint8)
            cases.append(case(name, kind, none, blocks))
    path = pathlib.Path(__file__).parent / "block_goldens.json"
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
    path.write_text("[\n" + lines + "\n]\n")


main()
