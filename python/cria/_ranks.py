"""The processes that share a model."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from cria import _native


class Ranks:
    """The processes that ``mpirun`` has started together with this one.

    :func:`join_ranks` returns it. Pass it to :func:`load` with an artifact of
    ``cria-compile --shards``. Every rank loads the model and makes the same calls. A
    program that succeeds leaves the other ranks at its end, by ``with`` or :meth:`leave`.
    A program that fails just ends; ``mpirun`` then ends the other ranks.
    """

    def __init__(self) -> None:
        self._struct: Any = _native.struct("cria_ranks")
        _native.call("cria_ranks_join", self._struct)
        #: The number of this process, from 0.
        self.rank: int = self._struct.rank
        #: The number of processes.
        self.count: int = self._struct.count
        #: The number of this process among those on its machine, and their count.
        self.local: int = self._struct.local
        self.locals: int = self._struct.locals

    def leave(self) -> None:
        """Leaves the other ranks. Call it after the last use of a shared model."""
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
    """Joins the processes that ``mpirun`` has started together with this one. Raises
    :class:`FailedPrecondition` if ``mpirun`` has not started this process, and
    :class:`Unavailable` without the library for its implementation of MPI."""
    return Ranks()
