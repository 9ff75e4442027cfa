#!/usr/bin/env python3
"""Makes the tokenizers of this folder, and tokenizer_goldens.json: the ids and texts of
Hugging Face tokenizers with them.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install tokenizers==0.23.3
    /tmp/v/bin/python make_goldens.py

Run by hand when cases are added; the results are committed.
"""
import json
import pathlib
import random

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                        normalizers, pre_tokenizers, processors, trainers)

assert tokenizers.__version__ == "0.23.3"
HERE = pathlib.Path(__file__).parent

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

CORPUS = [
    "Once upon a time there was a little fox who lived near the old mill.",
    "She said, \"I'll go there, and they'll come too; don't you see it's late?\"",
    "The fox didn't want to share the bread. 12 345 6789 0",
    "    indented = code(line)  # with   spaces\n\n\treturn 42;",
    "日本語のテキスト 日本 中文 한국어 Привет мир café naïve",
    "🙂🙂 👩‍👩‍👧‍👦 ... !!! --- ___",
] * 3

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\r\n", "\t\t", "\n \n  x",
    "a", " a", "a ", "  a", " a  b   c    d", "Once upon a time",
    "once upon\na time\r\n\r\nthere", "trailing   ", "   leading", "x\n   ",
    "I'll don't WE'RE it'S they'd I'm you've 'tis '", "'ſ 'S 'ſt",
    "1", "12", "123", "1234", "1234567890", "3.14159 1,000,000", "٣٤٥٦ ½ Ⅷ ²",
    "!!!", "?!\n", " ...\r\n\n x", "__init__", "a_b-c", "\"q\" (p) [b] {c}",
    "日本語", "中文 テキスト", "한국어입니다", "Привет, мир!", "ελληνικά", "ไทย",
    "é", "e\u0301", "n\u0303o\u0308", "\u0301", "a\u0300\u0301\u0302b",
    "🙂", "👩‍👩‍👧‍👦", "🏳️‍🌈 👍🏽", "\ufe0f", "\u200d", "a\u200bb",
    "\u00a0x\u00a0", "\u3000全角\u3000", "\u180e", "\u0085", "\u2028\u2029",
    "\x00", "a\x00b", "\x01\x02\x1f", "\x7f", "\ufeff", "\ufffd", "\U0010ffff",
    "ﬁ ß İ ı K Å", "\u202eabc", "ａｂｃ１２３", "Ġ", "ĠĠa Ċ", "▁", "▁a ▁▁ b",
    "<s>", "</s>", "a<s>b", " <s> a </s> ", "<s><s>", "<unk>", "<0x41>", "<s",
    "<|begin_of_text|>", "a<|eot_id|>b", " <|eot_id|> ", "<|eot", "<|eot_id|",
    "foxhole foxes fox Fox", "the mill<mask>fox", "the mill  <mask>  fox",
    "<end>  \n x", "a <end>", "fox<mask><end>fox", "old millstone old mill!",
    "https://example.org/a?b=c&d=%20", "x" * 40, " " * 40 + "x", "ab" * 30,
    "a\n\n\n\n\nb", "def f(x):\n    return x + 1\n",
]


def byte_level(ignore_merges):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=400, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    if ignore_merges:  # a token that no merges make
        model = json.loads(tokenizer.to_str())["model"]
        vocab = {token: i for token, i in model["vocab"].items() if i < 399}
        tokenizer.model = models.BPE(
            vocab={**vocab, "Ġmillstone": 399}, ignore_merges=True,
            merges=[tuple(pair) for pair in model["merges"]
                    if "".join(pair) in vocab])
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>"])
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(
            single="<|begin_of_text|> $A",
            pair="<|begin_of_text|> $A <|begin_of_text|> $B",
            special_tokens=[("<|begin_of_text|>", 400)])])
    return tokenizer


def sentencepiece(metaspace):
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    specials = ["<unk>", "<s>", "</s>"]
    specials += ["<0x%02X>" % byte for byte in range(256)]
    letters = sorted({c for c in "".join(CORPUS) if c.isascii()} | set("▁日本é"))
    trained.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=380, special_tokens=specials, initial_alphabet=letters,
        limit_alphabet=len(letters), show_progress=False))
    model = json.loads(trained.to_str())["model"]
    tokenizer = Tokenizer(models.BPE(
        vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]],
        unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens(
        [AddedToken(name, normalized=False) for name in specials[:3]])
    tokenizer.add_tokens([
        AddedToken("<mask>", lstrip=True, normalized=False),
        AddedToken("<end>", rstrip=True, normalized=False),
        AddedToken("fox", single_word=True, normalized=False),
        AddedToken("old mill", normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme="first", split=False)
        tokenizer.decoder = decoders.Sequence([
            decoders.ByteFallback(),
            decoders.Metaspace(prepend_scheme="first", split=False)])
    else:
        tokenizer.normalizer = normalizers.Sequence([
            normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([
            decoders.Replace("▁", " "), decoders.ByteFallback(),
            decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def write(tokenizer, name):
    document = json.loads(tokenizer.to_str())
    if name == "byte_level":  # the older spelling of merges
        merges = document["model"]["merges"]
        document["model"]["merges"] = [" ".join(pair) for pair in merges]
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    (HERE / f"{name}.tokenizer.json").write_text(text + "\n")
    return Tokenizer.from_str(text)


def cases(tokenizer, name):
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        yield {"tokenizer": name, "text": text, "ids": ids, "plain": plain,
               "decoded": tokenizer.decode(plain, skip_special_tokens=True)}
    draw = random.Random(name)
    size = tokenizer.get_vocab_size()
    for length in range(1, 25):  # ids that no text has: broken UTF-8 and all
        ids = [draw.randrange(size if length % 3 else 262)
               for _ in range(length)]
        yield {"tokenizer": name, "decode": ids,
               "decoded": tokenizer.decode(ids, skip_special_tokens=False)}


def main():
    made = {"byte_level": byte_level(False), "ignore_merges": byte_level(True),
            "sentencepiece": sentencepiece(False),
            "metaspace": sentencepiece(True)}
    goldens = [case for name, tokenizer in made.items()
               for case in cases(write(tokenizer, name), name)]
    lines = ",\n".join(json.dumps(case, separators=(",", ":"))
                       for case in goldens)
    (HERE / "tokenizer_goldens.json").write_text(f"[\n{lines}\n]\n")


main()
