"""Text to ids and back, and chat templates."""

from __future__ import annotations

import json
import operator
import os
from typing import Any, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

from cria import _native
from cria._errors import InvalidArgument, checking

Path = Union[str, "os.PathLike[str]"]
#: One message of a conversation: "role", "content" and other keys that a template reads.
Message = Mapping[str, Any]
#: Ids of tokens: a list, a NumPy array of whole numbers, or an object with ``__dlpack__``.
Ids = Union[Sequence[int], npt.NDArray[np.integer[Any]], Any]
#: Strings that end a text: one string or a sequence of them. None means the
#: checkpoint's stop strings.
Stop = Union[str, Sequence[str], None]


def ids_array(ids: Ids) -> npt.NDArray[np.int32]:
    """Ids as the library takes them. Other numbers and shapes are refused."""
    with checking("ids"):
        array = np.asarray(
            ids if isinstance(ids, (Sequence, np.ndarray)) else array_of(ids)
        )
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgument(
            f"expected one row of whole numbers, got {array.dtype} of "
            f"{array.ndim} dimensions"
        )
    if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
        raise InvalidArgument(
            f"expected ids from 0 on, got {array.min()} to {array.max()}"
        )
    return np.ascontiguousarray(array, dtype=np.int32)


def floats_of(numbers: Any, what: str) -> npt.NDArray[np.float32]:
    """Numbers as the library takes them."""
    with checking(what):
        array = array_of(numbers)
        if array.dtype.kind in "cSU":  # NumPy drops imaginary parts, and parses text
            raise TypeError(f"expected numbers, got {array.dtype}")
        return np.ascontiguousarray(array, dtype=np.float32)


def embeddings_array(rows: Any) -> npt.NDArray[np.float32]:
    """Rows of (count, hidden), as the library takes them."""
    array = floats_of(rows, "rows")
    if array.ndim != 2:
        raise InvalidArgument(f"expected rows of (count, hidden), got {array.shape}")
    return array


def count_of(number: int, what: str) -> int:
    """A count, which is a whole number of at least 0."""
    with checking(what):
        count = operator.index(number)
    if count < 0:
        raise InvalidArgument(f"{what}: expected at least 0, got {count}")
    return count


def array_of(tensor: Any) -> npt.NDArray[Any]:
    """A tensor of another library as a NumPy array, without a copy if possible."""
    if hasattr(tensor, "__dlpack__") and not isinstance(tensor, np.ndarray):
        return np.from_dlpack(tensor)
    return np.asarray(tensor)


def ids_pointer(array: npt.NDArray[np.int32]) -> Any:
    """The array as a C argument, which keeps the array alive."""
    return _native.ffi.from_buffer("int32_t[]", array)


