#!/usr/bin/env python3
"""loops.py ASSEMBLY CPU FUNCTION...: the innermost loops of functions that multiply.

ASSEMBLY is what `cria-compile --emit=asm` prints. A line for each loop has its
multiplications and loads, and the cycles of a turn by llvm-mca: where all data are in the
L1 cache, by LLVM's tables for CPU.
"""

import collections
import pathlib
import re
import subprocess
import sys

MULTIPLY = ("bfdot", "bfmmla", "fmla", "sdot", "smmla")
LOADS = {"ldp": 2, "ldr": 1, "ldur": 1, "ld1": 1, "ld1r": 1}


def functions(text):
    """The lines of each function."""
    for name, body in re.findall(
        r"^\"?([\w.-]+)\"?:.*?\n(.*?)^\.Lfunc_end", text, re.M | re.S
    ):
        yield name, body.splitlines()


def innermost(lines):
    """The instructions of each loop without loops, from its label to its branch."""
    labels = {line.split(":")[0]: i for i, line in enumerate(lines) if line[:1] == "."}
    loops = []
    for i, line in enumerate(lines):
        branch = re.match(r"\s+(?:b|b\.\w+|cbn?z|tbn?z)\s.*?(\.LBB\w+)", line)
        if branch and labels.get(branch[1], i) < i:
            loops.append((labels[branch[1]], i + 1))
    for begin, end in loops:
        if not any(begin < a and b <= end or begin <= a and b < end for a, b in loops):
            inside = [line.split("//")[0].strip() for line in lines[begin:end]]
            yield [line for line in inside if line and line[0] != "."]


def cycles(instructions, cpu):
    command = ["llvm-mca-22", "-mtriple=aarch64", f"-mcpu={cpu}", "-iterations=200"]
    # llvm-mca does not follow branches.
    text = "\n".join(each for each in instructions if not re.match(r"[ct]?b[n.zl]", each))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles:\s+(\d+)", done.stdout)[1]) / 200


def main():
    path, cpu, *names = sys.argv[1:]
    for name, lines in functions(pathlib.Path(path).read_text()):
        if name not in names:
            continue
        for loop in innermost(lines):
            count = collections.Counter(line.split()[0] for line in loop)
            products = {each: count[each] for each in MULTIPLY if count[each]}
            if not products:
                continue
            loads = sum(count[load] * times for load, times in LOADS.items())
            products = ", ".join(f"{each} {n}" for each, n in products.items())
            print(
                f"{name}: {products}, loads {loads}, instructions {len(loop)}, "
                f"cycles {cycles(loop, cpu):.1f}"
            )


main()
