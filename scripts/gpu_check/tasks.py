"""tasks.py OPTIONS TASK ...: tasks that need only Cria and NumPy. Prints a row of
JSON for each measurement."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = json.loads(sys.argv[1])
DEVICE = OPTIONS["device"]
# Squared error of logits over the squared reference.
BARS = {"bf16": 2e-3, "f32": 1e-8}


def plan():
    return json.loads((FOLDER / "plan.json").read_text())


def model_named(name):
    return next(model for model in plan()["models"] if model["name"] == name)


def row(kind, ok=None, **cells):
    cells = {key.replace("_", " "): value for key, value in cells.items()}
    print(json.dumps({"kind": kind, "ok": ok, "cells": cells}), flush=True)


def output(*command):
    """The output of a tool, or None if it fails."""
    done = subprocess.run(
        [FOLDER / "bin" / command[0], *map(str, command[1:])],
        stdout=subprocess.PIPE, text=True, errors="replace",
    )
    return None if done.returncode else done.stdout


def ids_and_logits(artifact, device, ids, count, *weights):
    """Greedy ids after `ids`, and the logits of these."""
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "logits.npy")
        text = output(
            "cria-run", FOLDER / "artifacts" / artifact, f"--device={device}",
            "--ids=" + ",".join(map(str, ids)), f"--max-tokens={count}",
            "--temperature=0", "--print-ids", f"--logits={path}", *weights,
        )
        if text is None:
            sys.exit(1)
        return [int(word) for word in text.split(",")], numpy.load(path)


def prompt(vocab, length):
    import numpy

    return numpy.random.default_rng(1).integers(3, vocab, length).tolist()


def nmse(wanted, got):
    wanted, got = wanted.astype("float64"), got.astype("float64")
    return float(((got - wanted) ** 2).sum() / (wanted**2).sum())


def golden(name):
    """The checks of test/e2e/emulated.py, which end the process where one
    fails."""
    import emulated
    from harness import Golden, Tools

    with tempfile.TemporaryDirectory() as scratch:
        tools = Tools(FOLDER / "bin", scratch)
        emulated.check_golden(tools, Golden(name), FOLDER / "artifacts" / f"{name}.cria", DEVICE)
    row("goldens", True, golden=name, logits="as transformers and the CPU")


def tiny():
    """The shipped model's greedy ids are transformers'."""
    case = json.loads((FOLDER / "tiny" / "expected.json").read_text())["prompts"][0]
    count = len(case["greedy"]) if DEVICE == "cuda" else 12
    weights = f"--weights={FOLDER / 'tiny'}"
    got, _ = ids_and_logits("tiny.cria", DEVICE, case["ids"], count, weights)
    ok = got == case["greedy"][:count]
    row("ids", ok, model="tiny", greedy_ids=count, equal=sum(map(int.__eq__, got, case["greedy"])))


def beside(name):
    """Compares the logits of a prompt and the ids after it with the CPU's."""
    model = model_named(name)
    config = json.loads((FOLDER / model["config"] / "config.json").read_text())
    length, count = (48, 16) if DEVICE == "cuda" else (6, 2)
    ids, weights = prompt(config["vocab_size"], length), "--random-weights=1"
    wanted_ids, wanted = ids_and_logits(model["artifact"], "cpu", ids, count, weights)
    got_ids, got = ids_and_logits(model["artifact"], DEVICE, ids, count, weights)
    error = nmse(wanted, got)
    # Random weights make near ties: ids are counted, logits decide.
    equal = sum(map(int.__eq__, got_ids, wanted_ids))
    row("beside the CPU", error <= BARS["bf16"], model=name, NMSE=error,
        at_most=BARS["bf16"], equal_ids=f"{equal} of {count}")


def bench(name, depths, lengths, gen_len, *flags):
    model = model_named(name)
    text = output(
        "cria-bench", FOLDER / "artifacts" / model["artifact"], "--random-weights=1",
        f"--device={DEVICE}", "--json", f"--gen-len={gen_len}",
        "--depth=" + ",".join(map(str, depths)),
        "--prompt-len=" + ",".join(map(str, lengths)), *flags,
    )
    return json.loads(text) if text else None


def rates(name):
    report = bench(name, [0], [16], plan()["gen_len"]) or sys.exit(1)
    what, rate = f"reads, {report['read_loop']}", report["read_bytes_per_second"]
    row("rates", what=what, rate=rate / 1e12 if rate else None, unit="TB/s")
    for unit, rate in report["operations_per_second"].items():
        row("rates", what=unit, rate=rate / 1e12 if rate else None, unit="TFLOP/s")


def milliseconds(seconds):
    return None if seconds is None else seconds * 1e3


def speed_row(name, call, measured):
    fraction = measured["fraction"]
    row("speed", model=name, call=call, system="Cria", clock_ms=measured["seconds"] * 1e3,
        tokens_a_second=measured["tokens_per_second"],
        floor_ms=milliseconds(measured["floor_seconds"]),
        of_the_floor=f"{fraction:.0%}" if fraction else None)


def speed(name):
    sizes = plan()
    sizes = [sizes[key] for key in ("depths", "lengths", "gen_len")]
    report = bench(name, *sizes, "--kernels")
    if not report:
        row("failed", model=name, said="cria-bench --kernels fails; without it:")
        report = bench(name, *sizes) or sys.exit(1)
    for measured in report["decode"]:
        speed_row(name, f"decode at {measured['depth']}", measured)
    for measured in report["prefill"]:
        speed_row(name, f"prefill of {measured['tokens']}", measured)
    for table in report.get("kernels", []):
        kernel_rows(name, table)


def kernel_rows(name, table):
    decodes = table["tokens"] == 1
    call = f"decode at {table['depth']}" if decodes else f"prefill of {table['tokens']}"
    for kernel in table["kernels"]:
        floor, taken = kernel["floor_seconds"], kernel["seconds"]
        row("kernels", model=name, call=call, kernel=kernel["kernel"],
            launches=kernel["launches"], us=taken * 1e6, MB=kernel["bytes"] / 1e6,
            floor_us=floor * 1e6 if floor else None,
            of_the_floor=f"{floor / taken:.0%}" if floor and taken else None)
    row("kernels", model=name, call=call, kernel="all", us=table["seconds"] * 1e6)


def sanitizer(tool):
    """The small model under a tool of compute-sanitizer."""
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])
    path = shutil.which("compute-sanitizer", path=places)
    if DEVICE != "cuda" or not path:
        why = "no compute-sanitizer" if not path else "the device is emulated"
        row("skipped", skipped=why)
        return
    environment = os.environ | {"CRIA_CUDA_TIMEOUT": "100"}
    command = [
        path, f"--tool={tool}", "--error-exitcode=9", FOLDER / "bin" / "cria-run",
        FOLDER / "artifacts" / "tiny.cria", f"--weights={FOLDER / 'tiny'}", "--device=cuda",
        "--prompt=Once upon a time", "--max-tokens=4", "--temperature=0",
    ]
    done = subprocess.run(
        command, env=environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    sys.stderr.write(done.stdout)
    said = [line for line in done.stdout.split("\n") if "SUMMARY" in line]
    if done.returncode not in (0, 9) and not said:
        row("sanitizer", tool=tool, said="does not run here")
        return
    row("sanitizer", done.returncode == 0, tool=tool, said=said[-1].strip("= ") if said else "")


def main():
    known = {"golden": golden, "tiny": tiny, "beside": beside, "rates": rates,
             "speed": speed, "sanitizer": sanitizer}
    known[sys.argv[2]](*sys.argv[3:])


if __name__ == "__main__":
    main()
