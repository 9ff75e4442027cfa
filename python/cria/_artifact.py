"""Artifacts: compiled code and its manifest."""

from __future__ import annotations

import json
import os
from io import IOBase
from typing import Any, NamedTuple, Union

from cria import _native
from cria._errors import Error, checking
from cria._plan import plan_html

Path = Union[str, "os.PathLike[str]"]
#: An artifact: its path, the bytes of its file, or the open file.
Source = Union[Path, bytes, bytearray, memoryview, IOBase]


class ArtifactInfo(NamedTuple):
    """Sizes of an artifact."""

    vocab_size: int
    #: Positions that a session holds.
    max_seq: int
    #: Ids that one prefill call takes.
    chunk: int
    #: Bytes of the weights as compiled code reads them.
    weight_bytes: int
    #: Bytes of the KV caches of one session.
    cache_bytes: int
    #: Bytes of scratch memory of one session.
    arena_bytes: int
    #: Size of the artifact's file.
    file_bytes: int
    #: Numbers in a token's hidden state; 0 if the artifact does not return them.
    hidden_size: int


class Check(NamedTuple):
    """Whether a checkpoint can be bound to an artifact."""

    fits: bool
    #: Lines of text: tensors that are missing, mis-shaped or extra, and the memory that
    #: weights and a session take.
    report: str


def _info(struct: Any) -> ArtifactInfo:
    return ArtifactInfo(*(getattr(struct, name) for name in ArtifactInfo._fields))


class Artifact(_native.Object):
    """An open artifact. **An artifact is a program: open only those you trust.**

    ``source`` is a path, the bytes of the file, or an open file. A notebook shows an
    artifact as tables of its weights and, for GPUs, of the kernels that each entry
    launches.
    """

    def __init__(self, source: Source) -> None:
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
            buffer = _native.ffi.from_buffer(data)
            super().__init__("artifact", "cria_artifact_open_memory", buffer, len(data))
        elif isinstance(source, IOBase):
            with checking("source"):
                descriptor = source.fileno()
            super().__init__("artifact", "cria_artifact_open_fd", descriptor)
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
        """Whether the checkpoint in folder ``weights`` can be bound. Reads only the
        headers of its files, and raises if they cannot be read."""
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

    Also for artifacts that you do not trust, and for those of another machine.
    """
    text, info = _native.ffi.new("char **"), _native.struct("cria_artifact_info")
    _native.call("cria_artifact_inspect", _native.path_of(path), text, info)
    try:
        manifest: dict[str, Any] = json.loads(_native.text_of(text[0]))
    finally:
        _native.release(text[0])
    return manifest
