"""mpi.py BIN SCRATCH MPI: two ranks of mpirun.MPI serve one model.

Texts, scores and embeddings are those of one rank in f32, whatever runs beside them. SIGTERM
lets texts end, and then all ranks; a rank that dies ends the others.
"""

import os
import re
import signal
import sys
import time

from serving import TINY, Server, Tools, at_once, check, make_adapters, raw, wait_for

from harness import execute  # isort: skip
from ranks import Ranks  # isort: skip
from ranks_faults import ranks_below  # isort: skip

GENERATE = "/v1/completions"
GREEDY = {"temperature": 0, "max_tokens": 40}
DRAWN = {"temperature": 0.8, "seed": 3, "max_tokens": 40}
LONG = "There was a little fox named Lily. She lived in a small house near the river. " * 2
REQUESTS = [
    {"prompt": "Once upon a time", **GREEDY},
    {"prompt": LONG, **DRAWN},
    {"prompt": "The dog", "n": 3, **DRAWN, "logprobs": 2},
    {"prompt": "One day", "min_tokens": 30, **DRAWN},
    {"prompt": "Mum said", "logit_bias": {"300": 100}, "ignore_eos": True, **GREEDY},
    {"prompt": "Tom", "response_format": {"type": "json_object"}, **DRAWN},
    {"prompt": "Tom", "repetition_penalty": 1.2, "frequency_penalty": 0.5, **GREEDY},
    {"prompt": LONG, "model": "first", **GREEDY},
    {"prompt": LONG, "echo": True, "logprobs": 1, "max_tokens": 0},
]


class RanksServer(Server):
    """cria-serve, by mpirun."""

    def __init__(self, ranks, artifact, *options, seconds=120):
        environment = ranks.environment | {"CRIA_MPI_TIMEOUT": str(seconds)}
        super().__init__(ranks, artifact, *options, env=environment, wrap=ranks.mpirun)
        self.pid = int(re.search(r"SIGTERM to process (\d+) ends all", "".join(self.errors))[1])

    def terminate(self):
        self.was_terminated = True
        os.kill(self.pid, signal.SIGTERM)


def answers(server):
    """What the server says to all requests."""

    def ask(request):
        answer = server.post(GENERATE, request)
        check(answer.status == 200, answer)
        choices = answer.json["choices"]
        for choice in choices:  # their last digits may differ
            probabilities = choice["logprobs"] or {}
            for value in probabilities.get("token_logprobs") or []:
                check(value is None or -50 < value <= 0, choice)
            choice["logprobs"] = probabilities.get("tokens")
        return choices

    def embed(model):
        answer = server.post("/v1/embeddings", {"input": [LONG, "Tom"], "model": model})
        return [one["embedding"] for one in answer.json["data"]]

    return [lambda request=request: ask(request) for request in REQUESTS], [
        lambda model=model: embed(model) for model in ("tiny", "first")
    ]


def check_texts(one, two, options):
    """The same as one rank's, at once."""
    with one(*options) as server:
        texts, embeddings = answers(server)
        expected = [each() for each in texts], [each() for each in embeddings]
    with two(*options) as server:
        texts, embeddings = answers(server)
        found = at_once(texts + embeddings)
        for request, got, text in zip(REQUESTS, found, expected[0]):
            check(got == text, f"{request}: {got}, of one rank {text}")
        for got, vectors in zip(found[len(REQUESTS) :], expected[1]):
            far = max(abs(a - b) for x, y in zip(got, vectors) for a, b in zip(x, y))
            check(far < 1e-5, f"embeddings differ by {far}")
        check(server.metrics()["spec_accepted_tokens_total"] > 0, "no drafts")
        check(any(left_early(server) for _ in range(3)), "nobody left early")
        # Ranks sleep where nothing is to be computed, for longer than they wait for each other.
        before = server.metrics()["process_cpu_seconds_total"]
        time.sleep(1)
        spent = server.metrics()["process_cpu_seconds_total"] - before
        check(spent < 0.5, f"an idle server has used {spent} s of 1")
        check(server.complete("Once", **GREEDY).status == 200, "after a while")


def left_early(server):
    """Whether a client left before the end of its text, which then ends."""
    before = server.metrics()['request_cancelled_total{state="running"}']
    asked = {"prompt": LONG, "max_tokens": 150, "ignore_eos": True, "stream": True}
    client = server.open(raw(GENERATE, asked))
    client.recv(100)
    client.close()
    wait_for(server.is_idle, "the text of a client that left ends")
    return server.metrics()['request_cancelled_total{state="running"}'] > before


def check_drain(two):
    """A text that has begun is written whole."""
    asked = {"prompt": "Once", "max_tokens": 200, "ignore_eos": True, "stream": True}
    with two() as server:
        client = server.open(raw(GENERATE, asked, "Connection: close"))
        client.recv(1)
        server.terminate()
        received = b"".join(iter(lambda: client.recv(1 << 16), b""))
        check(b"data: [DONE]" in received, received)


def check_lost(two):
    """A rank that dies ends all."""
    server = two(seconds=10)
    others = [pid for pid in ranks_below(server.process.pid, "cria-serve") if pid != server.pid]
    check(len(others) == 1, f"{others} beside {server.pid}")
    os.kill(others[0], signal.SIGKILL)
    check(server.process.wait(30) != 0, server.errors)
    wait_for(lambda: not os.path.exists(f"/proc/{server.pid}"), "rank 0 ends", 30)
    server.__exit__(True)


def check_refused(ranks, artifact):
    """What a rank cannot do is said with its number, and ends all."""
    serve = [ranks.bin / "cria-serve", artifact, "--port=0"]
    right, wrong = ([*serve, f"--weights={folder}"] for folder in (TINY, ranks.scratch))
    run = execute(ranks.mpirun(right, wrong), env=ranks.environment)
    check(run.status != 0 and "cria-serve: rank 1: error: " in run.errors, run)
    run = execute(right)
    check(run.status == 1 and "is for 2 ranks" in run.errors, run)


def main():
    bin, scratch, mpi = sys.argv[1:]
    tools, ranks = Tools(bin, scratch), Ranks(bin, f"{scratch}-ranks", mpi)
    flags = ["--batch=6", "--dtype=f32", "--lora-rank=4"]
    first = make_adapters(tools, "first")["first"]
    one = tools.compile(TINY / "config.json", *flags, out="one.cria")
    two = tools.compile(TINY / "config.json", *flags, "--shards=2", out="two.cria")
    options = ["--name=tiny", f"--lora=first={first}", "--draft-rows=6", "--batch=3"]

    def serve(*options, **seconds):
        return RanksServer(ranks, two, *options, **seconds)

    check_texts(lambda *options: Server(tools, one, *options), serve, options)
    check_drain(serve)
    check_lost(serve)
    check_refused(ranks, two)


main()
