"""The C library, by cffi.

cffi parses the headers of the library themselves, so that a function or a field
of a struct is declared in one place. Functions are looked up by name, hence one
wheel serves every Python.
"""

from __future__ import annotations

import os
import pathlib
import re
import threading
from typing import Any, Callable, Iterable

import cffi

from cria._errors import FailedPrecondition, InvalidArgument, checking, error_of

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = ("cria.h", "cria_text.h")
LIBRARIES = ("cria", "cria-text")


def _declarations(header: str) -> str:
    """A header as cffi takes it: without comments, macros and C++."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL).replace("\\\n", " ")
    text = re.sub(r"^#ifdef __cplusplus$.*?^#endif$", "", text, flags=re.M | re.S)
    text = re.sub(r"^#(?!define CRIA_\w+ \d+ *$).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\bCRIA_API\b|__attribute__\(\(.*?\)\)", "", text)


def _headers() -> list[str]:
    folder = HERE / "include"
    return [(folder / name).read_text() for name in HEADERS if (folder / name).exists()]


def _open(major: str) -> list[Any]:
    """The libraries in the wheel, or else the system's libraries of this version."""
    folder = HERE / "lib"
    names = [f"lib{name}.so.{major}" for name in LIBRARIES[: len(_TEXTS)]]
    if folder.is_dir():
        # Libraries that they need are loaded first: the loader then knows their names.
        for needed in sorted(folder.glob("*.so.*")):
            if needed.name not in names:
                _BUNDLED.append(ffi.dlopen(str(needed), ffi.RTLD_NOW))
        names = [str(folder / name) for name in names]
    return [ffi.dlopen(name, ffi.RTLD_NOW) for name in names]


class _Functions:
    """The functions of all libraries as attributes."""

    def __init__(self, libraries: list[Any]) -> None:
        self._libraries = libraries

    def __getattr__(self, name: str) -> Any:
        for library in self._libraries:
            function = getattr(library, name, None)
            if function is not None:
                setattr(self, name, function)
                return function
        raise AttributeError(f"the library has no function {name}")


_BUNDLED: list[Any] = []
_TEXTS = _headers()
ffi: Any = cffi.FFI()
for _text in _TEXTS:
    ffi.cdef(_declarations(_text))
ffi.cdef("void free(void *);")
_major = re.search(r"#define CRIA_VERSION_MAJOR (\d+)", _TEXTS[0])
assert _major, "cria.h has no version"
lib: Any = _Functions(_open(_major[1]))
_libc: Any = ffi.dlopen(None)


def struct(kind: str, **fields: Any) -> Any:
    """A struct of the headers as CRIA_INIT makes it, with `fields` set."""
    made = ffi.new(f"{kind} *")
    made.size = ffi.sizeof(kind)
    for name, value in fields.items():
        with checking(name):
            setattr(made, name, value)
    return made


class _Raised(threading.local):
    """What callbacks have raised in the call of this thread; None outside of a call."""

    errors: list[BaseException] | None = None


_raised = _Raised()


def callback(kind: str, body: Callable[..., object]) -> Any:
    """A C function that calls ``body``. What ``body`` raises, such as Ctrl-C, is raised by
    the call of the library at its end. In a thread of the library it is only printed."""

    def catch(*arguments: Any) -> None:
        try:
            body(*arguments)
        except BaseException as error:
            if _raised.errors is None:
                raise
            _raised.errors.append(error)

    return ffi.callback(kind, catch)


def call(function: str, *arguments: Any) -> None:
    """Calls a function whose last parameter is the error, and raises that error."""
    error = struct("cria_error")
    raised: list[BaseException] = []
    outer = _raised.errors
    try:
        _raised.errors = raised
        with checking(function):
            status = getattr(lib, function)(*arguments, error)
    finally:
        _raised.errors = outer
    if raised:
        raise raised[0]
    if status:
        raise error_of(status, text_of(error.message))


def text_of(pointer: Any) -> str:
    """The text at a `char *`."""
    text = ffi.string(pointer)
    assert isinstance(text, bytes)
    return text.decode(errors="replace")


