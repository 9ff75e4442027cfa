"""run_faults.py BIN SCRATCH: cria-run's answers to bad requests and signals.

Prompts that do not fit, numbers out of range, an interrupt while it generates, and an
output that nobody reads: rows 36 to 39 of the fault matrix.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import weights
from harness import HERE, Golden, Tools, check, execute

TINY = HERE.parent.parent / "examples" / "tiny"
CONTEXT = 64

# Always wrong; the error names the option.
WRONG = [
    *["--max-tokens=-1", "--max-tokens=abc", "--max-tokens=1e3"],
    *["--max-tokens=99999999999999999999", "--temperature=-1"],
    *["--temperature=nan", "--temperature=inf", "--temperature=abc"],
    *["--top-k=-1", "--top-k=x", "--top-p=2", "--top-p=-0.5", "--top-p=nan"],
    *["--min-p=2", "--min-p=-1", "--min-p=nan", "--threads=-1", "--threads=x"],
    *["--seed=abc", "--seed=99999999999999999999", "--ids=1,,2", "--ids=a"],
    *["--ids=-1", "--ids=320", "--ids=99999999999", "--ids=1,2,", "--ids="],
    *["--max-tokens=0x10", "--max-tokens=010", "--max-tokens=+1", "--top-k=0x8"],
    *["--threads=0x2", "--threads=1025", "--seed=0x1", "--seed=01", "--seed=-1"],
    *["--ids=0x5", "--ids=+5", "--ids=-0", "--random-weights=0x1"],
    *["--no-such-option", "--max-tokens", "--device=abacus"],
]
# Defined, or refused: never a crash.
ODD = [
    *["--max-tokens=0", "--top-k=0", "--top-k=999999999", "--top-p=0"],
    *["--top-p=1e-300", "--min-p=0", "--min-p=1", "--temperature=1e30"],
    *["--temperature=1e-30", "--seed=18446744073709551615", "--seed=0"],
    "--threads=0",
]


def refused(run, *words):
    """Checks for one line of error with `words`, and nothing on stdout."""
    lines = run.errors.splitlines()
    plain = len(lines) == 1 and lines[0].startswith("cria-run: error: ")
    check(plain and run.status in (1, 2) and not run.out, f"{run}\n{run.out!r}")
    check(all(word in run.errors for word in words), f"{run}\nexpected {words}")


def named(option):
    """A word that an error about an option must have: "top" for --top-k or top_k."""
    return option.removeprefix("--").removesuffix("s").split("-")[0]


def check_context(tools, artifact, flags):
    """Row 36: refused before anything runs, with both numbers."""

    def run(count, new):
        ids = "--ids=" + ",".join(["5"] * count)
        return tools.run(artifact, ids, f"--max-tokens={new}", *flags)

    refused(run(CONTEXT + 1, 1), str(CONTEXT + 1), str(CONTEXT))
    refused(run(CONTEXT - 4, 5), str(CONTEXT))
    refused(run(7, 2**31), str(CONTEXT))
    run(CONTEXT - 4, 4).ok()


def check_numbers(tools, artifact, flags):
    """Row 37."""
    for option in WRONG:
        name = option.split("=")[0]
        ids = [] if name == "--ids" else ["--ids=5,6"]
        refused(tools.run(artifact, *ids, *flags, option), named(name))
    for option in ODD:
        fit = [] if "max-tokens" in option else ["--max-tokens=4"]
        run = tools.run(artifact, "--ids=5,6", *fit, *flags, option)
        if run.status != 0:
            refused(run, named(option.split("=")[0]))


def check_results(tools, artifact, flags):
    """Standard output has either the text or the output that a flag asks for. Files are
    whole, and errors name them."""
    flags = ["--ids=5,6", "--max-tokens=3", "--temperature=0", *flags]
    file = tools.scratch / "logits.npy"
    ids = tools.run(artifact, "--print-ids", *flags).ok()
    check(len(ids.ids()) == 3 and "," not in ids.errors.split()[0], ids)
    tools.run(artifact, f"--logits={file}", *flags).ok()
    logits = file.read_bytes()
    for name in ["-", "/dev/stdout"]:
        run = tools.run(artifact, f"--logits={name}", *flags).ok()
        check(run.out == logits, f"{run}: {len(run.out)} bytes of {len(logits)}")
    run = tools.run(artifact, "--profile=-", *flags).ok()
    check(json.loads(run.out)["traceEvents"], run)
    run = tools.run(artifact, "--embedding", *flags[:1], *flags[3:]).ok()
    check(json.loads(run.out), run)  # and nothing generated
    for several in [
        ["--print-ids", "--logits=-"],
        ["--logits=-", "--profile=-"],
        ["--hidden=-", "--embedding"],
    ]:
        refused(tools.run(artifact, *several, *flags), *several[:1])
    refused(tools.run(artifact, "--normalize", *flags), "--normalize", "--embedding")
    refused(tools.run(artifact, "--embedding", "--pooling=max", *flags), "--pooling")
    for option in ["--logits", "--hidden", "--embedding", "--profile"]:
        run = tools.run(artifact, f"{option}=/dev/full", *flags)
        refused_after(run, "/dev/full: cannot write: No space left on device")
        run = tools.run(artifact, f"{option}={tools.scratch}/none/x", *flags)
        refused_after(run, "none/x: cannot create: No such file or directory")
        old = tools.scratch / "old"
        old.write_text("old")
        # It says so before it runs: the artifact's copy counts as a file.
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))
        command = tools.run_command(artifact, f"{option}={old}", *flags)
        run = execute(command, preexec_fn=limit)
        refused_after(run, "the limit on file sizes (ulimit -f) is 9")
        check(old.read_text() == "old", f"{option}: the old file has changed")
    check(not list(tools.scratch.glob(".cria-*")), "debris")


def refused_after(run, words):
    """Checks for an error with `words`, whatever was printed before."""
    last = run.errors.splitlines()[-1]
    check(run.status == 1 and last.startswith("cria-run: error: "), run)
    check(words in last, f"{run}\nexpected {words}")


def check_interrupted_file(tools, artifact, folder):
    """A second signal ends the process at once and leaves the old file unchanged."""
    file = tools.scratch / "interrupted"
    file.write_text("old")
    ids = "--ids=" + ",".join(["5"] * 16000)
    flags = [f"--weights={folder}", f"--logits={file}", "--max-tokens=0", ids]
    command = tools.run_command(artifact, *flags)
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
    time.sleep(1)
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
    status = process.wait(60)
    check(status == 128 + signal.SIGTERM, f"interrupted: exit status {status}")
    check(file.read_text() == "old", "interrupted: the old file has changed")
    check(not list(tools.scratch.glob(".cria-*")), "interrupted: debris")


def check_prompts(tools, artifact):
    """Row 37 for text: not UTF-8, empty, with a NUL's neighbours."""
    flags = [f"--weights={TINY}", "--max-tokens=4", "--temperature=0"]
    for prompt in [b"\xff\xfe", b"ab\xc3", b"\xed\xa0\x80", b"", b"\x01\x7f"]:
        run = tools.run(artifact, b"--prompt=" + prompt, *flags)
        if run.status != 0:
            refused(run, "prompt")
        run.out.decode()


