"""shape.py CONFIG TYPE DIR: saves a model of a config.json with random weights.

For peers it has the model that all of them time: that of such a folder, or the shape of
Llama-3.2-1B, as random_gguf.py has it.
"""

import pathlib
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import random_gguf as gguf  # noqa: E402

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def model(kind, folder):
    torch.set_default_dtype(TYPES.get(kind, torch.float32))
    if folder:
        return AutoModelForCausalLM.from_pretrained(folder).eval()
    config = LlamaConfig(
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
    return LlamaForCausalLM(config).eval()


def save(config, kind, to):
    torch.set_default_dtype(TYPES.get(kind, torch.float32))
    partial = pathlib.Path(f"{to}.part")
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config)).save_pretrained(partial)
    partial.rename(to)


if __name__ == "__main__":
    save(*sys.argv[1:])
