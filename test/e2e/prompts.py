"""prompts.py BIN SCRATCH: for each line of a file cria-run --prompts prints the text of
cria-run --prompt, in the order of the file. A wrong prompt fails alone.
"""

import json
import subprocess
import sys

import harness
from harness import check

TINY = harness.HERE.parent.parent / "examples/tiny"
LINES = [
    "Once upon a time, there was a little fox named Lily.",
    "Once upon a time",
    "",
    'She said "\u00e9"\\',
    "The big dog ran home. " * 3,
    "Tom and Lily",
    "One day, ",
]


def prompts(tools, artifact, text, *flags):
    """The run, and what its lines say."""
    file = tools.scratch / "prompts.txt"
    file.write_text(text)
    run = tools.run(artifact, f"--weights={TINY}", f"--prompts={file}", *flags)
    return run, [json.loads(line) for line in run.text.splitlines()]


def check_same(tools, artifact, *flags):
    run, found = prompts(tools, artifact, "\n".join(LINES), *flags)
    run.ok()
    check([each["prompt"] for each in found] == LINES, f"{run}\nother prompts")
    for each in found:
        one = [artifact, f"--weights={TINY}", f"--prompt={each['prompt']}", *flags]
        ids = tools.run(*one, "--print-ids").ok().ids()
        check(each["ids"] == ids, f"{each}: alone {ids}")
        text = tools.run(*one).ok().text
        check(text.endswith(each["text"]) and each["text"], f"{each}: alone {text!r}")
        finish = "length" if len(ids) == 12 else "end"
        check(each["finish"] == finish, f"{each}: expected {finish}")


def check_failures(tools, artifact):
    """A prompt that does not fit has an error; the others go on."""
    lines = ["Once", "word " * 300, "Twice"]
    run, found = prompts(tools, artifact, "\n".join(lines) + "\n", "--max-tokens=5")
    check(run.status == 1 and "--prompts: 1 of 3 prompts failed" in run.errors, run)
    check(len(found) == 3 and "ids" in found[0] and "ids" in found[2], found)
    check("the artifact's max_seq is 256" in found[1]["error"], found[1])
    missing = tools.run(artifact, f"--weights={TINY}", "--prompts=/nowhere")
    check(missing.status == 1 and "/nowhere: cannot open" in missing.errors, missing)
    folder = tools.run(artifact, f"--weights={TINY}", f"--prompts={TINY}")
    check(folder.status == 1 and "cannot read: Is a directory" in folder.errors, folder)
    both = tools.run(artifact, f"--weights={TINY}", "--prompts=-", "--ids=1")
    check(both.status == 2 and "excludes" in both.errors, both)


def check_endless_line(tools, artifact):
    """The prompts before it are answered, and the error names the line."""
    file = tools.scratch / "endless.txt"
    with open(file, "wb") as out:
        out.write(b"Once\n")
        out.truncate(70 << 20)
    run = tools.run(artifact, f"--weights={TINY}", f"--prompts={file}", "--max-tokens=2")
    check(run.status == 1 and run.text.count("\n") == 1, run)
    check("line 2 is longer than 67108864 bytes" in run.errors, run)


def check_stdin(tools, artifact):
    command = tools.run_command(artifact, f"--weights={TINY}", "--prompts=-")
    done = subprocess.run(
        [*command, "--max-tokens=2"], input=b"Once\nTwice\n", capture_output=True
    )
    check(done.returncode == 0 and done.stdout.count(b"\n") == 2, done)


def main():
    tools = harness.Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", "--batch=3")
    check_same(tools, artifact, "--max-tokens=12", "--temperature=0")
    check_same(tools, artifact, "--max-tokens=12", "--temperature=0.9", "--seed=7")
    check_failures(tools, artifact)
    check_stdin(tools, artifact)
    check_endless_line(tools, artifact)
    plain = tools.compile(TINY / "config.json", out="plain.cria")
    run, _ = prompts(tools, plain, "Once", "--device=cpu")
    check("compile it with --batch=N" in run.errors, run)


if __name__ == "__main__":
    main()
