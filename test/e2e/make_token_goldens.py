#!/usr/bin/env python3
"""Writes goldens/tokens-*.json: the ids of `tokenizers` for texts that are hard to
tokenize, with the tokenizers of examples/tiny and of stories260K.

Each entry: the text, its ids with and without special tokens, and the text that
these ids decode to, special tokens printed and not. Made with Python 3.11 and
  tokenizers==0.23.3

usage: make_token_goldens.py STORIES260K_FOLDER
"""

import json
import pathlib
import random
import sys

import tokenizers

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = [
    "",
    " ",
    "Once upon a time, there was a little girl named Lily.",
    "  two spaces first, and last  ",
    "a\nb\r\nc\n\n\nd\te \t f\n ",
    "I'm you're HE'LL they'Ve it's'd ''s 's",
    "0 12 123 1234 1234567 3.14159 1e-5 ١٢٣٤ Ⅻ ½",
    "!? ... \"quoted,\" (and) [more] {less} -- #hash @at $5 50%\n",
    "naïve café Straße Ωμέγα Привет мир",
    "日本語のテキスト 中文字符 한국어",
    "emoji 😀👨‍👩‍👧 flags 🇩🇪 e\u0301 \u200b zero\u00a0width",
    "<s> </s> <unk> <|begin_of_text|>x<|end_of_text|> <0x41>",
    "▁lower▁one eighth▁ block",
    "tab\tand\x0bvertical\x0cfeed\x85next\u2028line\u3000wide",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\x01\x02\x7f\ufffd\U0010ffff",
    "ĠNot a space Ċ",
    "don’t ‘curly’ “quotes” – dash — em…",
]


def noise(count):
    """Texts of letters, spaces and rarities in random order."""
    rng = random.Random(1)
    parts = ["a", "The", " ", "  ", "\n", "'s", "7", "é", "世", "😀", ".", "\t"]
    return ["".join(rng.choices(parts, k=12)) for _ in range(count)]


def entry(tokenizer, text):
    ids = tokenizer.encode(text).ids
    return {
        "text": text,
        "ids": ids,
        "plain_ids": tokenizer.encode(text, add_special_tokens=False).ids,
        "decoded": tokenizer.decode(ids, skip_special_tokens=False),
        "plain_decoded": tokenizer.decode(ids, skip_special_tokens=True),
    }


def main():
    tiny = HERE.parent.parent / "examples" / "tiny"
    for name, folder in [("tiny", tiny), ("stories260K", sys.argv[1])]:
        file = pathlib.Path(folder) / "tokenizer.json"
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
        entries = [entry(tokenizer, text) for text in TEXTS + noise(12)]
        lines = ",\n".join(json.dumps(each) for each in entries)
        path = HERE / "goldens" / f"tokens-{name}.json"
        path.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
