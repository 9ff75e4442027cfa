"""Two replicas behind HAProxy, by the configuration in examples/serve/replicas: prompts that
begin alike share a replica and its pages, and a replica that ends or dies takes no request
with it that it had not begun."""

import os
import socket
import subprocess
import sys

from serving import JSON, TINY, Address, Server, Tools, at_once, check, ended, raw, wait_for

CONFIG = TINY.parent / "serve/replicas/haproxy.cfg"
GENERATE = "/v1/completions"
CHAT = "/v1/chat/completions"
FRIENDS = [(a, b) for a in ("Tom", "Lily", "Ben", "Mum") for b in ("Sue", "Tim", "Max")]
PROMPTS = [f"{a} and {b} went to the park" for a, b in FRIENDS]
DRAW = {"temperature": 0.8, "seed": 3, "max_tokens": 12}
LONG = {"prompt": "Once upon a time", "max_tokens": 200, "ignore_eos": True, "temperature": 0}


class Gateway(Address):
    """HAProxy in front of `servers`. It inherits its socket, so that no port is guessed."""

    def __init__(self, servers):
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(*listener.getsockname())
        env = {"CRIA_GATEWAY": f"fd@{listener.fileno()}"}
        for i, server in enumerate(servers, 1):
            env[f"CRIA_REPLICA_{i}"] = f"{server.host}:{server.port}"
        self.process = subprocess.Popen(
            ["haproxy", "-f", CONFIG, "-db", "-q"],
            env={**os.environ, **env},
            pass_fds=[listener.fileno()],
        )
        listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def counts(servers, name="prompt_tokens_total"):
    return [server.metrics()[name] for server in servers]


def one_by_one(functions):
    return [function() for function in functions]


def check_all_answered(gateway, expected, when, call=at_once):
    """`call` asks for all prompts."""
    asked = [{"prompt": prompt, **DRAW} for prompt in PROMPTS]
    answers = call([lambda body=body: gateway.post(GENERATE, body) for body in asked])
    wrong = [str(answer) for answer in answers if not answer or answer.status != 200]
    check(not wrong, f"{when}: {wrong}")
    got = [answer.text for answer in answers]
    check(got == expected, f"{when}: {got}, expected {expected}")


def check_spread(gateway, servers, expected):
    """Each prompt has the text of one server, and both servers are asked."""
    before = counts(servers)
    check_all_answered(gateway, expected, "two replicas")
    now = counts(servers)
    check(all(a > b for a, b in zip(now, before)), f"a replica is not asked: {before}, {now}")


def check_alike(gateway, servers):
    """A conversation keeps its replica, which has the pages of the turns before."""
    system = {"role": "system", "content": "A tale of a fox and of a dog that were friends."}
    asked = set()
    for user, prompt in enumerate(PROMPTS):
        messages = [{"role": "user", "content": prompt}]
        if user % 2:
            messages.insert(0, system)
        for turn in range(3):
            before = counts(servers)
            answer = gateway.post(CHAT, {"messages": messages, **DRAW})
            check(answer.status == 200, answer)
            [place] = [i for i, (a, b) in enumerate(zip(before, counts(servers))) if a != b]
            first = place if turn == 0 else first
            check(place == first, f"turn {turn} of {prompt!r} went to another replica")
            found = answer.json["usage"]["prompt_tokens_details"]["cached_tokens"]
            check(turn < 2 or found >= 16, f"turn {turn}: {found} tokens were found")
            messages.append(answer.json["choices"][0]["message"])
            messages.append({"role": "user", "content": "What happened to them then?"})
        asked.add((user % 2, first))
    check(len(asked) == 4, f"with a system prompt or without, conversations went to {asked}")
    before = counts(servers)
    for key in range(12):  # each key has pages of its own
        headers = {**JSON, "Authorization": f"Bearer {key}"}
        check(gateway.post(GENERATE, {"prompt": PROMPTS[0], **DRAW}, headers).status == 200, key)
    now = counts(servers)
    check(all(a > b for a, b in zip(now, before)), f"all keys went to one: {before}, {now}")


