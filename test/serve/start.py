"""start.py SOURCE SCRATCH: cria-serve of a folder, and the examples as clients."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

source, scratch = sys.argv[1:]
TINY = f"{source}/examples/tiny"


def steps(url):
    with urllib.request.urlopen(url.replace("/v1", "/metrics")) as answer:
        return int(re.search(r"^cria_step_seconds_count (\d+)", answer.read().decode(), re.M)[1])


for _ in range(2):
    server = subprocess.Popen(
        ["cria-serve", TINY, "--port=0", "--batch=2", "--draft-rows=8"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CRIA_CACHE": f"{scratch}/cache"},
    )
    lines = []
    while not (found := re.search(r"serves tiny on cpu at (\S+)$", lines[-1] if lines else "")):
        lines.append(server.stderr.readline())
        assert lines[-1], lines
    for client in ("openai_client", "standard_client"):
        command = [sys.executable, f"{source}/examples/serve/{client}.py", found[1], "Once upon a time"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert text.startswith("Once upon a time, there was"), text
    # It is compiled for eight rows: two texts, which repeat an id, have drafts.
    body = {"prompt": ["a", "b"], "max_tokens": 40, "logit_bias": {"300": 100}, "ignore_eos": True}
    asked = urllib.request.Request(
        found[1] + "/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    before = steps(found[1])
    with urllib.request.urlopen(asked) as answer:
        assert json.load(answer)["usage"]["completion_tokens"] == 80
    assert steps(found[1]) - before < 30
    taken = subprocess.run(
        ["cria-serve", TINY, "--port=" + re.search(r":(\d+)/v1", found[1])[1]],
        capture_output=True,
        text=True,
    )
    assert taken.returncode == 1 and "cannot listen: Address already in use" in taken.stderr, taken
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
# One artifact, compiled by the first server alone.
assert len(os.listdir(f"{scratch}/cache")) == 1 and len(lines) == 1, lines

# A signal ends the server at once while it compiles, too.
compiler = f"{scratch}/compiler"
with open(compiler, "w") as file:
    file.write("#!/bin/sh\necho begun >&2\nexec sleep 60\n")
os.chmod(compiler, 0o755)
server = subprocess.Popen(
    ["cria-serve", TINY, "--port=0", "--batch=3"],
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, "CRIA_CACHE": f"{scratch}/cache", "CRIA_COMPILE": compiler},
)
while (line := server.stderr.readline()) != "begun\n":
    assert line, "the compiler runs"
server.send_signal(signal.SIGTERM)
assert server.wait(30) == 128 + signal.SIGTERM
