#!/usr/bin/env python3
"""Makes stop_goldens.json: after how many drawn ids transformers' StopStringCriteria
ends a text, with the tokenizers of this folder.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install torch transformers==5.23.0
    /tmp/v/bin/python make_stop_goldens.py

Run by hand when cases are added; the result is committed.
"""
import json
import pathlib
import random

import torch
import transformers
from transformers import PreTrainedTokenizerFast, StopStringCriteria

assert transformers.__version__ == "5.23.0"
HERE = pathlib.Path(__file__).parent
NEW = 60
COUNT = 40  # cases of a tokenizer


def cut(rng, tokenizer, ids):
    """A stop string: a part of a text of ids, special tokens included."""
    begin = rng.randrange(len(ids) - 4)
    text = tokenizer.decode(ids[begin : begin + rng.randint(1, 4)])
    text = text.replace("\ufffd", "")
    first = rng.randrange(max(1, len(text)))
    return text[first : first + rng.randint(1, 7)]


def drawn(rng, tokenizer):
    """Ids of random tokens, or of a text in which a few characters come often."""
    if rng.random() < 0.5:
        return [rng.randrange(len(tokenizer)) for _ in range(NEW + 20)]
    text = "".join(rng.choice("ab \n\u00e9\u65e5\U0001f642") for _ in range(4 * NEW))
    return tokenizer(text, add_special_tokens=False)["input_ids"][: NEW + 20]


def main():
    rng = random.Random(5)
    cases = []
    for name in ("byte_level", "ignore_merges", "metaspace", "sentencepiece"):
        path = HERE / f"{name}.tokenizer.json"
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path))
        count = 0
        while count < COUNT:
            ids = drawn(rng, tokenizer)
            source = ids[3:] if rng.random() < 0.7 else drawn(rng, tokenizer)
            stops = [cut(rng, tokenizer, source) for _ in range(rng.choice([1, 1, 2, 4]))]
            stops = [text for text in stops if text]
            if not stops:
                continue
            try:
                ends = StopStringCriteria(tokenizer, stops)
            except ValueError:  # no token has the last character of a string
                continue
            prompt = rng.randint(0, 8)
            lengths = range(prompt + 1, len(ids) + 1)
            at = [n for n in lengths if ends(torch.tensor([ids[:n]]), None).item()]
            count += 1
            cases.append(
                {"tokenizer": name, "stops": stops, "prompt": ids[:prompt],
                 "ids": ids[prompt : at[0] if at else None], "stopped": bool(at)})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "stop_goldens.json").write_text(f"[{lines}]\n")
    print(len(cases), "cases,", sum(case["stopped"] for case in cases), "stopped")


if __name__ == "__main__":
    main()
