"""limits.py BIN SCRATCH: what clients ask for takes bounded memory, and memory that is
missing costs only the requests that need it."""

import http.client
import json
import resource
import sys
import time

from serving import TINY, Server, Tools, check, ended, raw, wait_for

GENERATE = "/v1/completions"
MIB = 1 << 20
SHORT = {"prompt": "Once", "max_tokens": 1, "temperature": 0}


def announce(count, sent):
    """A request that announces a body of `count` bytes, with the first `sent`."""
    return raw(GENERATE, b"").replace(b"Length: 0", b"Length: %d" % count) + b" " * sent


def refused(server):
    return server.metrics()['request_failure_total{reason="invalid"}']


def check_bodies(server):
    """Bodies count as they arrive, and must arrive."""
    stalled = [server.open(announce(8 * MIB, 100)) for _ in range(40)]
    began = time.monotonic()
    server.complete(**SHORT)  # 320 MiB are announced, and 4000 bytes are there
    senders = []
    while not refused(server):
        check(len(senders) < 100, "800 MiB of bodies are not refused")
        senders.append(server.open())
        try:
            senders[-1].sendall(announce(8 * MIB, 8 * MIB - 1))
        except ConnectionError:  # it was refused meanwhile
            pass
    check(len(senders) > 30, f"{len(senders)} bodies of 8 MiB are too many")
    check(server.memory() < 400 * MIB, f"{server.memory()} bytes of memory")
    for client in senders:
        client.close()
    for client in stalled:
        check(ended(client) == b"", "a body that does not arrive has no answer")
    check(time.monotonic() - began < 50, "a body of no pace has 60 seconds")
    server.complete(**SHORT)


def check_memory(tools, artifact):
    """Without the memory to read a request, it fails, and the server goes on."""
    env = {"MALLOC_ARENA_MAX": "1"}  # another one has address space in advance
    with Server(tools, artifact, env=env) as server:
        server.complete(**SHORT)
        descriptors = server.descriptors()
        body = json.dumps({**SHORT, "prompt": "x" * (7 * MIB)})
        for room in (4, 12):  # too little for the body; and for its JSON
            most = server.memory("VmSize") + room * MIB
            limits = [(most, resource.RLIM_INFINITY), (resource.RLIM_INFINITY,) * 2]
            resource.prlimit(server.process.pid, resource.RLIMIT_AS, limits[0])
            try:
                answer = server.post(GENERATE, body)
                check(answer.json["error"]["code"] == "out_of_memory", answer)
            except (ConnectionError, http.client.RemoteDisconnected):
                check(room == 4, "there is memory for an answer")
            resource.prlimit(server.process.pid, resource.RLIMIT_AS, limits[1])
            server.complete(**SHORT)
            wait_for(lambda: server.metrics()["open_connections"] == 1, "it is closed")
            wait_for(lambda: server.descriptors() <= descriptors, "descriptors are closed")


def main():
    tools = Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    with Server(tools, artifact) as server:
        check_bodies(server)
    check_memory(tools, artifact)


main()
