"""ahead.py BIN SCRATCH: GPUs compute the next step before anybody asks for it.

A caller that feeds the id that was drawn last has the next step launched before the
current one has ended. Whatever the caller does instead, a session draws the ids and has
the logits, bit by bit, of one that never launches ahead, and the ids of the CPU. Models
that a step leaves with a state, or whose ropes depend on the text, do not launch ahead.
"""

import json
import os
import sys

import numpy as np

import families
from capi import LOGITS_LAST, Model, Sampler
from harness import Tools, check, some

SEED, CONTEXT = 5, 192
FLAGS = [f"--max-seq={CONTEXT}", "--chunk=48"]
# And whether steps are launched ahead. A ring of Mistral's has 128 places, its window 24.
BACK = 128 - 24 + 1
SMALL = {"num_hidden_layers": 2}
MODELS = {
    "mistral": (families.FAMILIES["mistral"] | SMALL, True),
    "llama": (families.FAMILIES["llama"] | SMALL, True),
    "lfm2": (families.FAMILIES["lfm2"], False),
    "dynamic": (families.config("llama", SMALL | {"rope_scaling": families.rope("dynamic")}), False),
}
SAMPLERS = [{"temperature": 0}, {"temperature": 1.3, "top_k": 40, "top_p": 0.95, "seed": 3}]


class Text:
    """A session that draws, and all that it has returned."""

    def __init__(self, model, options):
        self.model, self.session = model, model.session()
        self.ids, self.returned, self.draws = [], [], 0
        self.use(options)

    def use(self, options):
        self.sampler = Sampler(self.model, **options)

    def generate(self, count, *ids):
        """Draws `count` ids after `ids`, or after the id that was drawn last."""
        for _ in range(count):
            ids = ids or (self.last,)
            self.ids += ids
            self.last = self.session.draw(ids, self.sampler)
            self.sampler.accept(self.last)
            self.returned.append(self.last)
            self.draws += 1
            ids = ()

    def logits(self, id):
        self.ids.append(id)
        self.returned.append(self.session.feed([id], LOGITS_LAST))


def play(model, options):
    """What callers do with texts. Returns all ids and logits, and the number of draws on
    the device."""
    text, other = Text(model, options), Text(model, options)
    text.generate(6, *range(3, 135))
    # Goes back so far that a ring whose last key is not the text's lacks one key.
    del text.ids[-BACK:]
    text.session.rewind(len(text.ids))
    text.logits(60)
    # Stops, and goes on with another text.
    text.generate(3, *range(40, 140))
    # Feeds another id than the one that was drawn; then wants logits after this one.
    text.generate(3, 77)
    text.logits(text.last)
    text.generate(3, 5)
    # Goes back.
    for back in 1, 6:
        del text.ids[-back:]
        text.session.rewind(len(text.ids))
        text.generate(3, 50 + back)
    # Other samplers. The second one needs the ids so far, the third one the logits.
    text.use(options | {"min_p": 0.02})
    text.generate(3)
    text.use(options | {"repetition_penalty": 1.2})
    text.sampler.accept_prompt(text.ids)
    text.generate(3)
    text.use(options)
    text.sampler.set_bias({9: 4.0})
    text.generate(2)
    text.draws -= 2
    text.use(options)
    text.generate(3)
    # Another text of the same length takes the place of this one, before the same id.
    other.generate(1, *np.arange(len(text.ids)) % 31 + 100)
    text.session.restore(other.session.save())
    text.ids = list(other.ids)
    text.generate(3)
    # Loses positions.
    check(text.session.drop(4, 20) is None, "a drop")
    del text.ids[4:20]
    text.generate(3)
    # To the end of the context, and beyond.
    rest = CONTEXT - 3 - len(text.ids)
    text.generate(4, *range(5, 5 + rest))
    text.returned.append(text.session.draw([7], text.sampler))
    for each in text, other:
        each.session.free()
    return text.returned, text.draws + other.draws


def same(one, two):
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two)
    return one == two


def is_close(one, two):
    if isinstance(one, np.ndarray):
        return np.abs(one - two).max() <= 1e-3
    return one == two


def draws_of(counts):
    """How many steps the emulated device has drawn in."""
    lines = counts.read_text().splitlines() if counts.exists() else []
    return sum(json.loads(line)["kernel"] == "sample_scores" for line in lines)


def main():
    tools = Tools(*sys.argv[1:3])
    counts = tools.scratch / "counts"
    cases = [(name, i) for name in MODELS for i in range(len(SAMPLERS))]
    for name, number in some(cases, 4, first=2):
        content, launches = MODELS[name]
        path = tools.scratch / f"{name}.json"
        path.write_text(json.dumps(content))
        made = tools.compile(path, *FLAGS, "--target=cpu,cuda", out=f"{name}.cria")
        results = {}
        for how in "cpu", "ahead", "alone":
            counts.unlink(missing_ok=True)
            os.environ["CRIA_EMULATOR_COUNT"] = str(counts)
            os.environ["CRIA_CUDA_WITHOUT"] = "ahead" if how == "alone" else ""
            device = "cpu" if how == "cpu" else "emulated"
            model = Model(tools, made, SEED, content["vocab_size"], device)
            results[how], draws = play(model, SAMPLERS[number])
            model.free()
            if how == "cpu":
                continue
            further = draws_of(counts) - draws
            print(f"{name}, {how}: {draws} draws, {further} steps for nothing")
            check((further > 0) == (launches and how == "ahead"), f"{name}, {how}")
        for how, equal in ("alone", same), ("cpu", is_close):
            for i, (got, want) in enumerate(zip(results["ahead"], results[how])):
                check(equal(got, want), f"{name}, result {i}: another one than {how}")
            check(len(results["ahead"]) == len(results[how]), f"{name}, {how}")


if __name__ == "__main__":
    main()
