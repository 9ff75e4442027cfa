"""gpu_check.py BIN SCRATCH SOURCE: a rehearsal of scripts/gpu_check.sh.

The packed folder is moved and run in an environment of its own, by a Python without
PyTorch. Each part that can run does run, and the others say why they cannot. The exit
status has the result of the checks.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from harness import Tools, check, execute

# As a machine without the build has it. Kernels are checked in other tests.
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "CRIA_EMULATOR_CHECKS": "none",
    "CRIA_EMULATOR_DEVICE": "sm_90",
}


def pack(tools, source):
    packed, moved = tools.scratch / "packed", tools.scratch / "elsewhere"
    build = f"--build={tools.bin.parent}"
    execute([source / "scripts/gpu_check.sh", "pack", packed, build, "--rehearse"]).ok()
    shutil.move(packed, moved)
    return moved


def run(tools, folder, *flags):
    """A run, and its rows."""
    out = tools.scratch / "out"
    shutil.rmtree(out, ignore_errors=True)
    # The first python3 on the path is the one of the tests.
    path = f"{pathlib.Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"
    driver = tools.bin.parent / "lib" / "libcria-emulator.so"
    environment = ENVIRONMENT | {"PATH": path, "CRIA_CUDA_DRIVER": str(driver)}
    command = [folder / "run", "--device=emulated", f"--out={out}", *flags]
    done = execute(command, env=environment, cwd="/")
    lines = (out / "rows.jsonl").read_text().splitlines()
    return done, [json.loads(line) for line in lines]


def check_libraries(folder):
    """The two libraries that a bare machine lacks come from the folder. Only cria-run
    needs them."""
    for binary in [*(folder / "bin").iterdir(), folder / "lib" / "libcria.so"]:
        listed = subprocess.run(
            ["ldd", binary], capture_output=True, text=True, check=True,
            env=os.environ | {"LD_LIBRARY_PATH": str(folder / "lib")},
        ).stdout
        for name in ("libpcre2-8", "libutf8proc"):
            lines = [line for line in listed.splitlines() if name in line]
            check(len(lines) == (binary.name == "cria-run"), f"{binary}: {lines}")
            check(all(f"=> {folder}" in line for line in lines), f"{binary}: {lines}")


def cells(rows, kind, *keys):
    return [tuple(row["cells"][key] for key in keys) for row in rows if row["kind"] == kind]


def check_rows(rows):
    goldens = cells(rows, "goldens", "golden")
    check(goldens == [("bf16-odd",), ("f32-odd",)], goldens)
    check(all(row["ok"] for row in rows if row["part"] == 1 and row["kind"] != "skipped"), rows)
    check(cells(rows, "ids", "equal") == [(12,)], rows)
    check(cells(rows, "beside the CPU", "equal ids") == [("2 of 2",)], rows)
    check(all(rate > 0 for rate, in cells(rows, "rates", "rate")), rows)
    check(("wgmma bf16",) in cells(rows, "rates", "what"), rows)
    calls = cells(rows, "speed", "call", "system")
    wanted = ["decode at 0", "decode at 8", "prefill of 16"]
    check(calls == [(call, "Cria") for call in wanted], calls)
    why = {text for text, in cells(rows, "skipped", "skipped")}
    check("no torch" in why and not cells(rows, "failed"), why)
    check_kernels(rows)


def check_kernels(rows):
    """The model has three layers, its products read their weights once."""
    kernels = {
        (row["cells"]["call"], row["cells"]["kernel"]): row["cells"]
        for row in rows
        if row["kind"] == "kernels"
    }
    down = kernels["decode at 8", "layers_mlp_down_decode"]
    check(down["launches"] == 3, down)
    check(abs(down["MB"] - 3 * 72 * 173 * 2e-6) < 1e-6 and down["us"] > 0, down)
    # Keys and values of nine positions, two heads of 24 numbers.
    attention = kernels["decode at 8", "layers_attn_decode"]
    check(abs(attention["MB"] - 3 * 2 * 9 * 2 * 24 * 2e-6) < 1e-6, attention)
    # A prompt of two chunks: one row is looked up for each token, and only the last
    # chunk has logits.
    embed = kernels["prefill of 16", "embed_prefill"]
    check(embed["launches"] == 2 and abs(embed["MB"] - 16 * 72 * 2e-6) < 1e-6, embed)
    head = kernels["prefill of 16", "head_prefill_few"]
    check(head["launches"] == 1 and abs(head["MB"] - 509 * 72 * 2e-6) < 1e-6, head)


def check_failures(tools, folder):
    """A check that fails and a task beyond its time are rows, and the exit
    status says so."""
    name = "f32-odd"
    (folder / "artifacts" / f"{name}.cria").write_bytes(b"broken")
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(plan | {"goldens": [name]}))
    (folder / "bin" / "cria-run").write_text("#!/bin/sh\nsleep 100\n")
    done, rows = run(tools, folder, "--parts=1,5", "--seconds=7", "--models=none")
    broken, endless, *rest = rows
    check(done.status == 1 and broken["ok"] is False, done)
    check("f32-odd.cria" in broken["cells"]["said"], broken)
    check(endless["cells"]["failed"].startswith("more than"), endless)
    check(all(row["cells"] == {"skipped": "no time left"} for row in rest), rest)
    check("FAILED" in (tools.scratch / "out" / "table.md").read_text(), done)


def main():
    tools, source = Tools(*sys.argv[1:3]), pathlib.Path(sys.argv[3])
    folder = pack(tools, source)
    check_libraries(folder)
    done, rows = run(tools, folder)
    check(done.status == 0, f"{done}\n{done.text}")
    check_rows(rows)
    check("### Kernels" in (tools.scratch / "out" / "table.md").read_text(), done)
    check_failures(tools, folder)


main()
