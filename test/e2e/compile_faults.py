"""compile_faults.py BIN SCRATCH: no failure of the compiler damages a file.

A compilation that fails, is interrupted, killed or runs out of space leaves the
old artifact as it was and nothing beside it; two at once leave one whole
artifact. Row 25 of the fault matrix.
"""

import itertools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

from harness import Golden, Tools, check, execute, some

OLD = b"what stood here before"


class Place:
    """A folder with an artifact in it, or with none."""

    def __init__(self, tools, name, old=OLD):
        self.folder = tools.scratch / name
        self.folder.mkdir()
        self.out = self.folder / "model.cria"
        self.old = old
        if old is not None:
            self.out.write_bytes(old)

    def check_untouched(self, what):
        names = sorted(path.name for path in self.folder.iterdir())
        expected = [] if self.old is None else ["model.cria"]
        check(names == expected, f"{what}: files {names}, expected {expected}")
        kept = self.old is None or self.out.read_bytes() == self.old
        check(kept, f"{what}: the old artifact has changed")

    def check_whole(self, contents, what):
        names = sorted(path.name for path in self.folder.iterdir())
        check(names == ["model.cria"], f"{what}: files {names}")
        whole = self.out.read_bytes() in contents
        check(whole, f"{what}: not an artifact of either config")


def check_one_line(run, tool="cria-compile"):
    """An error is one line that begins as all do."""
    check(run.status == 1, run)
    lines = run.errors.splitlines()
    plain = len(lines) == 1 and lines[0].startswith(f"{tool}: error: ")
    check(plain, f"{run}\nexpected one line '{tool}: error: ...'")


def check_bad_input(tools, config):
    bad = tools.scratch / "bad.json"
    bad.write_text(config.read_text()[:-10])
    for name, old in [("bad-old", OLD), ("bad-new", None)]:
        place = Place(tools, name, old)
        run = execute(tools.compile_command(bad, place.out))
        check_one_line(run)
        check("bad.json" in run.errors, run)
        place.check_untouched(name)


def check_bad_output(tools, config):
    missing = tools.scratch / "missing" / "model.cria"
    run = execute(tools.compile_command(config, missing))
    check_one_line(run)
    check("missing" in run.errors, run)
    folder = tools.scratch / "folder.cria"
    folder.mkdir()
    run = execute(tools.compile_command(config, folder))
    check_one_line(run)
    check(f"{folder}: cannot write: Is a directory" in run.errors, run)
    check(not list(folder.iterdir()), "debris in the output's folder")


def check_links_and_devices(tools, config, whole):
    """Links and devices are followed, a mode is kept, - is standard output."""
    place = Place(tools, "links")
    place.out.chmod(0o640)
    link = tools.scratch / "link.cria"
    link.symlink_to("links/model.cria")
    execute(tools.compile_command(config, link)).ok()
    check(link.is_symlink(), "the link was replaced")
    place.check_whole([whole], "behind a link")
    check(place.out.stat().st_mode & 0o777 == 0o640, "the mode has changed")
    null = tools.scratch / "null"
    null.symlink_to("/dev/null")
    execute(tools.compile_command(config, null)).ok()
    check(null.is_symlink() and null.is_char_device(), "/dev/null was replaced")
    for name in ["-", "/dev/stdout"]:
        run = execute(tools.compile_command(config, name)).ok()
        check(run.out == whole, f"-o {name}: {len(run.out)} bytes of {len(whole)}")
    command = " ".join(f"'{part}'" for part in tools.compile_command(config, "-"))
    file = tools.scratch / "shell.cria"
    run = execute(["sh", "-c", f"(echo before; {command}; echo after) > '{file}'"])
    check(run.ok() and file.read_bytes() == b"before\n" + whole + b"after\n", run)
    check(not pathlib.Path("-").exists(), "there is a file called -")
    pipe = tools.scratch / "pipe"
    os.mkfifo(pipe)
    through = tools.scratch / "through.cria"
    with open(through, "wb") as sink:
        reader = subprocess.Popen(["cat", pipe], stdout=sink)
    execute(tools.compile_command(config, pipe)).ok()
    check(reader.wait(timeout=60) == 0, "cat")
    check(through.read_bytes() == whole, "through a pipe")
    texts = [["--emit=import"], ["--report=plan"], ["--emit=obj"], ["--help"], ["--version"]]
    commands = [["cria-compile", config, *flags] for flags in texts]
    commands += [["cria-run", "--help"], ["cria-serve", "--version"]]
    for name, *flags in commands:
        with open("/dev/full", "wb") as full:
            run = execute([tools.bin / name, *flags], stdout=full)
        check_one_line(run, name)
        check("standard output: cannot write: No space" in run.errors, run)


def check_no_space(tools, config, whole):
    """A limit on file size stands for a full disk: for the object in memory, and one
    byte less than the artifact. Python ignores SIGXFSZ, and so does the compiler, as its
    child."""
    for limit in [0, 1, 8192, len(whole) - 1]:
        place = Place(tools, f"full-{limit}")
        run = execute(
            tools.compile_command(config, place.out),
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (limit, limit)
            ),
            restore_signals=False,
        )
        # The limit holds for stderr too, when that is a file, not a pipe.
        check_one_line(run)
        check(str(place.out) in run.errors, f"{run}\nnames no file")
        place.check_untouched(f"at most {limit} bytes")
    run = execute(tools.compile_command(config, "/dev/full"))
    check_one_line(run)
    check("/dev/full: cannot write: No space left" in run.errors, run)


def heed_signals():
    """Background jobs of a shell ignore SIGINT, and so do their children."""
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
        signal.signal(number, signal.SIG_DFL)


def check_signals(tools, config, whole):
    """Signals early, in the middle and late; the compiler may end before."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]
    for number, delay in some(itertools.product(numbers, [0.02, 0.05, 0.1, 0.2, 0.4]), 3):
        name = f"{number.name}-{delay}"
        place = Place(tools, name)
        command = map(str, tools.compile_command(config, place.out))
        process = subprocess.Popen(
            command, stderr=subprocess.DEVNULL, preexec_fn=heed_signals
        )
        time.sleep(delay)
        process.send_signal(number)
        start = time.monotonic()
        status = process.wait(60)
        took = time.monotonic() - start
        check(took < 2, f"{name}: stopped after {took:.1f} s")
        if status == 0:
            place.check_whole([whole], name)
            continue
        place.check_untouched(name)
        # Before main a signal kills; after that the tool may exit 128 + N.
        ended = status in (-number, 128 + number)
        check(ended, f"{name}: exit status {status}")


def check_two_at_once(tools, configs, contents):
    for turn in range(3):
        place = Place(tools, f"two-{turn}")
        running = [
            subprocess.Popen(map(str, tools.compile_command(config, place.out)))
            for config in configs
        ]
        for process in running:
            check(process.wait(60) == 0, f"exit status {process.returncode}")
        place.check_whole(contents, "two compilers")


def main():
    tools, config = Tools(*sys.argv[1:]), Golden("bf16-odd").config
    other = tools.scratch / "other.json"
    other.write_text(
        json.dumps(json.loads(config.read_text()) | {"num_hidden_layers": 7})
    )
    whole = [tools.compile(each).read_bytes() for each in [config, other]]
    check_bad_input(tools, config)
    check_bad_output(tools, config)
    check_no_space(tools, config, whole[0])
    check_links_and_devices(tools, config, whole[0])
    check_signals(tools, config, whole[0])
    check_two_at_once(tools, [config, other], whole)


main()
