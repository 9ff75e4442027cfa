"""chat.py BIN SCRATCH: conversations of cria-run --chat with the shipped model.

Each reply is the one of a new run that is fed the ids of the whole conversation. Here
Jinja and tokenizers make these ids. Only ids that the cache does not hold are fed. So it
is also where the frequencies of RoPE depend on the length of the conversation.
"""

import ctypes
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time

import jinja2
import families
import tokenizers
from harness import Tools, check
from run_faults import TINY, slow_model

# Replies are cut when they come back, so the cache is rolled back each time.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: "
    "{{ m.content[:20] if m.role == 'assistant' else m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: Once{% endif %}"
)
NEW = 12


class Talk:
    """The expected course of a conversation."""

    def __init__(self, tools, artifact):
        self.tools, self.artifact = tools, artifact
        self.tokenizer = tokenizers.Tokenizer.from_file(str(TINY / "tokenizer.json"))
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        self.template = environment.from_string(TEMPLATE)
        self.config = json.loads((TINY / "tokenizer_config.json").read_text())
        self.eos = json.loads((TINY / "config.json").read_text())["eos_token_id"]
        self.held, self.prompts = [], []  # ids in the cache; of each message
        self.fed = []  # how many of them
        self.reset()

    def reset(self, system=None):
        self.messages = []
        if system:
            self.messages.append({"role": "system", "content": system})

    def reply(self, message):
        self.messages.append({"role": "user", "content": message})
        text = self.template.render(
            messages=self.messages, add_generation_prompt=True, **self.config
        )
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        new = self.tools.greedy(self.artifact, ids, NEW, f"--weights={TINY}")
        same = 0
        while same < min(len(ids) - 1, len(self.held)) and ids[same] == self.held[same]:
            same += 1
        self.fed.append(len(ids) - same)
        self.prompts.append(ids)
        self.held = ids + new[:-1]
        reply = self.tokenizer.decode(new[: -1 if new[-1] == self.eos else None])
        self.messages.append({"role": "assistant", "content": reply})
        return reply + "\n"


