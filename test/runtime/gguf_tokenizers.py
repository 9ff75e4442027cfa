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


CHARACTERS = "ĠĊčĉ12!'/asS"  # bytes as GPT-2 writes them


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


def gpt2():
    """Begin and end of a text, and tokens that are no special ones."""
    plain = {"normalized": False}
    one = byte_level(specials=["<|endoftext|>", "<s>", "<|im_end|>"])
    one.post_processor = template(one, "<s> $A <|endoftext|>")
    return added(one, **{"fox": plain, "\n\n": plain})


def crossing(one):
    """With merges of characters that expressions tell apart, before all other merges: each
    cut between two of them shows."""
    parts = json.loads(one.to_str())
    vocabulary = parts["model"]["vocab"]
    vocabulary |= {token["content"]: token["id"] for token in parts["added_tokens"]}
    pairs = [[left, right] for left in CHARACTERS for right in CHARACTERS]
    for pair in pairs:
        vocabulary.setdefault("".join(pair), len(vocabulary))
    others = [pair for pair in parts["model"]["merges"] if pair not in pairs]
    parts["model"]["merges"] = pairs + others
    return Tokenizer.from_str(json.dumps(parts))


def unreachable(one):
    """Every tenth merge is missing, so that some tokens come from no merges. As of tiktoken,
    a word that is a token is this token."""
    parts = json.loads(one.to_str())
    del parts["model"]["merges"][::10]
    parts["model"]["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(parts))


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


# DeepSeek LLM and V2: letters that have a case are in words.
DEEPSEEK_LLM = [
    "[\r\n]",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕ"
    r"ἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳ"
    r"Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
    r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
    r"\s+$",
    "[一-龥ࠀ-一가-\ud7ff]+",
]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\ud7ff]+"]
# Kimi K2's tokenization_kimi.py: words of Chinese characters alone or without them.
KIMI = r"[\p{Han}]+|" + GPT4O.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace("/", "")
MINICPM5 = [r"\p{N}{1,3}", GPT4 % "+"]
SEED_CODER = (GPT4 % "{1}").replace(r"\p{N}]+[\r\n]*", "\\p{N}\r\n]+")
# Of the tokenizer.json of these models.
VIKING = " ?[^(\\s|[.,!?…。，、।۔،])]+"
TINY_AYA = [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O]
SUPERBPE = [r"\p{N}+", r"(?=(\d{3})+(?!\d))"]
# As in llama.cpp, but capital letters begin words as in gpt-oss.
YOUTU = [
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u3040-ゟ゠-ヿ]+",
    GPT4O.replace("{1,3}", ""),
]
UFAKZEKA = (GPT4 % "").partition("|[^")


def command_r():
    """Command R, as transformers' CohereTokenizer has it."""
    one = byte_level(normalizer=norm.NFC())
    one.pre_tokenizer = pre.Sequence([pre.Digits(True), pre.ByteLevel(False)])
    return one


def cut(*expressions, digits=False):
    """Byte-level BPE, cut by one expression after another and then into digits."""
    one = byte_level(expressions[-1])
    steps = [pre.Split(Regex(each), "isolated") for each in expressions]
    steps += [pre.Digits(individual_digits=True)] * digits
    bytes_alone = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    one.pre_tokenizer = pre.Sequence([*steps, bytes_alone])
    return one


def plain(name):
    return lambda: (FAMILIES[name](), None)


# What makes the tokenizer, its name in GGUF, and what else the file says.
CASES = {
    "llama3": (plain("llama3"), "llama-bpe", {"bos": "<|begin_of_text|>"}),
    "qwen2": (plain("qwen2"), "qwen2", {"bos": "<|im_start|>", "add_bos": False}),
    "qwen3.5": (lambda: (byte_level(QWEN35, normalizer=norm.NFC()), None), "qwen35", {}),
    "olmo2": (plain("olmo2"), "dbrx", {}),
    "gpt2": (
        lambda: (gpt2(), None),
        "gpt-2",
        {"bos": "<s>", "eos": "<|endoftext|>", "add_bos": True, "add_eos": True},
    ),
    "smollm": (plain("smollm"), "smollm", {}),
    "glm4": (lambda: (unreachable(byte_level(GPT4 % "{1,3}")), None), "glm4", {}),
    "command-r": (lambda: (command_r(), None), "command-r", {}),
    "olmo": (lambda: (byte_level(normalizer=norm.NFC()), None), "olmo", {}),
    "jais2": (lambda: (byte_level(JAIS2), None), "jais-2", {}),
    "deepseek-coder": (lambda: (cut(*DEEPSEEK_CODER, digits=True), None), "deepseek-coder", {}),
    "deepseek-llm": (lambda: (cut(*DEEPSEEK_LLM, digits=True), None), "deepseek-llm", {}),
    "deepseek3": (lambda: (cut(*DEEPSEEK3), None), "deepseek-v3", {}),
    "kimi-k2": (lambda: (unreachable(byte_level(KIMI)), None), "kimi-k2", {}),
    "minicpm5": (lambda: (unreachable(cut(*MINICPM5)), None), "minicpm5", {}),
    "seed-coder": (lambda: (byte_level(SEED_CODER), None), "seed-coder", {}),
    "gpt-oss": (lambda: (byte_level(GPT4O), None), "gpt-4o", {}),
    "mistral-tekken": (plain("mistral-tekken"), "tekken", {}),
    "solar-open": (lambda: (byte_level(GPT4 % ""), None), "solar-open", {}),
    "superbpe": (lambda: (cut(*SUPERBPE), None), "superbpe", {}),
    "tiny_aya": (lambda: (cut(*TINY_AYA), None), "tiny_aya", {}),
    "ufakzeka": (lambda: (byte_level("[^" + UFAKZEKA[2]), None), "ufakzeka", {}),
    "viking": (lambda: (cut(VIKING, digits=True), None), "viking", {}),
    "youtu": (lambda: (unreachable(cut(*YOUTU)), None), "youtu", {}),
    "llama2": (lambda: scored("normalizer"), None, {"bos": "<s>"}),
    "gemma": (lambda: scored("split"), None, {"bos": "<s>", "prefix": False}),
    "gemma4": (
        lambda: (sentencepiece("split"), None),
        "gemma4",
        {"bos": "<s>", "unk": "<unk>", "prefix": False},
    ),
    "phi3": (phi3, None, {"bos": "<s>", "architecture": "phi3"}),
}


def write(path, theirs, scores, pre, options):
    writer = gguf.GGUFWriter(path, options.get("architecture", "llama"))
    names = {key: options[key] for key in ("bos", "eos", "unk") if key in options}
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
        if pre and pre != "gemma4":
            theirs = crossing(theirs)
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
