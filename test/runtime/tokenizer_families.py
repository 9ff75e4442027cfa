#!/usr/bin/env python3
"""Tokenizers configured as each family's tokenizer.json is, trained on a few
lines by Hugging Face tokenizers; then strings by the thousand, encoded and
decoded by it and by libcria-text.so, which must agree.

usage: tokenizer_families.py LIBCRIA.SO FOLDER [STRINGS [FAMILY...]]
"""

import itertools
import json
import pathlib
import random
import sys

import libcria
import tokenizers
from character_map import compile_map
from libcria import Failure, Library
from nasty_strings import WORDS, every_character, nasty_strings
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models
from tokenizers import normalizers as norm
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CORPUS = [
    "Once upon a time there was a little fox who lived near the old mill.",
    "She said, \"I'll go there, and they'll come too; don't you see it's late?\"",
    "The fox didn't want to share the bread. 12 345 6789 0 they were not afraid",
    "    indented = code(line)  # with   spaces\n\n\treturn 42;",
    "日本語のテキスト 日本 中文 한국어 Привет мир café naïve Straße über",
    "🙂🙂 👩‍👩‍👧‍👦 ... !!! --- ___",
    " ".join(WORDS),
] * 3
BYTES = ["<0x%02X>" % byte for byte in range(256)]


def added(tokenizer, special=(), **others):
    """Adds special tokens, and tokens by content with their options."""
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in special])
    for content, options in others.items():
        tokenizer.add_tokens([AddedToken(content, **options)])
    return tokenizer


def template(tokenizer, single):
    names = [name for name in single.split() if name != "$A"]
    return processors.TemplateProcessing(
        single=single,
        pair=f"{single} $B",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in names],
    )


def byte_level(split=None, ignore_merges=False, normalizer=None, specials=()):
    """BPE on bytes, cut by `split` or GPT-2's expression."""
    one = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        one.normalizer = normalizer
    if split:
        last = pre.ByteLevel(add_prefix_space=False, use_regex=False)
        one.pre_tokenizer = pre.Sequence([pre.Split(Regex(split), "isolated"), last])
    else:
        one.pre_tokenizer = pre.ByteLevel(add_prefix_space=False)
    one.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        show_progress=False,
        initial_alphabet=sorted(pre.ByteLevel.alphabet()),
    )
    one.train_from_iterator(CORPUS, trainer)
    one.post_processor = processors.ByteLevel(trim_offsets=True)
    return added(one, specials)


def digits_first(individual):
    """SmolLM, Granite and StarCoder: digits apart, then GPT-2's expression."""
    one = byte_level(specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    one.pre_tokenizer = pre.Sequence(
        [pre.Digits(individual_digits=individual), pre.ByteLevel(add_prefix_space=False)]
    )
    return one


def llama3():
    one = byte_level(GPT4 % "{1,3}", True, None, ["<|begin_of_text|>", "<|eot_id|>"])
    one.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=True), template(one, "<|begin_of_text|> $A")]
    )
    return one


def qwen2():
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return byte_level(GPT4 % "", False, norm.NFC(), special)


def bart():
    one = byte_level()
    added(one, ["<s>", "</s>", "<pad>"], **{"<mask>": {"lstrip": True, "special": True}})
    pair = [("</s>", one.token_to_id("</s>")), ("<s>", one.token_to_id("<s>"))]
    one.post_processor = processors.RobertaProcessing(*pair)
    return one


def opt():
    one = byte_level(specials=["<pad>", "</s>"])
    one.post_processor = template(one, "</s> $A")
    return one


