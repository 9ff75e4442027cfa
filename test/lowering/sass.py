"""sass.py BIN SCRATCH [--update]: what runs on NVIDIA GPUs is as good as
Inputs/sass.txt says.

For each kernel of MODELS and each chip, ptxas assembles and nvdisasm lists (in the
build folder's cuda-tools/, or on the PATH). What is measured, and which way is worse:

  loads      16-byte loads in flight a lane, in the main loop (disassembly.py)   less
  mma        instructions for each MMA in the main loop                          more
  registers  of a thread                                                         more
  blocks     that fit a multiprocessor, by registers, shared memory and threads  less
  shared     bytes of shared memory a block                                      more
  local      bytes of stack and spills; not in the table, as there may be none   more

`-` stands for a kernel that streams nothing, or has no MMA. The test fails where a
figure is worse than the table's, and where kernels and rows are not the same. --update
writes the table anew, and docs/performance.md's tables, for people to review:

  build/venv/bin/python test/lowering/sass.py build/bin /tmp/sass --update

--ptx=FILE measures a file of PTX for sm_90a instead, whose parameters are all streamed,
against --table=FILE.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
import disassembly  # noqa: E402
import ptxas  # noqa: E402
from harness import Tools, check, execute  # noqa: E402

CONFIGS = HERE.parent / "e2e" / "Inputs"
TABLE = HERE / "Inputs" / "sass.txt"
DOCUMENT = HERE.parent.parent / "docs" / "performance.md"
MODELS = {
    "llama-3.2-1b": ("llama-3.2-1b.json", []),
    "llama-3.2-1b.f32": ("llama-3.2-1b.json", ["--dtype=f32"]),
    "llama-3.2-1b.q8_0": ("llama-3.2-1b.json", ["--quantize=q8_0"]),
    "llama-3.1-8b": ("llama-3.1-8b.json", []),
    "llama-2-7b": ("llama-2-7b.json", []),
}
# The chip that the code for each is generated for.
CODE = {"sm_80": "sm_80", "sm_90a": "sm_90a", "sm_100": "sm_90"}
DOCUMENTED = ["llama-3.2-1b", "llama-3.2-1b.q8_0", "llama-2-7b"]
# The figures, and whether more of one is better.
BETTER = {
    "loads": max,
    "mma": min,
    "registers": min,
    "blocks": max,
    "shared": min,
}
HEADER = """\
# What each kernel must reach, on each chip; sass.py says what the figures are.
# Written by sass.py --update, with ptxas {release}.
"""
ROW = "{:18} {:34} {:7} {:>6} {:>6} {:>9} {:>6} {:>6}"


@dataclasses.dataclass
class Chip:
    """Limits of a multiprocessor, and a GPU that has them."""

    gpu: str
    multiprocessors: int
    shared: int
    registers: int = 64 << 10
    warps: int = 64
    blocks: int = 32

    def resident(self, threads, registers, shared):
        """Blocks that fit. A warp's registers come in units of 256, from the quarter
        of them that its scheduler has; a block's shared memory in units of 128 bytes,
        1 KiB more than it asks for."""
        warps = -(-threads // 32)
        each = -(-registers * 32 // 256) * 256
        by_registers = self.registers // 4 // each * 4 // warps
        by_shared = self.shared // (-(-shared // 128) * 128 + 1024)
        return min(by_registers, by_shared, self.warps // warps, self.blocks)


CHIPS = {
    "sm_80": Chip("A100", 108, 164 << 10),
    "sm_90a": Chip("H200", 132, 228 << 10),
    "sm_100": Chip("B200", 148, 228 << 10),
}


@dataclasses.dataclass
class Launch:
    """How a kernel runs."""

    threads: int
    streamed: int  # mask of the parameters that point to weights or caches
    blocks: int = None  # of the grid, if that is always the same
    shared: int = 0  # bytes that the launch asks for


def launches_of(plan):
    """The launches of an entry of the plan, those of loops over layers too."""
    for entry in plan:
        yield from launches_of(entry["body"]) if "body" in entry else [entry]


def streams(argument, shapes):
    """Whether a launch's argument is a matrix or a cache, which other than vectors do
    not stay in the GPU's caches."""
    return "cache" in argument or shapes.get(argument.get("weight"), 0) > 1


