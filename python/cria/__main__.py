"""``python -m cria OUT.cria --weights=DIR ...``: cria-run, from the wheel or PATH."""

from __future__ import annotations

import os
import sys

from cria._tools import tool


def main() -> str:
    """Replaces this process by cria-run. Returns only if that fails: the reason."""
    run = tool("cria-run")
    if run is None:
        return "cria: error: cria-run is not on PATH; the package cria has it"
    try:
        os.execv(run, [run, *sys.argv[1:]])
    except OSError as problem:
        return f"cria: error: {run}: {problem.strerror}"


if __name__ == "__main__":
    sys.exit(main())
