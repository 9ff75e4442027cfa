"""The programs of the package."""

from __future__ import annotations

import pathlib
import shutil


def tool(name: str) -> str | None:
    """Path of a tool: the wheel's, or the one on PATH."""
    bundled = pathlib.Path(__file__).resolve().parent / "bin" / name
    return str(bundled) if bundled.exists() else shutil.which(name)
