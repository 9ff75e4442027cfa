"""What Nsight Compute prints of kernels."""

import csv
import re

# The column of a table: (metric of ncu's basic set, factor of the number).
METRICS = {
    "us": ("gpu__time_duration.sum", 1e-3),
    "DRAM, %": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "multiprocessors, %": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "warps, %": ("sm__warps_active.avg.pct_of_peak_sustained_active", 1),
    "registers": ("launch__registers_per_thread", 1),
}
FLAGS = ["--clock-control=none", "--graph-profiling=node", "--set=basic", "--csv", "--page=raw",
         "--print-units=base"]


def number(text):
    """None where ncu has none, for a metric that the chip lacks."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def rows(text):
    """Cells of each kernel: the median of each column over its launches, in the order of
    the first launches. `text` is what ncu writes with FLAGS: lines of CSV, the second of
    which has the units, among lines that begin with ==."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches = {}
    for line in list(csv.DictReader(lines))[1:]:
        name = re.sub(r"\(.*", "", line["Kernel Name"])
        found = {}
        for column, (metric, factor) in METRICS.items():
            value = number(line.get(metric) or "")
            found[column] = None if value is None else value * factor
        launches.setdefault(name, []).append(found)
    for name, every in launches.items():
        cells = {"kernel": name, "launches": len(every)}
        for column in METRICS:
            values = sorted(each[column] for each in every if each[column] is not None)
            cells[column] = values[len(values) // 2] if values else None
        yield cells
