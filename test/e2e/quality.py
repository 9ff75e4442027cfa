#!/usr/bin/env python3
"""Prints the loss of blocks (docs/quantization.md), next to that of llama.cpp.

For each model and format, a GGUF file of that format only is made. Printed are the
divergence of Cria's and of llama.cpp's logits from those of transformers in f32, whose
weights are not rounded to a format; the distance between Cria and llama.cpp; and the
number of rows of logits before an activation rounds to another integer in one of the two,
which changes all later results. MODEL is a folder in Hugging Face's format, or a
config.json, for which transformers makes random weights. transformers draws the ids from
its own distribution.

Made with Python 3.11 and
  gguf==0.19.0 llama-cpp-python==0.3.36 torch==2.15.0 transformers==5.23.0

usage: quality.py BIN SCRATCH NAME=MODEL...
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

import gguf_files
import gguf_text
from gguf_files import TYPES
from gguf_greedy import no_vocabulary
from harness import Tools, check, divergence, nmse
from make_gguf_goldens import Peer
from weights import read_safetensors

COUNT = 128  # ids
SEED = 0
SAME = 1e-12  # NMSE of a row whose integers are the same


class Exact:
    """transformers in f32: a model's ids and logits, and its folder."""

    def __init__(self, tools, name, path):
        torch.manual_seed(SEED)
        library = transformers.AutoModelForCausalLM
        self.folder = path
        if path.is_file():
            config = transformers.AutoConfig.from_pretrained(path)
            model = library.from_config(config, dtype=torch.bfloat16)
            self.folder = tools.scratch / name
            model.save_pretrained(self.folder, max_shard_size="100GB")
            (self.folder / "config.json").write_text(path.read_text())
        model = library.from_pretrained(self.folder, dtype=torch.float32)
        start = torch.tensor([[model.config.bos_token_id]])
        more = {"min_new_tokens": COUNT - 1, "max_new_tokens": COUNT - 1}
        drawn = model.generate(start, do_sample=True, top_k=0, pad_token_id=0, **more)
        self.ids = drawn[0].tolist()
        with torch.no_grad():
            self.logits = model(drawn).logits[0].numpy()


def write(path, folder, kind):
    if (folder / "tokenizer.json").exists():
        return gguf_text.write(path, folder, kind)
    config = json.loads((folder / "config.json").read_text())
    arrays = read_safetensors(folder / "model.safetensors")
    return gguf_files.write(path, config, arrays, kind, no_vocabulary)


def row(tools, name, exact, kind):
    path = tools.scratch / f"{name}-{kind.name}.gguf"
    write(path, exact.folder, kind)
    artifact = tools.compile(path, "--dtype=f32", "--max-seq=160")
    ours = tools.logits(artifact, exact.ids, f"--weights={path}")
    peer = Peer(path)
    theirs = np.stack([peer.logits([i]) for i in exact.ids])
    peer.close()
    path.unlink()
    check(len(ours) == len(exact.logits), f"{name}: {len(ours)} rows of logits")
    losses = [divergence(exact.logits, got) for got in (ours, theirs)]
    apart = [nmse(*rows) > SAME for rows in zip(theirs, ours)]
    same = apart.index(True) if any(apart) else len(apart)
    cells = [name, kind.name.lower(), f"{exact.logits.std():.2f}"]
    cells += [f"{number:.2e}" for number in (*losses, nmse(theirs, ours))]
    print(f"| {' | '.join(cells)} | {same} of {COUNT} |", flush=True)


def main():
    tools = Tools(*sys.argv[1:3])
    print("| model | format | logits' deviation | KLD | llama.cpp's | NMSE between | same rows |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for model in sys.argv[3:]:
        name, path = model.split("=", 1)
        exact = Exact(tools, name, pathlib.Path(path))
        for kind in (TYPES.Q8_0, TYPES.Q4_0):
            row(tools, name, exact, kind)


if __name__ == "__main__":
    main()
