"""pack.py ROOT [FOLDER] [--build=DIR] [--rehearse]: fills the folder that
scripts/gpu_check.sh describes."""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

MOST_BYTES = 60 << 20
TOOLS = ("cria-run", "cria-bench", "cria-inspect")
CARRIED = ("libpcre2-8.so", "libutf8proc.so")  # a bare machine may lack them
EXPECTED = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "ld-linux", "linux-vdso")
PYTHON = ("capi.py", "cases.py", "emulated.py", "families.py", "harness.py")
# Code for any x86-64 of the last ten years.
BOTH = ("--target=cpu,cuda", "--chip=sm_80,sm_90,sm_90a", "--cpu=x86-64-v3")
# A 1B model is checked in each format, and timed before larger ones.
MODELS = {
    "llama-3.2-1b bf16": ("llama-3.2-1b", "--dtype=bf16"),
    "llama-3.2-1b q8_0": ("llama-3.2-1b", "--dtype=bf16", "--quantize=q8_0"),
    "llama-3.2-1b q4_0": ("llama-3.2-1b", "--dtype=bf16", "--quantize=q4_0"),
    "llama-2-7b bf16": ("llama-2-7b", "--dtype=bf16"),
    "llama-3.1-8b bf16": ("llama-3.1-8b", "--dtype=bf16"),
}
PLAN = {"depths": [0, 512, 4096], "lengths": [16, 128, 512, 2048], "gen_len": 64}
SMALL = {"depths": [0, 8], "lengths": [16], "gen_len": 1}
SMALL_GOLDENS = ("f32-odd", "bf16-odd")


def parse():
    parser = argparse.ArgumentParser(prog="gpu_check.sh pack")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--rehearse", action="store_true")
    args = parser.parse_args()
    args.build = args.build or args.root / "build"
    args.folder = args.folder or args.build / "gpu-check"
    return args


def libraries(binary):
    """{name: path} of the libraries that the loader finds for a binary."""
    listed = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True)
    lines = re.findall(r"^\s*(\S+)(?: => (\S+))? \(", listed.stdout, re.M)
    return {pathlib.Path(name).name: path or name for name, path in lines}


def copy_binaries(args):
    lib = args.folder / "lib"
    binaries = [args.build / "bin" / tool for tool in TOOLS]
    binaries.append(args.build / "lib" / "libcria.so")
    for binary in binaries:
        if not binary.exists():
            sys.exit(f"gpu_check.sh: error: {binary} is missing; run scripts/setup.sh")
        for name, path in libraries(binary).items():
            if name.startswith(CARRIED):
                shutil.copy(path, lib / name)
            elif not name.startswith(EXPECTED):
                sys.exit(f"gpu_check.sh: error: {binary} needs {name}, which is not carried")
        shutil.copy(binary, args.folder / ("lib" if binary.suffix else "bin"))


def compile_to(args, config, out, *flags):
    subprocess.run(
        [args.build / "bin" / "cria-compile", config, "-o", args.folder / out, *flags],
        check=True,
    )


def copy_goldens(args):
    """Names of the goldens, compiled."""
    source = args.root / "test" / "e2e"
    names = sorted(path.parent.name for path in source.glob("goldens/*/golden.npz"))
    known = re.findall(r'^    "([\w-]+)": ', (source / "cases.py").read_text(), re.M)
    names = [name for name in names if name in known]
    names = [n for n in names if n in SMALL_GOLDENS] if args.rehearse else names
    for name in PYTHON:
        shutil.copy(source / name, args.folder / "python")
    for name in names:
        folder = args.folder / "python" / "goldens" / name
        shutil.copytree(source / "goldens" / name, folder)
        out = f"artifacts/{name}.cria"
        compile_to(args, folder / "config.json", out, "--max-seq=512", *BOTH)
    return names


def copy_tiny(args):
    tiny = args.folder / "tiny"
    tiny.mkdir()
    for path in (args.root / "examples" / "tiny").glob("*.*"):
        if path.suffix in (".json", ".safetensors"):
            shutil.copy(path, tiny)
    compile_to(args, tiny / "config.json", "artifacts/tiny.cria", *BOTH)


def compile_models(args):
    """The models to time: name, artifact, folder of its config.json."""
    if args.rehearse:
        config = f"python/goldens/{SMALL_GOLDENS[-1]}"
        flags = ("--max-seq=512", "--chunk=8", *BOTH)
        compile_to(args, args.folder / config / "config.json", "artifacts/small.cria", *flags)
        return [{"name": "small", "artifact": "small.cria", "config": config}]
    models = []
    for name, (config, *flags) in MODELS.items():
        folder = args.folder / "configs" / config
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(args.root / f"test/e2e/Inputs/{config}.json", folder / "config.json")
        out = name.replace(" ", "-") + ".cria"
        flags = ("--max-seq=4608", *BOTH, *flags)
        compile_to(args, folder / "config.json", f"artifacts/{out}", *flags)
        models.append({"name": name, "artifact": out, "config": f"configs/{config}"})
    return models


def main():
    args = parse()
    if args.folder.exists() and any(args.folder.iterdir()):
        if not (args.folder / "plan.json").exists():
            sys.exit(f"gpu_check.sh: error: {args.folder} holds something else")
        shutil.rmtree(args.folder)
    for name in ("bin", "lib", "python", "artifacts"):
        (args.folder / name).mkdir(parents=True)
    (args.folder / "plan.json").write_text("{}")
    copy_binaries(args)
    for name in ("check.py", "tasks.py", "torch_tasks.py"):
        shutil.copy(args.root / "scripts" / "gpu_check" / name, args.folder / "python")
    shutil.copy(args.root / "scripts" / "gpu_check" / "run", args.folder)
    copy_tiny(args)
    commit = subprocess.run(
        ["git", "-C", args.root, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    plan = dict(SMALL if args.rehearse else PLAN, commit=f"commit {commit.stdout.strip()}")
    plan["goldens"] = copy_goldens(args)
    plan["models"] = compile_models(args)
    (args.folder / "plan.json").write_text(json.dumps(plan, indent=1))
    size = sum(path.stat().st_size for path in args.folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        sys.exit(f"gpu_check.sh: error: {args.folder} has {size >> 20} MiB, expected at most 60")
    print(f"{args.folder}: {size / (1 << 20):.1f} MiB")


main()
