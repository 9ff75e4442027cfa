#!/usr/bin/env python3
"""emulator_counts.py FILE [--losses]: the memory accesses of kernels, as a table.

The emulated driver writes FILE with CRIA_EMULATOR_COUNT=FILE. A row is the sum of
the launches of one kernel. --losses prints the instructions that touch more
sectors, or take more wavefronts, than they must; docs/emulator.md says more.
"""

import collections
import json
import sys

GLOBAL_IN = ["global_load", "global_copy"]
GLOBAL_OUT = ["global_store", "global_atomic"]
SHARED = ["shared_load", "shared_store", "shared_atomic", "shared_copy"]
SHARED += ["matrix_load", "matrix_store"]


def summed(launches, kinds, field):
    return sum(one.get(kind, {}).get(field, 0) for one in launches for kind in kinds)


def ratio(launches, kinds, above, below):
    divisor = summed(launches, kinds, below)
    return f"{summed(launches, kinds, above) / divisor:.2f}" if divisor else "-"


def row(name, launches):
    cells = [name, str(len(launches))]
    cells += ["x".join(str(n) for n in launches[-1][of]) for of in ("grid", "block")]
    warps = sum(sum(one["warp_instructions"].values()) for one in launches)
    cells += [f"{warps / 1e3:.0f}"]
    for kinds in (GLOBAL_IN, GLOBAL_OUT):
        cells += [f"{summed(launches, kinds, 'bytes') / 2**20:.2f}"]
        cells += [ratio(launches, kinds, "sectors", "requests")]
        cells += [ratio(launches, kinds, "least_sectors", "sectors")]
    cells += [ratio(launches, SHARED, "wavefronts", "least_wavefronts")]
    return cells + [f"{launches[-1]['barriers_per_warp']:g}"]


HEAD = ["kernel", "launches", "grid", "block", "1000 warp instructions"]
HEAD += ["MiB in", "sectors a request", "coalescing"]
HEAD += ["MiB out", "sectors a request", "coalescing", "conflicts", "barriers"]


def losses(name, launches):
    """A line for each kind of instruction: a kernel may have many that are alike."""
    sums, lines = collections.defaultdict(collections.Counter), {}
    for launch in launches:
        for loss in launch["losses"]:
            kind, line = loss.pop("kind"), loss.pop("line")
            sums[kind].update(loss)
            lines.setdefault(kind, set()).add(line)
    for kind, loss in sums.items():
        parts = "sectors" if "sectors" in loss else "wavefronts"
        count, first = len(lines[kind]), min(lines[kind])
        print(f"{name}: {kind} of PTX line {first} and {count - 1} more:", end=" ")
        print(f"{loss['requests']} requests, {loss[parts]} {parts},", end=" ")
        print(f"at least {loss['least_' + parts]}")


def main(file, wants_losses):
    kernels = collections.defaultdict(list)
    for line in open(file):
        launch = json.loads(line)
        kernels[launch["kernel"]].append(launch)
    if wants_losses:
        for name, launches in kernels.items():
            losses(name, launches)
        return
    rows = [HEAD, ["---"] * len(HEAD)]
    rows += [row(name, launches) for name, launches in kernels.items()]
    for cells in rows:
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or sys.argv[2:] not in ([], ["--losses"]):
        sys.exit(__doc__.strip())
    main(sys.argv[1], len(sys.argv) == 3)
