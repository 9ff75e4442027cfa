"""A request's text is that which cria-run prints, byte for byte, whatever runs beside it."""

import json
import sys
import time

import numpy as np

from serving import TINY, Server, Tools, at_once, check, make_adapters, raw, wait_for

PROMPTS = [
    "Once upon a time",
    "Lily and Tom",
    "The dog",
    "A big red ball",
    "One day",
    "Mum said",
    "In the garden",
    "There was a little fox named Lily. She lived in a small house near the river. One day",
]
LENGTH = 60
LONG = {"max_tokens": 150, "ignore_eos": True, "temperature": 0.8, "seed": 5}
FIELDS = {"the_name_of_the_dog": {"type": "string", "maxLength": 9}, "where": {"enum": ["garden"]}}
SCHEMA = {
    "type": "object",
    "properties": FIELDS,
    "required": [*FIELDS],
    "additionalProperties": False,
}
FORMED = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
DRAWS = [{"temperature": 0}, {"temperature": 0.8, "seed": 5}, {"temperature": 1.0, "seed": 9}]


def by_cria_run(tools, artifact):
    """The texts of all prompts for all ways to draw."""
    texts = []
    lines = tools.scratch / "prompts.txt"
    lines.write_text("\n".join(PROMPTS) + "\n")
    for draw in DRAWS:
        flags = [f"--{name}={value}" for name, value in draw.items()]
        run = tools.run(
            artifact, f"--weights={TINY}", f"--prompts={lines}", f"--max-tokens={LENGTH}", *flags
        ).ok()
        texts += [json.loads(line)["text"] for line in run.text.splitlines()]
    return texts


def requests():
    return [(prompt, {**draw, "max_tokens": LENGTH}) for draw in DRAWS for prompt in PROMPTS]


def texts_at_once(server):
    """The texts of all requests at once, every second one as a stream."""

    def text(i, prompt, fields):
        if i % 2:
            return server.complete(prompt, **fields).text
        events = server.complete(prompt, **fields, stream=True).events
        return "".join(event["choices"][0]["text"] for event in events)

    return at_once([lambda i=i, r=r: text(i, *r) for i, r in enumerate(requests())])


def formed_texts(server):
    """Texts of a schema, a prompt at a time."""
    asked = {**FORMED, "max_tokens": 200}
    return [server.complete(prompt, **draw, **asked).text for draw in DRAWS for prompt in PROMPTS[:2]]


def check_beside_leavers(server, expected):
    """Clients that leave in the middle change nothing for others."""
    left = []
    for i in range(6):
        body = {"prompt": PROMPTS[i], "max_tokens": 200, "ignore_eos": True, "stream": i % 2 == 0}
        left.append(server.open(raw("/v1/completions", body)))
    functions = [lambda: texts_at_once(server)]
    functions += [lambda one=one: (one.recv(200) if one is left[0] else None, one.close()) for one in left]
    check(at_once(functions)[0] == expected, "texts beside clients that leave")


