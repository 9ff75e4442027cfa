"""pytorch_peer.py JSON: times transformers, eager, and prints {row: tokens/s}."""

import json
import statistics
import sys
import time

import torch

import shape


def main():
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    torch.set_grad_enabled(False)
    model = shape.model(asked["type"], asked["model"])

    def feed(texts, count, cache=None):
        """The seconds that it takes, and the cache."""
        ids = torch.randint(3, model.config.vocab_size, (texts, count))
        begin = time.perf_counter()
        out = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return time.perf_counter() - begin, out.past_key_values

    def decode(texts, depth):
        _, cache = feed(texts, max(depth, 1))
        feed(texts, 1, cache)
        return texts / statistics.median(feed(texts, 1, cache)[0] for _ in range(asked["tokens"]))

    found = {}
    for count in asked["prompts"]:
        seconds = [feed(1, count)[0] for _ in range(3)]
        found[f"prompt of {count}"] = count / statistics.median(seconds[1:])
    for depth in asked["depths"]:
        found[f"decode at {depth}"] = decode(1, depth)
    for texts in asked["texts"]:
        found[f"{texts} texts"] = decode(texts, 16)
    print(json.dumps(found))


main()
