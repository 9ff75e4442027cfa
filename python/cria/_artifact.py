"""Artifacts: compiled code and its manifest."""

from __future__ import annotations

import json
import os
from io import IOBase
from typing import Any, NamedTuple, Union

from cria import _native
from cria._errors import Error
from cria._plan import plan_html

Path = Union[str, "os.PathLike[str]"]
#: Where an artifact is: a path, the bytes of a file, or a file that is open.
Source = Union[Path, bytes, bytearray, memoryview, IOBase]


class ArtifactInfo(NamedTuple):
    """Sizes of an artifact."""

    vocab_size: int
    #: Positions that a session holds.
    max_seq: int
    #: Ids of one prefill call.
    chunk: int
    #: Of the weights as compiled code reads them.
    weight_bytes: int
    #: KV caches of one session.
    cache_bytes: int
    #: Scratch of one session.
    arena_bytes: int
    #: Of the artifact.
    file_bytes: int
    #: Numbers of a token's hidden state; 0 where the artifact returns none.
    hidden_size: int


class Check(NamedTuple):
    """Whether a checkpoint can be bound to an artifact."""

    fits: bool
    #: What is missing, mis-shaped or extra, and the memory that weights and a session
    #: take: lines of text.
    report: str


def _info(struct: Any) -> ArtifactInfo:
    return ArtifactInfo(*(getattr(struct, name) for name in ArtifactInfo._fields))


class Artifact(_native.Object):
    """Compiled code, opened. **An artifact is a program: open only those you trust.**

    ``source`` is a path, the bytes of the file, or a file that is open. A notebook shows the plan: the
    weights, and on GPUs the kernels that each entry launches.
    """

    def __init__(self, source: Source) -> None:
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
            buffer = _native.ffi.from_buffer(data)
            super().__init__("artifact", "cria_artifact_open_memory", buffer, len(data))
        elif isinstance(source, IOBase):
            super().__init__("artifact", "cria_artifact_open_fd", source.fileno())
        else:
            path = _native.path_of(source)
            super().__init__("artifact", "cria_artifact_open", path)
        info = _native.struct("cria_artifact_info")
        _native.call("cria_artifact_get_info", self._handle, info)
        #: The sizes.
        self.info: ArtifactInfo = _info(info)
        text = _native.ffi.new("const char **")
        _native.call("cria_artifact_manifest", self._handle, text)
        #: The manifest, as docs/artifact.md describes it.
        self.manifest: dict[str, Any] = json.loads(_native.text_of(text[0]))

    def check(self, weights: Path) -> Check:
        """Whether the checkpoint in folder ``weights`` can be bound; reads its headers
        alone. Raises where the files cannot be read."""
        report = _native.ffi.new("char **")
        fits = True
        try:
            path = _native.path_of(weights)
            _native.call("cria_model_check", self._handle, path, report)
        except Error:
            if report[0] == _native.ffi.NULL:
                raise
            fits = False
        try:
            return Check(fits, _native.text_of(report[0]))
        finally:
            _native.release(report[0])

    def __repr__(self) -> str:
        model, target = self.manifest["model"], self.manifest["target"]["kind"]
        return f"<cria.Artifact of {model.get('parameters', 0):,} parameters for {target}>"

    def _repr_html_(self) -> str:
        return plan_html(self.manifest)


def inspect(path: Path) -> dict[str, Any]:
    """The manifest of the artifact at ``path``, without loading code.

    Works for artifacts that are not trusted, or are for another machine.
    """
    text, info = _native.ffi.new("char **"), _native.struct("cria_artifact_info")
    _native.call("cria_artifact_inspect", _native.path_of(path), text, info)
    try:
        manifest: dict[str, Any] = json.loads(_native.text_of(text[0]))
    finally:
        _native.release(text[0])
    return manifest
