"""The processes that share a model."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from cria import _native


class Ranks:
    """The processes that ``mpirun`` has started, this one among them; :func:`join_ranks`
    makes it, and :func:`load` takes it for an artifact of ``cria-compile --shards``.

    Every rank loads the model and makes the same calls. A program that ends well leaves
    the others, with ``with`` or :meth:`leave`. One that fails does not: it ends, and
    ``mpirun`` ends the others.
    """

    def __init__(self) -> None:
        self._struct: Any = _native.struct("cria_ranks")
        _native.call("cria_ranks_join", self._struct)
        #: Of this process, from 0.
        self.rank: int = self._struct.rank
        #: Of all processes.
        self.count: int = self._struct.count
        #: Of this process among those on its machine, and how many these are.
        self.local: int = self._struct.local
        self.locals: int = self._struct.locals

    def leave(self) -> None:
        """Leaves the others, once no model that they share is used any more."""
        _native.call("cria_ranks_leave")

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.leave()

    def __repr__(self) -> str:
        return f"<cria.Ranks: {self.rank} of {self.count}>"


def join_ranks() -> Ranks:
    """Joins the processes that ``mpirun`` has started. Raises
    :class:`FailedPrecondition` where it has not, and :class:`Unavailable` without the
    library for its implementation of MPI."""
    return Ranks()
