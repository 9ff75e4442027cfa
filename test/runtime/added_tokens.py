#!/usr/bin/env python3
"""Random sets of added tokens, with all flags, in tokenizers with and without
normalizers; random texts made of them, encoded and decoded by Hugging Face
tokenizers and by libcria-text.so, which must agree. Then chat templates that write
tokens right before and behind messages, for each combination of flags: the ids are
those that Hugging Face tokenizers find in the rendered text.

usage: added_tokens.py LIBCRIA.SO FOLDER [SETS [SEED]]
"""

import itertools
import os
import pathlib
import random
import sys

os.environ["RUST_BACKTRACE"] = "0"

import libcria  # noqa: E402
import tokenizers  # noqa: E402
from libcria import Failure, Library  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models  # noqa: E402
from tokenizers import normalizers as norm  # noqa: E402
from tokenizers import pre_tokenizers as pre  # noqa: E402

FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
# Of few letters, so that contents overlap and begin with one another.
LETTERS = "abA<> \n.é▁\u00a0"
VOCABULARY = {c: i for i, c in enumerate(LETTERS + "cdBCDÉe\u0301")}
VOCABULARY["<unk>"] = len(VOCABULARY)
NORMALIZERS = [
    None,
    None,
    norm.Lowercase,
    norm.NFD,
    lambda: norm.Sequence([norm.NFC(), norm.Lowercase()]),
    lambda: norm.Replace(" ", "▁"),
    lambda: norm.Sequence([norm.Prepend("▁"), norm.Replace(" ", "▁")]),
    norm.StripAccents,
]
PRE_TOKENIZERS = [
    None,
    None,
    lambda: pre.Metaspace(prepend_scheme="first", split=False),
    lambda: pre.Metaspace(prepend_scheme="always"),
    lambda: pre.Split(" ", "merged_with_previous"),
]


def draw_text(draw, longest):
    return "".join(draw.choice(LETTERS) for _ in range(draw.randrange(1, longest)))


def draw_token(draw, others):
    """A content, which may be a part of another one, or go on from it."""
    content = draw_text(draw, 4)
    if others and draw.random() < 0.4:
        other = draw.choice(others)
        content = draw.choice([other + content, content + other, other[1:], other[:-1]])
    return content or "a"


def draw_tokenizer(draw):
    one = Tokenizer(models.BPE(vocab=VOCABULARY, merges=[], unk_token="<unk>"))
    if normalizer := draw.choice(NORMALIZERS):
        one.normalizer = normalizer()
    if pre_tokenizer := draw.choice(PRE_TOKENIZERS):
        one.pre_tokenizer = pre_tokenizer()
    one.decoder = decoders.Fuse()
    contents, patterns = [], {}
    for _ in range(draw.randrange(1, 7)):
        contents.append(draw_token(draw, contents))
        likely = draw.choice([0.1, 0.5])
        flags = {flag: draw.random() < likely for flag in FLAGS}
        special = draw.random() < 0.4
        token = AddedToken(contents[-1], special=special, **flags)
        patterns[contents[-1]] = contents[-1]
        if flags["normalized"] and one.normalizer:
            patterns[contents[-1]] = one.normalizer.normalize_str(contents[-1])
        (one.add_special_tokens if special else one.add_tokens)([token])
    # Of tokens that are one when they are normalized, theirs takes any.
    if len(set(patterns.values())) < len(patterns):
        return draw_tokenizer(draw)
    return one, contents


def draw_sentence(draw, contents):
    pieces = []
    for _ in range(draw.randrange(1, 9)):
        kind = draw.randrange(4)
        if kind < 2:
            pieces.append(draw.choice(contents))
        elif kind == 2:
            pieces.append(draw.choice([" ", "  ", "   ", "\n ", "\u00a0", ""]))
        else:
            pieces.append(draw_text(draw, 5))
    return "".join(pieces)


