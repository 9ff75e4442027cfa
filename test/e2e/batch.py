"""batch.py BIN SCRATCH SECONDS: sequences join, leave, fork and go on at random, in
pools of random sizes, which may refuse pages, with drafts and without. Each sequence draws
the same ids and has the same logits and hidden states, bit by bit, as a session that is
fed the same ids alone. Runs for SECONDS or longer, and at least four rounds of each model.
BatchRandomTest does the same on a device that fails. Two of the models have states, and
one of these has experts in blocks. Another one has weights in fp8. Some have layers with a window much shorter than the
texts, which have pages of their own; the sessions are then of whole caches.

Greedy ids are also those of transformers (examples/tiny/expected.json).
"""

import collections
import json
import platform
import random
import sys
import time

import capi
import families
import harness
from harness import check

TINY = harness.HERE.parent.parent / "examples/tiny"
EXPECTED = json.loads((TINY / "expected.json").read_text())["prompts"]
VOCAB, CONTEXT, HIDDEN = 768, 256, 96
# Models with states have the same sizes, and rows of whole blocks.
SIZES = {
    "intermediate_size": 64,
    "vocab_size": VOCAB,
    "max_position_embeddings": CONTEXT,
    "hidden_size": HIDDEN,
}
FINISH_LENGTH, FINISH_FAILED = 2, 4
WHOLE = ("--window-cache=whole",)
WITHOUT_VNNI = ["--quantize=q8_0"]
if platform.machine() == "x86_64":
    WITHOUT_VNNI.append("--cpu=x86-64-v3")


class Text:
    """The ids of a sequence: those that it was fed, and those that it drew."""

    def __init__(self, seed, origin=None):
        self.seed = seed
        self.events = list(origin.events) if origin else []  # (ids, logits or None)
        self.begin = len(self.events)  # what is before are a fork's origin's
        self.running, self.refused, self.left = False, False, 0
        self.states = None  # bytes of hidden states, if they are wanted

    @property
    def length(self):
        return sum(len(ids) for ids, _ in self.events)


def is_greedy(seed):
    return seed % 3 == 0


def sampler_of(model, seed):
    if is_greedy(seed):
        return capi.Sampler(model, temperature=0, seed=seed)
    return capi.Sampler(
        model, temperature=0.9, top_k=40, repetition_penalty=1.1, seed=seed
    )


def check_alone(model, text):
    """A session that is fed the same ids has the same logits and draws the same ids, of
    which it returns the number."""
    session, sampler = model.session(), sampler_of(model, text.seed)
    pending, fed, drawn, states = [], False, 0, []

    def feed(ids):
        """The logits after `ids`."""
        if text.states is None:
            return session.feed(ids, capi.LOGITS_LAST)[0]
        logits, hidden = session.forward(ids, HIDDEN, capi.LOGITS_LAST)
        states.append(hidden.tobytes())
        return logits[-1]

    for index, (ids, logits) in enumerate(text.events):
        if logits is None and fed:  # forked before they were computed
            feed(pending)
            pending = []
        if logits is not None:
            row = feed(pending)
            same = row.tobytes() == logits
            check(same, f"seed {text.seed}: other logits than alone")
            if index >= text.begin:
                same = [capi.sample(model, sampler, row)] == ids
                check(same, f"seed {text.seed}: other ids than alone")
                drawn += 1
            pending = []
        for id in ids:
            sampler.accept(id)
        pending, fed = pending + ids, logits is None
    if text.states is not None:
        if pending:
            feed(pending)
        check(b"".join(states).startswith(text.states), "other hidden states than alone")
        done = len(text.states) // (4 * HIDDEN)
        ended = not text.running and not text.refused
        check(not ended or done + 1 >= text.length, f"{done} states of {text.length} ids")
    session.free()
    sampler.free()
    return drawn


