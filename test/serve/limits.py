"""limits.py BIN SCRATCH: what clients ask for takes bounded memory, and memory that is
missing costs only the requests that need it."""

import http.client
import json
import resource
import shutil
import sys
import time

from serving import TINY, Server, Tools, at_once, check, ended, raw, wait_for

GENERATE = "/v1/completions"
CHAT = "/v1/chat/completions"
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


def check_answers(server):
    """An answer that takes too much memory fails by name: at once, or while it grows. A
    stream does not take the memory, and a client that reads it is not left when much
    comes at once."""
    ids = {"prompt": [1] * 100_000, "n": 128, "max_tokens": 0, "echo": True, "return_token_ids": True}
    log_probs = {
        "messages": [{"role": "user", "content": "Once"}], "logprobs": True, "top_logprobs": 20,
        "n": 128, "max_tokens": 200, "min_tokens": 200,
    }  # fmt: skip
    for path, asked in ((GENERATE, ids), (CHAT, log_probs)):
        answer = server.post(path, asked)
        check(answer.status == 400, answer.status)
        check(answer.json["error"]["code"] == "answer_too_large", answer)
    wait_for(server.is_idle, "its texts end")
    check(server.memory() < 400 * MIB, f"{server.memory()} bytes of memory")
    body = server.post(GENERATE, {**ids, "stream": True}).body
    check(len(body) > 32 * MIB and body.endswith(b"data: [DONE]\n\n"), f"{len(body)} bytes")


def check_long_prompts(server):
    """Prompts that take long to tokenize do not hold up others."""
    body = json.dumps({"prompt": "a" * 1_300_000})
    done = []

    def tokenize():
        answer = server.post("/tokenize", body)
        check(answer.status == 200 and answer.json["count"] > 1_000_000, "a long prompt")
        done.append(answer)

    def ask():
        wait_for(lambda: server.metrics()["open_connections"] == 5, "they are sent")
        time.sleep(0.2)
        check(server.post("/tokenize", {"prompt": "x"}).status == 200, "a short prompt")
        return len(done)

    found = at_once([tokenize] * 4 + [ask])[-1]
    check(found < 3, f"a short prompt waits for {found} long ones")


def check_memory(tools, artifact):
    """Without the memory to read a request, it fails, and the server goes on."""
    env = {"MALLOC_ARENA_MAX": "1"}  # another one has address space in advance
    with Server(tools, artifact, "--pages=1024", env=env) as server:
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
    config = json.loads((TINY / "config.json").read_text())
    file = tools.scratch / "config.json"
    file.write_text(json.dumps({**config, "max_position_embeddings": 1 << 17}))
    artifact = tools.compile(file, "--batch=64", f"--max-seq={1 << 17}")
    folder = tools.scratch / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    for check_one in (check_bodies, check_answers, check_long_prompts):
        with Server(tools, artifact, "--pages=1024", weights=folder) as server:
            check_one(server)
    check_memory(tools, artifact)


main()