def fixed_size(size):
    """A dimension of a grid that is the same wherever it is not 0, or None."""
    if isinstance(size, int):
        return size
    divisor = size.get("tokens") or size["logits"]
    return 1 if size.get("to", divisor + 1) <= divisor else None


def launches(manifest):
    """{kernel: Launch} of an artifact."""
    shapes = {each["slot"]: len(each["shape"]) for each in manifest["weights"]}
    for each in manifest["weights"]:
        shapes |= {each["slot"] + i: shapes[each["slot"]] for i in range(each["count"])}
    result = {}
    for entry in manifest["cuda"]["entries"].values():
        for launch in launches_of(entry):
            x, y, z = (fixed_size(size) for size in launch["grid"])
            fixed = None not in (x, y, z)
            bits = [streams(argument, shapes) for argument in launch["args"]]
            result[launch["launch"]] = Launch(
                threads=launch["block"][0] * launch["block"][1] * launch["block"][2],
                streamed=sum(bit << index for index, bit in enumerate(bits)),
                blocks=x * y * z if fixed else None,
                shared=launch["shared"],
            )
    return result


def compiled(tools, config, name, *flags):
    """({chip: file of PTX}, artifact) of a config."""
    dump = tools.scratch / name
    flags = ["--target=cuda", *flags, f"--dump-phases={dump}"]
    flags.append("--chip=" + ",".join(sorted(set(CODE.values()))))
    artifact = tools.compile(config, *flags, out=f"{name}.cria")
    return {chip: dump / code / "5-ptx.ptx" for chip, code in CODE.items()}, artifact


def compile_model(tools, model):
    """({chip: file of PTX}, launches) of one of MODELS."""
    config, flags = MODELS[model]
    ptx, artifact = compiled(tools, CONFIGS / config, model, *flags)
    inspected = execute([tools.bin / "cria-inspect", "--json", artifact]).ok()
    return ptx, launches(json.loads(inspected.text))


def planted(ptx, scratch):
    """({chip: its copy}, launches) of PTX without an artifact."""
    copy = shutil.copy(ptx, scratch / ptx.name)
    result = {}
    for name, text in ptxas.kernels(ptx.read_text()).items():
        threads = int(re.search(r"\.maxntid (\d+)", text)[1])
        result[name] = Launch(threads, streamed=-1)
    return {"sm_90a": copy}, result


