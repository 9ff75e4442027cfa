"""ranks_faults.py BIN SCRATCH MPI: what is wrong with ranks is said, and nothing
hangs.
"""

import os
import re
import signal
import subprocess
import sys
import time

from harness import Tools, check, execute
from ranks import Ranks, config_of

SECONDS = 5  # within which the others end


def expect(run, *texts):
    check(run.status != 0, f"{run}\nexpected a failure")
    for text in texts:
        check(text in run.errors, f"{run}\nexpected '{text}'")


def check_compiler(tools):
    """What cannot be split is refused, with the numbers."""

    def refused(name, text, *flags, **changes):
        config = config_of(tools, name, **changes)
        command = tools.compile_command(config, tools.scratch / "no.cria", *flags)
        expect(execute(command), text)

    two = "--shards=2"
    refused("llama", "expected shards to divide 2 KV heads, got 3", "--shards=3")
    inner = "expected shards to divide 171 of the MLP's intermediate size, got 2"
    refused("llama", inner, two, intermediate_size=171)
    refused("llama", "--shards: expected 1 to 1024, got 0", "--shards=0")


def check_start(tools, ranks, two):
    flags = ["--random-weights=1", "--ids=1,2,3", "--max-tokens=4", "--print-ids"]
    alone = "the artifact is for 2 ranks: start cria-run by mpirun -n 2"
    expect(tools.run(two, *flags), alone)
    three = Ranks(tools.bin, f"{tools.scratch}-three", ranks.mpi, 3)
    count = "is for 2 ranks, expected 3, the processes that share it"
    expect(three.run(two, *flags), count)


def check_differences(tools, ranks, two, config):
    """Ranks that are not about to do the same, before the first token."""
    flags = ["--dtype=f32", "--shards=2", "--max-seq=64"]
    other = tools.compile(config, *flags, out="other.cria")
    usual = {"random-weights": 1, "ids": "1,2,3", "max-tokens": 4}
    usual |= {"temperature": 0, "threads": 1}

    def line(artifact, **changes):
        chosen = usual | {key.replace("_", "-"): changes[key] for key in changes}
        given = [f"--{key}={value}" for key, value in chosen.items()]
        return ranks.run_command(artifact, "--print-ids", *given)

    for text, program in {
        "artifact": line(other),
        "weights": line(two, random_weights=2),
        "options and prompt": line(two, ids="1,2,4"),
    }.items():
        run = execute(ranks.mpirun(line(two), program), env=ranks.environment)
        expect(run, f"the ranks differ: not all have the same {text}")
        # MPICH's mpirun may say on its own output how a rank ended.
        check(not re.search(rb"^[\d, ]+$", run.out, re.M), f"{run}\nexpected no ids")
    execute(ranks.mpirun(line(two), line(two, threads=2)), env=ranks.environment).ok()


def ranks_below(pid, tool="cria-run"):
    """The processes of `tool` that `pid` has started, or they in turn."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                text = file.read()
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        found[int(entry)] = name, int(text[text.rindex(")") + 2 :].split()[1])
    below, more = set(), {pid}
    while more:
        below |= more
        more = {each for each in found if found[each][1] in below} - below
    return sorted(each for each in below if found.get(each, [""])[0] == tool)


def least_busy(pids):
    """The CPU seconds of the process that has had fewest."""
    seconds = []
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        seconds.append(int(fields[11]) / os.sysconf("SC_CLK_TCK"))
    return min(seconds)


def ended(ranks, artifact, number, **environment):
    """A rank gets a signal on its way: all end in seconds. Returns the rank's process, and
    what was said."""
    flags = ["--random-weights=1", "--ids=1", "--max-tokens=60000", "--threads=1"]
    flags += ["--print-ids", "--temperature=0", f"--device={ranks.device}"]
    program = ranks.run_command(artifact, *flags)
    process = subprocess.Popen(
        [str(part) for part in ranks.mpirun(program)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ranks.environment | environment,
    )
    deadline = time.monotonic() + 60
    while True:
        pids = ranks_below(process.pid)
        if len(pids) == 2 and least_busy(pids) > 0.5:
            break
        waiting = time.monotonic() < deadline and process.poll() is None
        check(waiting, f"{artifact}: no two ranks that compute")
        time.sleep(0.1)
    os.kill(pids[-1], number)
    begin = time.monotonic()
    # MPICH's mpirun says on its own output which process ended.
    errors = b"".join(process.communicate(timeout=60)).decode()
    taken = time.monotonic() - begin
    limit = SECONDS + int(environment.get("CRIA_MPI_TIMEOUT", 0))
    check(process.returncode != 0, f"exit 0\n{errors}")
    check(taken < limit, f"ended after {taken:.1f} s\n{errors}")
    while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]:
        waiting = time.monotonic() - begin < 2 * limit
        check(waiting, f"left processes behind: {left}")
        time.sleep(0.1)
    return pids[-1], errors


def check_end(ranks, artifact, number, text, tries=1, **environment):
    """All ranks end, with a message that has `text`, with the rank's process, in one of
    some tries."""
    for _ in range(tries):
        pid, errors = ended(ranks, artifact, number, **environment)
        if text.format(pid) in errors:
            return
    check(False, f"{errors}\nexpected '{text.format(pid)}'")


def main():
    bin, scratch, mpi = sys.argv[1:]
    tools, ranks = Tools(bin, scratch), Ranks(bin, f"{scratch}-ranks", mpi)
    config = config_of(tools, "llama", max_position_embeddings=262144)
    flags = ["--dtype=f32", "--shards=2"]
    check_compiler(tools)
    long = tools.compile(config, *flags, "--max-seq=262144", out="long.cria")
    two = tools.compile(config, *flags, out="two.cria")
    check_start(tools, ranks, two)
    check_differences(tools, ranks, two, config)
    # On a busy machine MPICH's mpirun may name the process that it ended itself.
    named, tries = {"mpich": ("PID {}", 3), "openmpi": ("signal 9", 1)}[mpi]
    check_end(ranks, long, signal.SIGKILL, named, tries=tries)
    stopped = "waited 2 s for the other ranks: rank 1 (process {}) has stopped"
    check_end(ranks, long, signal.SIGSTOP, stopped, CRIA_MPI_TIMEOUT="2")


if __name__ == "__main__":
    main()
