"""ptxas.py BIN SCRATCH [FLAG...] CONFIG.json...: checks the output of ptxas
for the kernels.

For every model and chip: no spills, no stack but as below, static shared memory within
48 KiB, registers within the budget below. Weights in decode come by asynchronous
copies of 16 bytes, which begin before a block computes their input; products of
prompts are on tensor cores. With --chip, for that chip: no spills, no stack, and
no warnings, such as that products of warpgroups are serialized (C7510).
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
from harness import Tools, check, execute, some  # noqa: E402

CHIPS = ["sm_80", "sm_90", "sm_100"]
SHARED = 48 << 10
# Registers of a thread, by the first pattern that is found: with 128, four
# blocks of 128 threads fit a multiprocessor, with 168 three, with 255 two.
BUDGETS = {
    r"_(input|finish|groups)(_\d)? |^sample": 64,
    r"experts_down_decode": 168,
    r"(qkv|out|gate|gate_up|down|head)_prefill ": 255,
    r"_prefill_some ": 168,
    r"_(decode|batch|prefill(_few)?) ": 128,
}
PRODUCT = r"(qkv|out|gate_up|down|head)_"
NUMBERS = {
    "stack": r"(\d+) bytes stack frame",
    "spilt": r"(\d+) bytes spill stores",
    "reloaded": r"(\d+) bytes spill loads",
    "registers": r"Used (\d+) registers",
    "shared": r"(\d+) bytes smem",
}


def kernels(ptx):
    """{name: text} of the entries."""
    parts = re.split(r"^\s*\.visible \.entry (\w+)\(", ptx, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def check_text(name, text, in_blocks, where):
    """What the instructions of a kernel with weights must be."""
    if not re.search(PRODUCT, name) or re.search("_(input|finish|groups)", name):
        return
    wanted = ["cp.async.cg"]
    if in_blocks and name.endswith("experts_down_decode"):
        wanted = ["dp4a.s32.s32"]  # rows of eight experts: no room for copies
    elif name.endswith("_decode"):
        wanted += ["dp4a.s32.s32"] if in_blocks else []
        begin = text.split("bar.sync")[0].count("cp.async.cg")
        check(begin >= 4, f"{where}: {begin} copies before the input is computed")
    else:
        wanted += ["ldmatrix", "mma.sync"]
        if in_blocks:  # integers, or widened weights
            of_integers = name.startswith("head") or "experts" in name
            wanted += ["m16n8k32"] if of_integers else ["m16n8k16", "prmt.b32"]
    for instruction in wanted:
        check(instruction in text, f"{where}: no {instruction}")


def assemble(ptx, chip, cubin="/dev/null"):
    """{kernel: NUMBERS} of what ptxas makes of a file."""
    said = execute(["ptxas", "-v", f"-arch={chip}", ptx, "-o", cubin]).ok().errors
    check("(C75" not in said, f"{ptx.name}, {chip}: {said}")
    parts = re.split(r"Compiling entry function '(\w+)'", said)
    return {
        name: {
            key: int((re.search(pattern, report) or [0, 0])[1])
            for key, pattern in NUMBERS.items()
        }
        for name, report in zip(parts[1::2], parts[2::2])
    }


def check_budget(name, chip, numbers, where):
    which = f"{name} {chip}"
    budget = next(most for key, most in BUDGETS.items() if re.search(key, which))
    for key in "stack", "spilt", "reloaded":
        check(numbers[key] == 0, f"{where}: {numbers}")
    check(0 < numbers["registers"] <= budget, f"{where}: {numbers} > {budget}")
    check(numbers["shared"] <= SHARED, f"{where}: {numbers}")


def check_chip(ptx, entries, chip, where):
    reports = assemble(ptx, chip)
    check(reports.keys() == entries.keys(), f"{where}: ptxas saw {[*reports]}")
    for name, numbers in reports.items():
        check_budget(name, chip, numbers, f"{where}, {chip}, {name}")


def check_spills(ptx, code, chip, in_blocks, where):
    """No kernel for `code` spills on `chip`."""
    reports = assemble(ptx, chip)
    decodes = any("_decode" in name for name in reports)
    bulk = any(name.endswith("_decode_bulk") for name in reports)
    floats = decodes and not in_blocks
    check(bulk == (floats and code != "sm_80"), f"{where}: {[*reports]}")
    for name, numbers in reports.items():
        for key in "stack", "spilt", "reloaded":
            check(numbers[key] == 0, f"{where}, {chip}, {name}: {numbers}")


def main():
    tools = Tools(*sys.argv[1:3])
    given = [arg for arg in sys.argv[3:] if arg.startswith("--")]
    chips = [arg.removeprefix("--chip=") for arg in given if arg.startswith("--chip=")]
    in_blocks = any(arg.startswith("--quantize") for arg in given)
    configs = [pathlib.Path(arg) for arg in sys.argv[3 + len(given) :]]
    if not chips:
        configs = some(configs, 4, len(given))
    for i, config in enumerate(configs):
        ptx = tools.scratch / f"{config.stem}.ptx"
        flags = ["--target=cuda", "--emit=ptx", *given]
        execute(tools.compile_command(config, ptx, *flags)).ok()
        if chips:
            for chip in ["sm_100", "sm_120"] if chips == ["sm_100"] else chips:
                check_spills(ptx, chips[0], chip, in_blocks, config.name)
            continue
        entries = kernels(ptx.read_text())
        check(len(entries) > 10, f"{config.name}: entries {[*entries]}")
        for name, text in entries.items():
            check_text(name, text, in_blocks, f"{config.name}, {name}")
        for chip in some(CHIPS, len(CHIPS), i):
            check_chip(ptx, entries, chip, config.name)


if __name__ == "__main__":
    main()
