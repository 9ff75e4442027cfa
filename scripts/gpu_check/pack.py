"""pack.py ROOT [FOLDER] [--build=DIR]: fills the folder that scripts/gpu_check.sh
describes."""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

MOST_BYTES = 45 << 20
TOOLS = ("cria-run", "cria-bench", "cria-inspect")
# A bare machine may lack these.
CARRIED = ("libpcre2-8.so", "libutf8proc.so", "libpng16.so", "libjpeg.so", "libz.so")
EXPECTED = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "ld-linux", "linux-vdso")
PYTHON = ("capi.py", "cases.py", "emulated.py", "families.py", "harness.py")
CHECKS = ("check.py", "tasks.py", "torch_tasks.py", "ncu.py", "predicted.json")
# Code for any x86-64 of the last ten years.
BOTH = ("--target=cpu,cuda", "--chip=sm_80,sm_90,sm_90a", "--cpu=x86-64-v3")
# One golden for each schedule and type that can be wrong on its own.
GOLDENS = (
    "bf16-gemma2", "bf16-qwen3", "bf16-multi-head", "f16-grouped", "f32-phi3-longrope",
    "f32-wide-heads", "f32-gemma3_text", "f32-phi", "f32-glm4", "f32-mixtral",
    "f32-qwen3_moe", "f32-odd", "bf16-odd",
)
# The models to time. `short` has two layers, for tools that slow kernels down.
MODELS = {
    "llama-3.2-1b bf16": ("llama-3.2-1b", "--dtype=bf16"),
    "llama-3.1-8b bf16": ("llama-3.1-8b", "--dtype=bf16"),
    "llama-3.2-1b q8_0": ("llama-3.2-1b", "--dtype=bf16", "--quantize=q8_0"),
    "llama-3.2-1b batch": ("llama-3.2-1b", "--dtype=bf16", "--batch=64"),
    "llama-3.2-1b short": ("llama-3.2-1b", "--dtype=bf16"),
}
# A rehearsal times this golden.
SMALL = "bf16-odd"


