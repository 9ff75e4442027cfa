"""sampling.py BIN SCRATCH: ids that the emulated device draws are the CPU's.

The model's logits are the same after every token and on every device: the rows of its
head, which have one column, times 1. So every difference is one of sampling.
"""

import itertools
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
from capi import Model, Sampler  # noqa: E402
from harness import Tools, check, some  # noqa: E402
from weights import write_safetensors  # noqa: E402

PROGRAM = """
llama.weight @embed : tensor<{vocab}x1xf32> from "embed"
llama.weight @head : tensor<{vocab}x1xf32> from "head"
func.func @forward(%ids: tensor<?xi32>, %position: index, %first: index)
    -> tensor<?x{vocab}xf32> {{
  %table = llama.get_weight @embed : tensor<{vocab}x1xf32>
  %x = llama.embed %ids, %table : tensor<?xi32>, tensor<{vocab}x1xf32>
  %zero = arith.constant 0 : index
  %tokens = tensor.dim %x, %zero : tensor<?x1xf32>
  %rows = arith.subi %tokens, %first : index
  %last = tensor.extract_slice %x[%first, 0] [%rows, 1] [1, 1]
      : tensor<?x1xf32> to tensor<?x1xf32>
  %head = llama.get_weight @head : tensor<{vocab}x1xf32>
  %logits = llama.head %last, %head : tensor<?x1xf32>, tensor<{vocab}x1xf32>
  return %logits : tensor<?x{vocab}xf32>
}}
"""
COUNT = 4  # ids drawn with each set of options
# The first two for one kind of logits, the others for the next.
PENALTIES = [
    [{}, {"repetition_penalty": 1.7, "presence_penalty": 0.7, "frequency_penalty": 0.3}],
    [{"repetition_penalty": 1.7}, {"frequency_penalty": -0.9, "penalty_window": 2}],
]
OPTIONS = [
    {"temperature": 0.0},
    {},
    {"temperature": 0.3},
    {"temperature": 1e-30},
    {"temperature": 1e30},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 1000},
    {"top_p": 0.0},
    {"top_p": 0.6},
    {"top_p": 0.999},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"top_k": 40, "top_p": 0.9, "min_p": 0.02, "temperature": 1.4},
]


def logits(kind, vocab, random):
    """Logits of one kind: f32 of shape (vocab)."""
    return {
        "normal": lambda: random.normal(size=vocab) * 4,
        "ties": lambda: random.integers(-6, 6, vocab) / 4,  # zeros of both signs
        "equal": lambda: np.full(vocab, -1.5),
        "far": lambda: random.choice([-3e38, -1e9, 0.0, 3e38], vocab),
        "close": lambda: 7 + random.integers(0, 4, vocab) * 2.0**-21,
        "steep": lambda: -0.01 * np.arange(vocab),
    }[kind]().astype(np.float32)


def draws(session, options, seed):
    """COUNT ids, or what is wrong."""
    session.rewind(0)
    sampler = Sampler(session.model, seed=seed, **options)
    # A prompt, then what was drawn.
    ids, fed = [], [0, 3 % session.model.vocab]
    sampler.accept_prompt(fed)
    for _ in range(COUNT):
        ids.append(session.draw(fed, sampler))
        if isinstance(ids[-1], str):
            break
        fed = ids[-1:]
        sampler.accept(ids[-1])
    sampler.free()
    return ids


def main():
    tools = Tools(*sys.argv[1:3])
    random = np.random.default_rng(1)
    kinds = ["normal", "ties", "equal", "far", "close", "steep"]
    different = set()
    for vocab in [1, 7, 1024, 1025, 3001, 32003]:
        program = tools.scratch / "program.mlir"
        program.write_text(PROGRAM.format(vocab=vocab))
        artifact = tools.compile(program, "--target=cpu,cuda", "--max-seq=64")
        # Many equal scores take the emulated device long.
        for seed, kind in enumerate(kinds if vocab < 32003 else kinds[:1]):
            folder = tools.scratch / f"{kind}-{vocab}"
            folder.mkdir()
            head = logits(kind, vocab, random)[:, None]
            tensors = {"embed": np.ones((vocab, 1), np.float32), "head": head}
            write_safetensors(folder / "model.safetensors", tensors, "f32")
            sessions = [
                Model(tools, artifact, 0, vocab, device, folder).session()
                for device in ("cpu", "emulated")
            ]
            # Half of them with each kind: the others come with the next.
            half = OPTIONS[seed % 2 :: 2]
            asked = itertools.product(half, PENALTIES[seed % 2])
            for options, penalties in some(asked, 4, seed + vocab):
                asked = {**options, **penalties}
                ids, emulated = (draws(one, asked, seed) for one in sessions)
                what = f"{kind} of {vocab}, {asked}"
                check(ids == emulated, f"{what}: {ids}, emulated {emulated}")
                different.add(str(ids))
    check(len(different) > 40, f"only {len(different)} different texts")


main()
