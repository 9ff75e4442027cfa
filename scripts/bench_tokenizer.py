#!/usr/bin/env python3
"""Times libcria-text.so's byte-level BPE beside Hugging Face tokenizers, on one core.

usage: bench_tokenizer.py LIBCRIA.SO TEXT-FILE...

Trains a tokenizer of 32,000 tokens, configured as Llama 3's, on a part of the
texts. Then encodes all texts in documents of 4 KiB and as one document, and texts
of one repeated letter that double in length. Each figure is the best of five runs.
Both tokenizers encode the same strings, and the ids must be equal.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pathlib  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402

from tokenizers import Regex, Tokenizer, decoders, models  # noqa: E402
from tokenizers import pre_tokenizers as pre  # noqa: E402
from tokenizers import trainers  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parent / "../test/runtime"))
import libcria  # noqa: E402
from tokenizer_families import GPT4  # noqa: E402


def train(text):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    last = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    split = pre.Split(Regex(GPT4 % "{1,3}"), "isolated")
    tokenizer.pre_tokenizer = pre.Sequence([split, last])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=32000,
        show_progress=False,
        initial_alphabet=sorted(pre.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def best(run, times=5):
    """Seconds of the fastest of some runs, and its result."""
    fastest = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        result = run()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest, result


def compare(name, ours, theirs, texts):
    size = sum(len(text.encode()) for text in texts) / 1e6
    mine, ids = best(lambda: [ours.encode(text, 0) for text in texts])
    other, encodings = best(
        lambda: [
            theirs.encode_batch_fast([text], add_special_tokens=False) for text in texts
        ]
    )
    assert ids == [one[0].ids for one in encodings], f"{name}: the ids differ"
    print(
        f"{name:24} {size:6.2f} MB  cria {size / mine:6.1f} MB/s"
        f"  tokenizers {size / other:6.1f} MB/s  ratio {other / mine:.2f}"
    )


def main():
    text = "".join(pathlib.Path(path).read_text(errors="replace") for path in sys.argv[2:])
    theirs = train(text[: 2 << 20])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        theirs.save(str(path))
        ours = libcria.Tokenizer(libcria.Library(sys.argv[1]), path)
    size = 4096
    documents = [text[at : at + size] for at in range(0, len(text), size)]
    compare("documents of 4 KiB", ours, theirs, documents)
    compare("one text", ours, theirs, [text])
    for power in range(18, 23):
        compare(f"2^{power} times 'a'", ours, theirs, ["a" * (1 << power)])


if __name__ == "__main__":
    main()
