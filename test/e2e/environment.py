"""environment.py BIN SCRATCH: rows 40 and 43 of the fault matrix.

Sessions in eight threads give the bits of a session alone. A thousand loads leak nothing.
A fork after loading, decimal commas, no home folder, no file descriptors and little
memory either make no difference or give a clear error.
"""

import gc
import locale
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import threading

import numpy as np

from capi import Model
from harness import Golden, Tools, check, execute

NAME, THREADS, LOADS = "f32-odd", 8, 1000


def logits(model, ids):
    session = model.session()
    got = session.feed(ids)
    session.free()
    return got


def check_threads(model, golden):
    """Threads compute different texts at once; each text is also computed alone."""
    texts = [golden.ids[i : i + 20] for i in range(THREADS)]
    alone = [logits(model, ids) for ids in texts]
    together = [None] * THREADS

    def run(i):
        for _ in range(5):
            together[i] = logits(model, texts[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, (a, b) in enumerate(zip(alone, together)):
        check(np.array_equal(a, b), f"thread {i}: other bits than alone")


def resident():
    """KiB of memory that this process has."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def check_loads(load):
    """Memory and descriptors do not grow over many loads."""
    for _ in range(50):
        load().free()
    gc.collect()
    before, open_before = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(LOADS):
        load().free()
    grown, opened = resident() - before, len(os.listdir("/proc/self/fd"))
    check(grown < 4096, f"{LOADS} loads left {grown} KiB")
    check(opened == open_before, f"{LOADS} loads left {opened - open_before} files")


def check_fork(model, ids):
    """A child has no threads of its parent's sessions, and makes its own."""
    expected = logits(model, ids)
    child = os.fork()
    if child == 0:
        same = np.array_equal(expected, logits(model, ids))
        os._exit(0 if same else 3)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    check(status == 0, f"the child of a fork ended with {status}")
    check(np.array_equal(expected, logits(model, ids)), "after a fork")


def check_locale(tools, load, ids):
    """Numbers in files have decimal points in every locale of the program."""
    name = tools.scratch / "de_DE.UTF-8"
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", name], capture_output=True
    )
    if not made or not name.is_dir():
        return  # this system has no definitions of locales
    expected = logits(load(), ids)
    os.environ["LOCPATH"] = str(tools.scratch)
    locale.setlocale(locale.LC_ALL, name.name)
    check(locale.localeconv()["decimal_point"] == ",", "no decimal comma")
    check(np.array_equal(expected, logits(load(), ids)), "in another locale")
    locale.setlocale(locale.LC_ALL, "C")


def limited(kind, limit):
    return lambda: resource.setrlimit(kind, (limit, limit))


def check_limit(command, expected, kind, limits):
    """From the smallest limit that lets the program start on, each limit works or gives
    a clear error."""
    refused = 0
    for limit in limits:
        setting = {"preexec_fn": limited(kind, limit)}
        if execute([command[0], "--help"], **setting).status:
            continue
        run = execute(command, **setting)
        if run.status == 0:
            check(run.out == expected, f"limit {limit}: {run}")
            continue
        lines = run.errors.strip().splitlines()
        said = len(lines) == 1 and lines[0].startswith("cria-run: error: ")
        check(run.status == 1 and said, f"limit {limit}: {run}")
        refused += 1
    check(refused, f"no limit mattered of {list(limits)}")


def main():
    tools = Tools(*sys.argv[1:3])
    golden = Golden(NAME)
    artifact = tools.compile(golden.config)
    load = lambda: Model(tools, artifact, golden.seed, golden.exact.shape[1])
    model, ids = load(), golden.ids[:10]
    check_threads(model, golden)
    check_loads(load)
    check_fork(model, ids)
    check_locale(tools, load, ids)
    flags = ["--ids=1,2,3", "--max-tokens=4", f"--random-weights={golden.seed}"]
    command = tools.run_command(artifact, *flags)
    expected = execute(command).ok().out
    check_limit(command, expected, resource.RLIMIT_NOFILE, range(3, 10))
    # In steps smaller than the allocations.
    sizes = range(4 << 20, 32 << 20, 1 << 18)
    check_limit(command, expected, resource.RLIMIT_AS, sizes)
    # The stack that cria.h says a thread needs, for the main thread and the pool's.
    small = {"preexec_fn": limited(resource.RLIMIT_STACK, 512 << 10)}
    run = execute(command, **small).ok()
    check(run.out == expected, f"with stacks of 512 KiB: {run}")
    homeless = execute(command, env={}, cwd="/proc").ok()
    check(homeless.out == expected, homeless)


main()
