"""batch.py BIN SCRATCH SECONDS: sequences join, leave, fork and go on at random, in
pools of random sizes. Each sequence draws the same ids and has the same logits, bit by
bit, as a session that is fed the same ids alone. Runs for SECONDS or longer, and at least
one round of each type.

Greedy ids are also those of transformers (examples/tiny/expected.json).
"""

import collections
import json
import random
import sys
import time

import capi
import harness
from harness import check

TINY = harness.HERE.parent.parent / "examples/tiny"
EXPECTED = json.loads((TINY / "expected.json").read_text())["prompts"]
VOCAB, CONTEXT = 768, 256
FINISH_LENGTH, FINISH_FAILED = 2, 4


class Text:
    """The ids that a sequence was fed, and the ids that it drew."""

    def __init__(self, seed, feeds):
        self.seed, self.feeds = seed, feeds  # (ids, ids to draw)
        self.ids, self.logits, self.running = [], [], True

    @property
    def length(self):
        return sum(len(ids) + most for ids, most in self.feeds)


def sampler_of(model, seed):
    """Greedy for every third text."""
    if seed % 3 == 0:
        return capi.Sampler(model, temperature=0, seed=seed)
    return capi.Sampler(
        model, temperature=0.9, top_k=40, repetition_penalty=1.1, seed=seed
    )


def alone(model, text):
    """The ids and logits of a session that is fed the same ids."""
    session = capi.Session(model, 1)
    sampler = sampler_of(model, text.seed)
    ids, logits, fed = [], [], []
    for prompt, most in text.feeds:
        for id in prompt:
            sampler.accept(id)
        fed += prompt
        for _ in range(most):
            row = session.feed(fed, capi.LOGITS_LAST)[0]
            fed = [capi.sample(model, sampler, row)]
            sampler.accept(fed[0])
            ids += fed
            logits.append(row.tobytes())
    session.free()
    sampler.free()
    return ids, logits


class Round:
    """A batch of some size, and some hundreds of calls."""

    def __init__(self, model, seed):
        self.model, self.random = model, random.Random(seed)
        pages = self.random.randint(CONTEXT // 16, 60)
        chunk = self.random.choice([0, 5, 16, 40])
        self.batch = capi.Batch(model, threads=2, pages=pages, chunk=chunk)
        self.texts, self.gone, self.seed = {}, [], seed * 1000

    def prompt(self):
        """Some begin with the same ids."""
        beginning = random.Random(self.random.randrange(3))
        ids = [beginning.randrange(VOCAB) for _ in range(self.random.randint(1, 70))]
        return ids + [self.random.randrange(VOCAB)] * self.random.randrange(3)

    def join(self):
        self.seed += 1
        text = Text(self.seed, [(self.prompt(), self.random.randint(1, 30))])
        sampler = sampler_of(self.model, text.seed)
        number = self.batch.join(sampler)
        sampler.free()  # the batch has it
        check(not self.batch.feed(number, *text.feeds[0]), "a feed failed")
        self.texts[number] = text

    def leave(self):
        number = self.random.choice(list(self.texts))
        self.batch.leave(number)
        self.gone.append(self.texts.pop(number))

    def reply(self):
        number = self.random.choice(list(self.texts))
        text = self.texts[number]
        feed = self.prompt()[:20], self.random.randint(1, 10)
        if not text.running and text.length + 30 < CONTEXT:
            text.feeds.append(feed)
            text.running = True
            check(not self.batch.feed(number, *feed), "a feed failed")

    def bad(self):
        """Calls that fail change nothing."""
        number = self.batch.join()
        check("expected 0 to 767" in self.batch.feed(number, [1, 768], 1), "a bad id")
        too_long = self.batch.feed(number, [1] * (CONTEXT + 1), 1)
        check("the artifact's context holds 256" in too_long, "too long a text")
        self.batch.leave(number)

    def step(self):
        for number, id, finish, message, logits in self.batch.step():
            text = self.texts[number]
            check(finish != FINISH_FAILED, f"sequence {number}: {message}")
            text.ids.append(id)
            text.logits.append(logits)
            text.running = not finish

    def run(self, calls):
        actions = [self.join, self.leave, self.reply, self.bad]
        for _ in range(calls):
            action = self.random.choices(actions + [self.step], [12, 2, 6, 1, 79])[0]
            if action == self.join and len(self.texts) > 20:
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
        drawn = 0
        for text in [*self.texts.values(), *self.gone]:
            ids, logits = alone(self.model, text)
            count = len(text.ids)
            whole = text not in self.gone
            check(count == len(ids) or not whole, f"{count} ids of {len(ids)}")
            check(text.ids == ids[:count], f"seed {text.seed}: other ids than alone")
            same = text.logits == logits[:count]
            check(same, f"seed {text.seed}: other logits than alone")
            drawn += count
        for number in list(self.texts):
            self.batch.leave(number)
        info = self.batch.info
        check(info.free_pages == info.pages, "pages are lost")
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


def main():
    tools = harness.Tools(sys.argv[1], sys.argv[2])
    end = time.monotonic() + float(sys.argv[3])
    models = []
    for type in ("bf16", "f32"):
        flags = "--batch=6", f"--dtype={type}", "--chunk=64"
        path = tools.compile(TINY / "config.json", *flags, out=f"{type}.cria")
        models.append(capi.Model(tools, path, 0, VOCAB, weights=TINY))
    check_greedy(models[1])
    seed, total = 0, collections.Counter()
    while seed < len(models) or time.monotonic() < end:
        drawn, info = Round(models[seed % len(models)], seed).run(200)
        seed += 1
        total.update(rounds=1, drawn=drawn)
        for name in ("reused", "recomputed", "put_back"):
            total[name] += getattr(info, name)
    print(dict(total))
    for model in models:
        model.free()


if __name__ == "__main__":
    main()
