#!/usr/bin/env python3
"""Times cria-serve, beside llama-server if there is one. For a quiet machine.

usage: bench_serve.py BIN MODEL.gguf [--llama-server=FILE] [--threads=N] [--rounds=N]
                      [--clients=N] [--tokens=N] [--make] [--only=PART,...]
                      [--stop-at=SECONDS]

BIN is the folder of cria-serve. With --make, MODEL.gguf is written first, if it is not
there: the shape of Llama-3.2-1B in bf16 with random weights, and tokens without meaning
(needs the package gguf). Servers are loaded together and measured in turns, each with the
same requests: prompts of ids, greedy, to the last token. The parts:

- rate: N clients, each a stream. Tokens/s over all, prompts included; the medians over the
  clients of the time to the first token and between tokens; at the end the medians over the
  rounds, and cria-serve's over llama-server's. For cria-serve also the CPU time of a token
  outside of steps: of the thread that computes, and of the other threads.
- first: 8 prompts of 8 ids in one request: steps until the last one has drawn, and time
  over that of a step of 8 texts.
- cancel: N clients have all places; one leaves, and another client's text begins. Steps
  and seconds from the one to the other.
- lookup: one client, by a server with drafts and one without, in turns: a text that copies
  itself (a bias leaves it one id), one of few ids (eight, at random: drafts are tried, and
  seven of eight are wrong), and one that is free. Rates with drafts over rates without.
- idle: 200 connections without a request and 50 with half of a header: what they add to the
  time of a request for one token, in turns with none. Of cria-serve alone.

A part that would begin after --stop-at seconds (default 480) is left out, and says so.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import time

import random_gguf

SHORT, VOCABULARY = 16, random_gguf.VOCABULARY
BEGIN = time.monotonic()
GREEDY = {"temperature": 0, "ignore_eos": True, "stream": True}


# ---- Servers ---------------------------------------------------------------


class Server:
    """A server on a port of its own. Its output is in a file beside the model."""

    def __init__(self, name, command, log):
        self.name = name
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.log = open(log, "w+")
        self.process = subprocess.Popen(
            [*map(str, command), "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=self.log,
            stderr=self.log,
        )
        while not self.is_ready():
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit(f"{name} does not start: {self.log.read()[-2000:]}")
            time.sleep(0.2)

    def is_ready(self):
        with contextlib.suppress(OSError):
            return self.get("/health")[0] == 200
        return False

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def metrics(self):
        """The numbers of /metrics without labels."""
        found = re.findall(r"^cria_(\w+) ([\d.e+-]+)$", self.get("/metrics")[1], re.M)
        return {name: float(value) for name, value in found}

    def cpu(self):
        """Seconds of CPU of each thread."""
        used = {}
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                name = (task / "comm").read_text().strip()
                spent = int((task / "schedstat").read_text().split()[0]) * 1e-9
                used[task.name] = (name, spent)
        return used

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


class Stream:
    """One request's stream: when it was sent, and when tokens came."""

    def __init__(self, server, **fields):
        self.server, self.body = server, {**GREEDY, **fields}
        self.times, self.tokens = [], 0

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        body = json.dumps({**self.body, "stream_options": {"include_usage": True}})
        self.sent = time.monotonic()
        self.writer.write(
            f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await self.writer.drain()

    async def next(self):
        """The next event; None at the end."""
        while line := await self.reader.readline():
            if line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                sys.exit(f"{self.server.name}: {line + await self.reader.read()}")
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "error" in event:
                    sys.exit(f"{self.server.name}: {event}")
                if usage := event.get("usage"):
                    self.tokens = usage["completion_tokens"]
                if event.get("choices"):
                    self.times.append(time.monotonic())
                return event
        return None

    def close(self):
        self.writer.close()

    async def run(self):
        await self.open()
        while await self.next() is not None:
            pass
        self.close()
        return self


def prompt_of(seed, length):
    return [(seed * 7919 + i * 31 + 1) % (VOCABULARY - 1) for i in range(length)]


async def together(streams):
    began = time.monotonic()
    done = await asyncio.gather(*[stream.run() for stream in streams])
    return done, time.monotonic() - began


# ---- The parts -------------------------------------------------------------


def spent_beside(before, after):
    """Seconds of CPU of the threads of I/O and of workers."""
    return sum(
        spent - before.get(task, (name, 0))[1]
        for task, (name, spent) in after.items()
        if name in ("cria-io", "cria-worker")
    )


def rate(servers, arguments, seeds):
    rates = {server.name: [] for server in servers}
    for number in range(arguments.rounds):
        for server in servers:
            prompts = [prompt_of(next(seeds), SHORT) for _ in range(arguments.clients)]
            streams = [Stream(server, prompt=p, max_tokens=arguments.tokens) for p in prompts]
            is_ours = server.name.startswith("cria")
            before = (server.metrics(), server.cpu()) if is_ours else None
            done, seconds = asyncio.run(together(streams))
            tokens = sum(stream.tokens for stream in done)
            rates[server.name].append(tokens / seconds)
            first = statistics.median(s.times[0] - s.sent for s in done)
            gaps = [b - a for s in done for a, b in zip(s.times, s.times[1:])]
            line = f"rate {number + 1} {server.name}: {tokens / seconds:.1f} tokens/s, "
            line += f"first token {first:.3f} s, between tokens {statistics.median(gaps):.4f} s"
            if is_ours:
                metrics, cpu = server.metrics(), server.cpu()
                name = "scheduler_cpu_seconds_total"
                between = metrics[name] - before[0][name]
                beside = spent_beside(before[1], cpu)
                line += f", CPU a token: {between / tokens * 1e6:.0f} us between steps"
                line += f" and {beside / tokens * 1e6:.0f} us beside them"
            print(line, flush=True)
    medians = [statistics.median(of) for of in rates.values()]
    over = f", {medians[0] / medians[1]:.2f} times" if len(medians) > 1 else ""
    print("rate: " + " and ".join(f"{m:.1f}" for m in medians) + f" tokens/s{over}", flush=True)


def first(servers, arguments, seeds):
    [server, *_] = servers
    for number in range(arguments.rounds):
        texts = [Stream(server, prompt=prompt_of(next(seeds), SHORT), max_tokens=16)
                 for _ in range(8)]
        done, _ = asyncio.run(together(texts))
        step = statistics.median(b - a for s in done for a, b in zip(s.times, s.times[1:]))
        before = server.metrics()
        prompts = [prompt_of(next(seeds), 8) for _ in range(8)]
        [eight], seconds = asyncio.run(together([Stream(server, prompt=prompts, max_tokens=1)]))
        steps = server.metrics()["step_seconds_count"] - before["step_seconds_count"]
        print(f"first {number + 1} {server.name}: eight prompts of 8 ids in {steps:.0f} steps, "
              f"{seconds:.3f} s, {seconds / step:.1f} steps of 8 texts", flush=True)


async def cancelled(server, clients, seeds):
    texts = [Stream(server, prompt=prompt_of(next(seeds), SHORT), max_tokens=400)
             for _ in range(clients)]
    for text in texts:
        await text.open()
    for text in texts:
        for _ in range(3):
            await text.next()
    late = Stream(server, prompt=[1], max_tokens=1)
    await late.open()
    await asyncio.sleep(0.5)
    steps = server.metrics()["step_seconds_count"]
    left = time.monotonic()
    texts[0].close()
    await late.next()
    seconds = time.monotonic() - left
    steps = server.metrics()["step_seconds_count"] - steps
    for text in texts[1:]:
        text.close()
    late.close()
    return steps, seconds


def cancel(servers, arguments, seeds):
    [server, *_] = servers
    for number in range(arguments.rounds):
        steps, seconds = asyncio.run(cancelled(server, arguments.clients, seeds))
        print(f"cancel {number + 1} {server.name}: {steps:.0f} steps and {seconds:.3f} s until "
              f"the next text's token", flush=True)
        while server.metrics()["num_requests_running"]:
            time.sleep(0.1)


def lookup(plain, drafting, arguments, seeds):
    few = {str(i): 60 for i in range(1000, 1008)}
    kinds = {
        "copies": {"logit_bias": {"1000": 100}},
        "few ids": {"logit_bias": few, "temperature": 1, "seed": 1},
        "free": {"temperature": 1, "seed": 1},
    }
    for kind, fields in kinds.items():
        ratios, texts = [], set()
        for _ in range(arguments.rounds):
            prompt, seconds = prompt_of(next(seeds), 32), {}
            for server in (plain, drafting):
                text = Stream(server, prompt=prompt, max_tokens=arguments.tokens, **fields)
                [done], _ = asyncio.run(together([text]))
                seconds[server] = done.times[-1] - done.times[0]
            ratios.append(seconds[plain] / seconds[drafting])
        print(f"lookup, {kind}: " + ", ".join(f"{r:.2f}" for r in ratios)
              + " times the rate without drafts", flush=True)


def idle(servers, arguments, seeds):
    [server, *_] = servers

    def latency(count=20):
        body = {"prompt": [1, 2], "max_tokens": 1}
        times = []
        for _ in range(count):
            began = time.monotonic()
            asyncio.run(Stream(server, **body).run())
            times.append(time.monotonic() - began)
        return statistics.median(times)

    for number in range(arguments.rounds):
        alone = latency()
        with contextlib.ExitStack() as held:
            def connection():
                made = socket.create_connection(("127.0.0.1", server.port))
                return held.enter_context(contextlib.closing(made))

            for _ in range(200):
                connection()
            for _ in range(50):
                connection().sendall(b"POST /v1/completions HTTP/1.1\r\nHost: lo")
            beside = latency()
        print(f"idle {number + 1} {server.name}: {1e3 * alone:.2f} ms alone, "
              f"{1e3 * (beside - alone):+.2f} ms beside 250 connections", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--llama-server", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--only", default="rate,first,cancel,lookup,idle")
    parser.add_argument("--stop-at", type=float, default=480)
    arguments = parser.parse_args()
    if arguments.make and not arguments.model.exists():
        random_gguf.make("bf16", arguments.model)
    clients, log = arguments.clients, arguments.model.with_suffix
    command = [arguments.bin / "cria-serve", arguments.model, f"--batch={clients}",
               f"--threads={arguments.threads}", "--compile=--max-seq=1024"]
    servers = [Server("cria-serve", command, log(".cria-serve.log"))]
    drafting = None
    seeds = iter(range(1, 1 << 30))
    parts = arguments.only.split(",")
    if "lookup" in parts:
        flags = [f"--draft-rows={4 * clients}"]
        drafting = Server("cria-serve with drafts", command + flags, log(".drafts.log"))
    if arguments.llama_server and "rate" in parts:
        given = [arguments.llama_server, "-m", arguments.model, "-np", clients]
        given += ["-c", 1024 * clients, "-t", arguments.threads, "-tb", arguments.threads]
        servers.append(Server("llama-server", given, log(".llama-server.log")))
    try:
        asyncio.run(together([Stream(s, prompt=[1, 2, 3], max_tokens=4)
                              for s in [*servers, *([drafting] if drafting else [])]]))
        for part in parts:
            if time.monotonic() - BEGIN > arguments.stop_at:
                print(f"{part}: left out, {arguments.stop_at:.0f} seconds are over")
            elif part == "lookup":
                lookup(servers[0], drafting, arguments, seeds)
            else:
                globals()[part](servers, arguments, seeds)
    finally:
        for server in [*servers, *([drafting] if drafting else [])]:
            server.stop()


if __name__ == "__main__":
    main()
