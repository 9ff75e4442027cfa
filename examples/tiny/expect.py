#!/usr/bin/env python3
"""Writes down what Hugging Face transformers makes of a model: of the one in
FOLDER, or in this folder.

expected.json: for each prompt its ids, the greedy continuation to the end token
and the whole text; prompts at which every choice leads by more than MARGIN in
f32, and bf16 agrees. expected.npz: the logits at every token of the first
prompt, `f32` computed in f32 and `bf16` in bf16 (as its bits).

Made with Python 3.11 and
  torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0

usage: expect.py [FOLDER]
"""

import hashlib
import json
import pathlib
import sys

import numpy as np
import tokenizers
import torch
import transformers

MARGIN = 0.1
PROMPTS = [
    "Once upon a time, there was a little fox named Lily.",
    "Mia was a clever rabbit who lived on a big farm.",
    "Once there was an old owl named Sam.",
    "Zoe was a happy duck who lived in the green forest.",
    "Once upon a time, there was a shy bear named Leo.",
]


def load(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager"
    ).eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def greedy_of(model, ids):
    """The continuation to the end token, and the smallest lead of a choice."""
    new, lead = [], float("inf")
    while not new or new[-1] != model.config.eos_token_id:
        if len(ids) + len(new) == model.config.max_position_embeddings:
            break
        best = torch.topk(logits_of(model, ids + new)[-1].float(), 2)
        lead = min(lead, (best.values[0] - best.values[1]).item())
        new.append(best.indices[0].item())
    return new, lead


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parent
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    exact, stored = load(folder, torch.float32), load(folder, torch.bfloat16)
    kept = []
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        new, lead = greedy_of(exact, ids)
        text = tokenizer.decode(ids + new)
        agree = greedy_of(stored, ids)[0] == new
        print(f"lead {lead:.3f} {'' if agree else 'bf16 differs '}{text}\n")
        if lead > MARGIN and agree:
            kept.append(dict(prompt=prompt, ids=ids, greedy=new, text=text))
    weights = (folder / "model.safetensors").read_bytes()
    expected = {
        "made_with": {"torch": torch.__version__}
        | {"transformers": transformers.__version__},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "prompts": kept,
    }
    text = json.dumps(expected, indent=1) + "\n"
    (folder / "expected.json").write_text(text)
    ids = kept[0]["ids"]
    bits = logits_of(stored, ids).view(torch.int16).numpy().view(np.uint16)
    f32 = logits_of(exact, ids).numpy()
    np.savez_compressed(folder / "expected.npz", f32=f32, bf16=bits)


if __name__ == "__main__":
    main()