def take_text(function: str, *arguments: Any) -> str:
    """Takes the text that a function has malloc'ed."""
    text = ffi.new("char **")
    call(function, *arguments, text)
    try:
        return text_of(text[0])
    finally:
        release(text[0])


def take_ids(function: str, *arguments: Any) -> list[int]:
    """Takes the ids that a function has malloc'ed."""
    ids, count = ffi.new("int32_t **"), ffi.new("size_t *")
    call(function, *arguments, ids, count)
    try:
        return list(ffi.unpack(ids[0], count[0])) if count[0] else []
    finally:
        release(ids[0])


def release(pointer: Any) -> None:
    """Frees memory that the library has malloc'ed."""
    _libc.free(pointer)


def path_of(path: str | os.PathLike[str]) -> bytes:
    """A path as the library takes it."""
    with checking("a path"):
        return _without_zero(os.fsencode(path))


def bytes_of(text: str, what: str) -> bytes:
    """A text as the library takes it, with its length."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what}: expected a text, got {text!r:.80}")
    with checking(what):
        return text.encode()


def string_of(text: str, what: str) -> bytes:
    """A text as the library takes it, up to a zero byte."""
    with checking(what):
        return _without_zero(bytes_of(text, what))


def strings_of(texts: Iterable[str], what: str) -> list[Any]:
    """Texts as C strings, which live as long as the list. The library takes them as
    ``ffi.new("const char *[]", list)``."""
    with checking(what):
        return [ffi.new("char[]", string_of(text, what)) for text in texts]


def _without_zero(text: bytes) -> bytes:
    if b"\0" in text:
        raise ValueError(f"{text!r:.80} has a zero byte")
    return text


def buffer_of(data: Any, what: str, kind: str = "char[]") -> Any:
    """Bytes, or an array, as a C argument, which keeps them alive."""
    with checking(what):
        return ffi.from_buffer(kind, data)


class Object:
    """A handle of the library, freed when nothing refers to this object any more.

    The library's objects keep the objects alive that they were made from, so that
    handles may be freed in any order.
    A child of fork() has only a copy of the object and does not free it.
    """

    def __init__(self, kind: str, function: str, *arguments: Any) -> None:
        self._kind = kind
        self._place: Any = ffi.new(f"cria_{kind} **")
        free: Callable[[Any], None] = getattr(lib, f"cria_{kind}_free")
        process, current = os.getpid(), os.getpid

        def destroy(owner: Any) -> None:
            if current() == process:
                free(owner)  # nothing if the call below has failed

        # Once released, it may not be read; the place of the handle may.
        self._owner: Any = ffi.gc(self._place, destroy)
        call(function, *arguments, self._place)

    @property
    def _handle(self) -> Any:
        handle = self._place[0]
        if handle == ffi.NULL:
            raise FailedPrecondition(f"the {self._kind} is closed")
        return handle


class OneThread(Object):
    """A handle that one thread at a time may use; a second one is refused."""

    def __init__(self, kind: str, function: str, *arguments: Any) -> None:
        super().__init__(kind, function, *arguments)
        self._users: list[object] = []
        # Held by calls that may come from another thread or a signal handler.
        self._closing = threading.RLock()

    def _alone(self, body: Callable[[], None]) -> None:
        """Runs `body` unless another thread uses the handle.

        The first user in the list uses the handle. A lock instead of the list would stay
        locked if Ctrl-C came between its acquire and the `try`.
        """
        user = object()
        try:
            self._users.append(user)
            if self._users[0] is not user:
                raise FailedPrecondition(f"another thread uses the {self._kind}")
            body()
        finally:
            if user in self._users:
                self._users.remove(user)

    def _call(self, function: str, *arguments: Any) -> None:
        """Calls a function of the handle, which is its first argument."""
        self._alone(lambda: call(function, self._handle, *arguments))

    def close(self) -> None:
        """Frees the object now. A second call does nothing."""
        self._alone(self._free)

    def _free(self) -> None:
        with self._closing:
            if self._place[0] != ffi.NULL:
                ffi.release(self._owner)
