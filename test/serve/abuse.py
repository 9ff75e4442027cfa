"""Clients that leave, wait, trickle or send nonsense cost nobody else anything: the server
answers others meanwhile, and keeps neither connection, page nor text of theirs."""

import json
import resource
import socket
import sys
import time

from serving import TINY, Server, Tools, at_once, check, ended, raw, wait_for

GENERATE = "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 240, "ignore_eos": True, "temperature": 0}


def check_answers(server, what, seconds=20):
    """A short request is answered soon."""
    began = time.monotonic()
    text = server.complete("Once upon a time", max_tokens=4, temperature=0).text
    check(text == ", there was a", f"{what}: {text!r}")
    took = time.monotonic() - began
    check(took < seconds, f"{what}: the answer took {took:.1f} s")


def drawn(server):
    return server.metrics()["generation_tokens_total"]


def cancelled(server):
    now = server.metrics()
    return sum(now[f'request_cancelled_total{{state="{s}"}}'] for s in ("waiting", "running"))


def check_leavers(server):
    """A client that leaves ends its text at once, whether it streams or not, runs or
    waits."""
    before, gone = drawn(server), cancelled(server)
    for stream in (True, False):
        with server.open(raw(GENERATE, {**LONG, "n": 64, "stream": stream})) as client:
            wait_for(lambda: server.metrics()["num_requests_running"] > 0, "it runs")
            if stream:
                check(client.recv(12) == b"HTTP/1.1 200", "the stream begins")
        wait_for(server.is_idle, "texts of clients that left end")
    check(cancelled(server) == gone + 2, f"{cancelled(server)} were cancelled, not 2")
    check(drawn(server) - before < 64 * 240, "both were cancelled early")

    busy = server.open(raw(GENERATE, {**LONG, "prompt": ["Once"] * 8, "n": 128}))
    wait_for(lambda: server.metrics()["num_requests_running"] == 4, "the rows are busy")
    queued = [server.open(raw(GENERATE, LONG)) for _ in range(20)]
    for _ in range(4):  # workers take requests in their order
        check(server.post("/tokenize", {"prompt": "x"}).status == 200, "tokenize")
    for client in queued:
        client.close()
    wait_for(lambda: cancelled(server) == gone + 22, "clients that wait leave")
    busy.close()
    wait_for(server.is_idle, "the server is idle")
    # Before the request is read: sent and left at once, some hundred times.
    for stream in (True, False):
        for _ in range(100):
            server.open(raw(GENERATE, {**LONG, "stream": stream})).close()
    wait_for(server.is_idle, "no text is left")
    # The server could not see a client leave that has sent much more than its request.
    client = server.open(raw(GENERATE, {**LONG, "n": 64}))
    wait_for(lambda: server.metrics()["num_requests_running"] > 0, "it runs")
    client.sendall(b"x" * 40_000)
    check(ended(client) == b"", "a client that sends on is disconnected")
    wait_for(server.is_idle, "its texts end")
    check_answers(server, "after clients that left")