def parse():
    parser = argparse.ArgumentParser(prog="gpu_check.sh pack")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("folder", nargs="?", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    args.build = args.build or args.root / "build"
    args.folder = args.folder or args.build / "gpu-check"
    return args


def libraries(binary):
    """{name: path} of the libraries that the loader finds for a binary."""
    listed = subprocess.run(["ldd", binary], check=True, capture_output=True, text=True)
    lines = re.findall(r"^\s*(\S+)(?: => (\S+))? \(", listed.stdout, re.M)
    return {pathlib.Path(name).name: path or name for name, path in lines}


def copy_binaries(args, to):
    binaries = [args.build / "bin" / tool for tool in TOOLS]
    binaries.append(args.build / "lib" / "libcria.so")
    for binary in binaries:
        if not binary.exists():
            sys.exit(f"gpu_check.sh: error: {binary} is missing; run scripts/setup.sh")
        for name, path in libraries(binary).items():
            if name.startswith(CARRIED):
                shutil.copy(path, to / "lib" / name)
            elif not name.startswith(EXPECTED):
                sys.exit(f"gpu_check.sh: error: {binary} needs {name}, which is not carried")
        shutil.copy(binary, to / ("lib" if binary.suffix else "bin"))
    # The runtime opens zstd, which the compiler is linked with.
    for name, path in libraries(args.build / "bin" / "cria-compile").items():
        if name.startswith("libzstd.so"):
            shutil.copy(path, to / "lib" / name)


class Compiler:
    """Compiles into a folder. Adds machine code for sm_90a where ptxas is found."""

    def __init__(self, args, to):
        self.tool, self.to = args.build / "bin" / "cria-compile", to
        places = [str(args.build / "cuda-tools"), os.environ["PATH"], "/usr/local/cuda/bin"]
        path = os.pathsep.join(places)
        self.environment = os.environ | {"PATH": path}
        self.cubin = ["--cubin=sm_90a"] if shutil.which("ptxas", path=path) else []

    def __call__(self, config, out, *flags):
        command = [self.tool, config, "-o", self.to / out, *BOTH, *self.cubin, *flags]
        subprocess.run(command, check=True, env=self.environment)

    def figures(self, config, *flags):
        """{chip: {kernel: [registers, bytes of local memory]}} as ptxas says."""
        command = [self.tool, config, *BOTH, *flags, "--report=plan", "--json"]
        done = subprocess.run(command, check=True, env=self.environment, stdout=subprocess.PIPE)
        found = {}
        for chip in json.loads(done.stdout).get("machine_code") or []:
            found[chip["chip"]] = {
                kernel["kernel"]: [kernel["registers"], kernel["local"]]
                for kernel in chip["kernels"]
            }
        return found


def copy_goldens(source, to, compile_to):
    for name in PYTHON:
        shutil.copy(source / name, to / "python")
    for name in GOLDENS:
        folder = to / "python" / "goldens" / name
        shutil.copytree(source / "goldens" / name, folder)
        compile_to(folder / "config.json", f"artifacts/{name}.cria", "--max-seq=512")


def copy_tiny(tiny, to, compile_to):
    (to / "tiny").mkdir()
    for path in tiny.glob("*.*"):
        if path.suffix in (".json", ".safetensors"):
            shutil.copy(path, to / "tiny")
    compile_to(tiny / "config.json", "artifacts/tiny.cria")


def compile_models(source, to, compile_to):
    """The models to time: {name: {artifact, config: folder of its config.json}}."""
    flags = ("--max-seq=512", "--chunk=8")
    config = f"python/goldens/{SMALL}"
    compile_to(to / config / "config.json", "artifacts/small.cria", *flags)
    compile_to(to / config / "config.json", "artifacts/small-batch.cria", *flags, "--batch=4")
    models = {
        "small": {"artifact": "small.cria", "config": config},
        "small batch": {"artifact": "small-batch.cria", "config": config},
    }
    for name, (config, *flags) in MODELS.items():
        keys = json.loads((source / f"Inputs/{config}.json").read_text())
        if name.endswith("short"):
            keys["num_hidden_layers"] = 2
            config += "-short"
        folder = to / "configs" / config
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(keys))
        out = name.replace(" ", "-") + ".cria"
        compile_to(folder / "config.json", f"artifacts/{out}", "--max-seq=4608", *flags)
        models[name] = {"artifact": out, "config": f"configs/{config}"}
    return models


def fill(args, to):
    for name in ("bin", "lib", "python", "artifacts"):
        (to / name).mkdir()
    copy_binaries(args, to)
    for name in CHECKS:
        shutil.copy(args.root / "scripts" / "gpu_check" / name, to / "python")
    source, compile_to = args.root / "test" / "e2e", Compiler(args, to)
    copy_tiny(args.root / "examples" / "tiny", to, compile_to)
    copy_goldens(source, to, compile_to)
    commit = subprocess.run(
        ["git", "-C", args.root, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    plan = {"commit": f"commit {commit.stdout.strip()}", "goldens": GOLDENS}
    plan["models"] = compile_models(source, to, compile_to)
    config = source / "goldens" / GOLDENS[0] / "config.json"
    plan["ptxas"] = compile_to.figures(config, "--max-seq=512")
    (to / "plan.json").write_text(json.dumps(plan, indent=1))


def main():
    args = parse()
    args.folder.mkdir(parents=True, exist_ok=True)
    if {path.name for path in args.folder.iterdir()} - {"run", "check.tar.gz"}:
        sys.exit(f"gpu_check.sh: error: {args.folder} holds something else")
    packed = args.folder / "check.tar.gz"
    with tempfile.TemporaryDirectory() as scratch:
        to = pathlib.Path(scratch)
        fill(args, to)
        with tarfile.open(packed, "w:gz") as archive:
            for path in sorted(to.iterdir()):
                archive.add(path, path.name)
    shutil.copy(args.root / "scripts" / "gpu_check" / "run", args.folder)
    size = packed.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"gpu_check.sh: error: {packed} has {size >> 20} MiB, expected at most 45")
    print(f"{packed}: {size / (1 << 20):.1f} MiB")


main()
