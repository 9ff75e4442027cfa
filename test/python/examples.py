"""examples.py SOURCE BIN SCRATCH [--update]: the examples in Python run.

Runs the cells of examples/plan.ipynb as Jupyter would: the value of the last
expression is the cell's output, as HTML where it has some. With --update, the
outputs are written into the notebook. The Python of README.md and python/README.md
runs, too.
"""

import ast
import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys

import cria
from harness import check

SOURCE, BIN, SCRATCH = map(pathlib.Path, sys.argv[1:4])
EXAMPLES = SOURCE / "examples"


def outputs(cell, names):
    """Runs a cell in the module `names`: what it prints and what it gives."""
    printed = io.StringIO()
    body = ast.parse("".join(cell["source"])).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = last and eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    made = []
    if text := printed.getvalue():
        lines = text.splitlines(True)
        made.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = {"text/plain": [repr(value)]}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": [value._repr_html_()], **data}
        made.append(
            {
                "data": data,
                "execution_count": None,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return made


def kinds(cell):
    """What a cell puts out, without the values."""
    return [sorted(output.get("data", {"printed": 0})) for output in cell["outputs"]]


def run_notebook(update):
    path = EXAMPLES / "plan.ipynb"
    notebook = json.loads(path.read_text())
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            stored = kinds(cell)
            cell["outputs"] = outputs(cell, names)
            check(update or stored == kinds(cell), f"{path}: {stored}: run --update")
    shown = "".join(notebook["cells"][1]["outputs"][0]["data"]["text/html"])
    check("layers_mlp_down_decode" in shown, f"{path}: no plan: {shown}")
    if update:
        path.write_text(json.dumps(notebook, indent=1) + "\n")


def run_program():
    """With the artifact that README.md compiles."""
    artifact = SCRATCH / "tiny.cria"
    program = [sys.executable, EXAMPLES / "generate.py", artifact, "examples/tiny"]
    text = subprocess.check_output([*program, "Once upon", "20"], text=True)
    tool = [BIN / "cria-run", artifact, "--weights=examples/tiny"]
    wanted = ["--prompt=Once upon", "--max-tokens=20", "--seed=0"]
    expected = subprocess.check_output([*tool, *wanted], text=True)
    check(text == expected + "\n", f"{text!r}, expected {expected!r}")


def run_readmes():
    """In a folder beside a link to examples/: what they compile is not in the source."""
    SCRATCH.mkdir(exist_ok=True)
    os.chdir(SCRATCH)
    (SCRATCH / "examples").symlink_to(EXAMPLES)
    blocks = {}
    for readme in (SOURCE / "README.md", SOURCE / "python" / "README.md"):
        for block in re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL):
            blocks.setdefault(block, readme)
    check(blocks, "expected Python in README.md")
    for block, readme in blocks.items():
        exec(compile(block, readme, "exec"), {"__name__": "__main__"})


def main():
    os.environ["CRIA_COMPILE"] = str(BIN / "cria-compile")
    os.chdir(EXAMPLES)
    run_notebook(sys.argv[4:] == ["--update"])
    run_readmes()
    run_program()


main()
