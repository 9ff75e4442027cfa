#!/usr/bin/env python3
"""Writes a GGUF file of Llama-3.2-1B's shape, tied, with random weights and tokens without
meaning. Needs the package gguf.

usage: random_gguf.py TYPE FILE.gguf
TYPE: f32, f16, bf16, q8_0, q4_0
"""

import os
import pathlib
import sys

VOCABULARY = 128256
HIDDEN, INNER, LAYERS, HEADS, KV_HEADS, HEAD = 2048, 8192, 16, 32, 8, 64


def shapes():
    found = {"token_embd": (VOCABULARY, HIDDEN), "output_norm": (HIDDEN,)}
    for i in range(LAYERS):
        found |= {
            f"blk.{i}.attn_norm": (HIDDEN,),
            f"blk.{i}.attn_q": (HEADS * HEAD, HIDDEN),
            f"blk.{i}.attn_k": (KV_HEADS * HEAD, HIDDEN),
            f"blk.{i}.attn_v": (KV_HEADS * HEAD, HIDDEN),
            f"blk.{i}.attn_output": (HIDDEN, HEADS * HEAD),
            f"blk.{i}.ffn_norm": (HIDDEN,),
            f"blk.{i}.ffn_gate": (INNER, HIDDEN),
            f"blk.{i}.ffn_up": (INNER, HIDDEN),
            f"blk.{i}.ffn_down": (HIDDEN, INNER),
        }
    return found


def add_keys(writer):
    writer.add_context_length(131072)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(VOCABULARY)


def add_tokens(writer, count=VOCABULARY):
    """A piece for each byte, as every byte-level vocabulary has, and words."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    pieces = [chr(i) for i in plain] + [chr(256 + i) for i in range(256 - len(plain))]
    pieces += ["w2"] + [f"w{i}" for i in range(257, count - 1)] + ["<|end|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(pieces)
    writer.add_token_types([1] * (count - 1) + [3])
    writer.add_token_merges(["w 2"])
    writer.add_bos_token_id(count - 1)
    writer.add_eos_token_id(count - 1)
    writer.add_add_bos_token(False)


def make(kind, path):
    """The file is there when it is whole."""
    import gguf
    import numpy as np

    partial = pathlib.Path(f"{path}.part")
    writer = gguf.GGUFWriter(partial, "llama")
    add_keys(writer)
    add_tokens(writer)
    types = gguf.GGMLQuantizationType
    type_of = {shape: types.F32 if len(shape) == 1 else types[kind.upper()] for shape in
               shapes().values()}
    for name, shape in shapes().items():
        stored = gguf.quant_shape_to_byte_shape(shape, type_of[shape])
        writer.add_tensor_info(
            f"{name}.weight", stored, np.dtype(np.uint8), int(np.prod(stored)),
            raw_dtype=type_of[shape],
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(1)
    for shape in shapes().values():
        values = random.random(shape, np.float32)
        values = 0.9 + 0.2 * values if len(shape) == 1 else (values - 0.5) * 0.07
        writer.write_tensor_data(gguf.quantize(values, type_of[shape]).view(np.uint8))
    writer.close()
    os.replace(partial, path)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("f32", "f16", "bf16", "q8_0", "q4_0"):
        sys.exit(__doc__)
    make(*sys.argv[1:])
