"""How ids are drawn."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Iterable, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

from cria import _native
from cria._errors import InvalidArgument, NotFound, checking
from cria._text import Ids, count_of, floats_of, ids_array, ids_pointer

Path = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Sampling:
    """How the next id is drawn. The defaults always take the likeliest id."""

    #: The logits are divided by the temperature. 0 takes the likeliest id.
    temperature: float = 0.0
    #: Draws from the ``top_k`` likeliest ids; 0: from all.
    top_k: int = 0
    #: Draws from the fewest likeliest ids whose probabilities reach ``top_p``; 1: from all.
    top_p: float = 1.0
    #: Draws from ids with ``min_p`` times the largest probability or more; 0: from all.
    min_p: float = 0.0
    #: Makes every id of the text so far less likely; 1: none.
    repetition_penalty: float = 1.0
    #: The same seed draws the same ids.
    seed: int = 0
    #: Taken from the logit of every id drawn so far; 0: none.
    presence_penalty: float = 0.0
    #: The same, for each time that the id was drawn.
    frequency_penalty: float = 0.0
    #: The last ids of the text that count for the penalties; 0: all.
    penalty_window: int = 0

    def replace(self, **changes: Any) -> Sampling:
        """The same settings, but with those of ``changes`` that are not None.

        ``top_k``, ``top_p`` and ``min_p`` ask for sampling: if the temperature is 0 and
        ``changes`` has no temperature, it becomes 1.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        narrows = given.keys() & {"top_k", "top_p", "min_p"}
        if narrows and "temperature" not in given and self.temperature == 0:
            given["temperature"] = 1.0
        with checking("sampling"):
            return dataclasses.replace(self, **given)

    def _struct(self) -> Any:
        return _native.struct("cria_sampler_options", **dataclasses.asdict(self))


def sampling_of(options: Any) -> Sampling:
    """The settings in a struct of the library."""
    names = [field.name for field in dataclasses.fields(Sampling)]
    return Sampling(**{name: getattr(options, name) for name in names})


