"""``python -m cria OUT.cria --weights=DIR ...``: cria-run, from the wheel or PATH."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys


def main() -> str:
    """Replaces this process by cria-run. Returns only if that fails: the reason."""
    bundled = pathlib.Path(__file__).resolve().parent / "bin" / "cria-run"
    tool = str(bundled) if bundled.exists() else shutil.which("cria-run")
    if tool is None:
        return "cria: error: cria-run is not on PATH; the package cria has it"
    try:
        os.execv(tool, [tool, *sys.argv[1:]])
    except OSError as problem:
        return f"cria: error: {tool}: {problem.strerror}"


if __name__ == "__main__":
    sys.exit(main())