def parameters(text, chip):
    """{word of constant bank 0: bit of the parameter} of a kernel's PTX."""
    result, end = {}, disassembly.PARAMETERS[chip]
    declared = re.findall(r"\.param ([^,)]*)", text[: text.index("{")])
    for index, declaration in enumerate(declared):
        array = re.search(r"\.align (\d+) \.b8 \w+\[(\d+)\]", declaration)
        if array:
            align, size = int(array[1]), int(array[2])
        else:
            align = size = int(re.match(r"\.[usbf](\d+)", declaration)[1]) // 8
        start = -(-end // align) * align
        end = start + size
        result |= {word: 1 << index for word in range(start // 4, -(-end // 4))}
    return result


def measure(model, ptx, found, chip):
    """{(model, kernel, chip): figures} of a file of PTX."""
    cubin = ptx.with_suffix(f".{chip}.cubin")
    reports = ptxas.assemble(ptx, chip, cubin)
    listing = execute(["nvdisasm", "-c", cubin]).ok().text
    texts, result = ptxas.kernels(ptx.read_text()), {}
    for name, kernel in disassembly.kernels(listing).items():
        launch, said = found[name], reports[name]
        figures = disassembly.figures(
            kernel, launch.threads, parameters(texts[name], chip), launch.streamed
        )
        shared = said["shared"] + launch.shared
        resident = CHIPS[chip].resident(launch.threads, said["registers"], shared)
        local = said["stack"] + said["spilt"] + said["reloaded"]
        figures |= {"registers": said["registers"], "blocks": resident}
        figures |= {"shared": shared, "local": local, "launch": launch}
        result[model, name, chip] = figures
    check(len(result) == len(texts), f"{model}, {chip}: nvdisasm lists {[*result]}")
    return result


def measure_all(models, chips):
    """The figures of {model: ({chip: ptx}, launches)}."""
    tasks = [
        (model, ptx[chip], found, chip)
        for model, (ptx, found) in models.items()
        for chip in chips
    ]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        results = pool.map(measure, *zip(*tasks))
    rows = {key: row for rows in results for key, row in rows.items()}
    orders = list(models), list(chips)

    def place(key):
        model, kernel, chip = key
        return orders[0].index(model), kernel, orders[1].index(chip)

    return {key: rows[key] for key in sorted(rows, key=place)}


def read_table(path):
    """{(model, kernel, chip): figures} of the bounds."""
    result = {}
    for line in path.read_text().splitlines():
        if line.startswith(("#", "model ")):
            continue
        *key, loads, mma, registers, blocks, shared = line.split()
        numbers = [None if each == "-" else float(each) for each in (loads, mma)]
        numbers += [int(registers), int(blocks), int(shared)]
        result[tuple(key)] = dict(zip(BETTER, numbers))
    return result


def write_table(path, rows):
    said = execute(["ptxas", "--version"]).ok().text
    lines = [HEADER + ROW.format("model", "kernel", "chip", *BETTER)]
    for key, figures in rows.items():
        cells = ["-" if figures[each] is None else figures[each] for each in BETTER]
        cells[:2] = [f"{each:.2f}" if each != "-" else each for each in cells[:2]]
        lines.append(ROW.format(*key, *cells))
    text = "\n".join(lines) + "\n"
    path.write_text(text.format(release=re.search(r"\bV([\d.]+)", said)[1]))


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


def in_flight(figures, chip):
    """KiB on their way to a multiprocessor: "" where a grid's size varies."""
    launch = figures and figures["launch"]
    if not launch or launch.blocks is None or figures["loads"] is None:
        return ""
    blocks = min(figures["blocks"], launch.blocks / chip.multiprocessors)
    return f"{blocks * launch.threads * figures['loads'] * 16 / 1024:.0f}"


def said(figure):
    if figure is None:
        return "-"
    return f"{figure:.1f}" if isinstance(figure, float) else str(figure)


def markdown(rows):
    """Tables of the kernels that stream or multiply, with a figure for each chip."""
    for model in DOCUMENTED:
        titles = [f"`{model}`", "loads in flight", "KiB in flight", "an MMA"]
        yield "| " + " | ".join([*titles, "registers", "blocks"]) + " |"
        yield "|---" * (len(titles) + 2) + "|"
        names = dict.fromkeys(kernel for found, kernel, _ in rows if found == model)
        for name in names:
            each = {chip: rows.get((model, name, chip)) for chip in CHIPS}
            known = [row for row in each.values() if row]
            figures = known[0]["loads"], known[0]["mma"]
            if name.startswith("embed_") or figures == (None, None):
                continue
            cells = [
                [in_flight(row, CHIPS[chip]) for chip, row in each.items()],
                *(
                    [said(row and row[figure]) for row in each.values()]
                    for figure in BETTER
                ),
            ]
            kib, loads, mma, registers, blocks, _ = [
                " / ".join(cell) if set(cell) - {"", "-"} else "" for cell in cells
            ]
            texts = [loads, kib, mma, registers, blocks]
            yield "| " + " | ".join([f"`{name}`", *texts]) + " |"
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
    parser.add_argument("--ptx", type=pathlib.Path)
    options = parser.parse_args()
    tools = Tools(options.bin, options.scratch)
    downloaded = tools.bin.parent / "cuda-tools"
    os.environ["PATH"] = os.pathsep.join([str(downloaded), os.environ["PATH"]])
    if options.ptx:
        chips = ["sm_90a"]
        models = {options.ptx.stem: planted(options.ptx, tools.scratch)}
    else:
        models = {model: compile_model(tools, model) for model in MODELS}
        chips = list(CHIPS)
    rows = measure_all(models, chips)
    if options.update:
        write_table(options.table, rows)
        if options.table == TABLE:
            write_document(rows)
        return
    found = list(complaints(rows, read_table(options.table)))
    check(not found, f"worse than {options.table.name}:\n" + "\n".join(found))


if __name__ == "__main__":
    main()
