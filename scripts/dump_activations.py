#!/usr/bin/env python3
"""Writes the activations of a model in transformers, for cria-bisect --reference.

usage: dump_activations.py MODEL IDS OUT.safetensors [--dtype=f32|f16|bf16]

MODEL is a folder with config.json and safetensors, IDS are token ids such as 1,2,3.
Each tensor has a row for each position: PATH:in is the input of a module with a weight,
PATH:out is the output of a layer, PATH:query, PATH:key and PATH:value are the rotated
inputs of an attention, and logits are the model's.

Needs torch, transformers and safetensors.
"""

import argparse
import re
import sys

import safetensors.torch
import torch
import transformers
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def rows(tensor):
    """(1, tokens, ...) as (tokens, row)."""
    return tensor.detach()[0].flatten(1).contiguous().clone()


def first(value):
    return value[0] if isinstance(value, tuple) else value


class Recorder:
    """Hooks on the modules of a model."""

    def __init__(self, model):
        self.made = {}
        self.names = {module: name for name, module in model.named_modules()}
        for name, module in model.named_modules():
            if getattr(module, "weight", None) is not None:
                module.register_forward_pre_hook(self.reader(f"{name}:in"))
            if re.search(r"\.\d+$", name):
                module.register_forward_hook(self.writer(f"{name}:out"))
        ALL_ATTENTION_FUNCTIONS.register("recorded", self.attention)
        ALL_MASK_ATTENTION_FUNCTIONS.register("recorded", eager_mask)
        model.set_attn_implementation("recorded")

    def reader(self, name):
        def hook(_, arguments):
            if arguments and arguments[0].is_floating_point():
                self.made[name] = rows(arguments[0])

        return hook

    def writer(self, name):
        def hook(_, __, output):
            self.made[name] = rows(first(output))

        return hook

    def attention(self, module, query, key, value, mask, **options):
        for side, tensor in ("query", query), ("key", key), ("value", value):
            self.made[f"{self.names[module]}:{side}"] = rows(tensor.transpose(1, 2))
        eager = sys.modules[type(module).__module__].eager_attention_forward
        return eager(module, query, key, value, mask, **options)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("ids")
    parser.add_argument("out")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    options = parser.parse_args()
    ids = [int(each) for each in options.ids.split(",")]
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.model, dtype=DTYPES[options.dtype]
    ).eval()
    recorder = Recorder(model)
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits
    made = recorder.made | {"logits": rows(logits)}
    made["ids"] = torch.tensor(ids, dtype=torch.int32)
    safetensors.torch.save_file(made, options.out)


if __name__ == "__main__":
    main()
