"""Strings that tokenizers get wrong: marks, emoji, controls, runs, spaces of all
kinds, text that looks like special tokens or bytes, scripts from everywhere."""

import functools
import random
import sys
import unicodedata

WORDS = (
    "the of and to in is you that it he was for on are with they I'll don't WE'RE"
    " it'S unbelievable antidisestablishmentarianism x_y __init__ e.g. U.S.A. naïve"
    " Straße İstanbul ﬁnance ﬀ Ⅷ ½ ² 12345 3.14 1,000,000 ٣٤٥٦ ١٢ 日本語 中文 テキスト 한국어"
    " 가각힣 각 Привет ελληνικός ΣΑΣ ไทยสวัสดี नमस्ते क्षि עברית العربية"
    " https://a.b/c?d=e&f=%20 foo@bar.com #tag $9.99 C++ a-b–c—d “q” ‘r’ …"
    " do not can't I'm we've they're n't 's ' . , ! ?"
).split()
SPACES = (
    " |  |   |\n|\r\n|\t|\u00a0|\u3000|\u2003|\u2009|\u200b|\u2028|\u2029|\u0085|"
    "\u202f|\u205f|\u1680|\u180e|\ufeff|\x0b|\x0c|\x1c| \n |\n\n\n|\t "
).split("|")
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("\u093f\u0e33\u20dd\u064b\u0591")
EMOJI = "🙂 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 🇩 ☺️ ☺ ©️ 1️⃣ 🫠 \ufe0f \u200d".split(" ")
CONTROLS = [chr(c) for c in [*range(32), 127, *range(0x80, 0xA0)]] + list(
    "\ufffd\ufffe\ufff9\u200e\u202e\u2066\u061c\u00ad\U000e0041\ue000\U0010ffff"
)
LOOKALIKES = [
    *("<s> </s> <unk> <pad> <mask> <bos> <eos> [CLS] [SEP] [MASK] [UNK] [PAD]".split()),
    *("<|endoftext|> <|im_start|> <|begin_of_text|> <|eot_id|> <|user|>".split()),
    *("<0x41> <0xE5> <0xZZ> <extra_id_0> ▁ ▁▁ Ġ ĊĠ ## ##ing <s <|im_st".split()),
]


# Characters of Unicode 3.2 whose category has changed since.
RECLASSIFIED = "\u166d\u1734\u1885\u1886"


def _settled(character):
    """Whether every version of Unicode in use says the same of the character:
    the tables of `tokenizers` are of Unicode 8, 12 and later."""
    category = unicodedata.ucd_3_2_0.category(character)
    return category not in ("Cn", "Cs", "Co") and character not in RECLASSIFIED


def _any_character(draw):
    while True:
        top = draw.choice([0x250, 0x3000, 0x10000, 0x20000, 0x110000])
        if _settled(c := chr(draw.randrange(top))):
            return c


def _piece(draw):
    kind = draw.randrange(12)
    if kind < 4:
        return draw.choice(WORDS)
    if kind < 6:
        return draw.choice(SPACES)
    if kind == 6:
        return draw.choice("aeionAEO가คक日") + "".join(
            draw.choice(MARKS) for _ in range(draw.randrange(1, 5))
        )
    if kind == 7:
        return draw.choice(EMOJI)
    if kind == 8:
        return draw.choice(CONTROLS)
    if kind == 9:
        return draw.choice(LOOKALIKES)
    if kind == 10:
        return draw.choice("aé日 \n'!1-") * draw.choice([2, 3, 7, 40, 130])
    return "".join(_any_character(draw) for _ in range(draw.randrange(1, 6)))


def nasty_strings(count, seed):
    """`count` strings, the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(count):
        space = draw.choice(["", "", " "])
        yield space.join(_piece(draw) for _ in range(draw.randrange(0, 12)))


@functools.cache
def every_character():
    """Strings that hold each character between two letters; of the ideographs
    and of the Hangul syllables some."""
    points = [
        chr(c)
        for c in range(sys.maxunicode + 1)
        if _settled(chr(c))
        and (c % 97 == 0 or unicodedata.name(chr(c), "")[:4] not in ("CJK ", "HANG"))
    ]
    return [
        "".join("a" + c + "b " for c in points[at : at + 64])
        for at in range(0, len(points), 64)
    ]