def check_crowd(gateway, servers):
    """One beginning that all ask for is not one replica's alone. Texts of clients that leave
    end."""
    gone = 'request_cancelled_total{state="running"}', 'request_cancelled_total{state="waiting"}'
    before = sum(sum(counts(servers, name)) for name in gone)
    clients = [gateway.open(raw(GENERATE, {**LONG, "n": 16})) for _ in range(8)]
    wait_for(lambda: all(counts(servers, "num_requests_running")), "both compute")
    for client in clients:
        client.close()
    wait_for(lambda: all(server.is_idle() for server in servers), "the texts end")
    now = sum(sum(counts(servers, name)) for name in gone)
    check(now > before, "no client was seen to leave")


def check_stream(gateway, servers):
    """The first event of a stream arrives while the rest is drawn."""
    before = sum(counts(servers, "generation_tokens_total"))
    with gateway.open(raw(GENERATE, {**LONG, "n": 64, "stream": True})) as client:
        got = b""
        while b"data: {" not in got:
            got += client.recv(1 << 16)
        drawn = sum(counts(servers, "generation_tokens_total")) - before
        check(drawn < 64 * 200, "the first event waited for the last")
    wait_for(lambda: all(server.is_idle() for server in servers), "the text ends")


def check_gateway(gateway):
    """What the gateway answers itself, and what it leaves to the replicas."""
    check(gateway.get("/health").status == 200, "health")
    check(gateway.get("/metrics").status == 404, "metrics")
    models = gateway.get("/v1/models", {"Host": "models.example"})
    check(models.status == 200 and models.json["data"][0]["id"] == "tiny", models)
    check(gateway.post(GENERATE, {"prompt": 1}).json["error"]["param"] == "prompt", "an error")
    long = gateway.post(GENERATE, {"prompt": "x" * 200_000})  # more than the gateway buffers
    check(long.json["error"]["code"] == "context_length_exceeded", long)
    check(gateway.post(GENERATE, b" " * (9 << 20)).status == 413, "a body that is too large")


def busy(gateway, servers):
    """A stream that goes on for long, and the server that computes it."""
    client = gateway.open(raw(GENERATE, {**LONG, "n": 24, "stream": True}, "Connection: close"))
    wait_for(lambda: any(counts(servers, "num_requests_running")), "it computes")
    return client, servers[0 if servers[0].metrics()["num_requests_running"] else 1]


def is_asked(gateway, server, expected):
    """Whether `server` gets some of the prompts."""
    before = counts([server])
    check_all_answered(gateway, expected, "a replica is back")
    return counts([server]) != before


def check_drain(gateway, servers, expected):
    """A replica that ends writes what it has begun, and others answer what is new."""
    client, ending = busy(gateway, servers)
    ending.terminate()
    wait_for(lambda: ending.get("/health").status == 503, "it ends")
    check_all_answered(gateway, expected, "a replica ends", one_by_one)
    check(ended(client).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), "the stream is whole")
    check(ending.process.wait(60) == 0, ending.errors)
    check_all_answered(gateway, expected, "a replica ended")
    return ending


def check_death(gateway, servers, expected):
    """Of a replica that dies only the texts are lost that it had begun."""
    client, dying = busy(gateway, servers)
    dying.process.kill()
    dying.process.wait()
    check(b"[DONE]" not in ended(client), "a stream without its server is whole")
    check_all_answered(gateway, expected, "a replica died")
    return dying


def main():
    tools = Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    folder = tools.scratch / "tiny"
    folder.mkdir()
    for file in TINY.iterdir():
        (folder / file.name).symlink_to(file)
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)

    def start(port=0):
        return Server(tools, artifact, weights=folder, port=port)

    servers = [start(), start()]
    try:
        with Gateway(servers) as gateway:
            wait_for(lambda: gateway.get("/health").status == 200, "the gateway")
            expected = [servers[0].complete(prompt, **DRAW).text for prompt in PROMPTS]
            check_spread(gateway, servers, expected)
            for check_one in (check_alike, check_crowd, check_stream):
                check_one(gateway, servers)
            check_gateway(gateway)
            ended_one = check_drain(gateway, servers, expected)
            place = servers.index(ended_one)
            servers[place] = start(ended_one.port)
            wait_for(lambda: is_asked(gateway, servers[place], expected), "it is back")
            dead = check_death(gateway, servers, expected)
            servers[1 - servers.index(dead)].process.kill()
            wait_for(lambda: gateway.get("/health").status == 503, "no replica is there")
            check(gateway.post(GENERATE, LONG).status == 503, "no replica is there")
    finally:
        for server in servers:
            server.__exit__(True)


main()
