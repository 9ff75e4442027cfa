#!/usr/bin/env python3
"""compare_grammars.py LIBRARY VOCABULARY.gguf... [-- GRAMMAR.gbnf...]: masks of grammars
beside those of llguidance.

Needs the packages llguidance and gguf. LIBRARY is libcria-text.so; a vocabulary is a GGUF
file with a tokenizer, such as llama.cpp's models/ggml-vocab-*.gguf. Regular expressions and
grammars are walked at random, by ids that both allow; each mask of one is compared with the
other's. Where the next bytes are certain, llguidance allows the longest tokens alone: such
masks are counted apart, if they have no id that Cria's lacks.
"""

import pathlib
import random
import sys

import gguf
import llguidance
import llguidance.numpy
import numpy as np
from llguidance.gbnf_to_lark import gbnf_to_lark

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "test/runtime"))
from libcria import Failure, Grammar, Library, Matcher, Tokenizer  # noqa: E402

# What the languages of both agree on: \w, \d and \s are ASCII's in Cria alone.
EXPRESSIONS = [
    "[a-z ]{1,40}",
    "([0-9]{3}-){2}[0-9]{4}",
    ".*foo.*",
    r"[^\x00-\x7F]+",
    r'"([^"\\\x00-\x1f]|\\.)*"',
    "(日本|語|é|naïve)+",
    r"[a-zA-Z0-9_]+@[a-z]+\.(com|org)",
    "(a|b)*a(a|b){5}",
    r"[\u{1F600}-\u{1F64F}]{2,4}!",
    r"(\{\"[a-z]+\": [0-9]{1,3}\},? ?)*",
    r"[ \n\t]*(if|else|while) ?\([^()]*\)",
]
WALKS, STEPS = 6, 30
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6


def spelled_bytes():
    """The byte of each character by which byte-level BPE spells it."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = iter(range(256, 512))
    return {chr(b) if b in plain else chr(next(rest)): b for b in range(256)}


class Vocabulary:
    """The tokens of a GGUF file as llguidance takes them, read apart from Cria."""

    def __init__(self, path):
        fields = gguf.GGUFReader(path).fields
        names = fields["tokenizer.ggml.tokens"].contents()
        types = fields["tokenizer.ggml.token_type"].contents()
        spells = spelled_bytes()
        self.tokens, self.special_token_ids = [], []
        for id, (name, kind) in enumerate(zip(names, types)):
            data = name.encode()
            if kind in (UNKNOWN, CONTROL, UNUSED):
                self.special_token_ids.append(id)
            elif kind == BYTE:
                data = bytes([int(name[3:5], 16)])
            elif fields["tokenizer.ggml.model"].contents() != "gpt2":
                data = name.replace("\u2581", " ").encode()
            elif kind == NORMAL:
                data = bytes(map(spells.get, name))
            self.tokens.append(data)
        self.eos_token_id = int(fields["tokenizer.ggml.eos_token_id"].contents())
        self.bos_token_id = None
        special = set(self.special_token_ids)
        self.ids = {t: id for id, t in reversed(list(enumerate(self.tokens))) if id not in special}

    def __call__(self, text):
        """Ids of the longest tokens, for llguidance's guesses."""
        data, ids = text.encode() if isinstance(text, str) else text, []
        while data:
            size = next((n for n in range(min(40, len(data)), 0, -1) if data[:n] in self.ids), 0)
            ids += [self.ids[data[:size]]] if size else []
            data = data[max(1, size) :]
        return ids


def bits_of(words, count):
    return np.unpackbits(np.asarray(words).view(np.uint8), bitorder="little")[:count].astype(bool)


def walk(grammar, peer, other, vocabulary, draw, found):
    count, text = len(vocabulary.tokens), b""
    matcher = Matcher(grammar)
    theirs = llguidance.LLMatcher(peer, other)
    words = llguidance.numpy.allocate_token_bitmask(1, count)
    for _ in range(STEPS):
        try:
            ours = bits_of(matcher.mask(count), count)
        except Failure:
            ours = np.zeros(count, bool)
        forced = bool(theirs.compute_ff_bytes())
        llguidance.numpy.fill_next_token_bitmask(theirs, words, 0)
        if theirs.is_error():
            sys.exit(f"llguidance: {theirs.get_error()}")
        mask = bits_of(words[0], count)
        same, fewer = (ours == mask).all(), forced and not (mask & ~ours).any()
        found["same" if same else "certain" if fewer else "different"] += 1
        if not same and not fewer:
            at = np.flatnonzero(ours != mask)[:5]
            print(f"  after {text[-40:]}: {[(vocabulary.tokens[i], bool(ours[i])) for i in at]}")
        ids = [id for id in np.flatnonzero(ours & mask) if id != vocabulary.eos_token_id]
        if not ids:
            return
        id = int(draw.choice(ids))
        matcher.accept(id)
        theirs.consume_token(id)
        text += vocabulary.tokens[id]


def main():
    paths, _, grammars = " ".join(sys.argv[2:]).partition(" -- ")
    library = Library(sys.argv[1])
    cases = [("regex", text, llguidance.LLMatcher.grammar_from_regex(text)) for text in EXPRESSIONS]
    for path in grammars.split():
        text = pathlib.Path(path).read_text()
        lark = llguidance.LLMatcher.grammar_from_lark(gbnf_to_lark(text))
        cases.append(("gbnf", text, lark))
    total = dict.fromkeys(("same", "certain", "different"), 0)
    for path in paths.split():
        vocabulary, tokenizer = Vocabulary(path), Tokenizer(library, path)
        peer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocabulary))
        found = dict.fromkeys(total, 0)
        for kind, text, other in cases:
            grammar = Grammar(tokenizer, kind, text, [vocabulary.eos_token_id])
            for seed in range(WALKS):
                walk(grammar, peer, other, vocabulary, random.Random(seed), found)
        print(f"{pathlib.Path(path).name}: {len(vocabulary.tokens)} tokens: {found}", flush=True)
        total = {name: total[name] + found[name] for name in total}
    print(total)
    sys.exit(total["different"] > 0 or total["same"] < 100)


main()