class Tokenizer(_native.Object):
    """Text to ids and back, by a ``tokenizer.json`` or a ``.gguf``.

    Many threads may use one at once.
    """

    def __init__(self, path: Path) -> None:
        super().__init__("tokenizer", "cria_tokenizer_open", _native.path_of(path))

    def encode(
        self, text: str, *, special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """The ids of ``text``.

        With ``special``, the special tokens that the tokenizer puts around a text are
        included. Without ``parse_special``, special tokens written in the text stay text.
        """
        data = _native.bytes_of(text, "text")
        function = "cria_tokenizer_encode"
        if not parse_special:
            function = "cria_tokenizer_encode_text"
        return _native.take_ids(function, self._handle, data, len(data), special)

    def decode(self, ids: Ids, *, special: bool = False) -> str:
        """The text of ``ids``, without special tokens unless ``special``."""
        array = ids_array(ids)
        return _native.take_text(
            "cria_tokenizer_decode",
            self._handle,
            ids_pointer(array),
            len(array),
            special,
        )

    @property
    def vocab_size(self) -> int:
        """One more than the largest id with a token. The model's size may be larger."""
        size = _native.ffi.new("int64_t *")
        _native.call("cria_tokenizer_vocab_size", self._handle, size)
        return int(size[0])

    def token(self, id: int) -> str:
        """The token ``id`` as the file spells it: ``"\u0120the"`` for the text " the".

        Raises :class:`NotFound` if the id has no token.
        """
        token = _native.ffi.new("const char **")
        _native.call("cria_tokenizer_token", self._handle, id, token)
        return _native.text_of(token[0])

    def token_bytes(self, id: int) -> bytes:
        """The bytes that an id adds to a text that has begun, maybe a part of a character."""
        data, size = _native.ffi.new("char **"), _native.ffi.new("size_t *")
        _native.call("cria_tokenizer_bytes", self._handle, id, data, size)
        try:
            return bytes(_native.ffi.buffer(data[0], size[0]))
        finally:
            _native.release(data[0])

    def find(self, token: str) -> int:
        """The id of a token, spelled as in the file, such as ``"<|im_end|>"``."""
        id = _native.ffi.new("int32_t *")
        _native.call("cria_tokenizer_find", self._handle, _native.string_of(token, "token"), id)
        return int(id[0])

    def stream(self, *, special: bool = False) -> TextStream:
        """Decodes ids one by one."""
        return TextStream(self, special=special)


class TextStream(_native.OneThread):
    """Decodes ids one by one and never splits a character."""

    def __init__(self, tokenizer: Tokenizer, *, special: bool = False) -> None:
        super().__init__("stream", "cria_stream_create", tokenizer._handle, special)
        self._text = _native.ffi.new("const char **")

    def set_stop_strings(self, strings: Sequence[str], prompt: Ids = ()) -> None:
        """From now on, the first of ``strings`` that occurs ends the text.

        Text that may become one of them is held back. They replace those set before. A
        string may begin in ``prompt``, the ids before those that are pushed from now on.
        """
        before = ids_array(prompt)
        texts = _native.strings_of(strings, "stop strings")
        self._call(
            "cria_stream_set_stop_strings",
            _native.ffi.new("const char *[]", texts),
            len(texts),
            ids_pointer(before),
            len(before),
        )

    @property
    def stopped(self) -> bool:
        """Whether the last id has completed a stop string. The text ends before it."""
        return bool(_native.lib.cria_stream_stopped(self._handle))

    def push(self, id: int) -> str:
        """The text that ``id`` completes, or "" if it completes none."""
        self._call("cria_stream_push", id, self._text)
        return _native.text_of(self._text[0])

    def finish(self) -> str:
        """The rest of the text, after the last id. The stream can then be used again,
        and has no stop strings."""
        self._call("cria_stream_finish", self._text)
        return _native.text_of(self._text[0])


class ChatTemplate(_native.Object):
    """Writes a conversation as text, as a checkpoint expects it. Many threads may use one.

    ``folder`` has a ``chat_template.jinja`` or a ``tokenizer_config.json``, or is a
    ``.gguf``. Raises :class:`NotFound` if it has no template. Instead, ``source`` is the
    text of a template. It knows no special tokens: pass those that it names, such as
    ``bos_token``, as variables.
    """

    def __init__(self, folder: Path | None = None, *, source: str = "") -> None:
        if folder is None:
            data = _native.bytes_of(source, "source")
            super().__init__("chat", "cria_chat_parse", data, len(data))
        else:
            super().__init__("chat", "cria_chat_open", _native.path_of(folder))

    def render(self, messages: Sequence[Message], **variables: Any) -> str:
        """The text of a conversation. ``variables`` are further variables of the
        template, such as ``tools``. ``add_generation_prompt`` is true by default."""
        return _native.take_text("cria_chat_render", self._handle, _json(messages, variables))

    def encode(
        self, tokenizer: Tokenizer, messages: Sequence[Message], **variables: Any
    ) -> list[int]:
        """The ids of the rendered text. Only the template can write special tokens:
        special tokens that are spelled in a message stay text."""
        return _native.take_ids(
            "cria_chat_encode",
            self._handle,
            tokenizer._handle,
            _json(messages, variables),
        )


def _json(messages: Sequence[Message], variables: Mapping[str, Any]) -> bytes:
    with checking("the conversation"):
        whole = {"add_generation_prompt": True, **variables, "messages": list(messages)}
        return json.dumps(whole, allow_nan=False).encode()
