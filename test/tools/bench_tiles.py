"""The 64 bytes that ldtilecfg reads in a program are the tiles' configuration.

usage: bench_tiles.py PROGRAM

Reads the program instead of running it, since few CPUs have AMX.
"""

import re
import struct
import subprocess
import sys

program = sys.argv[1]


def objdump(*arguments):
    command = ["objdump", *arguments, program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


loads = re.findall(r"\bldtilecfg (.*)", objdump("-d", "--no-show-raw-insn"))
if not loads:
    sys.exit("expected ldtilecfg, found none")
for load in loads:
    # A constant of the program; one made on the stack needs all its stores.
    address = re.fullmatch(r"0x[0-9a-f]+\(%rip\)\s+# ([0-9a-f]+)\b.*", load)
    if not address:
        sys.exit(f"expected ldtilecfg of a constant, found: ldtilecfg {load}")
    begin = int(address[1], 16)
    dump = objdump("-s", f"--start-address={begin}", f"--stop-address={begin + 64}")
    rows = re.findall(r"^ [0-9a-f]+ ((?:[0-9a-f]+ ){1,4})", dump, re.M)
    found = bytes.fromhex("".join(rows))
    # Palette 1, first row 0, 14 reserved bytes, bytes a row, rows; 8 of 16 tiles.
    expected = struct.pack("<BB14x8H16x8B8x", 1, 0, *[64] * 8, *[16] * 8)
    if found != expected:
        sys.exit(f"the configuration is {found.hex()}, expected {expected.hex()}")
print("the configuration of tiles is whole")
