#!/usr/bin/env python3
"""predict_cuda.py BIN SCRATCH CONFIG.json [--prompt=N] [--draw] [--save=FILE --name=MODEL]
[FLAG...]: how long each kernel of a model should take on GPUs, by arithmetic.

BIN is build/bin; the tests' tools are needed (scripts/setup.sh cria-test-depends).
FLAGs go to cria-compile. One layer of the model, with random weights, runs a prompt of
N tokens (512) in one chunk, and the next token, in the emulated driver, which counts the
work of each launch. Ids are the likeliest or, with --draw, drawn by temperature, top-k
and top-p. ptxas and nvdisasm say how many blocks fit a multiprocessor, and how many loads
a lane has in flight. A launch takes

  LAUNCH + LATENCY + COMBINE (where a last block combines; CLUSTER where the blocks of
  a cluster combine) + the longest of

  memory    bytes of weights and caches / rate of memory
  L2        bytes of sectors / rate of the L2 cache. Sectors that a block loads several
            times count once, as the L1 cache keeps them; so do those of a multicast
  copies    bytes of sectors of the busiest multiprocessor / 64 a cycle. Sectors of a
            multicast count in each block that gets them
  issue     its warps' instructions / 4 a cycle
  shared    its wavefronts, and loads of 128 bytes from the L1 cache / 1 a cycle
  tensor    its matrix operations / their rate
  latency   LATENCY for each time but the first that the longest block waits for loads
            in flight, for each of the blocks that run one after the other

From sm_90 on a kernel begins while the one before it runs, unless it is the first of
all. Then DEPENDENT replaces LAUNCH and, where weights or keys are copied before the wait,
INPUT replaces LATENCY. Memory serves these copies from the end of the kernel before on,
while this one waits and while its input comes: what it delivers in DEPENDENT and INPUT, of
what is in flight at once, counts neither in `memory` nor in L2.

--save adds the times to a FILE of JSON: {GPU: {MODEL: {call: {kernel: us of its launches}}}},
which scripts/gpu_check.sh packs.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "test" / part) for part in ("e2e", "lowering")]
import ptxas  # noqa: E402
import sass  # noqa: E402
from harness import Tools, execute  # noqa: E402

LAUNCH = 0.9  # us from the end of a kernel of a graph to the next one's first load
LATENCY = 0.6  # us of memory under load
# us from the end of a kernel to the end of the next one's wait. Not measured: estimated
# as two trips to the L2 cache.
DEPENDENT = 0.3
INPUT = 0.3  # us: a load of the previous kernel's results from L2
COMBINE = 0.9  # us: a fence, an atomic, and loads of other blocks' results
# us: stores to the L2 cache, a barrier of a cluster, and loads of its blocks' results
CLUSTER = 0.6
PORT = 64  # bytes a cycle from the L2 cache into a multiprocessor
SECTOR = 32  # bytes


@dataclasses.dataclass
class Gpu:
    """Rates that a good kernel reaches."""

    name: str
    chip: str
    multiprocessors: int
    clock: float  # GHz under load
    memory: float  # TB/s, as a read loop
    l2: float  # TB/s
    tensor: float  # TFLOP/s of mma.sync in bf16; of its int8, twice as many
    wgmma: float = 0  # TFLOP/s of products of warpgroups


# H100 and H200: mma.sync ends at 62 to 65 % of the peak, which only wgmma reaches.
GPUS = [
    Gpu("A100", "sm_80", 108, 1.4, 1.75, 4.0, 280),
    Gpu("H100", "sm_90a", 132, 1.7, 3.0, 5.5, 620, 790),
    Gpu("H200", "sm_90a", 132, 1.7, 4.3, 5.5, 620, 790),
]


def rate_of(gpu, name):
    """TFLOP/s of a class of matrix products."""
    if name.startswith("wgmma"):
        return gpu.wgmma
    return gpu.tensor * (2 if name.endswith(("s8", "u8")) else 1)


def total(launch, kinds, field):
    return sum(launch.get(kind, {}).get(field, 0) for kind in kinds)


def times(gpu, launch, memory, figures):
    """{resource that may bound a launch: us}. `launch` has the emulator's counts,
    `memory` the bytes that come from memory, and `figures` those of SASS."""
    blocks = math.prod(launch["grid"])
    warps = sum(launch["warp_instructions"].values())
    # The part of all work that the busiest multiprocessor does: its share of the
    # blocks, rounded up, and at least the longest block.
    longest = launch["longest_block"] / warps
    share = max(math.ceil(blocks / gpu.multiprocessors) / blocks, longest)
    asked = ["global_load", "global_copy"]
    others = ["global_copy", "global_store", "global_atomic"]
    sectors = total(launch, others, "sectors")
    sectors += total(launch, ["global_load"], "block_sectors")
    shared = ["shared_load", "shared_store", "shared_atomic", "shared_copy"]
    wavefronts = total(launch, [*shared, "matrix_load", "matrix_store"], "wavefronts")
    wavefronts += total(launch, ["global_load"], "sectors") * SECTOR / 128
    moved = sectors * SECTOR + launch.get("bulk_bytes", 0)
    operations = sum(
        count / rate_of(gpu, name) for name, count in launch["operations"].items()
    )
    # The number of blocks as long as the longest one, of blocks that a multiprocessor
    # runs one after the other, and of times that a lane waits.
    full = min(blocks, 1 / longest)
    turns = math.ceil(full / (gpu.multiprocessors * figures["blocks"]))
    lanes = math.prod(launch["block"])
    loaded = total(launch, asked, "used_bytes") + launch.get("bulk_bytes", 0)
    loaded *= longest / lanes
    waits = loaded / (16 * figures["loads"]) if figures["loads"] else 0
    cycle = 1e-3 / gpu.clock  # us
    return {
        "memory": memory / gpu.memory * 1e-6,
        "L2": moved / gpu.l2 * 1e-6,
        "copies": (moved + launch.get("multicast_bytes", 0)) * share / PORT * cycle,
        "issue": warps * share / 4 * cycle,
        "shared": wavefronts * share * cycle,
        "tensor": operations * share * gpu.multiprocessors * 1e-6,
        "latency": max(turns * waits - 1, 0) * LATENCY,
    }


def predict(gpu, launch, memory, figures, overlaps):
    """(us, resource that bounds it) of a launch. If the launch waits for the one before,
    the two overlap."""
    found = times(gpu, launch, memory, figures)
    fixed = COMBINE if "global_atomic" in launch else 0
    fixed = CLUSTER if launch["kernel"].endswith("_cluster") else fixed
    if overlaps and figures["early"]:
        if figures["KiB"] is None:  # prompts: what the lanes copy before the wait
            at_once = min(math.prod(launch["grid"]), figures["blocks"] * gpu.multiprocessors)
            flying = figures["copies"] * math.prod(launch["block"]) * at_once
        else:
            flying = figures["KiB"] * 1024 * gpu.multiprocessors
        early = min(memory, flying, (DEPENDENT + INPUT) * gpu.memory * 1e6)
        found["memory"] -= early / gpu.memory * 1e-6
        found["L2"] -= early / gpu.l2 * 1e-6
    bound = max(found, key=found.get)
    if overlaps and figures["waits"]:
        fixed += DEPENDENT + (INPUT if figures["early"] else LATENCY)
    else:
        fixed += LAUNCH + LATENCY
    return fixed + found[bound], bound if found[bound] > fixed else "launch"


def layer_of(config, scratch):
    """(file of the same config with one layer, ids that the model has)."""
    keys = json.loads(config.read_text())
    layers = keys["num_hidden_layers"]
    for key, value in keys.items():
        if isinstance(value, list) and len(value) == layers:
            keys[key] = value[:1]
    path = scratch / "config.json"
    path.write_text(json.dumps(keys | {"num_hidden_layers": 1}))
    return path, keys["vocab_size"]


def floors(tools, config, flags):
    """{kernel: (runs, bytes, floor of each GPU in us)} of --report=plan."""
    plan = json.loads(sass.report(tools, config, *flags, "--json"))
    found = {}
    for kernel in plan["kernels"]:
        us = [1e6 * kernel["floor_seconds"][machine["name"]] for machine in plan["machines"]]
        found[kernel["kernel"]] = kernel["runs"], kernel["bytes"], us
    return found


def counted(tools, artifact, vocabulary, prompt, sampling, chip):
    """The launches of a prompt and of the token after it, on a device that runs the
    code for a chip: {name: [counts]}."""
    file = tools.scratch / f"counts.{chip}.json"
    ids = ",".join(str(i % vocabulary) for i in range(prompt))
    driver = tools.bin.parent / "lib" / "libcria-emulator.so"
    variables = {"CRIA_CUDA_DRIVER": driver, "CRIA_EMULATOR_CHECKS": "none"}
    variables |= {"CRIA_EMULATOR_COUNT": file, "CRIA_EMULATOR_OPTIMIZATION": "2"}
    variables["CRIA_EMULATOR_DEVICE"] = chip.rstrip("a")
    command = tools.run_command(artifact, "--device=cuda", "--random-weights=1")
    command += [f"--ids={ids}", "--max-tokens=2", "--print-ids", *sampling]
    execute(command, env=os.environ | variables).ok()
    result = {}
    for line in file.read_text().splitlines():
        launch = json.loads(line)
        result.setdefault(launch["kernel"], []).append(launch)
    return result


def compiled(tools, config, flags):
    """({chip: file of PTX}, artifact) of a config."""
    dump = tools.scratch / "phases"
    artifact = tools.compile(config, *flags, f"--dump-phases={dump}", out="model.cria")
    return {gpu.chip: dump / gpu.chip / "5-ptx.ptx" for gpu in GPUS}, artifact


def figures_of(tools, config, flags, ptx):
    """{(kernel, chip): figures of machine code}, with what its PTX says of overlap."""
    rows = sass.read_report(sass.report(tools, config, *flags))
    for chip, file in ptx.items():
        for name, text in ptxas.kernels(file.read_text()).items():
            before, wait, _ = text.rpartition("griddepcontrol.wait")
            row = rows[name, chip]
            row["waits"] = bool(wait)
            row["early"] = wait and re.search(r"cp\.async|ld\.global\.nc", before)
            pieces = re.findall(r"cp\.async\.c[ag]\.\S+\s[^;]*\], (\d+)", before)
            row["copies"] = sum(map(int, pieces)) if wait else 0
    return rows


def parts_of(launches, bounds):
    """{kernel: (times a call, part of the bytes of its row in `bounds`)}: a row may be
    several launches, NAME and NAME_.... Each has its part of the row's operations or, if
    the row has none, of the bytes that they load from memory."""
    rows, result = {}, {}
    for name, counts in launches.items():
        row = next((row for row in bounds if f"{name}_".startswith(f"{row}_")), None)
        rows.setdefault(row, []).append(name)
    for row, names in rows.items():
        runs, size, _ = bounds.get(row, (1, 0, None))
        weights = {
            name: sum(launches[name][-1]["operations"].values()) for name in names
        }
        if not any(weights.values()):
            asked = ["global_load", "global_copy"]
            weights = {
                name: total(launches[name][-1], asked, "bytes") for name in names
            }
        every = sum(weights.values()) or 1
        for name in names:
            result[name] = runs, size * weights[name] / every
    return result


def table(title, launches, bounds, figures, saved):
    """Lines of Markdown: a kernel's time and what bounds it, on each GPU. `launches`
    has those of each chip; NAME_wgmma and NAME_bulk are what NAME is on others. Adds the
    times of all launches to `saved`: {GPU: {kernel: us}}."""
    heads = [f"{gpu.name}, us" for gpu in GPUS]
    yield "| " + " | ".join([title, "times", *heads, "bound"]) + " |"
    yield "|---" * (len(GPUS) + 3) + "|"
    sums, apart = [0] * len(GPUS), [0] * len(GPUS)
    parts = {chip: parts_of(each, bounds) for chip, each in launches.items()}
    names = {
        chip: {re.sub("_(wgmma|bulk|cluster)$", "", name): name for name in each}
        for chip, each in launches.items()
    }
    for row in dict.fromkeys(row for each in names.values() for row in each):
        each = []
        for gpu in GPUS:
            name = names[gpu.chip][row]
            runs, size = parts[gpu.chip][name]
            counts = launches[gpu.chip][name][-1]
            each.append((gpu, counts, size, figures[name, gpu.chip]))
        found = [predict(*one, overlaps=row != f"embed_{title}") for one in each]
        sums = [old + runs * us for old, (us, _) in zip(sums, found)]
        for gpu, (us, _) in zip(GPUS, found):
            saved.setdefault(gpu.name, {})[row] = round(runs * us, 1)
        alone = [predict(*one, overlaps=False) for one in each]
        apart = [old + runs * us for old, (us, _) in zip(apart, alone)]
        bound = " / ".join(dict.fromkeys(bound for _, bound in found))
        cells = [f"`{row}`", str(runs), *(f"{us:.1f}" for us, _ in found), bound]
        yield "| " + " | ".join(cells) + " |"
    for gpu, us in zip(GPUS, sums):
        saved[gpu.name]["all"] = round(us, 1)
    least = [
        sum(runs * us[i] for runs, _, us in bounds.values()) for i in range(len(GPUS))
    ]
    for what, all in (("", sums), (" one after the other", apart)):
        cells = [f"{us:.0f}, {floor / us:.0%}" for us, floor in zip(all, least)]
        yield "| " + " | ".join([f"all{what}, and its floor's part", "", *cells, ""]) + " |"


def save(options, call, saved):
    """Adds the times of a call to the file of --save."""
    if not options.save:
        return
    known = json.loads(options.save.read_text()) if options.save.exists() else {}
    for gpu, times in saved.items():
        known.setdefault(gpu, {}).setdefault(options.name, {})[call] = times
    options.save.write_text(json.dumps(known, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("bin")
    parser.add_argument("scratch")
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--name", help="of the model in FILE")
    options, flags = parser.parse_known_args()
    tools = Tools(options.bin, options.scratch)
    places = [str(tools.bin.parent / "cuda-tools"), os.environ["PATH"]]
    os.environ["PATH"] = os.pathsep.join(places)
    flags += ["--target=cuda", f"--chunk={options.prompt}"]
    flags.append("--chip=" + ",".join(sorted({gpu.chip for gpu in GPUS})))
    config, vocabulary = layer_of(options.config, tools.scratch)
    ptx, artifact = compiled(tools, config, flags)
    draw = ["--temperature=0.8", "--top-k=50", "--top-p=0.95", "--seed=1"]
    sampling = draw if options.draw else ["--temperature=0"]
    launches = {
        chip: counted(tools, artifact, vocabulary, options.prompt, sampling, chip)
        for chip in {gpu.chip: None for gpu in GPUS}
    }
    figures = figures_of(tools, config, flags, ptx)
    calls = {"prefill": f"prefill of {options.prompt}", "decode": f"decode at {options.prompt}"}
    for entry, depth in (("prefill", 0), ("decode", options.prompt)):
        bounds = floors(tools, options.config, [*flags, f"--depth={depth}"])
        bounds = {name: row for name, row in bounds.items() if name.endswith(entry)}
        found = {
            chip: {
                name: counts
                for name, counts in each.items()
                if f"_{entry}" in name
                or entry == "decode"
                and name.startswith("sample")
            }
            for chip, each in launches.items()
        }
        saved = {}
        print("\n".join(table(entry, found, bounds, figures, saved)), end="\n\n")
        save(options, calls[entry], saved)


if __name__ == "__main__":
    main()
