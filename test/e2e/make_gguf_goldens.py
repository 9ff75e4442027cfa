#!/usr/bin/env python3
"""Writes goldens/gguf.json: the ids that llama.cpp draws greedily from the GGUF
files of gguf_greedy.py.

Each entry: the seed, of random weights or of a trained model's prompt; 64 ids that
continue the prompt; the logarithms of their probabilities. The seed is the first one
that gives many different ids, each with a logit so far ahead of the next one in llama.cpp
that rounding cannot change the choice. KV caches are f32, flash attention is off.
Made with Python 3.11 and
  gguf==0.19.0 numpy==2.4.6 llama-cpp-python==0.3.36 (ggml 0.25.3)

usage: make_gguf_goldens.py BIN SCRATCH MODEL_FOLDER NAME...
"""

import json
import sys

import llama_cpp
import numpy as np

import gguf_greedy
from harness import Tools, log_softmax

CONTEXT = 160
DIFFERENT = 16  # ids of the 64, at least


class Peer:
    """llama.cpp with a file."""

    def __init__(self, path):
        parameters = llama_cpp.llama_model_default_params()
        load = llama_cpp.llama_model_load_from_file
        self.model = load(str(path).encode(), parameters)
        assert self.model, path
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.tokens = llama_cpp.llama_vocab_n_tokens(vocabulary)
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = CONTEXT
        parameters.n_threads = parameters.n_threads_batch = 1
        parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        assert self.context, path

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def logits(self, ids):
        """The logits after `ids`, which continue the ids of earlier calls."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        batch = llama_cpp.llama_batch_get_one(tokens, len(ids))
        assert llama_cpp.llama_decode(self.context, batch) == 0
        row = llama_cpp.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(row, (self.tokens,)).copy()

    def greedy(self, prompt, count):
        """`count` ids, the logarithms of their probabilities, and the smallest lead of an
        id's logit."""
        ids, logarithms, lead = [], [], float("inf")
        logits = self.logits(prompt)
        while True:
            second, best = np.argsort(logits)[-2:]
            lead = min(lead, float(logits[best] - logits[second]))
            ids.append(int(best))
            logarithms.append(round(float(log_softmax(logits)[best]), 7))
            if len(ids) == count:
                return ids, logarithms, lead
            logits = self.logits(ids[-1:])


def golden(tools, name, folder):
    """The entry of the first seed that meets the conditions."""
    case = gguf_greedy.CASES[name]
    file = gguf_greedy.File(tools, name, folder)
    for seed in range(200):
        prompt = file.write(seed)
        peer = Peer(file.path)
        ids, logarithms, lead = peer.greedy(prompt, gguf_greedy.COUNT)
        peer.close()
        if lead > case.lead and len(set(ids)) >= DIFFERENT:
            print(f"{name}: seed {seed}, lead {lead:.4f}, {len(set(ids))} ids")
            return {"seed": seed, "greedy": ids, "logarithms": logarithms}
    raise RuntimeError(f"{name}: no seed serves")


def main():
    tools = Tools(*sys.argv[1:3])
    path = gguf_greedy.GOLDENS
    entries = json.loads(path.read_text()) if path.exists() else {}
    for name in sys.argv[4:]:
        entries[name] = golden(tools, name, sys.argv[3])
        lines = (f'"{key}": {json.dumps(e)}' for key, e in entries.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
