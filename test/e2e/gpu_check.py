"""gpu_check.py BIN SCRATCH SOURCE: a rehearsal of scripts/gpu_check.sh.

The packed files are moved and run in an environment of their own, by a Python without
PyTorch. Each part that can run does run, and the others say why they cannot. The exit
status has the result of the checks.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

from harness import Tools, check, execute

# As a machine without the build has it.
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
NCU = '''==PROF== Connected to process 7
"ID","Kernel Name","gpu__time_duration.sum","launch__registers_per_thread","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","ns","register/thread","%"
"0","embed_decode","2,500","32","50.5"
"1","layers_attn_decode(int, int)","4000","64","n/a"
"2","layers_attn_decode(int, int)","6000","64","25"
"3","layers_attn_decode(int, int)","5000","64","20"
'''


def pack(tools, source):
    """The folder of the two packed files, elsewhere."""
    packed, moved = tools.scratch / "packed", tools.scratch / "elsewhere"
    build = f"--build={tools.bin.parent}"
    execute([source / "scripts/gpu_check.sh", "pack", packed, build]).ok()
    shutil.move(packed, moved)
    check({file.name for file in moved.iterdir()} == {"run", "check.tar.gz"}, moved)
    return moved


def unpacked(tools, folder):
    to = tools.scratch / "unpacked"
    with tarfile.open(folder / "check.tar.gz") as archive:
        archive.extractall(to, filter="data")
    return to


def run(tools, command, *flags):
    """A run, and its rows."""
    out = tools.scratch / "out"
    shutil.rmtree(out, ignore_errors=True)
    # The first python3 on the path is the one of the tests.
    path = f"{pathlib.Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"
    kept = {name: os.environ[name] for name in os.environ if name.startswith("CRIA_EMULATOR_")}
    driver = f"--driver={tools.bin.parent / 'lib' / 'libcria-emulator.so'}"
    command = [*command, "--device=emulated", driver, f"--out={out}", *flags]
    done = execute(command, env=ENVIRONMENT | kept | {"PATH": path}, cwd="/")
    lines = (out / "rows.jsonl").read_text().splitlines()
    return done, [json.loads(line) for line in lines]


def check_libraries(folder):
    """The libraries that a bare machine may lack come from the folder. Only cria-run is
    linked with two of them; the runtime opens the third."""
    check((folder / "lib" / "libzstd.so.1").exists(), folder)
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
    # The emulated device takes no machine code, and all PTX.
    variants = [("sm_90a.ptx",), ("sm_80.ptx without graphs,overlap",)]
    check(sorted(cells(rows, "variants", "variant")) == sorted(variants), rows)
    check(all(row["ok"] for row in rows if row["kind"] == "variants"), rows)
    failed = [row for row in rows if row["kind"] == "failed"]
    check([row["task"] for row in failed] == ["sm_90a.cubin"], failed)
    goldens = cells(rows, "goldens", "golden", "image")
    check(sorted(goldens) == [("bf16-odd", "sm_90a.ptx"), ("f32-odd", "sm_90a.ptx")], goldens)
    check(cells(rows, "beside the CPU", "equal ids") == [("2 of 2",)], rows)
    check(all(rate > 0 for rate, in cells(rows, "rates", "rate")), rows)
    check(("wgmma bf16",) in cells(rows, "rates", "what"), rows)
    calls = {call for call, in cells(rows, "speed", "call")}
    wanted = {"decode at 8", "decode at 0", "prefill of 16", "1 sequences at 8", "4 sequences at 8"}
    check(calls == wanted, calls)
    systems = {system for system, in cells(rows, "speed", "system")}
    check("Cria without overlap" in systems and "Cria without graphs" in systems, systems)
    drafts = [(1, "right"), (1, "wrong"), (2, "right"), (2, "wrong")]
    check(cells(rows, "drafts", "sequences", "all") == drafts, rows)
    check(cells(rows, "prompts at once", "prompts", "ids") == [(2, 2)], rows)
    draws = [draws for draws, in cells(rows, "sampling", "draws")]
    check(draws == ["greedy", "temperature", "top-k and top-p"], draws)
    why = {text for text, in cells(rows, "skipped", "skipped")}
    check(why == {"no torch", "the device is emulated"}, why)
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


def check_ncu(folder):
    sys.path.append(str(folder / "python"))
    import ncu

    embed, attention = ncu.rows(NCU)
    check(embed["us"] == 2.5 and embed["DRAM, %"] is None, embed)
    check(attention["kernel"] == "layers_attn_decode" and attention["launches"] == 3, attention)
    check(attention["us"] == 5 and attention["warps, %"] == 25, attention)


def check_predictions(folder):
    """What is measured stands beside what was predicted: the predicted kernels are the
    artifact's."""
    table = json.loads((folder / "python" / "predicted.json").read_text())
    for name in table["H200"]:
        artifact = folder / "artifacts" / (name.replace(" ", "-") + ".cria")
        done = execute([folder / "bin" / "cria-inspect", artifact, "--json"]).ok()
        for call, kernels in table["H200"][name].items():
            for kernel in kernels:
                check(kernel == "all" or f'"{kernel}' in done.text, f"{name}, {call}: {kernel}")


def check_failures(tools, folder):
    """A check that fails and a task beyond its time are rows, and the exit
    status says so."""
    name = "f32-odd"
    (folder / "artifacts" / f"{name}.cria").write_bytes(b"broken")
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(plan | {"goldens": ["bf16-odd", name]}))
    (folder / "artifacts" / "bf16-odd.cria").unlink()
    command = [sys.executable, folder / "python" / "check.py"]
    done, rows = run(tools, command, "--parts=goldens")
    failed = {row["task"]: row for row in rows if row["kind"] == "failed"}
    check(done.status == 1 and failed[f"golden {name}"]["ok"] is False, done)
    check("f32-odd.cria" in failed[f"golden {name}"]["cells"]["said"], failed)
    (folder / "bin" / "cria-bench").write_text("#!/bin/sh\nsleep 100\n")
    done, rows = run(tools, command, "--parts=speed,sampling", "--seconds=4")
    endless, *rest = rows
    check(endless["cells"]["failed"].startswith("more than"), endless)
    check(rest and all(row["cells"] == {"skipped": "no time left"} for row in rest), rest)
    check("FAILED" not in (tools.scratch / "out" / "table.md").read_text(), done)


def main():
    tools, source = Tools(*sys.argv[1:3]), pathlib.Path(sys.argv[3])
    folder = pack(tools, source)
    done, rows = run(tools, [folder / "run"])
    check(done.status == 0, f"{done}\n{done.text}")
    check_rows(rows)
    check("### Kernels" in (tools.scratch / "out" / "table.md").read_text(), done)
    folder = unpacked(tools, folder)
    check_libraries(folder)
    check_ncu(folder)
    check_predictions(folder)
    check_failures(tools, folder)


main()
