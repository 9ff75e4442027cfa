"""soak.py BIN SCRATCH SECONDS: clients ask at random, for SECONDS or longer, and at least three
rounds: for texts and chats, several at once, with stops, grammars, penalties and adapters,
as streams or whole. Some read slowly, leave, or send nonsense. The server has too few pages
for them, and tries tokens that may come next. Each text has the ids and log-probabilities
that another server draws for it alone; after each round the server holds no page,
connection or descriptor, and at the end no more memory than after the first rounds."""

import collections
import http.client
import json
import random
import shutil
import socket
import struct
import sys
import time

from serving import JSON, TINY, Server, Tools, at_once, check, make_adapters, raw, wait_for

GENERATE = "/v1/completions"
CHAT = "/v1/chat/completions"
TEMPLATE = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
BEGINS = [
    "Once upon a time",
    "The dog",
    "There was a little fox named Lily. She lived in a small house near the river. One day",
    "There was a little fox named Lily. She lived in a small house near the river. Then",
    "Tom said: the cat, the dog, the cat, the dog, the cat, the dog,",
]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
FORMS = [
    {"grammar": 'root ::= ("the " ("cat" | "dog") ", ")+'},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": SCHEMA}}},
]
WRONG = {"temperature": -1, "model": "other", "prompt": "x" * 100_000, "grammar": "root ::= (", "n": 0}
REQUESTS, CLIENTS, TURNS = 24, 12, 8  # of a round
SETTLED = 3  # rounds until what is allocated once is there
GROWTH = 8 << 20  # bytes


def make_request(dice, models):
    """A path and a body, whose answer depends on nothing else."""
    body = {"model": dice.choice(models), "seed": dice.randrange(1 << 30)}
    body |= {"max_tokens": dice.randint(1, 100), "temperature": dice.choice([0, 0.7, 1])}
    body |= {"n": dice.choice([1, 1, 1, 2, 4])}
    for field, value in (
        ("stop", [" the", "."]),
        ("ignore_eos", True),
        ("top_k", 20),
        ("min_p", 0.05),
        ("repetition_penalty", 1.2),
        ("presence_penalty", 0.5),
        ("logit_bias", {"300": 5, "301": -100}),
    ):
        if dice.random() < 0.2:
            body[field] = value
    if dice.random() < 0.25:
        body.update(dice.choice(FORMS))
    text = dice.choice(BEGINS)
    if dice.random() < 0.3:
        return CHAT, {**body, "logprobs": True, "messages": [{"role": "user", "content": text}]}
    return GENERATE, {**body, "logprobs": 1, "prompt": text, "return_token_ids": True}


class Text:
    """A choice of an answer, of one part or of those of a stream."""

    def __init__(self):
        self.text, self.ids, self.log_probs, self.finish = "", [], [], None

    def add(self, choice):
        message = choice.get("message") or choice.get("delta") or choice
        self.text += message.get("text") or message.get("content") or ""
        self.ids += choice.get("token_ids", [])
        found = choice["logprobs"] or {}
        self.log_probs += found.get("token_logprobs", [])
        self.log_probs += [one["logprob"] for one in found.get("content", [])]
        self.finish = choice["finish_reason"]


def texts_of(answers):
    """What is to be the same, of all texts of an answer or of the events of a stream."""
    texts = collections.defaultdict(Text)
    for answer in answers:
        for choice in answer["choices"]:
            texts[choice["index"]].add(choice)
    return [vars(texts[i]) for i in range(len(texts))]


def texts_alone(server, path, body):
    """The texts of a request, each of which is asked for alone."""
    texts = []
    for i in range(body["n"]):
        answer = server.post(path, {**body, "n": 1, "seed": body["seed"] + i})
        check(answer.status == 200, f"{body}: {answer}")
        texts += texts_of([answer.json])
    return texts


