"""Grammars: which ids may come next."""

from __future__ import annotations

import json
from typing import Any, Iterable

import numpy as np
import numpy.typing as npt

from cria import _native
from cria._errors import InvalidArgument, checking
from cria._sampling import Sampler
from cria._text import Ids, Tokenizer, count_of, ids_array, ids_pointer

KINDS = {"json_schema": 0, "grammar": 1, "regex": 2}


class Grammar(_native.Object):
    """The texts that a model may write, over the tokens of a tokenizer; of one form:

    ``json_schema``: JSON that a JSON Schema describes, which is a dict, a boolean or
    text. ``{"type": "object"}`` is any object.
    ``grammar``: rules in llama.cpp's notation, GBNF.
    ``regex``: a regular expression of the whole text.

    ``end_ids`` end a text: they may come where the text is complete. A form that is not
    supported, or too large, is refused. Many threads may use one grammar.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        json_schema: Any = None,
        grammar: str | None = None,
        regex: str | None = None,
        end_ids: Iterable[int] = (),
    ) -> None:
        forms = {"json_schema": json_schema, "grammar": grammar, "regex": regex}
        given = [name for name, form in forms.items() if form is not None]
        if len(given) != 1:
            raise InvalidArgument(
                f"expected one of json_schema, grammar and regex, got {len(given)}"
            )
        form = forms[given[0]]
        if given[0] == "json_schema" and not isinstance(form, str):
            with checking("json_schema"):
                form = json.dumps(form, allow_nan=False)
        source = _native.bytes_of(form, given[0])
        with checking("end_ids"):
            ends = ids_array(list(end_ids))
        super().__init__(
            "grammar",
            "cria_grammar_create",
            tokenizer._handle,
            KINDS[given[0]],
            source,
            len(source),
            ids_pointer(ends),
            len(ends),
        )

    def matcher(self) -> Matcher:
        """A matcher before the first id of a text."""
        return Matcher("cria_matcher_create", self)


class Matcher(_native.OneThread):
    """One text of a grammar; :meth:`Grammar.matcher` makes a matcher.

    Before each draw :meth:`allow` tells a sampler which ids may come next; then
    :meth:`accept` takes the id that was drawn.
    """

    def __init__(self, function: str, origin: Grammar | Matcher) -> None:
        super().__init__("matcher", function, origin._handle)

    def copy(self) -> Matcher:
        """Another matcher of the same text, which costs little."""
        return Matcher("cria_matcher_copy", self)

    def _words(self, vocab_size: int) -> npt.NDArray[np.uint32]:
        words = np.zeros((count_of(vocab_size, "vocab_size") + 31) // 32, np.uint32)
        buffer = _native.ffi.from_buffer("uint32_t[]", words)
        self._call("cria_matcher_mask", buffer, len(words))
        return words

    def mask(self, vocab_size: int) -> npt.NDArray[np.bool_]:
        """Which ids may come next (vocab_size)."""
        bits = np.unpackbits(self._words(vocab_size).view(np.uint8), bitorder="little")
        return bits[:vocab_size].astype(np.bool_)

    def allow(self, sampler: Sampler) -> None:
        """Lets ``sampler`` draw only ids that may come next."""
        words = self._words(sampler._vocab_size)
        buffer = _native.ffi.from_buffer("uint32_t[]", words)
        sampler._call("cria_sampler_allow", buffer, len(words))

    def forced(self, most: int) -> list[int]:
        """Up to ``most`` ids that probably come next: where the text may go on in one
        way alone, the longest tokens that spell it. :meth:`Batch.propose` may try them."""
        ids = _native.ffi.new("int32_t[]", count_of(most, "most"))
        count = _native.ffi.new("size_t *")
        self._call("cria_matcher_forced", ids, most, count)
        return list(ids)[: count[0]]

    def masks_after(self, ids: Ids, vocab_size: int) -> npt.NDArray[np.bool_]:
        """The masks after each of ``ids`` (count, vocab_size), up to the first that may
        not come, or after which none may."""
        array = ids_array(ids)
        words = (count_of(vocab_size, "vocab_size") + 31) // 32
        masks = np.zeros((len(array), words), np.uint32)
        count = _native.ffi.new("size_t *", len(array))
        buffer = _native.ffi.from_buffer("uint32_t[]", masks)
        self._call("cria_matcher_masks_after", ids_pointer(array), count, buffer, words)
        bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")
        return bits[: count[0], :vocab_size].astype(np.bool_)

    def accept(self, id: int) -> None:
        """Takes the next id. Raises :class:`InvalidArgument` if it may not come."""
        self._call("cria_matcher_accept", id)

    @property
    def complete(self) -> bool:
        """Whether the text so far is one of the grammar."""
        return bool(_native.lib.cria_matcher_complete(self._handle))

    @property
    def finished(self) -> bool:
        """Whether the text is complete and nothing may follow but an end id."""
        return bool(_native.lib.cria_matcher_finished(self._handle))
