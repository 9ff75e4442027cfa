#!/usr/bin/env python3
"""architecture.py BIN [--check]: fills in the excerpts of docs/architecture.md.

Compiles examples/tiny for both targets with BIN/cria-compile. Each directive of the page
asks for an excerpt, which is written into the code block after the directive. --check
only compares, and fails if the page is out of date. A directive is a comment:

    <!-- excerpt FILE of --dump-phases
    from: REGEX          the first line; the excerpt ends at the end of the function
    keep: REGEX          keeps the next line that matches, or
    keep: REGEX .. REGEX keeps the lines from one match to another
    find: REGEX          instead of lines, the text that matches
    drop: REGEX          removes the text that matches from lines
    -->

Lines between kept lines become "..." at the end of the line before them. Locations are
removed. Values, maps and labels are numbered again in each excerpt, so that an excerpt
depends only on its function.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/architecture.md"
WIDTH = 96
DIRECTIVE = re.compile(r"(<!-- excerpt (\S+)\n(.*?)-->\n+```\w*\n).*?```", re.DOTALL)
# Names that are numbered over a whole file, not over a function.
NUMBERED = [r"(?<=%)\d+\b", r"(?<=#map)\d*\b", r"(?<=LBB)\d+(?=_)"]
NOISE = r" loc\(.*\)$| +// (?:\d )?preds?:.*| #\d+(?= \{$)|[ ;]+preds = .*|^\s*\.loc\s.*"


def dump(tools, folder):
    """The phases of examples/tiny on both targets, as {file: lines}."""
    config = ROOT / "examples/tiny/config.json"
    command = [tools / "cria-compile", config, "--target=cpu,cuda", "--chip=sm_80"]
    command += ["--cpu=x86-64-v3", f"--dump-phases={folder}", "-o", folder / "tiny.cria"]
    subprocess.run(command, check=True)


def find(lines, pattern, begin, what):
    for number in range(begin, len(lines)):
        if re.search(pattern, lines[number]):
            return number
    sys.exit(f"docs/architecture.md: no line of {what} matches: {pattern}")


def function(lines, begin):
    """The lines from `begin` to the end of the function that begins there."""
    indent = re.match(r"\s*", lines[begin])[0]
    end = rf"^{indent}\}}|^\.Lfunc_end"
    for number in range(begin + 1, len(lines)):
        if re.match(end, lines[number]):
            return lines[begin : number + 1]
    return lines[begin:]


def kept(lines, patterns, what):
    """The kept lines. A line before lines that are left out ends in "..."."""
    at, result = 0, []
    for pattern in patterns:
        first, _, last = pattern.partition(" .. ")
        begin = find(lines, first, at, what)
        end = find(lines, last, begin, what) if last else begin
        if at and begin > at:
            result[-1] += " ..."
        result += lines[begin : end + 1]
        at = end + 1
    return result


def renumbered(text):
    for pattern in NUMBERED:
        names = {}
        for name in re.findall(pattern, text):
            names.setdefault(name, str(len(names)))
        text = re.sub(pattern, lambda m: names[m[0]], text)
    # %c0_6: the sixth value with that name; here it may be the only one.
    names = {}
    for name, base in re.findall(r"(%([a-z]\w*?)(?:_\d+)?)\b(?!_)", text):
        names.setdefault(base, {}).setdefault(name, len(names[base]))
    number = lambda m: names[m[2]][m[1]]
    return re.sub(
        r"(%([a-z]\w*?)(?:_\d+)?)\b(?!_)",
        lambda m: f"%{m[2]}_{number(m)}" if number(m) else f"%{m[2]}",
        text,
    )


def breaks(line):
    """(depth of brackets, -place) of each place where a line may be broken."""
    depth = 0
    for place, character in enumerate(line[: WIDTH + 1]):
        depth += (character in "([{<") - (character in ")]}")
        depth -= character == ">" and line[place - 1] != "-"
        before, behind = line[place - 1], line[place + 1 : place + 3]
        may = before in ",)}" or not depth and behind in (": ", "->")
        if character == " " and may and place > WIDTH // 3:
            yield depth, -place


def wrapped(line):
    """A line; if it is too long, broken at the places with the fewest open brackets."""
    indent = re.match(r"\s*", line)[0]
    while len(line) > WIDTH and (places := list(breaks(line))):
        cut = -min(places)[1]
        yield line[:cut]
        line = indent + "    " + line[cut + 1 :]
    yield line


def excerpt(folder, name, directive):
    asked = [line.split(": ", 1) for line in directive.splitlines()]
    values = lambda key: [value for each, value in asked if each == key]
    text = (folder / name).read_text()
    for pattern in values("find"):
        found = re.search(pattern, text)
        if not found:
            sys.exit(f"docs/architecture.md: nothing in {name} matches: {pattern}")
        return "\n".join(wrapped(found[0]))
    lines = text.splitlines()
    lines = function(lines, find(lines, values("from")[0], 0, name))
    noise = "|".join([NOISE, *values("drop")])
    lines = [re.sub(noise, "", line).expandtabs(8) for line in lines]
    lines = kept([line for line in lines if line.strip()], values("keep"), name)
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    text = renumbered("\n".join(line[indent:] for line in lines))
    return "\n".join(part for line in text.splitlines() for part in wrapped(line))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("tools", type=pathlib.Path, metavar="BIN")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    page = PAGE.read_text()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        dump(options.tools, folder)
        fill = lambda m: f"{m[1]}{excerpt(folder, m[2], m[3])}\n```"
        filled = DIRECTIVE.sub(fill, page)
    if not options.check:
        PAGE.write_text(filled)
    elif filled != page:
        sys.exit("docs/architecture.md is out of date: run scripts/architecture.py BIN")


main()