class Round:
    """A batch of some size, and some hundreds of calls. `alone` has the sessions that do
    the same."""

    def __init__(self, model, alone, seed):
        self.model, self.alone, self.random = model, alone, random.Random(seed)
        pages = self.random.randint(4, 60)
        chunk = self.random.choice([0, 5, 16, 40])
        refuse = self.random.randrange(2)
        self.batch = capi.Batch(
            model,
            threads=2,
            pages=pages,
            window_pages=self.random.choice([0, 8, 10, 20]),
            chunk=chunk,
            refuse=refuse,
            draft_rows=self.random.choice([0, 3, 6]),
        )
        self.texts, self.gone, self.seed = {}, [], seed * 1000

    def prompt(self):
        """Some begin with the same ids."""
        beginning = random.Random(self.random.randrange(3))
        count = self.random.randint(1, self.random.choice([3, 70]))  # up to 3 are short
        ids = [beginning.randrange(VOCAB) for _ in range(count)]
        return ids + [self.random.randrange(VOCAB)] * self.random.randrange(3)

    def add(self, origin=None):
        """A new sequence, or a fork of a sequence."""
        self.seed += 1
        sampler = sampler_of(self.model, self.seed)
        hidden = HIDDEN if origin is None and self.random.randrange(3) == 0 else 0
        if origin is None:
            number = self.batch.join(sampler, hidden=hidden)
        else:
            number = self.batch.fork(origin, sampler)
        sampler.free()  # the batch has it
        self.texts[number] = Text(self.seed, self.texts.get(origin))
        if hidden:
            self.texts[number].states = b""
        return number

    def feed(self, number, ids, most):
        text = self.texts[number]
        problem = self.batch.feed(number, ids, most)
        if problem:
            check("needs" in problem and "pages" in problem, problem)
            return
        text.running, text.refused, text.left = True, False, most
        if ids:
            text.events.append((ids, None))

    def join(self):
        number = self.add()
        least = 1 if self.texts[number].states is None else 0
        self.feed(number, self.prompt(), self.random.randint(least, 30))

    def fork(self):
        number = self.random.choice(list(self.texts))
        if self.texts[number].length + 60 < CONTEXT:
            fork = self.add(number)
            self.feed(fork, self.prompt()[:20], self.random.randint(1, 10))

    def leave(self):
        number = self.random.choice(list(self.texts))
        self.batch.leave(number)
        self.gone.append(self.texts.pop(number))

    def reply(self):
        """A sequence that was refused goes on, one that finished is fed again."""
        number = self.random.choice(list(self.texts))
        text = self.texts[number]
        if text.running or text.length + 60 > CONTEXT:
            return
        if text.left or text.refused:
            return self.feed(number, [], text.left)
        self.feed(number, self.prompt()[:20], self.random.randint(1, 10))

    def bad(self):
        """Calls that fail change nothing."""
        number = self.batch.join()
        check("expected 0 to 767" in self.batch.feed(number, [1, 768], 1), "a bad id")
        too_long = self.batch.feed(number, [1] * (CONTEXT + 1), 1)
        check("the artifact's context holds 256" in too_long, "too long a text")
        self.batch.leave(number)

    def next_of(self, text):
        """What a greedy text most likely draws next."""
        session = self.model.session()
        ids = [id for ids, _ in text.events for id in ids]
        logits = session.feed(ids, capi.LOGITS_LAST)[0]
        session.free()
        return int(logits.argmax())

    def step(self):
        for number, text in self.texts.items():  # which may find some by itself
            if text.running and self.batch.draft_rows and self.random.randrange(4) == 0:
                ids = [self.random.randrange(VOCAB)] * 2
                if is_greedy(text.seed) and self.random.randrange(4) == 0:
                    ids[0] = self.next_of(text)
                self.batch.propose(number, ids)
        for number, id, finish, message, logits, hidden in self.batch.step():
            text = self.texts[number]
            text.running = not finish
            if hidden:
                check(id < 0 and not finish and text.states is not None, "not wanted")
                text.states += hidden
                continue
            if finish == FINISH_FAILED:
                text.refused = True
                check("needs" in message and "pages" in message, message)
                continue
            if id >= 0:
                text.left -= 1
                text.events.append(([id], logits))

    def run(self, calls):
        actions = [self.join, self.fork, self.leave, self.reply, self.bad]
        for _ in range(calls):
            weights = [12, 3, 3, 9, 1, 72]
            action = self.random.choices(actions + [self.step], weights)[0]
            if action in (self.join, self.fork) and len(self.texts) > 20:
                action = self.leave
            if self.texts or action in (self.join, self.bad):
                action()
            info = self.batch.info
            check(0 <= info.kept_pages <= info.free_pages <= info.pages, "pages")
        while self.batch.info.running + self.batch.info.waiting:
            self.step()
        return self.verify()

    def verify(self):
        """Compares with sessions. Returns the number of ids."""
        texts = [*self.texts.values(), *self.gone]
        drawn = sum(check_alone(self.alone, text) for text in texts)
        for number in list(self.texts):
            self.batch.leave(number)
        info = self.batch.info
        check(info.free_pages == info.pages, "pages are lost")
        check(info.free_window_pages == info.window_pages, "window pages are lost")
        self.batch.free()
        return drawn, info


