"""SIGTERM: each answer that has begun is written to its end, new requests are told, and then
the server ends."""

import collections
import http.client
import json
import socket
import sys
import time

from serving import TINY, Server, Tools, at_once, check, raw, wait_for

GENERATE = "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 240, "ignore_eos": True, "temperature": 0}


def check_all_written(tools, artifact, delay):
    """Of many requests in flight, each is answered in full, or with 503, or never begun."""
    server = Server(tools, artifact)
    count = 60

    def ask(i):
        body = {**LONG, "max_tokens": 40, "stream": i % 2 == 0}
        try:
            answer = server.post(GENERATE, body)
        except ConnectionRefusedError:
            return "refused"
        except http.client.IncompleteRead as cut:
            return f"cut: {cut}"
        if answer.status != 200:
            return answer.status
        if i % 2:
            return answer.json["usage"]["completion_tokens"]
        return sum(bool(event["choices"][0]["text"]) for event in answer.events)

    def end():
        time.sleep(delay)
        server.terminate()

    results = at_once([lambda i=i: ask(i) for i in range(count)] + [end])[:-1]
    found = collections.Counter(results)
    check(found.keys() <= {40, 503, "refused"}, f"SIGTERM after {delay} s: {found}")
    check(server.process.wait(60) == 0, server.errors)
    server.__exit__(None)
    return found


def check_deadline(tools, artifact):
    """What does not end in time is told so, in the stream."""
    with Server(tools, artifact, "--drain-seconds=0") as server:
        client = server.open(raw(GENERATE, {**LONG, "n": 128, "stream": True}))
        check(client.recv(12) == b"HTTP/1.1 200", "the stream begins")
        server.terminate()
        rest = b"".join(iter(lambda: client.recv(1 << 16), b""))
        error = json.loads(rest.split(b"data: ")[-2].split(b"\n")[0])["error"]
        check(error["code"] == "shutting_down" and b"[DONE]" in rest, rest[-500:])
        check(rest.endswith(b"0\r\n\r\n"), "the last chunk is there")


def check_idle(tools, artifact):
    """Clients without a request do not hold the server up; those that send one have a
    second."""
    with Server(tools, artifact) as server:
        kept = http.client.HTTPConnection(server.host, server.port)
        kept.request("GET", "/health")
        check(kept.getresponse().read() == b'{"status":"ok"}', "it is healthy")
        half = server.open(raw(GENERATE, LONG)[:-9])
        busy = server.open(raw(GENERATE, {**LONG, "n": 128}))
        wait_for(lambda: server.metrics()["num_requests_running"] == 4, "it runs")
        server.terminate()
        wait_for(lambda: server.get("/health").status == 503, "it says that it ends")
        late = server.post(GENERATE, LONG)
        check(late.status == 503 and late.json["error"]["code"] == "shutting_down", late)
        check(half.recv(1) == b"" and kept.sock.recv(1) == b"", "idle clients are let go")
        busy.close()
        began = time.monotonic()
        check(server.process.wait(30) == 0, server.errors)
        check(time.monotonic() - began < 15, "it ends soon")
        with socket.socket() as after:
            check(after.connect_ex((server.host, server.port)) != 0, "nobody listens")


def check_second_signal(tools, artifact):
    server = Server(tools, artifact)
    busy = server.open(raw(GENERATE, {**LONG, "n": 128}))
    wait_for(lambda: server.metrics()["num_requests_running"] == 4, "it runs")
    server.terminate()
    wait_for(lambda: server.get("/health").status == 503, "it says that it ends")
    server.terminate()
    check(server.process.wait(10) == 143, server.errors)
    busy.close()
    server.__exit__(True)


def check_lost_device(tools, artifact):
    """A device that is lost ends the server, also if it computes embeddings alone. The
    last line says why."""
    env = {"CRIA_EMULATOR_FAULTS": "cuLaunchKernel:1:719:sticky,cuLaunchKernelEx:1:719:sticky"}
    server = Server(tools, artifact, "--device=emulated", env=env)
    answer = server.post("/v1/embeddings", {"input": "Once"})
    check(answer.status == 500, answer)
    check(server.process.wait(30) == 1, server.errors)
    server.__exit__(True)
    last = server.errors[-1]
    check("error: the device failed: " in last and "CUDA_ERROR_LAUNCH_FAILED" in last, last)


def main():
    tools = Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    both = tools.compile(TINY / "config.json", "--batch=4", "--target=cuda", "--chip=sm_80",
                         out="cuda.cria")
    found = collections.Counter()
    for delay in (0, 0.02, 0.05, 0.1, 0.2):
        found += check_all_written(tools, artifact, delay)
    check(found[40] and found[503] + found["refused"], found)
    check_deadline(tools, artifact)
    check_idle(tools, artifact)
    check_second_signal(tools, artifact)
    check_lost_device(tools, both)


main()