def check_adapters(tools):
    """Adapters side by side: each name has the texts of cria-run with that adapter."""
    folders = make_adapters(tools, "first", "second")
    flags = ["--batch=3", "--lora-rank=4"]
    artifact = tools.compile(TINY / "config.json", *flags, out="lora.cria")
    drawn = [f"--weights={TINY}", "--temperature=0", f"--max-tokens={LENGTH}"]
    expected, embedded = {}, {}
    for name in ("tiny", *folders):
        lora = [f"--lora={folders[name]}", "--lora-unmerged"] if name in folders else []
        run = tools.run(artifact, *drawn, f"--prompt={PROMPTS[0]}", *lora).ok()
        expected[name] = run.text.removeprefix(PROMPTS[0])
        run = tools.run(artifact, *drawn, f"--prompt={PROMPTS[0]}", *lora, "--embedding", "--normalize")
        embedded[name] = json.loads(run.ok().text)
    check(len(set(expected.values())) == 3, expected)
    options = [f"--lora={name}={folder}" for name, folder in folders.items()]
    with Server(tools, artifact, *options) as server:
        models = [model["id"] for model in server.get("/v1/models").json["data"]]
        check(models == ["tiny", "first", "second"], models)

        def text(name):
            asked = {"model": name, "max_tokens": LENGTH, "temperature": 0}
            answer = server.complete(PROMPTS[0], **asked)
            check(answer.json["model"] == name, answer)
            return answer.text

        for _ in range(2):
            names = list(expected) * 3
            found = at_once([lambda name=name: text(name) for name in names])
            check(found == [expected[name] for name in names], "texts of adapters")
            for name in expected:
                asked = {"model": name, "input": PROMPTS[0]}
                found = server.post("/v1/embeddings", asked).json["data"][0]["embedding"]
                difference = max(abs(a - b) for a, b in zip(found, embedded[name], strict=True))
                check(difference < 1e-6, f"embeddings of {name} differ by {difference}")

        # Prompts are scored with the same adapters, by the numbers of cria-run.
        ids = server.post("/tokenize", {"prompt": PROMPTS[0] + expected["first"]}).json["tokens"]
        functions = [lambda name=name: server.complete(
            ids, model=name, logprobs=0, echo=True, max_tokens=0) for name in expected]
        for name, answer in zip(expected, at_once(functions)):
            lora = [f"--lora={folders[name]}", "--lora-unmerged"] if name in folders else []
            file = tools.scratch / f"{name}.npy"
            given = "--ids=" + ",".join(map(str, ids))
            tools.run(artifact, *drawn, given, *lora, f"--logits={file}").ok()
            logits = np.load(file).astype(np.float64)[:-1]
            logits -= logits.max(axis=1, keepdims=True)
            logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
            right = logits[range(len(ids) - 1), ids[1:]]
            [choice] = answer.json["choices"]
            found = choice["logprobs"]["token_logprobs"]
            check(found[0] is None and len(found) == len(ids), found)
            check(np.abs(np.array(found[1:]) - right).max() < 1e-9, (name, found, right))


def check_short_prompts(tools):
    """Eight prompts of 8 tokens are computed in two steps of 32 rows, and have the texts that
    they have alone."""
    artifact = tools.compile(TINY / "config.json", "--batch=32", out="rows.cria")
    asked = {"temperature": 0.8, "seed": 5}
    with Server(tools, artifact, "--batch=8") as server:
        text = "".join(PROMPTS)
        ids = server.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json["tokens"]
        prompts = [ids[begin : begin + 8] for begin in range(8)]
        alone = [server.complete(prompt, **asked, max_tokens=20).text for prompt in prompts]
        run = tools.run(artifact, f"--weights={TINY}", "--ids=" + ",".join(map(str, prompts[0])),
                        "--temperature=0.8", "--seed=5", "--max-tokens=20").ok()
        check(run.text.endswith(alone[0]) and len(set(alone)) > 4, f"{alone}, {run.text}")
        before = server.metrics()["step_seconds_count"]
        server.complete(prompts, **asked, max_tokens=1)
        steps = server.metrics()["step_seconds_count"] - before
        check(steps == 2, f"{steps} steps for eight prompts of 8 tokens")
        found = at_once([lambda prompt=prompt: server.complete(prompt, **asked, max_tokens=20).text
                         for prompt in prompts])
        check(found == alone, "short prompts at once")
        check(server.metrics()["rows"] == 8, "eight texts at once")


def check_embeddings(tools, artifact):
    """Embeddings do not stop texts: one is computed beside texts that wait. Both are as
    alone, also where several inputs are rows of one step."""
    inputs = [" ".join(PROMPTS[i:] + PROMPTS[:i]) for i in range(4)] + PROMPTS[:4]
    fields = {"max_tokens": 100, "ignore_eos": True, "temperature": 0}

    def embeddings(*texts):
        answer = server.post("/v1/embeddings", {"input": texts})
        check(answer.status == 200, answer)
        return [one["embedding"] for one in answer.json["data"]], time.monotonic()

    def text():
        wait_for(lambda: server.metrics()["prompt_tokens_total"] > before, "embeddings begin")
        return server.complete(PROMPTS[0], **fields).text, time.monotonic()

    with Server(tools, artifact, "--chunk=16") as server:
        alone = server.complete(PROMPTS[0], **fields).text
        each = [embeddings(one)[0][0] for one in inputs]
        before = server.metrics()["prompt_tokens_total"]
        [(embedded, last), (found, end)] = at_once([lambda: embeddings(*inputs * 40), text])
        check(embedded == each * 40 and found == alone, "embeddings beside a text")
        check(end < last, "320 embeddings stop a text")


