"""FOLDER/run: checks and times the GPU of this machine with what
scripts/gpu_check.sh has packed.

usage: run [--device=cuda|emulated] [--driver=FILE] [--parts=NAME,...] [--out=DIR]
           [--seconds=N]

Each task runs in a process of its own, which has a limit. A task that fails becomes a
row, and the other tasks go on. The exit status says whether all checks passed. The
tables have all rows in DIR, also those of earlier runs; --parts= adds none.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.util
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time

FOLDER = pathlib.Path(__file__).resolve().parent.parent
OURS, TORCH = "tasks.py", "torch_tasks.py"
PARTS = (
    "environment", "variants", "speed", "kernels", "batches", "goldens", "pytorch", "rates",
    "sanitizer", "transformers", "sampling",
)
# What the runtime may be told about the code that it loads. The first variant that is
# right is the one that the other tasks use.
IMAGES = ("sm_90a.cubin", "sm_90a.ptx", "sm_90.ptx", "sm_80.ptx")
WITHOUT = ("", "graphs", "overlap", "graphs,overlap")
VARIANTS = {
    f"{image} without {without}" if without else image: {
        "CRIA_CUDA_IMAGE": image,
        "CRIA_CUDA_WITHOUT": without,
    }
    for image in IMAGES
    for without in WITHOUT
}
# The emulated device has wgmma, and kernels are checked in other tests.
REHEARSAL = {"CRIA_EMULATOR_DEVICE": "sm_90", "CRIA_EMULATOR_CHECKS": "none"}
WORKERS = 12  # tasks at once that time nothing
SECONDS = 570


def parse():
    parser = argparse.ArgumentParser(prog="run", description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "emulated"))
    parser.add_argument("--driver", type=pathlib.Path, help="the driver's library")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", default="gpu-check-out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, help="for all tasks together")
    args = parser.parse_args()
    if args.seconds is None:
        args.seconds = SECONDS if args.device == "cuda" else 3600
    args.parts = [part for part in args.parts.split(",") if part]
    for part in args.parts:
        if part not in PARTS:
            parser.error(f"--parts: expected some of {', '.join(PARTS)}, got {part}")
    if args.driver and not args.driver.is_file():
        parser.error(f"--driver: {args.driver} is no file")
    return args


class Rows:
    """Measured rows. Each is printed and saved at once."""

    def __init__(self, out):
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.failed, self.lock = out, 0, threading.Lock()
        self.file = open(out / "rows.jsonl", "a+")
        self.file.seek(0)
        self.all = [json.loads(line) for line in self.file]

    def add(self, part, task, row):
        row = {"part": part, "task": task, **row}
        cells = ", ".join(f"{k} {shown(v)}" for k, v in row["cells"].items())
        mark = {True: "ok: ", False: "FAILED: ", None: ""}[row.get("ok")]
        with self.lock:
            self.all.append(row)
            self.failed += row.get("ok") is False
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())
            print(f"[{part}] {task}: {mark}{cells}", flush=True)

    def write_table(self, title):
        """Markdown: one table for all rows of a kind."""
        lines = [title, ""]
        for kind in dict.fromkeys(row["kind"] for row in self.all):
            lines += [f"### {kind.capitalize()}", "", *self.table(kind), ""]
        (self.out / "table.md").write_text("\n".join(lines))

    def table(self, kind):
        """The lines of the table of a kind; none if there are no rows."""
        rows = [row for row in self.all if row["kind"] == kind]
        if kind in ("speed", "kernels"):
            rows.sort(key=lambda row: (row["cells"]["model"], row["cells"]["call"]))
        failed = {"": "FAILED"}
        cells = [row["cells"] | (failed if row.get("ok") is False else {}) for row in rows]
        if kind in ("skipped", "failed"):
            cells = [{"task": row["task"], **cell} for row, cell in zip(rows, cells)]
        keys = list(dict.fromkeys(key for row in cells for key in row))
        if not rows:
            return []
        head = ["| " + " | ".join(keys) + " |", "|---" * len(keys) + "|"]
        return head + [
            "| " + " | ".join(shown(row.get(key)) for key in keys) + " |" for row in cells
        ]


def shown(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value).replace("|", "/").replace("\n", " ")


@dataclasses.dataclass
class Task:
    part: str
    name: str
    seconds: float  # its limit
    program: str
    arguments: tuple
    variant: str = ""  # of VARIANTS; "": the first that is right
    times: bool = True  # runs alone, because it measures time
    checks: bool = False  # that it does not run is a failed check


def variant_tasks(emulated):
    few = ("sm_90a.cubin", "sm_90a.ptx", "sm_80.ptx without graphs,overlap")
    for variant in few if emulated else VARIANTS:
        # What the emulated device lacks is a failed variant, and no failed check.
        yield Task("variants", variant, 60, OURS, ("variant", variant), variant, times=False)


def checks(plan, emulated):
    """Tasks that time nothing: they run beside each other."""
    names = plan["goldens"][-2:] if emulated else plan["goldens"]
    for name in names:
        yield Task("goldens", f"golden {name}", 120, OURS, ("golden", name), times=False, checks=True)
    if not emulated:
        for name in plan["goldens"]:
            yield Task("goldens", f"golden {name}, sm_80", 120, OURS, ("golden", name),
                       "sm_80.ptx", times=False, checks=True)
    for name in ("small",) if emulated else ("llama-3.2-1b q8_0",):
        yield Task("goldens", f"{name} beside the CPU", 120, OURS, ("beside", name),
                   times=False, checks=True)


def pytorch_tasks(dense):
    for name in dense:
        yield Task("pytorch", f"{name}, eager", 60, TORCH, ("eager", name))
        for call in ("decode", "prefill"):
            yield Task("pytorch", f"{name}, compiled {call}", 75, TORCH, (f"compile-{call}", name))


def tasks(args, plan):
    """All tasks, the most important ones first."""
    emulated = args.device == "emulated"
    dense = ["small"] if emulated else ["llama-3.2-1b bf16", "llama-3.1-8b bf16"]
    batch = "small batch" if emulated else "llama-3.2-1b batch"
    short = "small" if emulated else "llama-3.2-1b short"
    yield Task("environment", "environment", 20, OURS, ("environment",), times=False)
    yield from variant_tasks(emulated)
    for name in dense:
        yield Task("speed", name, 60, OURS, ("speed", name))
    for without in ("overlap", "graphs", "carveout", "ahead"):
        yield Task("speed", f"{dense[0]} without {without}", 30, OURS, ("speed", dense[0], without))
    yield Task("kernels", f"{short}, Nsight Compute", 60, OURS, ("profile", short))
    yield Task("kernels", dense[0], 40, OURS, ("kernels", dense[0]))
    yield Task("batches", batch, 45, OURS, ("batches", batch))
    yield Task("batches", f"{batch}, drafts", 60, OURS, ("drafts", batch), checks=True)
    yield from checks(plan, emulated)
    yield from pytorch_tasks(dense)
    yield Task("rates", "memory and matrix units", 30, OURS, ("rates", dense[0]))
    for name in dense:
        yield Task("rates", f"cuBLAS, {name}", 40, TORCH, ("cublas", name))
    for tool in ("memcheck", "racecheck", "initcheck"):
        yield Task("sanitizer", tool, 60, OURS, ("sanitizer", tool), checks=True)
    yield Task("transformers", dense[0], 90, TORCH, ("check", dense[0]), checks=True)
    yield Task("sampling", "tiny" if emulated else dense[0], 60, OURS, ("sampling", dense[0]))


def skipped(why):
    return {"kind": "skipped", "cells": {"skipped": why}}


def missing(task):
    """A package that a task needs and that is missing, or None."""
    needed = {TORCH: ("torch", "transformers"), OURS: ("numpy",)}[task.program]
    for name in () if task.part == "environment" else needed:
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


class Runner:
    """Runs tasks until the time of all of them is over."""

    def __init__(self, args, plan, rows):
        self.args, self.plan, self.rows = args, plan, rows
        self.end = time.monotonic() + args.seconds
        self.good = []  # variants that are right, the preferred ones first

    def environment(self, variant):
        given = dict(os.environ)
        if self.args.device == "emulated":
            given = REHEARSAL | given
        if self.args.driver:
            given["CRIA_CUDA_DRIVER"] = str(self.args.driver.resolve())
        return given | VARIANTS.get(variant, {})

    def start(self, task, variant, log):
        common = {"device": self.args.device, "out": str(self.rows.out.resolve())}
        command = [sys.executable, FOLDER / "python" / task.program, json.dumps(common)]
        return subprocess.Popen(
            [*command, *task.arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, start_new_session=True, env=self.environment(variant),
        )

    def attempt(self, task, variant):
        """Runs a task once. Returns why it failed, or None."""
        seconds = task.seconds * (10 if self.args.device == "emulated" else 1)
        seconds = min(seconds, self.end - time.monotonic())
        log = self.rows.out / "log" / (task.name.replace(" ", "-").replace("/", "-") + ".txt")
        log.parent.mkdir(exist_ok=True)
        with open(log, "wb") as errors:
            process = self.start(task, variant, errors)
        try:
            for line in lines_of(process, time.monotonic() + seconds):
                if line.startswith(b"{"):
                    self.rows.add(task.part, task.name, json.loads(line))
            status = process.wait(timeout=60)
            why = f"exit status {status}" if status else None
        except (TimeoutError, subprocess.TimeoutExpired):
            why = f"more than {seconds:.0f} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        said = log.read_bytes().decode(errors="replace").strip().split("\n")[-1]
        return {"failed": why, "variant": variant, "said": said[:300]} if why else None

    def run(self, task):
        """Runs a task, and once more with the next variant if it fails."""
        if lacks := missing(task):
            return self.rows.add(task.part, task.name, skipped(lacks))
        choices = [task.variant] if task.variant else self.good[:2] or [""]
        for variant in choices:
            if self.end - time.monotonic() < 1:
                return self.rows.add(task.part, task.name, skipped("no time left"))
            cells = self.attempt(task, variant)
            if not cells:
                return None
            last = variant == choices[-1]
            ok = False if task.checks and last else None
            self.rows.add(task.part, task.name, {"kind": "failed", "ok": ok, "cells": cells})
        return None

    def run_part(self, part, given):
        """Runs the tasks of a part: those that time something one by one."""
        workers = WORKERS if self.args.device == "cuda" else 2
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(self.run, [task for task in given if not task.times]))
        for task in given:
            if task.times:
                self.run(task)
        if part == "variants":
            self.choose()

    def choose(self):
        """Which variants are right, by the rows of this run and of earlier ones."""
        right = {row["task"] for row in self.rows.all if row["kind"] == "variants" and row["ok"]}
        wrong = {row["task"] for row in self.rows.all
                 if row["kind"] == "variants" and row["ok"] is False}
        self.good = [name for name in VARIANTS if name in right - wrong]
        if not self.good:
            cells = {"failed": "no variant is right; the others run as shipped"}
            self.rows.add("variants", "all", {"kind": "failed", "ok": False, "cells": cells})


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
    rows = Rows(args.out)
    title = f"{device_name(args)}, {time.strftime('%Y-%m-%d')}, {plan.get('commit', '')}"
    print(title, flush=True)
    runner = Runner(args, plan, rows)
    every = list(tasks(args, plan))
    if "variants" not in args.parts and any(row["part"] == "variants" for row in rows.all):
        runner.choose()
    for part in PARTS:
        if part in args.parts:
            runner.run_part(part, [task for task in every if task.part == part])
            rows.write_table(title)
    rows.write_table(title)
    print("\n".join([*rows.table("speed")[:20], "", *rows.table("kernels")[:38]]))
    print(f"{len(rows.all)} rows, {rows.failed} failed checks; {args.out / 'table.md'}")
    sys.exit(1 if rows.failed else 0)


main()
