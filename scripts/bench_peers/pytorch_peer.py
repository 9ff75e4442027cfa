"""pytorch_peer.py JSON: times transformers' Llama, eager, and prints {row: tokens/s}."""

import json
import statistics
import sys
import time

import torch
from transformers import DynamicCache, LlamaForCausalLM

import shape


def model(kind):
    torch.set_default_dtype({"bf16": torch.bfloat16, "f16": torch.float16}.get(kind, torch.float32))
    return LlamaForCausalLM(shape.config()).eval()


def main():
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    torch.set_grad_enabled(False)
    llama = model(asked["type"])

    def feed(texts, count, cache):
        ids = torch.randint(3, 100000, (texts, count))
        begin = time.perf_counter()
        llama(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return time.perf_counter() - begin

    def decode(texts, depth):
        cache = DynamicCache(config=llama.config)
        feed(texts, max(depth, 1), cache)
        feed(texts, 1, cache)
        seconds = [feed(texts, 1, cache) for _ in range(asked["tokens"])]
        return texts / statistics.median(seconds)

    found = {}
    for count in asked["prompts"]:
        seconds = [feed(1, count, DynamicCache(config=llama.config)) for _ in range(3)]
        found[f"prompt of {count}"] = count / statistics.median(seconds[1:])
    for depth in asked["depths"]:
        found[f"decode at {depth}"] = decode(1, depth)
    for texts in asked["texts"]:
        found[f"{texts} texts"] = decode(texts, 16)
    print(json.dumps(found))


main()