def trained_bpe():
    """Vocabulary and merges of sentencepiece's kind, with byte tokens."""
    one = Tokenizer(models.BPE(unk_token="<unk>"))
    one.pre_tokenizer = pre.Metaspace()
    letters = sorted({c for c in "".join(CORPUS) if c.isascii()} | set("▁日本é"))
    trainer = trainers.BpeTrainer(
        vocab_size=520,
        special_tokens=["<unk>", "<s>", "</s>", *BYTES],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    one.train_from_iterator(CORPUS, trainer)
    model = json.loads(one.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def sentencepiece(form, byte_fallback=True, fuse_unk=True):
    """Llama 1 and 2, Mistral, Phi-3, Gemma: they differ in where the blank comes."""
    vocab, merges = trained_bpe()
    options = {"unk_token": "<unk>", "fuse_unk": fuse_unk, "byte_fallback": byte_fallback}
    one = Tokenizer(models.BPE(vocab=vocab, merges=merges, **options))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if form == "normalizer":
        one.normalizer = norm.Sequence([norm.Prepend("▁"), norm.Replace(" ", "▁")])
        steps.append(decoders.Strip(" ", 1, 0))
    elif form == "metaspace":
        one.pre_tokenizer = pre.Metaspace(prepend_scheme="first", split=False)
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        one.normalizer = norm.Replace(" ", "▁")
        one.pre_tokenizer = pre.Split(" ", "merged_with_previous")
    one.decoder = decoders.Sequence(steps)
    added(one, ["<unk>", "<s>", "</s>"])
    one.post_processor = template(one, "<s> $A")
    return one


def phi3():
    options = {"rstrip": True, "special": True, "normalized": False}
    names = {name: options for name in ("<|user|>", "<|im_start|>", "<|endoftext|>")}
    return added(sentencepiece("metaspace"), **names)


def added_options():
    """Every option of added tokens, in normalized text and in raw text."""
    return added(
        sentencepiece("normalizer"),
        **{
            "<mask>": {"lstrip": True, "normalized": False},
            "<pad>": {"rstrip": True, "normalized": False},
            "fox": {"single_word": True, "normalized": False},
            "the": {"single_word": True, "lstrip": True, "rstrip": True},
            "<eos> you": {"normalized": True},
        },
    )


def wordpiece(lowercase, accents=None, classic=False):
    one = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    one.normalizer = norm.BertNormalizer(lowercase=lowercase, strip_accents=accents)
    one.pre_tokenizer = pre.BertPreTokenizer()
    one.decoder = decoders.WordPiece(prefix="##")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=600, special_tokens=specials, show_progress=False
    )
    one.train_from_iterator(CORPUS, trainer)
    ids = [(name, one.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    one.post_processor = (
        processors.BertProcessing(*ids) if classic else template(one, "[CLS] $A [SEP]")
    )
    return one


def unigram(normalizer, pre_tokenizer, specials, byte_fallback=False):
    one = Tokenizer(models.Unigram())
    one.normalizer, one.pre_tokenizer = normalizer, pre_tokenizer
    one.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=specials, unk_token="<unk>", show_progress=False
    )
    one.train_from_iterator(CORPUS, trainer)
    if byte_fallback:
        model = json.loads(one.to_str())["model"]
        vocab = [tuple(entry) for entry in model["vocab"]] + [(b, -20.0) for b in BYTES]
        one.model = models.Unigram(vocab, model["unk_id"], byte_fallback=True)
        one.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return one


def t5():
    split = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    one = unigram(norm.Precompiled(compile_map()), split, ["<pad>", "</s>", "<unk>"])
    added(one, ["<extra_id_0>", "<extra_id_1>"])
    one.post_processor = template(one, "$A </s>")
    return one


def albert():
    steps = [norm.Replace("``", '"'), norm.NFKD(), norm.StripAccents()]
    steps += [norm.Lowercase(), norm.Replace(Regex(" {2,}"), " ")]
    specials = ["<pad>", "<unk>", "[CLS]", "[SEP]"]
    one = unigram(norm.Sequence(steps), pre.Metaspace(), specials)
    one.post_processor = template(one, "[CLS] $A [SEP]")
    return one


def words(normalizer, *steps):
    """Cuts as `steps` do, then BPE that knows few characters."""
    vocab, merges = trained_bpe()
    one = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>"))
    one.normalizer, one.pre_tokenizer = normalizer, pre.Sequence(list(steps))
    return one


FAMILIES = {
    "llama2": lambda: sentencepiece("normalizer"),
    "llama2-metaspace": lambda: sentencepiece("metaspace"),
    "llama2-no-bytes": lambda: sentencepiece("normalizer", False),
    "llama2-no-fuse": lambda: sentencepiece("normalizer", False, False),
    "phi3": phi3,
    "gemma": lambda: sentencepiece("split"),
    "added-options": added_options,
    "llama3": llama3,
    "mistral-tekken": lambda: byte_level(TEKKEN, True),
    "qwen2": qwen2,
    "olmo2": lambda: byte_level(GPT4 % "{1,3}", specials=["<|endoftext|>"]),
    "gpt2": lambda: byte_level(specials=["<|endoftext|>"]),
    "smollm": lambda: digits_first(True),
    "granite": lambda: digits_first(False),
    "bart": bart,
    "opt": opt,
    "bert-uncased": lambda: wordpiece(True),
    "bert-cased": lambda: wordpiece(False, classic=True),
    "bert-accents": lambda: wordpiece(False, True),
    "t5": t5,
    "albert": albert,
    "unigram-bytes": lambda: unigram(
        norm.NFKC(), pre.Metaspace(prepend_scheme="first"), ["<unk>"], True
    ),
    "nfd-whitespace": lambda: words(norm.NFD(), pre.Whitespace()),
    "nfkd-punctuation": lambda: words(
        norm.Sequence([norm.Strip(), norm.NFKD()]),
        pre.Punctuation("contiguous"),
        pre.Split(Regex(r"\s+"), "merged_with_next"),
    ),
    "lower-removed": lambda: words(
        norm.Lowercase(), pre.Split(" ", "removed"), pre.Punctuation("merged_with_previous")
    ),
}


def differences(ours, theirs, texts, draw):
    """Yields what the two do not agree on."""
    encodings = theirs.encode_batch(texts)
    plain = theirs.encode_batch(texts, add_special_tokens=False)
    theirs.encode_special_tokens = True
    unparsed = theirs.encode_batch(texts, add_special_tokens=False)
    theirs.encode_special_tokens = False
    drawn = [
        [draw.randrange(theirs.get_vocab_size()) for _ in range(draw.randrange(1, 20))]
        for _ in range(len(texts) // 10)
    ]
    for text, *encoded in zip(texts, encodings, plain, unparsed):
        for options, one in zip(((1, True), (0, True), (0, False)), encoded):
            try:
                found = ours.encode(text, *options)
            except Failure as failure:
                found = failure
            if found != one.ids:
                yield f"encode {text!r} {options}: expected {one.ids}, got {found}"
    for ids in [one.ids for one in encodings] + drawn:
        for special in (0, 1):
            expected = theirs.decode(ids, skip_special_tokens=not special)
            expected = expected.split("\0")[0]  # the C API's texts end there
            if (found := ours.decode(ids, special)) != expected:
                yield f"decode {ids}: expected {expected!r}, got {found!r}"


# Anchors, sets inside sets and intersections, as Oniguruma means them.
EXPRESSIONS = [
    r"\s+$",
    r"^\s*a|b$",
    r"$",
    r"^",
    r"\A\s|\s\z",
    r"\s\Z|(?<=a)$",
    r"(?!$)\s|a(?=$)",
    r"a+$|[^\n]+$",
    r"[\p{L}&&[^aé]]+",
    r"[^\p{L}&&[^ab]]+",
    r"[a-c[é\n]0-9]+|[^a[b ]]|[]é]",
    r"[\p{L}\p{N}&&[^\p{Han}]&&[^a]]*\s",
    r"\p{Han}+|\P{Latin}+|[\p{^Hiragana}&&\p{L}]+",
    r"[一-龥]+",
    r"(?:[ab[a ]])*\n",
    r"[\n-[a]-é^]|[^^b[ ]]",
    r"b*",
]


def cutting(expression, texts):
    """Cuts at the matches; each piece is a token."""
    one = Tokenizer(models.BPE(vocab={}, merges=[]))
    one.pre_tokenizer = pre.Sequence(
        [pre.Split(Regex(expression), "isolated"), pre.ByteLevel(False, use_regex=False)]
    )
    pieces = {cut for text in texts for cut, _ in one.pre_tokenizer.pre_tokenize_str(text)}
    pieces |= set(pre.ByteLevel.alphabet())
    vocabulary = {piece: id for id, piece in enumerate(sorted(pieces))}
    one.model = models.BPE(vocab=vocabulary, merges=[], ignore_merges=True)
    return one


def replacing(expression, texts):
    """Replaces the matches, empty ones too; each character is a token."""
    vocabulary = {c: id for id, c in enumerate(sorted({*"#", *"".join(texts)}))}
    one = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    one.normalizer = norm.Replace(Regex(expression), "#")
    return one


def expression_differences(library, folder):
    """Yields where the two find other matches: in short texts, and in texts that
    are longer than what machine code sees at once."""
    draw, path = random.Random(1), folder / "expression.json"
    texts = ["".join(draw.choices("ab \n\té0漢、ー字", k=draw.randrange(12))) for _ in range(300)]
    for tail in ("", "a", "\n", " \n", "\n\n", "é"):
        for length in (126, 127, 128, 129, 255, 256, 257, 700):
            texts += [" " * length + tail, "a" * length + tail, "a" * (length - 1) + " " + tail]
    for expression, form in itertools.product(EXPRESSIONS, (cutting, replacing)):
        theirs = form(expression, texts)
        theirs.save(str(path))
        ours = libcria.Tokenizer(library, path)
        for text in texts:
            expected = theirs.encode(text, add_special_tokens=False).ids
            if (found := ours.encode(text, 0)) != expected:
                yield f"{form.__name__} {expression} {text!r}: expected {expected}, got {found}"
        ours.close()


def main():
    library = Library(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) <= 4 and (found := list(expression_differences(library, folder))):
        print(f"{len(found)} differences of expressions")
        sys.exit("\n".join(line[:300] for line in found[:5]))
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    failed = 0
    for name in sys.argv[4:] or FAMILIES:
        theirs = FAMILIES[name]()
        theirs.save(str(folder / f"{name}.json"))
        texts = [*nasty_strings(count, name), *every_character()]
        ours = libcria.Tokenizer(library, folder / f"{name}.json")
        found = list(differences(ours, theirs, texts, random.Random(name)))
        for line in found[:5]:
            print(f"{name}: {line[:1500]}")
        print(f"{name}: {len(texts)} strings, {len(found)} differences")
        failed += bool(found)
    print(f"tokenizers {tokenizers.__version__}: {failed} families differ")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