def read_slowly(server, path, body, dice):
    """The events of a stream, which is read in small parts."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect((server.host, server.port))
    connection = http.client.HTTPConnection(server.host, server.port)
    connection.sock = client
    connection.request("POST", path, json.dumps(body), JSON)
    response = connection.getresponse()
    parts = []
    while part := response.read(dice.randint(1, 4000)):
        parts.append(part)
        time.sleep(dice.random() * 0.01)
    connection.close()
    lines = b"".join(parts).decode().split("\n\n")
    check(lines[-2:] == ["data: [DONE]", ""], lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


class Client:
    """Asks at random, and counts what it did."""

    def __init__(self, server, expected, seed):
        self.server, self.expected, self.dice = server, expected, random.Random(seed)
        self.did = collections.Counter()

    def ask(self):
        """The answer is as alone, whole or as a stream."""
        (path, body), texts = self.dice.choice(self.expected)
        way = self.dice.choice(["whole", "stream", "slow"])
        if way == "slow":
            events = read_slowly(self.server, path, {**body, "stream": True}, self.dice)
            got = texts_of(events)
        else:
            answer = self.server.post(path, {**body, "stream": way == "stream"})
            check(answer.status == 200, f"{body}: {answer}")
            got = texts_of(answer.events if way == "stream" else [answer.json])
        check(got == texts, f"{way} {path} {body}: {got}, alone {texts}")
        self.did.update(["same", way])

    def leave(self):
        """Goes before the answer is complete: at once, after a while, or in the stream."""
        (path, body), _ = self.dice.choice(self.expected)
        stream = self.dice.random() < 0.7
        text = raw(path, {**body, "stream": stream, "n": 4})
        if self.dice.random() < 0.2:
            text = text[: self.dice.randrange(len(text))]
        with self.server.open(text) as client:
            client.settimeout(self.dice.random())
            try:
                client.recv(self.dice.choice([1, 1000, 100_000]))
            except TimeoutError:
                pass
            if self.dice.random() < 0.5:  # by a reset
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.did["left"] += 1

    def err(self):
        """A request that is wrong is refused."""
        field, value = self.dice.choice([*WRONG.items()])
        answer = self.server.post(GENERATE, {"prompt": "Once", field: value})
        check(answer.status in (400, 404), f"{field}: {answer}")
        self.did["refused"] += 1

    def run(self):
        """Returns an error, or nothing."""
        try:
            for _ in range(TURNS):
                self.dice.choices([self.ask, self.leave, self.err], [6, 3, 1])[0]()
        except (SystemExit, Exception) as error:
            return repr(error)


def run_round(server, alone, seed, models):
    """A round of requests. Returns what was done."""
    dice = random.Random(seed)
    asked = [make_request(dice, models) for _ in range(REQUESTS)]
    expected = [(one, texts_alone(alone, *one)) for one in asked]
    clients = [Client(server, expected, f"{seed} {i}") for i in range(CLIENTS)]
    errors = [error for error in at_once([client.run for client in clients]) if error]
    check(not errors, f"round {seed}: {errors}")
    wait_for(server.is_idle, f"round {seed}: no text and no page is used")
    wait_for(lambda: server.metrics()["open_connections"] == 1, f"round {seed}: connections")
    return sum((client.did for client in clients), collections.Counter(rounds=1))


def main():
    end = time.monotonic() + float(sys.argv[3])
    tools = Tools(*sys.argv[1:3])
    folder = tools.scratch / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    adapters = make_adapters(tools, "first", "second")
    artifact = tools.compile(TINY / "config.json", "--batch=4", "--lora-rank=4")
    options = [f"--lora={name}={place}" for name, place in adapters.items()]
    few = ["--pages=16", "--chunk=16", "--draft-rows=4"]
    done, memory = collections.Counter(), []
    with Server(tools, artifact, *options, weights=folder) as alone:
        with Server(tools, artifact, *options, *few, weights=folder) as server:
            server.is_idle()
            descriptors = server.descriptors()
            while len(memory) < SETTLED or time.monotonic() < end:
                done += run_round(server, alone, len(memory), ["tiny", *adapters])
                wait_for(lambda: server.descriptors() <= descriptors, "descriptors")
                memory.append(server.memory())
            grown = memory[-1] - max(memory[:SETTLED])
            check(grown < GROWTH, f"memory after each round: {memory}")
            counters = server.metrics()
    print(dict(done))
    names = "preemptions", "recomputed_tokens", "prefix_reused_tokens", "spec_accepted_tokens"
    print({name: int(counters[f"{name}_total"]) for name in names})
    print(f"memory after {SETTLED} rounds and at the end: {max(memory[:SETTLED])}, {memory[-1]}")


main()
