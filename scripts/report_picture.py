#!/usr/bin/env python3
"""Takes the README's picture of --report=html, docs/report.webp: the MLP of a layer of
examples/tiny at every phase, with llama.swiglu chosen. Needs chromium.

    report_picture.py build/bin [OUT.webp]
"""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "tools"))
from browser import Browser, find

CHOOSE = """(() => {
    showKernel(data.graph.findIndex(node => node.function === "layers_mlp_gate_up_decode"));
    document.getElementById("phases").scrollIntoView();
    choose([...panes[1].lines.values()].find(line => line.textContent.includes("swiglu")));
})()"""


def main(tools, out=ROOT / "docs" / "report.webp"):
    if not find():
        sys.exit("report_picture.py: error: there is no chromium")
    tool = pathlib.Path(tools) / "cria-compile"
    config = ROOT / "examples" / "tiny" / "config.json"
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = pathlib.Path(folder) / "report.html"
        command = [tool, config, "--cpu=x86-64-v3", "--report=html", "-o", page]
        subprocess.run(command, check=True)
        opened = browser.open(page, width=1280, height=790)
        opened.evaluate(CHOOSE)
        opened.screenshot(out)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*map(pathlib.Path, sys.argv[1:]))
