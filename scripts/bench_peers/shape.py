"""The peers' model for transformers: random_gguf.py's."""

import pathlib
import sys

from transformers import LlamaConfig

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import random_gguf as gguf  # noqa: E402


def config():
    return LlamaConfig(
        vocab_size=gguf.VOCABULARY,
        hidden_size=gguf.HIDDEN,
        intermediate_size=gguf.INNER,
        num_hidden_layers=gguf.LAYERS,
        num_attention_heads=gguf.HEADS,
        num_key_value_heads=gguf.KV_HEADS,
        rms_norm_eps=1e-5,
        max_position_embeddings=131072,
        tie_word_embeddings=True,
    )