def check_greedy(model):
    """All prompts at once draw the ids of transformers."""
    batch = capi.Batch(model)
    expected = {}
    for case in EXPECTED:
        number = batch.join()
        check(not batch.feed(number, case["ids"], len(case["greedy"])), "a feed failed")
        expected[number] = case["greedy"]
    drawn = collections.defaultdict(list)
    while any(len(drawn[number]) < len(ids) for number, ids in expected.items()):
        for number, id, *_ in batch.step():
            drawn[number].append(id)
    check(dict(drawn) == expected, "other ids than transformers")
    batch.free()


def compile_for_batches(tools, config, type, *flags):
    kind = "-whole" if flags[-1:] == WHOLE else ""
    flags += "--batch=12", f"--dtype={type}", "--chunk=64"
    name = f"{config.parent.name}-{config.stem}-{type}{kind}.cria"
    return tools.compile(config, *flags, out=name)


def main():
    tools = harness.Tools(sys.argv[1], sys.argv[2])
    models = []
    for type in ("bf16", "f32"):
        path = compile_for_batches(tools, TINY / "config.json", type)
        models.append(2 * [capi.Model(tools, path, 0, VOCAB, weights=TINY)])
    check_greedy(models[1][0])
    for family, flags in {
        "qwen3_5_text": [],
        "granitemoehybrid-experts": ["--quantize=q4_0"],
        "mistral": ["--kv=q8_0", *WITHOUT_VNNI],
        "gemma3_text": ["--quantize=fp8"],
        "gemma4_text-embeddings": [],
    }.items():
        config = tools.scratch / f"{family}.json"
        content = families.FAMILIES[family] | SIZES
        if "--kv=q8_0" in flags:
            content["head_dim"] = 32  # whole blocks
        if "vocab_size_per_layer_input" in content:
            content["vocab_size_per_layer_input"] = VOCAB
        config.write_text(json.dumps(content))
        made = [compile_for_batches(tools, config, "f32", *flags)]
        if "sliding_window" in content:
            made.append(compile_for_batches(tools, config, "f32", *flags, *WHOLE))
        loaded = [capi.Model(tools, path, 7, VOCAB) for path in made]
        models.append([loaded[0], loaded[-1]])
    seed, total = 0, collections.Counter()
    end = time.monotonic() + float(sys.argv[3])
    while seed < 4 * len(models) or time.monotonic() < end:
        drawn, info = Round(*models[seed % len(models)], seed).run(200)
        seed += 1
        total.update(rounds=1, drawn=drawn)
        for name in ("reused", "recomputed", "put_back", "drafted", "accepted"):
            total[name] += getattr(info, name)
    print(dict(total))
    for model in {id(model): model for pair in models for model in pair}.values():
        model.free()


if __name__ == "__main__":
    main()