def slow_model(tools):
    """A folder with a model that speaks nonsense for seconds."""
    config = json.loads((TINY / "config.json").read_text()) | {
        "hidden_size": 512,
        "intermediate_size": 1536,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 16384,
    }
    for key in ["bos_token_id", "eos_token_id", "pad_token_id"]:
        config.pop(key, None)
    folder = tools.scratch / "slow"
    folder.mkdir()
    shutil.copy(TINY / "tokenizer.json", folder)
    (folder / "config.json").write_text(json.dumps(config))
    arrays = weights.llama_weights(config, 1, "bf16")
    weights.write_safetensors(folder / "model.safetensors", arrays, "bf16")
    artifact = tools.compile(folder / "config.json", "--max-seq=16384")
    return artifact, folder


def talking(tools, artifact, folder):
    """A cria-run that has begun to print."""
    flags = [f"--weights={folder}", "--prompt=Once", "--max-tokens=16000"]
    command = tools.run_command(artifact, *flags, "--temperature=1", "--seed=1")
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    first = os.read(process.stdout.fileno(), 1)
    check(first == b"O", f"prints {first!r} first, expected the prompt's 'O'")
    return process, first


def check_signals(tools, artifact, folder):
    """Row 38: stops within a second, with whole characters."""
    for number in [signal.SIGINT, signal.SIGTERM]:
        process, first = talking(tools, artifact, folder)
        time.sleep(0.3)
        process.send_signal(number)
        start = time.monotonic()
        out, _ = process.communicate(timeout=60)
        took = time.monotonic() - start
        status = process.returncode
        check(status == 128 + number, f"{number.name}: exit status {status}")
        check(took < 1, f"{number.name}: stopped after {took:.1f} s")
        (first + out).decode()


def check_closed_output(tools, artifact, folder):
    """Row 39: an error, soon, whoever closed the output."""
    process, _ = talking(tools, artifact, folder)
    process.stdout.close()
    start = time.monotonic()
    status = process.wait(60)
    process.stderr.close()
    check(status not in (0, -signal.SIGSEGV), f"closed pipe: status {status}")
    took = time.monotonic() - start
    check(took < 2, f"closed pipe: stopped after {took:.1f} s")
    prompt = [f"--weights={folder}", "--prompt=Once", "--max-tokens=100"]
    command = tools.run_command(artifact, *prompt)
    with open("/dev/full", "wb") as full:
        run = execute(command, stdout=full)
    check(run.status == 1 and "No space left" in run.errors, run)
    line = " ".join(f"'{part}'" for part in command) + " >&-"
    run = execute(["sh", "-c", line])
    check(run.status == 1 and run.errors, run)


def main():
    tools = Tools(*sys.argv[1:])
    golden = Golden("f32-multi-head")
    artifact = tools.compile(golden.config, f"--max-seq={CONTEXT}")
    flags = [f"--random-weights={golden.seed}"]
    check_context(tools, artifact, flags)
    check_numbers(tools, artifact, flags)
    check_results(tools, artifact, flags)
    tiny = tools.compile(TINY / "config.json", out="tiny.cria")
    check_prompts(tools, tiny)
    artifact, folder = slow_model(tools)
    check_signals(tools, artifact, folder)
    check_closed_output(tools, artifact, folder)
    check_interrupted_file(tools, artifact, folder)


if __name__ == "__main__":
    main()