class Sampler(_native.OneThread):
    """Draws the ids of one text from ``vocab_size`` logits, with settings ``sampling``."""

    def __init__(self, vocab_size: int, sampling: Sampling = Sampling()) -> None:
        options = sampling._struct()
        super().__init__("sampler", "cria_sampler_create", options, vocab_size)
        self._vocab_size = count_of(vocab_size, "vocab_size")

    def accept(self, id: int) -> None:
        """Notes an id that was drawn, for the penalties."""
        self._call("cria_sampler_accept", id)

    def accept_prompt(self, ids: Ids) -> None:
        """Notes ids of the prompt, which count for the repetition penalty alone."""
        given = ids_array(ids)
        self._call("cria_sampler_accept_prompt", ids_pointer(given), len(given))

    def set_bias(self, biases: Mapping[int, float]) -> None:
        """Adds biases to the logits of ids from now on. Replaces all biases set before."""
        with checking("biases"):
            ids = ids_array(list(biases))
            values = floats_of(list(biases.values()), "biases")
        self._call(
            "cria_sampler_set_bias",
            _native.ffi.from_buffer("int32_t[]", ids),
            _native.ffi.from_buffer("float[]", values),
            len(ids),
        )

    def allow(self, ids: Iterable[int] | npt.NDArray[np.bool_] | None) -> None:
        """Allows only these ids from now on: a list of ids, or a mask (vocab_size) of
        booleans. None allows all. A grammar calls it before each draw."""
        mask = np.zeros(-(-self._vocab_size // 32) * 32, np.bool_)
        if isinstance(ids, np.ndarray) and ids.dtype == np.bool_:
            if ids.shape != (self._vocab_size,):
                raise InvalidArgument(
                    f"expected a mask of shape ({self._vocab_size},), got {ids.shape}"
                )
            mask[: self._vocab_size] = ids
        elif ids is not None:
            with checking("ids"):
                chosen = [count_of(id, "id") for id in ids]
            for id in chosen:
                if id >= self._vocab_size:
                    raise InvalidArgument(f"id {id}, expected 0 to {self._vocab_size - 1}")
                mask[id] = True
        words = np.packbits(mask, bitorder="little").view(np.uint32)
        self._call(
            "cria_sampler_allow",
            _native.ffi.from_buffer("uint32_t[]", words),
            0 if ids is None else len(words),
        )

    def sample(self, logits: npt.ArrayLike) -> int:
        """The next id for ``logits`` (vocab_size)."""
        array = floats_of(logits, "logits")
        if array.shape != (self._vocab_size,):
            raise InvalidArgument(
                f"expected logits of shape ({self._vocab_size},), got {array.shape}"
            )
        id = _native.ffi.new("int32_t *")
        self._call("cria_sampler_sample", _native.ffi.from_buffer("float[]", array), id)
        return int(id[0])


def log_probabilities(logits: npt.ArrayLike, ids: Ids) -> npt.NDArray[np.float64]:
    """The natural logarithms of the probabilities of ``ids`` by ``logits`` (vocab_size),
    without any sampling option."""
    array = floats_of(logits, "logits")
    if array.ndim != 1:
        raise InvalidArgument(f"expected logits of one row, got {array.shape}")
    wanted = ids_array(ids)
    result = np.empty(len(wanted), np.float64)
    _native.call(
        "cria_log_probabilities",
        _native.ffi.from_buffer("float[]", array),
        len(array),
        ids_pointer(wanted),
        len(wanted),
        _native.ffi.from_buffer("double[]", result),
    )
    return result


def top_log_probabilities(
    logits: npt.ArrayLike, count: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """The ``count`` likeliest ids by ``logits`` (vocab_size), the likeliest first, and what
    :func:`log_probabilities` gives them."""
    array = floats_of(logits, "logits")
    if array.ndim != 1:
        raise InvalidArgument(f"expected logits of one row, got {array.shape}")
    count = count_of(count, "count")
    if count > len(array):
        raise InvalidArgument(f"count {count}, expected at most {len(array)}")
    ids, result = np.empty(count, np.int32), np.empty(count, np.float64)
    _native.call(
        "cria_top_log_probabilities",
        _native.ffi.from_buffer("float[]", array),
        len(array),
        count,
        ids_pointer(ids),
        _native.ffi.from_buffer("double[]", result),
    )
    return ids, result


def _limit(number: int) -> int | None:
    """A limit of the library, as None if it is -1, which is no limit."""
    return None if number < 0 else number


class Generation(_native.Object):
    """A checkpoint's settings for generating text: how ids are drawn, what ends it."""

    def __init__(self, folder: Path, allow_unknown: Sequence[str] = ()) -> None:
        """``allow_unknown`` names keys of ``generation_config.json`` to ignore."""
        keys = _native.strings_of(allow_unknown, "allow_unknown")
        super().__init__(
            "generation",
            "cria_generation_open_allowing",
            _native.path_of(folder),
            _native.ffi.new("const char *[]", keys),
            len(keys),
        )
        options = _native.struct("cria_sampler_options")
        _native.call("cria_generation_options", self._handle, options)
        #: How the checkpoint asks to draw.
        self.sampling: Sampling = sampling_of(options)
        limits = _native.struct("cria_generation_limits")
        _native.call("cria_generation_get_limits", self._handle, limits)
        #: The most new ids, or None if the checkpoint sets no limit.
        self.max_new_tokens: int | None = _limit(limits.max_new_tokens)
        #: The most ids of prompt and new text together, or None without a limit.
        self.max_length: int | None = _limit(limits.max_length)

    @staticmethod
    def keys() -> str:
        """Every known key of ``generation_config.json``, as Markdown."""
        return _native.text_of(_native.lib.cria_generation_keys())

    @property
    def begin(self) -> int | None:
        """The id that begins a text, or None if there is none."""
        id = _native.ffi.new("int32_t *")
        try:
            _native.call("cria_generation_begin", self._handle, id)
        except NotFound:
            return None
        return int(id[0])

    @property
    def end_ids(self) -> list[int]:
        """The ids that end a text."""
        ids, count = _native.ffi.new("const int32_t **"), _native.ffi.new("size_t *")
        _native.call("cria_generation_end_ids", self._handle, ids, count)
        return list(_native.ffi.unpack(ids[0], count[0])) if count[0] else []

    @property
    def stop_strings(self) -> list[str]:
        """The strings that end a text."""
        strings = _native.ffi.new("const char *const **")
        count = _native.ffi.new("size_t *")
        _native.call("cria_generation_stop_strings", self._handle, strings, count)
        return [_native.text_of(strings[0][index]) for index in range(count[0])]

    def ends(self, id: int) -> bool:
        """Whether ``id`` ends a text."""
        with checking("id"):
            return bool(_native.lib.cria_generation_ends(self._handle, id))