def main():
    tools = Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    expected = by_cria_run(tools, artifact)
    check(len(set(expected)) > 20, expected)
    with Server(tools, artifact) as server:
        alone = [server.complete(prompt, **fields).text for prompt, fields in requests()]
        check(alone == expected, "a text alone is that of cria-run")
        check(texts_at_once(server) == expected, "texts at once")
        check_beside_leavers(server, expected)
        whole = server.complete(PROMPTS[:3], n=2, **requests()[8][1]).json["choices"]
        check([c["index"] for c in whole] == list(range(6)), whole)
        firsts = [choice["text"] for choice in whole[::2]]
        check(firsts == expected[8:11], "the first of n texts, of several prompts")
        second = server.complete(PROMPTS[1], **{**requests()[8][1], "seed": 6}).text
        check(whole[3]["text"] == second, "the second of n texts has the next seed")
        long = [server.complete(prompt, **LONG).text for prompt in PROMPTS]
        formed = formed_texts(server)
        check(all(json.loads(text)["where"] == "garden" for text in formed), formed)
        wait_for(server.is_idle, "the server is idle")
    # Too few pages for four texts: some give theirs back, and are computed anew.
    # What is left of a step tries tokens that may come next.
    with Server(tools, artifact, "--pages=17", "--chunk=16", "--draft-rows=4") as server:
        alone = [server.complete(prompt, **fields).text for prompt, fields in requests()]
        check(alone == expected, "a text alone with drafts")
        check(server.metrics()["spec_accepted_tokens_total"] > 0, "no draft was drawn")
        before = server.metrics()
        check(formed_texts(server) == formed, "texts of a schema with drafts")
        drafted, accepted = (
            server.metrics()[f"spec_{n}_tokens_total"] - before[f"spec_{n}_tokens_total"]
            for n in ("draft", "accepted")
        )
        check(accepted > drafted / 3, f"of {drafted} drafts of a schema {accepted} were drawn")
        # A grammar that takes too much work after its third letter fails its own text alone.
        hostile = {"grammar": 'root ::= "no#" ("a"? "b"?){9000}', "max_tokens": 9}
        prompt, fields = requests()[0]
        texts = at_once([lambda: server.post("/v1/completions", {"prompt": prompt, **hostile}),
                         lambda: server.complete(prompt, **fields).text])
        check(texts[0].status != 200 and texts[1] == expected[0], texts)
        check(texts_at_once(server) == expected, "texts with few pages")
        found = [choice["text"] for choice in server.complete(PROMPTS, **LONG).json["choices"]]
        check(found == long, "long texts with few pages")
        check(server.metrics()["preemptions_total"] > 0, "no text gave its pages back")
        full = server.complete([1] * 255, max_tokens=9).json
        check(full["usage"]["completion_tokens"] == 1, full)
    # A smaller model proposes tokens.
    small = tools.compile(TINY / "config.json", "--quantize=q4_0", out="small.cria")
    flags = "--draft-rows=4", f"--draft={small}", f"--draft-weights={TINY}"
    with Server(tools, artifact, *flags) as server:
        alone = [server.complete(prompt, **fields).text for prompt, fields in requests()]
        check(alone == expected, "a text alone with a draft model")
        counts = server.metrics()
        between, whole = (counts[f"{n}_cpu_seconds_total"] for n in ("scheduler", "process"))
        check(0 < between < whole, f"of {whole} s the scheduler had {between}")
        drafted, accepted = (counts[f"spec_{n}_tokens_total"] for n in ("draft", "accepted"))
        check(accepted > drafted / 3, f"of {drafted} drafts {accepted} were drawn")
        check(texts_at_once(server) == expected, "texts at once with a draft model")
    check_adapters(tools)
    check_embeddings(tools, artifact)
    check_short_prompts(tools)


main()