def chat(tools, artifact, folder, lines, *flags):
    command = tools.run_command(artifact, "--chat", f"--weights={folder}", *flags)
    done = subprocess.run(
        list(map(str, command)), input=lines, capture_output=True, timeout=120
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check_replies(tools, artifact, folder):
    talk = Talk(tools, artifact)
    trace = tools.scratch / "trace.json"
    told = ["there was a fox", "and a small mouse", "who?", "who?"]
    talk.reset("Tell a story.")
    expected = "".join(talk.reply(message) for message in told)
    talk.reset("Tell a story.")
    expected += talk.reply("there was a fox")
    lines = "\n".join([*told, "", "/reset", told[0], "/exit", "never read"])
    flags = ["--system=Tell a story.", f"--max-tokens={NEW}", "--temperature=0"]
    status, out, errors = chat(
        tools, artifact, folder, lines.encode(), *flags, f"--profile={trace}"
    )
    check(status == 0, errors)
    check(out == expected, f"printed {out!r}, expected {expected!r}")
    events = json.loads(trace.read_text())["traceEvents"]
    fed = [e["args"]["tokens"] for e in events if e["name"] == "prefill"]
    check(fed == talk.fed, f"fed {fed} ids, expected {talk.fed}")
    whole = [len(ids) for ids in talk.prompts]
    check(sum(fed) < sum(whole) / 2, f"fed {fed} of {whole}: little was kept")


def check_stop(tools, artifact, folder):
    """The string is in no reply, and the conversation goes on without it."""
    talk = Talk(tools, artifact)
    first = talk.reply("there was a fox")
    stop = first[5:9]
    kept = first[: first.index(stop)]
    talk.messages[-1]["content"] = kept
    second = talk.reply("who?")
    second = second[: second.find(stop)] + "\n" if stop in second else second
    flags = [f"--max-tokens={NEW}", "--temperature=0", f"--stop={stop}"]
    status, out, errors = chat(
        tools, artifact, folder, b"there was a fox\nwho?\n", *flags
    )
    check(status == 0 and out == f"{kept}\n{second}", f"{out!r}\n{errors}")


def check_faults(tools, artifact, folder):
    """A message that cannot be answered does not end the chat; a wrong template does."""
    lines = b"a fox\n" + b"long " * 400 + b"\n\xff\na mouse\n"
    status, out, errors = chat(
        tools, artifact, folder, lines, "--max-tokens=4", "--temperature=0"
    )
    check(status == 0 and out.count("\n") == 2, f"{status} {out!r}\n{errors}")
    check("max_seq is" in errors and "/reset" in errors, errors)
    check("the message is not UTF-8" in errors, errors)
    status, _, errors = chat(tools, artifact, folder, b"", "--system=\udcff")
    check(status == 1 and "--system is not UTF-8 at byte 0" in errors, errors)
    wrong = {
        "{{ raise_exception('no') }}": "the template says: 'no'",
        "{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}": "too long",
        "{% if %}": "expected an expression",
        "": "renders nothing",
    }
    # A template may refuse a conversation that was loaded, and then this one alone.
    loaded = tools.scratch / "loaded.json"
    loaded.write_text('[{"role": "alien", "content": "x"}]')
    refusing = "{% for m in messages if m.role == 'alien' %}{{ raise_exception('no') }}{% endfor %}"
    (folder / "chat_template.jinja").write_text(refusing + TEMPLATE)
    lines = f"a fox\n/load {loaded}\na mouse\n/save {loaded}\n/reset\na fox\n".encode()
    flags = ["--max-tokens=4", "--temperature=0"]
    status, out, errors = chat(tools, artifact, folder, lines, *flags)
    check(status == 0 and len({*out.splitlines()}) == 1 and out.count("\n") == 2, errors)
    check("the template says: 'no'" in errors and "/reset" in errors, errors)
    check(len(json.loads(loaded.read_text())) == 1, loaded.read_text())
    for source, words in wrong.items():
        (folder / "chat_template.jinja").write_text(source)
        status, out, errors = chat(tools, artifact, folder, b"a fox\n")
        check(status == 1 and not out and words in errors, f"{source}: {errors}")
        check(errors.count("\n") == 1, errors)
    (folder / "chat_template.jinja").unlink()
    status, _, errors = chat(tools, artifact, folder, b"a fox\n")
    check(status == 1 and "no chat template" in errors, errors)
    for flags in (["--prompt=x"], ["--ids=1"], ["--logits=x.npy"], ["--print-ids"]):
        status, out, errors = chat(tools, artifact, folder, b"", *flags)
        check(status == 2 and "--chat" in errors, f"{flags}: {errors}")
    status, _, errors = chat(tools, artifact, "", b"")
    check(status in (1, 2) and "--weights" in errors, errors)


def check_commands(tools, artifact, folder):
    """What a line that begins with / does, and a message of several lines."""
    saved, again = tools.scratch / "talk.json", tools.scratch / "again.json"
    first = [{"role": "system", "content": "Tell a story."}]
    second = [*first, {"role": "user", "content": "a fox"}]
    lines = [
        *["a mouse", "/nope", "/set  temperature=0 ", "/set temperature=-1", "/set x", "/load"],
        "/set penalty-window=-1",
        *["/load no", "/reset now", "/drop", "/drop", "/system Tell a story.", f"/save {saved}"],
        *[f"/set max-tokens={NEW}", '"""', "a", "fox", '"""', f"/load {saved}", "a fox"],
        *["/help", f"/save {again}\r", f"/load {TINY}/config.json", '"""', "/exit", '"""'],
        *['"""', "lost"],
    ]
    flags = ["--max-tokens=3", "--temperature=1", "--quiet"]
    status, out, errors = chat(tools, artifact, folder, "\n".join(lines).encode(), *flags)
    check(status == 1 and "ends in a message of several lines" in errors, errors)
    said = [
        "penalty_window is -1",
        *["/nope is no command: /help lists them", "temperature is -1", "'x': expected a number"],
        *["/load: expected FILE", "/load: no: cannot open", "/reset: takes nothing after it"],
        *["0 messages and replies are left", "/drop: there is no message", "/exit: ends"],
        *["1 messages and replies", "config.json: is object, expected an array"],
    ]
    for words in said:
        check(words in errors, f"{words}: {errors}")
    talk = Talk(tools, artifact)
    talk.reset("Tell a story.")
    talk.reply("a\nfox")
    talk.reset("Tell a story.")
    reply = talk.reply("a fox")
    check(reply in out and out.count("\n") == 4, f"{out!r}, expected {reply!r}")
    check(json.loads(saved.read_text()) == first, saved.read_text())
    check(json.loads(again.read_text())[:2] == second, again.read_text())


def check_terminal(tools, artifact, folder):
    """A person edits a line, takes the line before again, and pastes lines."""
    try:
        ctypes.CDLL("libedit.so.2")
    except OSError:
        return
    saved = tools.scratch / "typed.json"
    flags = ["--chat", f"--weights={folder}", "--max-tokens=1", "--temperature=0", "--quiet"]
    command = list(map(str, tools.run_command(artifact, *flags)))
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
        os.execv(command[0], command)
    shown = b""

    def await_prompts(count):
        nonlocal shown
        while shown.count(b"\x1b[?2004h") < count:
            shown += os.read(terminal, 1 << 12)

    typed = [
        *[b"a fx\x1b[Do\r", b"\x1b[A\r", b"\x1b[200~a\r\xc3\xa4 b\x1b[201~\r"],
        *[f"/save {saved}\r".encode(), b"\x03"],
    ]
    for count, keys in enumerate(typed, 1):
        await_prompts(count)
        os.write(terminal, keys)
    _, status = os.waitpid(process, 0)
    check(os.waitstatus_to_exitcode(status) == 130, f"exit status {status}")
    messages = [m["content"] for m in json.loads(saved.read_text()) if m["role"] == "user"]
    check(messages == ["a fox", "a fox", "a\nä b"], f"{messages}, shown {shown}")


def check_interrupt(tools):
    """Ctrl-C stops the reply, and the conversation goes on."""
    artifact, folder = slow_model(tools)
    (folder / "chat_template.jinja").write_text("{{ messages[-1].content }}")
    flags = ["--chat", f"--weights={folder}", "--max-tokens=16000", "--seed=1"]
    command = tools.run_command(artifact, *flags, "--temperature=1")
    process = subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for message in (b"Once\n", b"Twice\n"):
        process.stdin.write(message)
        process.stdin.flush()
        os.read(process.stdout.fileno(), 1)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        start, out = time.monotonic(), b""
        while not out.endswith(b"\n"):
            out = os.read(process.stdout.fileno(), 1 << 16)
            check(out, f"ended: {process.poll()}")
            if time.monotonic() - start > 10:
                break
        check(time.monotonic() - start < 2, "Ctrl-C does not stop the reply")
    process.stdin.write(b"/exit\n")
    process.stdin.close()
    check(process.wait(10) == 0, f"exit status {process.returncode}")


def main():
    tools = Tools(*sys.argv[1:])
    artifact = tools.compile(TINY / "config.json")
    tiny = json.loads((TINY / "config.json").read_text())
    folder = tools.scratch / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    check_replies(tools, artifact, folder)
    check_stop(tools, artifact, folder)
    for name, changes in {
        "dynamic": {"max_position_embeddings": 48},
        "longrope": {},
    }.items():
        path = tools.scratch / f"{name}.json"
        ropes = {"rope_parameters": families.rope(name) | {"rope_theta": 10000.0}}
        path.write_text(json.dumps(tiny | ropes | changes))
        flags = ["--max-seq=256"]
        of_length = tools.compile(path, *flags, out=f"{name}.cria")
        check_replies(tools, of_length, folder)
    check_commands(tools, artifact, folder)
    check_terminal(tools, artifact, folder)
    check_faults(tools, artifact, folder)
    check_interrupt(tools)


main()