def check_waiters(server):
    """Many idle clients, and some that never finish a header or a body."""
    clients = [server.open() for _ in range(200)]
    clients += [server.open(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX: ") for _ in range(50)]
    clients += [server.open(raw(GENERATE, LONG)[:-5]) for _ in range(50)]
    check_answers(server, "beside 300 clients that wait")
    check(server.metrics()["open_connections"] > 300, "they are there")
    for client in clients:
        client.close()
    whole = raw(GENERATE, {"prompt": "Once", "max_tokens": 1, "temperature": 0}, "Connection: close")
    with server.open() as client:  # a byte at a time
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(whole)):
            client.sendall(whole[i : i + 1])
        check(client.recv(15) == b"HTTP/1.1 200 OK", "a byte at a time")


def check_slow_readers(server):
    """A client that does not read its stream is left, and others are served."""
    readers = []
    for _ in range(2):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect((server.host, server.port))
        client.sendall(raw(GENERATE, {**LONG, "stream": True, "n": 128, "logprobs": 20}))
        readers.append(client)
    check_answers(server, "beside slow readers", 60)
    wait_for(server.is_idle, "slow readers are left")
    for client in readers:
        client.close()


def check_nonsense(server):
    """What is no request gets its status, and the connection ends."""
    short = {"prompt": "Once", "max_tokens": 1, "temperature": 0}
    body = json.dumps(short).encode()
    chunked = "Transfer-Encoding: chunked"
    cases = {
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": [400],  # TLS
        b"nonsense\r\n\r\n": [400],
        b"GET /health HTTP/1.1\r\n\r\n": [400],  # no Host
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n": [400],
        b"GET /health HTTP/1.0\r\n\r\n": [403],  # no Host either
        b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n": [200],
        b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n": [403],
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20000 + b"\r\n\r\n": [431],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 70 + b"\r\n": [431],
        b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n": [414],
        raw(GENERATE, body, "Transfer-Encoding: chunked", "Content-Length: 5"): [400],
        raw(GENERATE, body, "Content-Length: 5"): [400],
        raw(GENERATE, b"zz\r\n", chunked): [400],
        raw(GENERATE, b"ffffffffffffffff\r\n", chunked): [413],
        raw(GENERATE, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body), chunked, "Connection: close"): [200],
        # A proxy may know an encoding that the server does not.
        raw(GENERATE, body, "Transfer-Encoding: gzip"): [400],
        raw(GENERATE, body, "Transfer-Encoding: chunked, identity"): [400],
        raw(GENERATE, body, "Transfer-Encoding: gzip", f"Content-Length: {len(body)}"): [400],
        raw(GENERATE, b"0\r\n\r\n", chunked).replace(b"HTTP/1.1", b"HTTP/1.0"): [400],
        # Parts of a chunked body that are no body.
        raw(GENERATE, b"1;" + b"x" * 100000, chunked): [400],
        raw(GENERATE, b"0\r\nX: " + b"x" * 100000 + b"\r\n\r\n", chunked): [400],
        raw(GENERATE, short) + raw(GENERATE, short, "Connection: close"): [200, 200],
        raw(GENERATE, short, "Expect: 100-continue", "Connection: close"): [100, 200],
    }
    for sent, expected in cases.items():
        got = [int(part[:3]) for part in server.exchange(sent).split(b"HTTP/1.1 ")[1:]]
        check(got == expected, f"{sent[:100]}: {got}, expected {expected}")
    # The answer to a body that is too large arrives, although the body is not read.
    big = server.post(GENERATE, b" " * (17 << 20))
    check(big.status == 413 and big.json["error"]["code"] == "body_too_large", big)


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    tools = Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    with Server(tools, artifact) as server:
        check_answers(server, "at first")
        wait_for(server.is_idle, "idle")
        descriptors = server.descriptors()
        for check_one in (check_leavers, check_waiters, check_slow_readers, check_nonsense):
            check_one(server)
        wait_for(server.is_idle, "the server is idle")
        wait_for(lambda: server.metrics()["open_connections"] == 1, "connections are closed")
        wait_for(lambda: server.descriptors() <= descriptors, "descriptors are closed")
        check_answers(server, "at last")
    # A full queue refuses at once, and what waits too long is given up.
    with Server(tools, artifact, "--queue=3", "--queue-seconds=1") as server:
        results = at_once([lambda: server.post(GENERATE, {**LONG, "n": 128})] * 12)
        found = {answer.status for answer in results}
        check(429 in found and found <= {200, 429, 503}, found)
        busy = next(answer for answer in results if answer.status == 429)
        check(busy.json["error"]["code"] == "queue_full", busy)
        check(busy.headers["retry-after"] == "1", busy)
    # No file descriptors are left: connections wait, and the server goes on.
    with Server(tools, artifact, "--connections=8") as server:
        clients = [server.open() for _ in range(40)]
        for client in clients:
            client.close()
        wait_for(lambda: server.metrics()["open_connections"] == 1, "connections are closed")
        check_answers(server, "after too many connections")


main()
