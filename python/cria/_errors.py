"""The statuses of the C library, and an exception for each."""

from __future__ import annotations

import contextlib
import enum
from typing import Iterator


class Status(enum.IntEnum):
    """Why a call failed: ``cria_status`` of cria.h."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    INCOMPATIBLE = 17


class Error(Exception):
    """Base of all errors of Cria. ``status`` says which kind, the text says why."""

    status: Status = Status.INTERNAL

    def __init__(self, message: str, status: Status | None = None) -> None:
        super().__init__(message)
        if status is not None:
            self.status = status


class Cancelled(Error):
    """:meth:`Session.cancel` ended the call."""

    status = Status.CANCELLED


class InvalidArgument(Error, ValueError):
    """An argument, or a file that it names, is wrong."""

    status = Status.INVALID_ARGUMENT


class DeadlineExceeded(Error):
    """A device did not finish in time."""

    status = Status.DEADLINE_EXCEEDED


class NotFound(Error, LookupError):
    """A file is missing, or a part of a file."""

    status = Status.NOT_FOUND


class PermissionDenied(Error):
    """The system does not allow the call."""

    status = Status.PERMISSION_DENIED


class ResourceExhausted(Error, MemoryError):
    """Memory, or another bounded resource, ran out."""

    status = Status.RESOURCE_EXHAUSTED


class FailedPrecondition(Error, RuntimeError):
    """An object, the system or a device is not in the state that the call needs."""

    status = Status.FAILED_PRECONDITION


class Aborted(Error):
    """A device failed: every session of its model has ended."""

    status = Status.ABORTED


class OutOfRange(Error, ValueError):
    """A text does not fit the context."""

    status = Status.OUT_OF_RANGE


class Unimplemented(Error, NotImplementedError):
    """A file asks for something that Cria does not do."""

    status = Status.UNIMPLEMENTED


class Internal(Error):
    """A bug in Cria."""

    status = Status.INTERNAL


class Unavailable(Error):
    """There is no driver, or the device is busy."""

    status = Status.UNAVAILABLE


class DataLoss(Error):
    """A file is damaged, or numbers are not finite."""

    status = Status.DATA_LOSS


class Incompatible(Error):
    """The artifact is for another runtime or machine."""

    status = Status.INCOMPATIBLE


class CompileError(InvalidArgument):
    """``cria-compile`` refused its input; the text is its output."""


class CriaWarning(UserWarning):
    """A warning about a checkpoint or a compilation."""


CLASSES: dict[Status, type[Error]] = {
    kind.status: kind
    for kind in (
        Cancelled,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Incompatible,
    )
}


def error_of(status: int, message: str) -> Error:
    """The exception for a status of the library."""
    known = Status(status) if status in Status._value2member_map_ else Status.INTERNAL
    return CLASSES.get(known, Error)(message)


@contextlib.contextmanager
def checking(what: str) -> Iterator[None]:
    """Makes an :class:`InvalidArgument` of what Python, NumPy and cffi raise for an
    argument of a wrong type or out of range."""
    try:
        yield
    except Error:
        raise
    except (BufferError, OverflowError, RecursionError, TypeError, ValueError) as problem:
        raise InvalidArgument(f"{what}: {problem}") from None
