"""Runs the installed compiler."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
import warnings
from typing import Any, Iterable, Mapping, Union

from cria._artifact import Artifact
from cria._errors import CompileError, CriaWarning, NotFound, checking
from cria._tools import tool

Path = Union[str, "os.PathLike[str]"]
Option = Union[str, int, float, bool, None, "os.PathLike[str]", Iterable[Any]]


def compiler() -> str:
    """Path of ``cria-compile``: the environment's CRIA_COMPILE, or the one of this
    package, or the one on PATH."""
    path = os.environ.get("CRIA_COMPILE") or tool("cria-compile")
    if not path:
        raise NotFound("cria-compile is not on PATH, and CRIA_COMPILE is not set")
    return path


def _flags(options: Mapping[str, Option]) -> list[str]:
    """Keywords as command-line options: ``max_seq=64`` is ``--max-seq=64``."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is None or value is False:
            continue
        elif isinstance(value, (str, int, float, os.PathLike)):
            flags.append(f"{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
        else:
            flags.append(f"{flag}={','.join(map(str, value))}")
    return flags


def _run(command: list[str]) -> str:
    """Runs the compiler and returns its stdout. Its warnings become Python's."""
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
    except OSError as problem:
        raise NotFound(f"{command[0]}: {problem.strerror}") from None
    lines = done.stderr.decode(errors="replace").strip()
    if done.returncode:
        raise CompileError(lines or f"{command[0]} ended with {done.returncode}")
    if lines:
        warnings.warn(lines, CriaWarning, stacklevel=3)
    return done.stdout.decode(errors="replace")


def compile(
    config: Path | Mapping[str, Any],
    out: Path | None = None,
    *,
    target: str | Iterable[str] | None = None,
    **options: Option,
) -> Artifact:
    """Compiles a model and opens the artifact.

    ``config`` is the path of a ``config.json``, a folder with one, a ``.gguf``, a
    ``.mlir`` of a phase up to ``tile``, or the config itself as a dictionary. ``out``
    is the artifact's path; without it the artifact is only in memory.
    ``target`` is ``"cpu"`` (the default), ``"cuda"``, or both. Every other keyword is
    an option of ``cria-compile``, with ``_`` for ``-``: ``max_seq=4096``,
    ``quantize="q8_0"``, ``cpu=["x86-64-v3", "x86-64-v4"]``, ``remarks=True``.

    Raises :class:`CompileError` with the compiler's message.
    """
    with tempfile.TemporaryDirectory(prefix="cria-") as scratch, checking("compile"):
        if isinstance(config, Mapping):
            source = pathlib.Path(scratch, "config.json")
            source.write_text(json.dumps(config))
        else:
            source = pathlib.Path(config)
            if source.is_dir():
                source = source / "config.json"
        written = pathlib.Path(out) if out is not None else pathlib.Path(scratch, "out")
        flags = _flags({"target": target, **options})
        _run([compiler(), *flags, "-o", str(written), "--", str(source)])
        return Artifact(written)


def emit(config: Path, phase: str, **options: Option) -> str:
    """The program of ``config`` at a phase, as text: ``cria-compile --emit=PHASE``."""
    with checking("emit"):
        flags = _flags({"emit": phase, **options})
        return _run([compiler(), *flags, "--", str(config)])
