"""sass.py BIN SCRATCH [--update]: the machine code for NVIDIA GPUs is as good as
Inputs/sass.txt says.

`cria-compile --report=plan` prints figures of the machine code of each kernel of MODELS,
for each chip; ptxas and nvdisasm are in the build folder's cuda-tools/, or on the PATH.
The last column says which figures are worse:

  loads      16-byte loads in flight a lane, in the main loop (Sass.h)           less
  MMA        instructions for each MMA in the main loop                          more
  registers  of a thread                                                         more
  blocks     that fit a multiprocessor, by registers, shared memory and threads  less
  shared     bytes of shared memory a block                                      more
  local      bytes of stack and spills; not in the table, as there may be none   more

`-` stands for a kernel that loads nothing in its main loop, or has no MMA. The test fails
if a figure is worse than the table's, if the kernels are not those of the rows, if a
product of decode in 16 bits has less than 32 KiB in flight on a multiprocessor, or if
ptxas warns, for example that it serializes products of warpgroups (C7510). --update
writes new tables here and in docs/performance/nvidia.md, for people to review:

  build/venv/bin/python test/lowering/sass.py build/bin /tmp/sass --update

--report=FILE compares an existing report with --table=FILE.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
from harness import Tools, check, execute, some  # noqa: E402

CONFIGS = HERE.parent / "e2e" / "Inputs"
TABLE = HERE / "Inputs" / "sass.txt"
DOCUMENT = HERE.parent.parent / "docs" / "performance" / "nvidia.md"
MODELS = {
    "llama-3.2-1b": ("llama-3.2-1b.json", []),
    "llama-3.2-1b.f32": ("llama-3.2-1b.json", ["--dtype=f32"]),
    "llama-3.2-1b.q8_0": ("llama-3.2-1b.json", ["--quantize=q8_0"]),
    "llama-3.1-8b": ("llama-3.1-8b.json", []),
    "llama-2-7b": ("llama-2-7b.json", []),
}
# The code that is generated, and the chips that it is assembled for.
CODE = ["--chip=sm_80,sm_90,sm_90a,sm_100", "--cubin=sm_80,sm_90a,sm_100"]
CHIPS = ["sm_80", "sm_90a", "sm_100"]
DOCUMENTED = ["llama-3.2-1b", "llama-3.2-1b.q8_0", "llama-2-7b"]
# What products of decode have in flight on a multiprocessor at least, on GPUs that have
# been looked at: latency times bandwidth is 23 KiB on an H200, less on others.
LEAST_KIB = {"sm_80": 32, "sm_90a": 32}
PRODUCTS = r"(qkv|out|gate_up|down|head)_decode(_bulk)?$"
WHOLE = ["llama-3.2-1b", "llama-3.1-8b", "llama-2-7b"]
# The figures, and whether more of one is better.
BETTER = {
    "loads": max,
    "MMA": min,
    "registers": min,
    "blocks": max,
    "shared": min,
}
# Those of the document, and how they are written.
FORMS = {
    "loads": "%.1f",
    "KiB": "%.0f",
    "MMA": "%.1f",
    "registers": "%d",
    "blocks": "%d",
}
HEADER = """\
# What each kernel must reach, on each chip; sass.py says what the figures are.
# Written by sass.py --update, with ptxas {release}.
"""
ROW = "{:18} {:34} {:7} {:>6} {:>6} {:>9} {:>6} {:>6}"


def read_report(text):
    """{(kernel, chip): figures} of what --report=plan prints."""
    check("\nmachine code for " in text, "no machine code in the report")
    result = {}
    for part in text.split("\nmachine code for ")[1:]:
        title, heads, *lines = part.split("\n\n")[0].splitlines()
        for line in lines:
            check(not line.startswith("ptxas"), line)
            name, *cells = line.split()
            numbers = [None if each == "-" else float(each) for each in cells]
            result[name, title.split(",")[0]] = dict(zip(heads.split()[1:], numbers))
    return result


def report(tools, config, *flags):
    """What --report=plan prints of a config for NVIDIA GPUs."""
    command = [tools.bin / "cria-compile", config, "--target=cuda", "--report=plan"]
    return execute([*command, *flags]).ok().text


def measure(tools, models):
    """{(model, kernel, chip): figures} of `models`, which are some of MODELS."""

    def rows(model):
        config, flags = MODELS[model]
        return read_report(report(tools, CONFIGS / config, *flags, *CODE))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(models, pool.map(rows, models)))
    return {
        (model, kernel, chip): found[kernel, chip]
        for model, found in results.items()
        for kernel in sorted({kernel for kernel, _ in found})
        for chip in CHIPS
        if (kernel, chip) in found
    }


def read_table(path):
    """{(model, kernel, chip): figures} of the bounds."""
    result = {}
    for line in path.read_text().splitlines():
        if line.startswith(("#", "model ")):
            continue
        model, kernel, chip, *cells = line.split()
        numbers = [None if each == "-" else float(each) for each in cells]
        result[model, kernel, chip] = dict(zip(BETTER, numbers))
    return result


def said(figure, form):
    return "-" if figure is None else form % figure


def write_table(path, rows):
    version = execute(["ptxas", "--version"]).ok().text
    lines = [HEADER + ROW.format("model", "kernel", "chip", *BETTER)]
    for key, figures in rows.items():
        cells = [said(figures[each], "%.2f") for each in list(BETTER)[:2]]
        cells += [said(figures[each], "%d") for each in list(BETTER)[2:]]
        lines.append(ROW.format(*key, *cells))
    text = "\n".join(lines) + "\n"
    path.write_text(text.format(release=re.search(r"\bV([\d.]+)", version)[1]))


def complaints(rows, bounds):
    """What is worse than the table says."""
    for key in [*bounds, *rows]:
        where = ", ".join(key)
        if key not in rows:
            yield f"{where}: the table has this kernel, the program does not"
        elif key not in bounds:
            yield f"{where}: the table does not have this kernel"
    for key in [key for key in rows if key in bounds]:
        where = ", ".join(key)
        if local := rows[key]["local"]:
            yield f"{where}: local {local}, expected none"
        for figure, better in BETTER.items():
            got, bound = rows[key][figure], bounds[key][figure]
            limit = "at least" if better is max else "at most"
            if (got is None) != (bound is None):
                yield f"{where}: {figure} {got}, expected {bound}"
            elif got is not None and better(got, bound) != got:
                yield f"{where}: {figure} {got}, expected {limit} {bound}"


def idle(rows):
    """Products that have too little on its way for the memory's bandwidth."""
    for (model, kernel, chip), figures in rows.items():
        least = LEAST_KIB.get(chip, 0) if model in WHOLE else 0
        if re.search(PRODUCTS, kernel) and not (figures["KiB"] or 0) >= least:
            yield f"{model}, {kernel}, {chip}: KiB {figures['KiB']}, expected at least {least}"