def their_ids(theirs, text, parse_special):
    """None where they panic: a token with lstrip in blanks that the token before
    it has taken."""
    theirs.encode_special_tokens = not parse_special
    try:
        return theirs.encode(text, add_special_tokens=False).ids
    except BaseException as problem:
        if type(problem).__name__ != "PanicException":
            raise
        return None


def differences(ours, theirs, texts):
    """Yields what the two do not agree on, and "" for each panic of theirs."""
    for text in texts:
        for parse_special in (True, False):
            expected = their_ids(theirs, text, parse_special)
            try:
                found = ours.encode(text, 0, parse_special)
            except Failure as failure:
                found = failure
            if expected is None:
                yield "" if type(found) is list else f"{text!r}: {found}"
            elif found != expected:
                yield f"{text!r} {parse_special}: expected {expected}, got {found}"
            else:
                whole = theirs.decode(expected, skip_special_tokens=False)
                if (decoded := ours.decode(found, 1)) != whole:
                    yield f"decode {expected}: expected {whole!r}, got {decoded!r}"


# What a template writes around a message, and messages without a special token.
FORMS = ["{}</s>", "<s>{}</s>", "</s>{}<s>", "x <s> {} </s> ", "<s>a{}a</s>", "<s></s>{}</s> </s>"]
MESSAGES = ["", "a", " a", "a ", " a b  ", "  ", "\na\n", "b word b", "word", " word ", "a<", "s>a", "é\u0301"]


def chat_tokenizer(flags, normalizer):
    one = Tokenizer(models.BPE(vocab=VOCABULARY, merges=[], unk_token="<unk>"))
    if normalizer:
        one.normalizer = normalizer()
    flags = dict(zip(FLAGS, flags))
    one.add_special_tokens([AddedToken(text, **flags) for text in ("<s>", "</s>")])
    one.add_tokens([AddedToken("word", **flags)])
    return one


def chat_differences(library, path):
    """What the two do not agree on in chats, for all flags."""
    kinds = dict.fromkeys(NORMALIZERS)
    for flags, kind in itertools.product(itertools.product((False, True), repeat=4), kinds):
        path.write_text(chat_tokenizer(flags, kind).to_str())
        theirs = Tokenizer.from_file(str(path))
        ours = libcria.Tokenizer(library, path)
        for form, message in itertools.product(FORMS, MESSAGES):
            before, behind = form.split("{}")
            chat = libcria.Chat(library, source=f"{{{{ {before!r} + messages[0] + {behind!r} }}}}")
            found = chat.encode(ours, {"messages": [message]})
            chat.close()
            expected = their_ids(theirs, before + message + behind, True)
            if expected is not None and found != expected:
                yield f"{flags} {form!r} {message!r}: expected {expected}, got {found}"
        ours.close()


def silence_panics():
    """Rust's panics are printed to the descriptor of stderr."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def main():
    library = Library(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    draw = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    path = folder / "tokenizer.json"
    failed = panics = texts = 0
    silence_panics()
    for number in range(count):
        drawn, contents = draw_tokenizer(draw)
        path.write_text(drawn.to_str())
        # Read again: the one drawn remembers flags of tokens added twice.
        theirs = Tokenizer.from_file(str(path))
        sentences = [draw_sentence(draw, contents) for _ in range(4)]
        ours = libcria.Tokenizer(library, path)
        found = list(differences(ours, theirs, sentences))
        ours.close()
        texts += len(sentences)
        lines = [line for line in found if line]
        panics += len(found) - len(lines)
        if lines and failed < 5:
            print(f"set {number}: {lines[0]}\n{theirs.to_str()}")
        failed += bool(lines)
    wrong = list(chat_differences(library, path))
    print("\n".join(wrong[:5]))
    print(
        f"tokenizers {tokenizers.__version__}: {count} sets, {texts} texts,"
        f" {panics} panics of theirs, {failed} sets differ, {len(wrong)} chats differ"
    )
    sys.exit(failed + len(wrong) > 0)


if __name__ == "__main__":
    main()
