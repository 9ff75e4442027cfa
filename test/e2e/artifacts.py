"""artifacts.py BIN SCRATCH: what holds for the artifacts of all models.

The same input gives the same bytes. An artifact has less than 1 MiB, and is as large
for 80 layers as for 2. Compiling 70 billion parameters takes as much memory as one
billion.
"""

import json
import os
import re
import subprocess
import sys

from harness import HERE, Golden, Tools, check, execute


def compile_measured(tools, config, out):
    """(artifact, peak MiB) of a compilation."""
    path = tools.scratch / out
    command = tools.compile_command(config, path)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check(status == 0, f"{command}: exit status {process.returncode}")
    return path, usage.ru_maxrss / 1024


def code_size(artifact):
    """Bytes of the section .text."""
    sections = execute(["readelf", "-SW", artifact]).ok().text
    size = re.search(r"\.text\s+PROGBITS\s+\S+\s+\S+\s+(\S+)", sections)
    check(size, f"readelf finds no .text in {artifact}:\n{sections}")
    return int(size[1], 16)


def check_same_bytes(tools):
    config = Golden("bf16-odd").config
    first = tools.compile(config, out="first.cria").read_bytes()
    again = tools.compile(config, out="again.cria").read_bytes()
    check(first == again, "two compilations of one config differ")


def check_depth(tools):
    config = json.loads(Golden("bf16-multi-head").config.read_text())
    sizes = {}
    for layers in [2, 80]:
        file = tools.scratch / f"{layers}.json"
        file.write_text(json.dumps(config | {"num_hidden_layers": layers}))
        path = tools.compile(file, out=f"{layers}.cria")
        sizes[layers] = (code_size(path), path.stat().st_size)
    for shallow, deep in zip(sizes[2], sizes[80]):
        close = abs(deep - shallow) <= 0.2 * shallow
        check(close, f"(code, file) bytes of 2 and 80 layers: {sizes}")


def check_large(tools):
    for config in sorted((HERE / "Inputs").glob("llama-*.json")):
        path, peak = compile_measured(tools, config, "large.cria")
        size = path.stat().st_size
        check(size < 2**20, f"{config.name}: an artifact of {size} bytes")
        check(peak <= 400, f"{config.name}: {peak:.0f} MiB, expected <= 400")


def main():
    tools = Tools(*sys.argv[1:])
    check_same_bytes(tools)
    check_depth(tools)
    check_large(tools)


main()
