#!/usr/bin/env python3
"""Makes sampler_goldens.json: the distributions that the logits processors of
transformers leave, in the order in which generate() applies them.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install torch transformers==5.23.0
    /tmp/v/bin/python make_sampler_goldens.py

Run by hand when cases are added; the result is committed.
"""
import json
import pathlib

import torch
import transformers
from transformers import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                          TemperatureLogitsWarper, TopKLogitsWarper,
                          TopPLogitsWarper)

assert transformers.__version__ == "5.23.0"
NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
           "repetition_penalty": 1.0}
CASES = [
    {}, {"temperature": 0.7}, {"temperature": 1.8}, {"top_k": 1}, {"top_k": 5},
    {"top_k": 1000}, {"top_p": 0.9}, {"top_p": 0.5}, {"top_p": 0.05},
    {"top_p": 0.0}, {"min_p": 0.1}, {"min_p": 0.5}, {"min_p": 1.0},
    {"repetition_penalty": 1.3}, {"repetition_penalty": 0.8},
    {"temperature": 0.6, "top_p": 0.9}, {"top_k": 10, "top_p": 0.8},
    {"temperature": 1.5, "top_k": 20, "top_p": 0.95, "min_p": 0.05},
    {"temperature": 0.8, "top_k": 8, "top_p": 0.9, "min_p": 0.2,
     "repetition_penalty": 1.2},
]


def distribution(logits, seen, options):
    scores = torch.tensor([logits])
    ids = torch.tensor([seen])
    steps = []
    if options["repetition_penalty"] != 1:
        steps.append(RepetitionPenaltyLogitsProcessor(
            options["repetition_penalty"]))
    if options["temperature"] != 1:
        steps.append(TemperatureLogitsWarper(options["temperature"]))
    if options["top_k"] != 0:
        steps.append(TopKLogitsWarper(options["top_k"]))
    if options["top_p"] < 1:
        steps.append(TopPLogitsWarper(options["top_p"]))
    if options["min_p"] > 0:
        steps.append(MinPLogitsWarper(options["min_p"]))
    for step in steps:
        scores = step(ids, scores)
    return torch.softmax(scores.double(), -1)[0].tolist()


def main():
    torch.manual_seed(4)
    cases = []
    for change in CASES:
        options = {**NEUTRAL, **change}
        # Quarters have ties, which top-k keeps. Of two that are tied top-p might take
        # either; 2^-20ths have no ties.
        parts = 4 if options["top_p"] == 1 else 1 << 20
        logits = ((torch.randn(48) * 3 * parts).round() / parts).tolist()
        assert parts == 4 or len(set(logits)) == len(logits)
        seen = torch.randint(0, 48, (12,)).tolist()
        kept = {i: round(p, 9) for i, p in
                enumerate(distribution(logits, seen, options)) if p > 0}
        cases.append({**options, "logits": logits, "seen": seen,
                      "ids": list(kept), "probabilities": list(kept.values())})
    lines = ",\n".join(json.dumps(case, separators=(",", ":"))
                       for case in cases)
    path = pathlib.Path(__file__).parent / "sampler_goldens.json"
    path.write_text(f"[\n{lines}\n]\n")


main()
