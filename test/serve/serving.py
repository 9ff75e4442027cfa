"""A running cria-serve, and clients of it, by the standard library alone."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TINY = HERE.parent.parent / "examples/tiny"
sys.path.append(str(HERE.parent / "e2e"))
from harness import Tools, check  # noqa: E402, F401
from weights import llama_shapes, write_adapter  # noqa: E402

JSON = {"Content-Type": "application/json"}


def wait_for(condition, what, seconds=60):
    """Waits until `condition()` holds."""
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{what}: not within {seconds} seconds")
        time.sleep(0.02)


def make_adapters(tools, *names):
    """Folders of LoRA adapters, each of which changes the texts of examples/tiny."""
    config = json.loads((TINY / "config.json").read_text())
    shapes = {name: shape for name, shape in llama_shapes(config).items() if "_proj" in name}
    folders = {name: tools.scratch / name for name in names}
    for seed, folder in enumerate(folders.values()):
        write_adapter(folder, shapes, seed)
        file = folder / "adapter_config.json"
        file.write_text(file.read_text().replace('"lora_alpha": 8', '"lora_alpha": 100'))
    return folders


class Answer:
    """A status, headers and a body."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.json["choices"][0]["text"]

    @property
    def events(self):
        """The objects of a stream, which must end with [DONE]."""
        parts = self.body.decode().split("\n\n")
        check(parts.pop() == "" and parts.pop() == "data: [DONE]", self.body)
        return [json.loads(part.removeprefix("data: ")) for part in parts]

    def __str__(self):
        return f"{self.status} {self.headers} {self.body!r}"


class Address:
    """Where something listens: requests to it."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def request(self, method, path, body=None, headers=JSON):
        """The answer to a request on a connection of its own."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            return Answer(connection.getresponse())

    def get(self, path, headers={}):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=JSON):
        return self.request("POST", path, body, headers)

    def complete(self, prompt, **fields):
        """The answer to a completion, which must be one."""
        answer = self.post("/v1/completions", {"prompt": prompt, **fields})
        check(answer.status == 200, answer)
        return answer

    def open(self, text=b""):
        """A connection that has sent `text`."""
        made = socket.create_connection((self.host, self.port), timeout=60)
        made.sendall(text)
        return made

    def exchange(self, text):
        """All that comes back for `text`, until the server closes."""
        return ended(self.open(text))


class Server(Address):
    """cria-serve of `artifact`, on a port of its own unless `port` says which."""

    was_terminated = False

    def __init__(self, tools, artifact, *options, env=None, weights=TINY, port=0, wrap=None):
        command = [tools.bin / "cria-serve", artifact, f"--weights={weights}", f"--port={port}"]
        command = [*map(str, command), "--threads=2", *options]
        self.process = subprocess.Popen(
            [*map(str, wrap(command))] if wrap else command,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self.errors = []
        for line in self.process.stderr:
            self.errors.append(line)
            if found := re.search(r" at http://(\[?[\w.:]+?\]?):(\d+)/v1$", line):
                super().__init__(found[1].strip("[]"), int(found[2]))
                break
        else:
            sys.exit(f"cria-serve does not start: {self.errors}")
        # Whoever reads nothing makes the server wait.
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr))
        self.reader.start()

    def __enter__(self):
        return self

    def terminate(self):
        self.was_terminated = True
        self.process.send_signal(signal.SIGTERM)

    def __exit__(self, kind, *_):
        if kind is not None:
            self.process.kill()
        elif not self.was_terminated:
            self.terminate()
        code = self.process.wait(60)
        self.reader.join()
        self.process.stderr.close()
        if kind is None:
            check(code == 0, f"cria-serve ends with {code}: {self.errors}")

    def metrics(self):
        """The numbers of /metrics by name, with labels."""
        lines = self.get("/metrics").body.decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.removeprefix("cria_"): float(value) for name, value in pairs}

    def is_idle(self):
        now = self.metrics()
        waits = now["num_requests_running"] + now["num_requests_waiting"]
        return waits == 0 and now['kv_pages{state="used"}'] == 0

    def memory(self, name="VmRSS"):
        """Bytes of the process's memory, by a name of /proc/PID/status."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return 1024 * int(re.search(rf"{name}:\s*(\d+) kB", file.read())[1])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def raw(path, body, *headers):
    """A request as bytes."""
    body = json.dumps(body).encode() if not isinstance(body, bytes) else body
    lines = ["Host: localhost", "Content-Type: application/json", *headers]
    if not any("transfer-encoding" in line.lower() for line in headers):
        lines.append(f"Content-Length: {len(body)}")
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines)
    return head.encode() + b"\r\n" + body


def ended(client):
    """All that a connection receives, until the server closes it."""
    received = []
    with client, contextlib.suppress(ConnectionResetError):
        received.extend(iter(lambda: client.recv(1 << 16), b""))
    return b"".join(received)


def at_once(functions):
    """The results of `functions`, each of which has a thread."""
    results = [None] * len(functions)

    def call(i):
        results[i] = functions[i]()

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
