"""stories260K.py BIN SCRATCH SHARED CPU: a trained model, compiled for CPU.

From <s> the model greedily writes the story of EXPECTED.md, with one thread and with two.
Its logits are those of transformers.
"""

import pathlib
import sys

from harness import Golden, Tools, check


def expected_text(folder):
    """The lines that EXPECTED.md quotes."""
    lines = (folder / "EXPECTED.md").read_text().splitlines()
    return "\n".join(line[2:] for line in lines if line.startswith("> "))


def check_story(tools, golden, artifact, folder, threads):
    story = ["--ids=1", "--max-tokens=200", "--temperature=0", threads]
    run = tools.run(artifact, f"--weights={folder}", *story).ok()
    text, expected = run.text.strip(), expected_text(folder)
    check(text == expected, f"{threads}: {text!r}, expected {expected!r}")
    run = tools.run(artifact, f"--weights={folder}", *story, "--print-ids")
    got = run.ok().ids()
    check(got == golden.greedy, f"{threads}: {got}, expected {golden.greedy}")


def main():
    tools, golden = Tools(*sys.argv[1:3]), Golden("stories260K")
    folder = pathlib.Path(sys.argv[3]) / "models" / "stories260K"
    artifact = tools.compile(folder / "config.json", f"--cpu={sys.argv[4]}")
    for threads in ["--threads=1", "--threads=2"]:
        check_story(tools, golden, artifact, folder, threads)
        flags = [f"--weights={folder}", threads]
        logits = tools.logits(artifact, golden.ids, *flags)
        golden.check(logits, threads)


main()
