#!/usr/bin/env python3
"""loops.py ARTIFACT CPU FUNCTION...: the innermost loops that multiply, of an artifact.

A line for each loop of the functions has its products and loads, and the cycles of a turn
by llvm-mca: where all data are in the L1 cache, by LLVM's tables for CPU.
"""

import collections
import re
import subprocess
import sys

PRODUCT = re.compile(
    r"(?P<tile>tdp)|(?P<fma>vfn?m(?:add|sub)\w*ps|fmla)"
    r"|(?P<dot>vdpbf16ps|vpdp(?:busd|wssd)|vpmadd|bfdot|bfmmla|sdot|smmla)"
)
BRANCH = re.compile(r"j|b$|b\.|cbn?z|tbn?z")
LOADS = {"ldp": 2, "ldr": 1, "ldur": 1, "ld1": 1, "ld1r": 1}


def functions(artifact):
    """(name, [(address, opcode, operands)]) of each function."""
    command = ["llvm-objdump-22", "-d", "--no-show-raw-insn", artifact]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for block in re.split(r"\n(?=[0-9a-f]+ <)", text)[1:]:
        lines = re.findall(r"^ *([0-9a-f]+):\s+(\S+)[ \t]*(.*)$", block, re.M)
        yield block.split("<")[1].split(">")[0], [(int(a, 16), *rest) for a, *rest in lines]


def innermost(body):
    """The instructions from the target of a branch back to the branch, if no such span
    lies inside."""
    index = {address: i for i, (address, _, _) in enumerate(body)}
    spans = set()
    for i, (_, opcode, operands) in enumerate(body):
        target = re.search(r"\b0x([0-9a-f]+) <", operands) if BRANCH.match(opcode) else None
        begin = index.get(int(target[1], 16)) if target else None
        if begin is not None and begin <= i:
            spans.add((begin, i + 1))
    for begin, end in spans:
        if not any((b, e) != (begin, end) and begin <= b and e <= end for b, e in spans):
            yield body[begin:end]


def products(loop):
    """How often a loop has each kind of product: tile, fma, dot."""
    matches = (PRODUCT.match(opcode) for _, opcode, _ in loop)
    return collections.Counter(match.lastgroup for match in matches if match)


def cycles(loop, cpu, arch):
    command = ["llvm-mca-22", f"-mtriple={arch}", f"-mcpu={cpu}", "-iterations=200"]
    # llvm-mca does not follow branches.
    lines = [f"{opcode} {rest}" for _, opcode, rest in loop if not BRANCH.match(opcode)]
    text = "\n".join(re.sub(r"<.*>", "", line) for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles:\s+(\d+)", done.stdout)[1]) / 200


def main():
    artifact, cpu, *names = sys.argv[1:]
    for name, body in functions(artifact):
        if name not in names:
            continue
        for loop in innermost(body):
            opcodes = collections.Counter(opcode for _, opcode, _ in loop)
            found = {each: n for each, n in opcodes.items() if PRODUCT.match(each)}
            if not found:
                continue
            arch = "x86_64" if any(each[0] == "j" for each in opcodes) else "aarch64"
            loads = sum(opcodes[load] * times for load, times in LOADS.items())
            shown = ", ".join(f"{each} {n}" for each, n in found.items())
            print(
                f"{name}: {shown}, loads {loads}, instructions {len(loop)}, "
                f"cycles {cycles(loop, cpu, arch):.1f}"
            )


if __name__ == "__main__":
    main()
