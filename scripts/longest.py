#!/usr/bin/env python3
"""Lists the longest functions and files, as candidates for a split.

usage: scripts/longest.py [COUNT]

No length is wrong as such: a class stays in one pair of files, and a function
that does one thing stays one function.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_FUNCTION = re.compile(r"(namespace|extern)\b|.*= {$")
TYPE = re.compile(r"(template <.*> )?(struct|class|enum|union|typedef)\b")


def functions(lines):
    """Yields (first line, length) of each function body, by the indentation
    that clang-format gives it: 0, or 2 inside a class."""
    indent, start = 0, None
    for number, line in enumerate(lines, 1):
        depth = len(line) - len(line.lstrip())
        if indent and line.startswith("}"):
            indent, start = 0, None
        elif start and depth == indent and line.lstrip().startswith("}"):
            yield start, number - start - 1
            start = None
        elif start is None and line.endswith("{") and not NO_FUNCTION.match(line):
            if TYPE.match(line):
                indent = 2
            elif depth == indent or line.endswith(") {"):
                start = number


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    tracked = subprocess.check_output(
        ["git", "ls-files", "*.cpp", "*.h", "*.c", "*.td", "*.py"], cwd=ROOT, text=True
    )
    files, bodies = [], []
    for name in tracked.splitlines():
        lines = (ROOT / name).read_text().splitlines()
        files.append((len(lines), name))
        if name.endswith((".cpp", ".h", ".c")):
            bodies += [(length, f"{name}:{at}") for at, length in functions(lines)]
    for title, rows in ("functions", bodies), ("files", files):
        print(f"the longest {title}, in lines:")
        for length, where in sorted(rows, reverse=True)[:count]:
            print(f"{length:6}  {where}")


main()
