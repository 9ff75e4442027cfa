"""prompts.py BIN SCRATCH: for each line of a file cria-run --prompts prints the text of
cria-run --prompt, in the order of the file. A wrong prompt fails alone. A stop string
ends each text.
"""

import json
import shutil
import subprocess
import sys

import tokenizers

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


def prompts(tools, artifact, text, *flags, weights=TINY):
    """The run, and what its lines say."""
    file = tools.scratch / "prompts.txt"
    file.write_text(text)
    run = tools.run(artifact, f"--weights={weights}", f"--prompts={file}", *flags)
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


def first_begin(prompt, text, stops):
    """Where the first stop string begins in the text, or before it in the prompt."""
    whole, size = prompt + text, len(prompt)
    found = [whole.find(stop, max(0, size + 1 - len(stop))) for stop in stops]
    return min((begin - size for begin in found if begin >= 0), default=None)


def check_stops(tools, artifact):
    """Stop strings of the command line, which replace those of the checkpoint."""
    decode = tokenizers.Tokenizer.from_file(str(TINY / "tokenizer.json")).decode
    lines = [LINES[1], LINES[5]]
    flags = ["--max-tokens=40", "--temperature=0"]
    _, whole = prompts(tools, artifact, "\n".join(lines), *flags)
    folder = tools.scratch / "stops"
    shutil.copytree(TINY, folder)
    for stops in ([" a"], ["uch t", "ttle", "\n\n"], ["ime, there was"], ["nowhere"]):
        given = [f"--stop={text}" for text in stops]
        (folder / "generation_config.json").write_text(
            json.dumps({"stop_strings": stops if len(stops) > 1 else stops[0]})
        )
        for weights, more in ((TINY, given), (folder, []), (folder, ["--stop=zzz"])):
            run, found = prompts(
                tools, artifact, "\n".join(lines), *flags, *more, weights=weights
            )
            run.ok()
            searched = ["zzz"] if more == ["--stop=zzz"] else stops
            for each, one in zip(found, whole):
                prompt, ids = one["prompt"], one["ids"]
                texts = [decode(ids[: size + 1]) for size in range(len(ids))]
                begins = [first_begin(prompt, text, searched) for text in texts]
                count = sum(begin is None for begin in begins) + 1
                text, finish, ids = one["text"], one["finish"], ids[:count]
                if count <= len(begins):
                    text, finish = text[: max(0, begins[count - 1])], "stop"
                check(each["text"] == text, f"{each}: expected {text!r}")
                check(each["ids"] == ids, f"{each}: expected {ids}")
                check(each["finish"] == finish, f"{each}: expected {finish}")
                alone = [artifact, f"--weights={weights}", f"--prompt={each['prompt']}"]
                printed = tools.run(*alone, *flags, *more).ok().text
                check(printed == each["prompt"] + text, f"{each}: alone {printed!r}")
                drawn = tools.run(*alone, *flags, *more, "--print-ids").ok().ids()
                check(drawn == ids, f"{each}: alone {drawn}")
    for wrong, words in {"": "--stop: ", "\udcff": "not UTF-8 at byte 0"}.items():
        run = tools.run(artifact, f"--weights={TINY}", "--prompt=a", f"--stop={wrong}")
        check(run.status != 0 and words in run.errors, run)
    (folder / "tokenizer.json").unlink()
    run = tools.run(artifact, f"--weights={folder}", "--ids=1", *flags)
    check("stop strings need a tokenizer" in run.errors, run)
    tools.run(
        artifact, f"--weights={folder}", "--ids=1", *flags, "--allow-unknown=stop_strings"
    ).ok()


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
    check_stops(tools, artifact)
    check_failures(tools, artifact)
    check_stdin(tools, artifact)
    check_endless_line(tools, artifact)
    plain = tools.compile(TINY / "config.json", out="plain.cria")
    run, _ = prompts(tools, plain, "Once", "--device=cpu")
    check("compile it with --batch=N" in run.errors, run)


if __name__ == "__main__":
    main()