def markdown(rows):
    """Tables of attention and products, with a figure for each chip."""
    for model in DOCUMENTED:
        titles = [f"`{model}`", "loads in flight", "KiB in flight", "an MMA"]
        yield "| " + " | ".join([*titles, "registers", "blocks"]) + " |"
        yield "|---" * (len(titles) + 2) + "|"
        names = dict.fromkeys(kernel for found, kernel, _ in rows if found == model)
        for name in names:
            each = [rows.get((model, name, chip)) for chip in CHIPS]
            if re.search("^(embed|sample)|_input$", name):
                continue
            cells = []
            for figure, form in FORMS.items():
                texts = [said(row and row[figure], form) for row in each]
                cells.append(" / ".join(texts) if set(texts) - {"-"} else "")
            yield "| " + " | ".join([f"`{name}`", *cells]) + " |"
        yield ""


def write_document(rows):
    """Puts the tables between the marks of the document."""
    begin, end = "<!-- sass.py -->\n", "<!-- end -->"
    before, _, rest = DOCUMENT.read_text().partition(begin)
    _, found, after = rest.partition(end)
    check(found, f"{DOCUMENT.name}: expected {begin.strip()} ... {end}")
    text = before + begin + "\n".join(markdown(rows)) + end + after
    DOCUMENT.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("scratch")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE)
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    tools = Tools(options.bin, options.scratch)
    downloaded = tools.bin.parent / "cuda-tools"
    os.environ["PATH"] = os.pathsep.join([str(downloaded), os.environ["PATH"]])
    if options.report:
        found = read_report(options.report.read_text())
        rows = {(options.report.stem, *key): row for key, row in found.items()}
    else:
        rows = measure(tools, MODELS if options.update else some(MODELS, 3))
    if options.update:
        write_table(options.table, rows)
        if options.table == TABLE:
            write_document(rows)
        return
    measured = {model for model, *_ in rows}
    table = read_table(options.table)
    table = {key: row for key, row in table.items() if key[0] in measured}
    found = [*complaints(rows, table), *idle(rows)]
    check(not found, f"worse than {options.table.name}:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
