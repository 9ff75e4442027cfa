"""FOLDER/run: checks and times the GPU of this machine, in the folder that
scripts/gpu_check.sh has packed.

usage: run [--device=cuda|emulated] [--parts=1,2,...] [--models=NAME,...]
           [--out=DIR] [--seconds=N]

Each task runs in a process of its own, which has a limit. A task that fails becomes a
row, and the other tasks go on. The exit status says whether all checks passed. The table
has all rows in DIR, also those of earlier runs; --parts= adds none.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent.parent
PARTS = {1, 2, 3, 4, 5}


def parse():
    parser = argparse.ArgumentParser(prog="run", description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "emulated"))
    parser.add_argument("--parts", default="1,2,3,4,5")
    parser.add_argument("--models", default="", help="of plan.json (default: all)")
    parser.add_argument("--out", default="gpu-check-out", type=pathlib.Path)
    parser.add_argument("--seconds", default=0, type=float, help="for all tasks together")
    args = parser.parse_args()
    try:
        args.parts = {int(part) for part in args.parts.split(",") if part}
    except ValueError:
        parser.error(f"--parts: '{args.parts}' is not a list of numbers")
    if not args.parts <= PARTS:
        parser.error(f"--parts: expected some of 1 to {len(PARTS)}")
    return args


class Rows:
    """Measured rows. Each is printed and saved at once."""

    def __init__(self, out):
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.failed = out, 0
        self.file = open(out / "rows.jsonl", "a+")
        self.file.seek(0)
        self.all = [json.loads(line) for line in self.file]

    def add(self, part, task, row):
        row = {"part": part, "task": task, **row}
        self.all.append(row)
        self.failed += row.get("ok") is False
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        cells = ", ".join(f"{k} {shown(v)}" for k, v in row["cells"].items())
        mark = {True: "ok: ", False: "FAILED: ", None: ""}[row.get("ok")]
        print(f"[{part}] {task}: {mark}{cells}", flush=True)

    def write_table(self, title):
        """Markdown: one table for all rows of a kind."""
        lines = [title, ""]
        for kind in dict.fromkeys(row["kind"] for row in self.all):
            rows = [row for row in self.all if row["kind"] == kind]
            if kind in ("speed", "kernels"):
                rows.sort(key=lambda row: (row["cells"]["model"], row["cells"]["call"]))
            failed = {"": "FAILED"}
            cells = [row["cells"] | (failed if row.get("ok") is False else {}) for row in rows]
            if kind in ("skipped", "failed"):
                cells = [{"task": row["task"], **cell} for row, cell in zip(rows, cells)]
            keys = list(dict.fromkeys(key for row in cells for key in row))
            lines += [f"### {kind.capitalize()}", ""]
            lines += ["| " + " | ".join(keys) + " |", "|---" * len(keys) + "|"]
            for row in cells:
                lines.append("| " + " | ".join(shown(row.get(key)) for key in keys) + " |")
            lines.append("")
        (self.out / "table.md").write_text("\n".join(lines))


def shown(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value).replace("|", "/").replace("\n", " ")


def tasks(args, plan):
    """(part, name, seconds, program, arguments), small and necessary ones
    first."""
    ours = FOLDER / "python" / "tasks.py"
    torch = FOLDER / "python" / "torch_tasks.py"
    models = [m for m in plan["models"] if not args.models or m["name"] in args.models.split(",")]
    dense = [m for m in models if "q8_0" not in m["name"] and "q4_0" not in m["name"]]
    for name in plan["goldens"]:
        yield 1, f"golden {name}", 120, ours, ("golden", name)
    yield 1, "tiny", 120, ours, ("tiny",)
    for model in models:
        yield 1, f"{model['name']} beside the CPU", 240, ours, ("beside", model["name"])
    for model in dense[:1]:
        yield 1, f"{model['name']} beside transformers", 300, torch, ("check", model["name"])
    for model in models[:1]:
        yield 2, "memory and matrix units", 120, ours, ("rates", model["name"])
    for model in dense:
        yield 2, f"cuBLAS, {model['name']}", 120, torch, ("cublas", model["name"])
    for model in models:
        yield 3, model["name"], 240, ours, ("speed", model["name"])
    for model in dense:
        for mode in ("eager", "compile"):
            yield 4, f"{model['name']}, {mode}", 300, torch, (mode, model["name"])
    for tool in ("memcheck", "racecheck", "initcheck"):
        yield 5, tool, 120, ours, ("sanitizer", tool)


def skipped(why):
    return {"kind": "skipped", "cells": {"skipped": why}}


def missing(program):
    """A package that a program needs and that is missing, or None."""
    for name in ("torch", "transformers") if program.name == "torch_tasks.py" else ("numpy",):
        if importlib.util.find_spec(name) is None:
            return f"no {name}"
    return None


def lines_of(process, until):
    """The lines of stdout, as they come; TimeoutError after `until`."""
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0, until - time.monotonic())):
                raise TimeoutError
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return
            *whole, pending = (pending + data).split(b"\n")
            yield from whole


def run_task(rows, part, name, seconds, command):
    errors = rows.out / "stderr.txt"
    with open(errors, "ab") as log:
        log.write(f"== {name}\n".encode())
        log.flush()
        begin = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True,
        )
    try:
        for line in lines_of(process, time.monotonic() + seconds):
            if line.startswith(b"{"):
                rows.add(part, name, json.loads(line))
        status = process.wait(timeout=60)
        why = f"exit status {status}"
    except (TimeoutError, subprocess.TimeoutExpired):
        status, why = None, f"more than {seconds:.0f} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if status != 0:
        said = errors.read_bytes()[begin:].decode(errors="replace").strip().split("\n")[-1]
        # A check that could not run counts as failed.
        ok = False if part in (1, 5) else None
        cells = {"failed": why, "said": said[:300]}
        rows.add(part, name, {"kind": "failed", "ok": ok, "cells": cells})


def device_name(args):
    if args.device == "emulated":
        return "the emulated driver"
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            return done.stdout.strip().split("\n")[0]
    return "an unknown GPU"


def main():
    args = parse()
    plan = json.loads((FOLDER / "plan.json").read_text())
    rows, end = Rows(args.out), time.monotonic() + args.seconds
    title = f"{device_name(args)}, {time.strftime('%Y-%m-%d')}, {plan.get('commit', '')}"
    print(title, flush=True)
    common = {"device": args.device}
    for part, name, seconds, program, arguments in tasks(args, plan):
        if part not in args.parts:
            continue
        left = end - time.monotonic()
        if lacks := missing(program):
            rows.add(part, name, skipped(lacks))
        elif args.seconds and left < 1:
            rows.add(part, name, skipped("no time left"))
        else:
            limit = min(seconds, left) if args.seconds else seconds
            command = [sys.executable, program, json.dumps(common), *arguments]
            run_task(rows, part, name, limit, command)
        rows.write_table(title)
    rows.write_table(title)
    print(f"{len(rows.all)} rows, {rows.failed} failed checks; {args.out / 'table.md'}")
    sys.exit(1 if rows.failed else 0)


main()
