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
from tokenizer_families import FAMILIES, GPT4, TEKKEN, added, byte_level, differences
from tokenizer_families import sentencepiece, template
from tokenizers import Regex, Tokenizer
from tokenizers import normalizers as norm
from tokenizers import pre_tokenizers as pre

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


BLANKS = "|".join(r"\s{%d}(?!\S)" % 2**i for i in range(9, 1, -1))
JAIS2 = GPT4 % "{1,3}"
JAIS2 = JAIS2.removesuffix(r"\s+(?!\S)|\s+") + BLANKS + r"|\s{1,2}(?!\S)|\s{1}"
# gpt-oss and MiniMax M2: words may end in 's and the like.
GPT4O = TEKKEN.replace("]+|[^", "]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^", 1)
GPT4O = GPT4O.replace(r"*|\p{N}|", r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|")
# Words may have marks.
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def command_r():
    """Command R, as transformers' CohereTokenizer has it."""
    one = byte_level(normalizer=norm.NFC())
    one.pre_tokenizer = pre.Sequence([pre.Digits(True), pre.ByteLevel(False)])
    return one


def deepseek3():
    one = byte_level(DEEPSEEK3[-1])
    splits = [pre.Split(Regex(each), "isolated") for each in DEEPSEEK3]
    bytes_alone = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    one.pre_tokenizer = pre.Sequence([*splits, bytes_alone])
    return one


def plain(name):
    return lambda: (FAMILIES[name](), None)


# What makes the tokenizer, its name in GGUF, and what else the file says.
CASES = {
    "llama3": (plain("llama3"), "llama-bpe", {"bos": "<|begin_of_text|>"}),
    "qwen2": (plain("qwen2"), "qwen2", {"bos": "<|im_start|>", "add_bos": False}),
    "qwen3.5": (lambda: (byte_level(QWEN35, normalizer=norm.NFC()), None), "qwen35", {}),
    "olmo2": (plain("olmo2"), "dbrx", {}),
    "gpt2": (plain("gpt2"), "gpt-2", {"bos": "<|endoftext|>"}),
    "smollm": (plain("smollm"), "smollm", {}),
    "stablelm2": (plain("qwen2"), "stablelm2", {}),
    "glm4": (plain("olmo2"), "glm4", {}),
    "command-r": (lambda: (command_r(), None), "command-r", {}),
    "olmo": (lambda: (byte_level(normalizer=norm.NFC()), None), "olmo", {}),
    "jais2": (lambda: (byte_level(JAIS2), None), "jais-2", {}),
    "hunyuan": (lambda: (deepseek3(), None), "hunyuan-dense", {}),
    "gpt-oss": (lambda: (byte_level(GPT4O), None), "gpt-4o", {}),
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
