#!/usr/bin/env python3
"""Compares tokenizers of GGUF files with the Hugging Face tokenizers that they were made
from: thousands of strings are encoded and decoded.

usage: gguf_tokenizers.py LIBCRIA.SO FOLDER [STRINGS [NAME...]]
"""

import json
import pathlib
import random
import sys

import libcria
from libcria import Library
from nasty_strings import every_character, nasty_strings
from tokenizer_families import FAMILIES, added, byte_level, differences
from tokenizer_families import sentencepiece, template
from tokenizers import Tokenizer

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import gguf  # noqa: E402
import gguf_files  # noqa: E402


def scored(form, **options):
    """One of sentencepiece's kind, with the merges that transformers makes of
    its scores."""
    one = sentencepiece(form)
    parts = json.loads(one.to_str())
    scores = gguf_files.scores_of(parts)
    merges = gguf_files.merges_of(parts["model"]["vocab"], scores)
    parts["model"]["merges"] = merges
    one = Tokenizer.from_str(json.dumps(parts))
    return added(one, **options), scores


def phi3():
    options = {"rstrip": True, "special": True, "normalized": False}
    one, scores = scored("normalizer", **{"<|user|>": options})
    parts = json.loads(one.to_str())
    for token in parts["added_tokens"]:
        token["rstrip"] |= token["content"] == "</s>"
    return Tokenizer.from_str(json.dumps(parts)), scores


def user_defined():
    """Tokens that are no special ones."""
    plain = {"normalized": False}
    names = ["<|endoftext|>", "<|im_end|>"]
    return added(byte_level(specials=names), **{"fox": plain, "\n\n": plain})


def with_ends():
    """Begin and end of a text."""
    one = byte_level(specials=["<s>", "</s>"])
    one.post_processor = template(one, "<s> $A </s>")
    return one


def plain(name):
    return lambda: (FAMILIES[name](), None)


# What makes the tokenizer, its name in GGUF, and what else the file says.
CASES = {
    "llama3": (plain("llama3"), "llama-bpe", {"bos": "<|begin_of_text|>"}),
    "qwen2": (plain("qwen2"), "qwen2", {"bos": "<|im_start|>", "add_bos": False}),
    "olmo2": (plain("olmo2"), "dbrx", {}),
    "gpt2": (plain("gpt2"), "gpt-2", {"bos": "<|endoftext|>"}),
    "smollm": (plain("smollm"), "smollm", {}),
    "mistral-tekken": (plain("mistral-tekken"), "tekken", {}),
    "user-defined": (lambda: (user_defined(), None), "phi-2", {}),
    "with-ends": (
        lambda: (with_ends(), None),
        "gpt-2",
        {"bos": "<s>", "eos": "</s>", "add_bos": True, "add_eos": True},
    ),
    "llama2": (lambda: scored("normalizer"), None, {"bos": "<s>"}),
    "gemma": (lambda: scored("split"), None, {"bos": "<s>", "prefix": False}),
    "phi3": (phi3, None, {"bos": "<s>", "architecture": "phi3"}),
}


def write(path, theirs, scores, pre, options):
    writer = gguf.GGUFWriter(path, options.get("architecture", "llama"))
    names = {key: options[key] for key in ("bos", "eos") if key in options}
    ids = {key: theirs.token_to_id(name) for key, name in names.items()}
    gguf_files.add_tokenizer(writer, json.loads(theirs.to_str()), pre, scores, **ids)
    if "add_bos" in options:
        writer.add_add_bos_token(options["add_bos"])
    if "add_eos" in options:
        writer.add_add_eos_token(options["add_eos"])
    if "prefix" in options:
        writer.add_add_space_prefix(options["prefix"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    library = Library(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    failed = 0
    for name in sys.argv[4:] or CASES:
        make, pre, options = CASES[name]
        theirs, scores = make()
        path = folder / f"{name}.gguf"
        write(path, theirs, scores, pre, options)
        texts = [*nasty_strings(count, name), *every_character()]
        ours = libcria.Tokenizer(library, path)
        found = list(differences(ours, theirs, texts, random.Random(name)))
        for line in found[:5]:
            print(f"{name}: {line[:1500]}")
        print(f"{name}: {len(texts)} strings, {len(found)} differences")
        failed += bool(found)
    sys.exit(failed > 0)


main()
