"""tokens.py BIN NAME TOKENIZER.json: cria-tokenize against `tokenizers`."""

import json
import pathlib
import subprocess
import sys

from harness import HERE, check


def tokenize(tool, tokenizer, given, *flags):
    done = subprocess.run(
        [tool, tokenizer, *flags],
        input=given.encode(),
        stdout=subprocess.PIPE,
        timeout=60,
    )
    check(done.returncode == 0, f"{given!r} {flags}: exit {done.returncode}")
    return done.stdout.decode()


def main():
    tool = pathlib.Path(sys.argv[1]) / "cria-tokenize"
    golden = HERE / "goldens" / f"tokens-{sys.argv[2]}.json"
    for entry in json.loads(golden.read_text()):
        ids, plain = (
            ",".join(map(str, entry[key])) for key in ["ids", "plain_ids"]
        )
        for given, flags, expected in [
            (entry["text"], [], ids + "\n"),
            (entry["text"], ["--no-special"], plain + "\n"),
            (ids, ["--decode"], entry["decoded"]),
            (ids, ["--decode", "--no-special"], entry["plain_decoded"]),
        ]:
            got = tokenize(tool, sys.argv[3], given, *flags)
            what = f"{flags} {given!r}"
            check(got == expected, f"{what}: {got!r}, expected {expected!r}")


main()
