"""Sessions: ids in, logits and ids out."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Generator,
    Iterator,
    Literal,
    NamedTuple,
    Sequence,
    Union,
    overload,
)

import numpy as np
import numpy.typing as npt

from cria import _native
from cria._errors import InvalidArgument, OutOfRange, checking
from cria._grammar import Matcher
from cria._sampling import Sampler, Sampling
from cria._text import (
    Ids,
    Stop,
    TextStream,
    count_of,
    embeddings_array,
    ids_array,
    ids_pointer,
)

if TYPE_CHECKING:
    from cria._model import LoraSet, Model

#: How hidden states become one embedding: their mean, or the last or first of them.
Pooling = Literal["mean", "last", "first"]
POOLINGS = {"mean": 0, "last": 1, "first": 2}
#: A prompt: text, or ids.
Prompt = Union[str, Ids]
Logits = npt.NDArray[np.float32]


class Token(NamedTuple):
    """A drawn id, and the text that it completes."""

    id: int
    text: str


#: Tokens as they are drawn. ``close`` ends drawing. The value of the generator is whether
#: an id, a stop string or a grammar ended the text.
Tokens = Generator[Token, None, bool]


class Completion(NamedTuple):
    """A model's continuation of a prompt. ``str()`` gives the text."""

    #: The new text, without special tokens, and without a stop string that ended it.
    text: str
    #: The drawn ids, with the one that ended the text or completed a stop string.
    ids: list[int]
    prompt_ids: list[int]
    #: Whether an id, a stop string or a grammar ended the text; otherwise the limit of
    #: ids was reached.
    ended: bool

    def __str__(self) -> str:
        return self.text


class Outputs(NamedTuple):
    """The result of :meth:`Session.forward`: float32, written by the library."""

    #: (rows, vocab_size), or None.
    logits: Logits | None
    #: (rows, hidden_size), or None: the head's input, ``last_hidden_state`` in
    #: transformers.
    hidden: Logits | None


class Timings(NamedTuple):
    """The time that a session has spent."""

    #: Time in feeds of several ids or of embeddings.
    prefill_seconds: float
    prefill_tokens: int
    #: Time in feeds of one id, drawing included.
    decode_seconds: float
    decode_tokens: int


class Session(_native.OneThread):
    """One text of a model: its KV caches, and threads that compute.

    One thread at a time may use a session; only :meth:`cancel` and :meth:`resume` may
    be called from another thread, or from a signal handler. Ctrl-C stops a long prompt
    after the chunk of ids that is being computed. The session then holds the ids
    computed so far, and can go on.

    Use a session in a ``with``, or :meth:`close` it, to free its memory at once.
    """

    def __init__(
        self,
        model: Model,
        *,
        threads: int | None = None,
        lora: LoraSet | None = None,
    ) -> None:
        wanted = model.threads if threads is None else threads
        options = _native.struct("cria_session_options", threads=wanted)
        super().__init__("session", "cria_session_create", model._handle, options)
        self.model = model
        self._log = model._log
        self._expected = 0
        self._lora: LoraSet | None = None
        if lora is not None:
            self.lora = lora

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    @property
    def lora(self) -> LoraSet | None:
        """The adapters of the feeds that follow; None: those that the model was loaded
        with. Ids that the session holds are not computed again. To compute a whole text
        with other adapters, rewind to 0 and feed it again."""
        return self._lora

    @lora.setter
    def lora(self, lora: LoraSet | None) -> None:
        chosen = _native.ffi.NULL if lora is None else lora._handle
        self._call("cria_session_set_lora", chosen)
        self._lora = lora

    @property
    def position(self) -> int:
        """The number of ids and embeddings that the session holds."""
        position = _native.ffi.new("int64_t *")
        self._call("cria_session_position", position)
        return int(position[0])

    @property
    def timings(self) -> Timings:
        """The time spent so far."""
        timings = _native.struct("cria_session_timings")
        self._call("cria_session_get_timings", timings)
        return Timings(*(getattr(timings, name) for name in Timings._fields))

    def _chunks(self, ids: npt.NDArray[Any]) -> Iterator[slice]:
        """The parts in which ids are fed, so that signal handlers run in between."""
        model, held = self.model.artifact.manifest["model"], self.position
        chunk = len(ids) if model.get("bidirectional") else int(model["chunk"])
        parts = range(-(held % max(1, chunk)), len(ids), max(1, chunk))
        if len(parts) > 1 and self._expected < held + len(ids):
            self.expect_prompt(held + len(ids))
        # Parts end at multiples of the chunk, also where a text is fed in pieces: the
        # same steps give the same bits.
        for at in parts:
            yield slice(max(0, at), at + chunk)

    def _check_room(self, count: int) -> None:
        held, most = self.position, self.model.artifact.info.max_seq
        if held + count > most:
            raise OutOfRange(
                f"{count} ids after {held} exceed the artifact's max_seq {most}"
            )

    @overload
    def feed(self, ids: Ids, logits: Literal["none"]) -> None: ...
    @overload
    def feed(
        self,
        ids: Ids,
        logits: Literal["last", "all"] | Sequence[int] = "last",
        *,
        out: Logits | None = None,
    ) -> Logits: ...
    def feed(
        self,
        ids: Ids,
        logits: str | Sequence[int] = "last",
        *,
        out: Logits | None = None,
    ) -> Logits | None:
        """Appends ids and returns logits, depending on ``logits``: ``"last"``, after the
        last id (vocab_size); ``"all"``, after each id (len(ids), vocab_size);
        ``"none"``, None; or increasing indexes into ``ids``, after each of these ids
        (count, vocab_size).

        The library writes into the returned array, which is ``out`` if given: nothing is
        copied. As a NumPy array it has ``__dlpack__``.
        """
        array, vocab = ids_array(ids), self.model.artifact.info.vocab_size
        rows = _rows(logits, len(array))
        self._check_room(len(array))
        named = logits if isinstance(logits, str) else ""
        shape = (vocab,) if named == "last" else (len(rows), vocab)
        result: Logits = np.empty(shape, np.float32) if out is None else out
        if not (
            isinstance(result, np.ndarray)
            and result.shape == shape
            and result.dtype == np.float32
            and result.flags.carray
        ):
            raise InvalidArgument(f"out: expected contiguous float32 of shape {shape}")
        target = result.reshape(-1, vocab)
        for part in list(self._chunks(array)) or [slice(0, 0)]:
            first, last = np.searchsorted(rows, [part.start, part.stop])
            self._feed_rows(array[part], rows[first:last] - part.start, target[first:last])
        return None if named == "none" else result

    def _feed_rows(
        self, ids: npt.NDArray[np.int32], rows: npt.NDArray[np.int64], logits: Logits
    ) -> None:
        """Feeds a chunk and returns the logits after some of its ids."""
        buffer = _native.ffi.from_buffer("float[]", logits.reshape(-1))
        which = {0: 0, len(ids): 2}.get(len(rows), 3)
        if len(rows) == 1 and rows[0] == len(ids) - 1:
            which = 1
        arguments = [ids_pointer(ids), len(ids)]
        if which == 3:
            indexes = _native.ffi.from_buffer("int64_t[]", rows)
            arguments += [indexes, len(rows), buffer, logits.size]
            self._call("cria_session_feed_rows", *arguments)
        else:
            self._call("cria_session_feed", *arguments, which, buffer, logits.size)

    def forward(
        self,
        ids: Ids,
        *,
        logits: Literal["none", "last", "all"] | Sequence[int] = "none",
        hidden: Literal["none", "last", "all"] = "all",
    ) -> Outputs:
        """Appends ids and returns logits and hidden states. ``logits`` chooses ids as in
        :meth:`feed`, and ``hidden`` likewise. A hidden state is the output of the last
        layer after the last norm.

        Both are arrays of rows, which the library writes into, or None for ``"none"``.
        """
        return self._forward(ids_array(ids), logits, hidden)

    def forward_embeddings(
        self,
        rows: Any,
        *,
        logits: Literal["none", "last", "all"] | Sequence[int] = "none",
        hidden: Literal["none", "last", "all"] = "all",
    ) -> Outputs:
        """Appends embeddings as :meth:`feed_embeddings` does, and returns what
        :meth:`forward` returns of ids."""
        return self._forward(embeddings_array(rows), logits, hidden)

    def _forward(
        self,
        array: npt.NDArray[Any],
        logits: Literal["none", "last", "all"] | Sequence[int],
        hidden: Literal["none", "last", "all"],
    ) -> Outputs:
        """Appends ids (count) or embeddings (count, hidden)."""
        info = self.model.artifact.info
        if not isinstance(hidden, str):
            raise InvalidArgument(f"hidden: expected none, last or all, got {hidden!r}")
        rows, states = _rows(logits, len(array)), _rows(hidden, len(array), "hidden")
        self._check_room(len(array))
        made: Logits = np.empty((len(rows), info.vocab_size), np.float32)
        kept: Logits = np.empty((len(states), info.hidden_size), np.float32)
        for part in list(self._chunks(array)) or [slice(0, 0)]:
            bounds = [part.start, part.stop]
            first, last = np.searchsorted(rows, bounds)
            begin, end = np.searchsorted(states, bounds)
            self._feed_outputs(
                array[part], rows[first:last] - part.start, made[first:last], kept[begin:end]
            )
        named = logits if isinstance(logits, str) else ""
        return Outputs(
            None if named == "none" else made, None if hidden == "none" else kept
        )

    def _feed_outputs(
        self,
        array: npt.NDArray[Any],
        rows: npt.NDArray[np.int64],
        logits: Logits,
        hidden: Logits,
    ) -> None:
        """Feeds a chunk and writes the logits after some of its ids, and the hidden
        states of none of them, of the last or of all."""
        buffers = [
            _native.ffi.from_buffer("int64_t[]", rows),
            _native.ffi.from_buffer("float[]", logits.reshape(-1)),
            _native.ffi.from_buffer("float[]", hidden.reshape(-1)),
        ]
        outputs = _native.struct(
            "cria_outputs",
            hidden_of={0: 0, len(array): 2}.get(len(hidden), 1),
            logit_rows=buffers[0],
            logit_row_count=len(rows),
            logits=buffers[1],
            logits_capacity=logits.size,
            hidden=buffers[2],
            hidden_capacity=hidden.size,
        )
        if array.ndim == 1:
            self._call("cria_session_feed_outputs", ids_pointer(array), len(array), outputs)
        else:
            buffer = _native.ffi.from_buffer("float[]", array.reshape(-1))
            arguments = [buffer, *array.shape, outputs]
            self._call("cria_session_feed_embeddings_outputs", *arguments)

    def embed(
        self, ids: Ids, *, pooling: Pooling = "mean", normalize: bool = False
    ) -> Logits:
        """Appends ids and returns their embedding (hidden_size): the mean of their
        hidden states, or the hidden state of the last or first id. With ``normalize``
        the embedding has length 1.

        Before the next text call :meth:`rewind`, or use :meth:`Model.embed`.
        """
        if not isinstance(pooling, str) or pooling not in POOLINGS:
            expected = ", ".join(POOLINGS)
            raise InvalidArgument(f"pooling: expected one of {expected}, got {pooling!r}")
        array = ids_array(ids)
        self._check_room(len(array))
        options = _native.struct("cria_embed_options", pooling=POOLINGS[pooling])
        pooled = np.empty(self.model.artifact.info.hidden_size, np.float32)
        buffer, total = _native.ffi.from_buffer("float[]", pooled), np.zeros(pooled.shape)
        for part in list(self._chunks(array)) or [slice(0, 0)]:
            chunk = array[part]
            arguments = [ids_pointer(chunk), len(chunk), options, buffer, pooled.size]
            self._call("cria_session_embed", *arguments)
            if pooling == "mean":
                total += pooled.astype(np.float64) * (len(chunk) / len(array))
            elif pooling == "last" or part.start == 0:
                total[:] = pooled
        length = np.linalg.norm(total) if normalize else 1.0
        return (total / length if length > 0 else total).astype(np.float32)

    def feed_embeddings(self, rows: Any) -> None:
        """Appends embeddings (count, hidden) in place of ids, for example of an image.

        ``rows`` is a NumPy array or an object with ``__dlpack__``. float32 is not copied.
        """
        array = embeddings_array(rows)
        self._call(
            "cria_session_feed_embeddings",
            _native.ffi.from_buffer("float[]", array.reshape(-1)),
            *array.shape,
        )

    def encode(self, ids: Ids) -> None:
        """Runs the encoder, if the model has one, on a source text. The position is then
        0."""
        array = ids_array(ids)
        self._call("cria_session_encode", ids_pointer(array), len(array))

    def draw(self, ids: Ids, sampler: Sampler) -> int:
        """Appends ids and draws the next id. On a GPU the logits stay there. The sampler
        does not note the id: the caller calls its ``accept``."""
        array, drawn = ids_array(ids), _native.ffi.new("int32_t *")
        if not len(array):
            raise InvalidArgument("expected ids, got none")
        self._check_room(len(array))
        *first, last = self._chunks(array)
        for part in first:
            self.feed(array[part], "none")
        chunk = array[last]
        sampler._alone(
            lambda: self._call(
                "cria_session_draw",
                ids_pointer(chunk),
                len(chunk),
                sampler._handle,
                drawn,
            )
        )
        return int(drawn[0])

    def expect_prompt(self, count: int) -> None:
        """Announces, before a feed, that the text from position 0 on is a prompt of
        ``count`` positions, what the session holds included. Models whose RoPE depends on
        the prompt's length need the number if several feeds make a prompt, or if its last
        id is fed alone; so do artifacts with ``--batch``, which compute short prompts in
        another way than long ones."""
        self._call("cria_session_expect_prompt", count)
        self._expected = count

    def rewind(self, position: int = 0) -> None:
        """Goes back to ``position`` and forgets the ids after it; 0 forgets all."""
        self._call("cria_session_rewind", position)
        self._expected = 0

    def drop(self, begin: int, end: int) -> None:
        """Forgets the positions from ``begin`` to before ``end``. Later positions move
        down, and their keys are rotated to their new positions, so that attention sees
        the distances of the shorter text. Their keys and values are not computed again.
        So in a model of more than one layer the next logits are close to those of the
        shorter text, but not equal. Raises :class:`Unimplemented` if the model's RoPE
        does not allow it.
        """
        self._call("cria_session_drop", begin, end)
        self._expected = 0

    def save(self) -> bytes:
        """The session's state: its position and the KV caches up to there."""
        size = _native.ffi.new("size_t *")
        self._call("cria_session_state_size", size)
        state = bytearray(size[0])
        buffer = _native.ffi.from_buffer(state, require_writable=True)
        self._call("cria_session_save", buffer, len(state))
        return bytes(state)

    def restore(self, state: bytes | bytearray | memoryview) -> None:
        """Takes the state that a session of the same artifact and weights saved, in this
        process or another."""
        self._call("cria_session_restore", _native.buffer_of(state, "state"), memoryview(state).nbytes)
        self._expected = 0

    def copy(self) -> Session:
        """A new session with the same state."""
        made = Session(self.model, lora=self._lora)
        made._expected = self._expected
        self._alone(
            lambda: made._alone(
                lambda: _native.call("cria_session_copy", self._handle, made._handle)
            )
        )
        return made

    def cancel(self) -> None:
        """Ends the feed that runs now, or else the next one, with :class:`Cancelled`."""
        with self._closing:
            _native.lib.cria_session_cancel(self._handle)

    def resume(self) -> None:
        """Takes a cancel back if no feed was ended by it yet."""
        with self._closing:
            _native.lib.cria_session_resume(self._handle)

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: Literal[False] = False,
        max_tokens: int | None = None,
        stop: Stop = None,
        **sampling: Any,
    ) -> Completion: ...
    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: Literal[True],
        max_tokens: int | None = None,
        stop: Stop = None,
        **sampling: Any,
    ) -> Tokens: ...
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: bool = False,
        max_tokens: int | None = None,
        stop: Stop = None,
        **sampling: Any,
    ) -> Completion | Tokens:
        """Appends ``prompt``, text or ids, and continues it.

        With ``stream``, returns an iterator that gives a :class:`Token` for each id as it
        is drawn. ``max_tokens`` is the most new ids (default: the checkpoint's limit, or
        else to the end of the context). ``stop`` is a string that ends the text, or
        several; the text that is returned ends before it, and text that may become one is
        held back in a stream. ``json_schema``, ``grammar`` or ``regex`` say what form the
        text has: see :class:`Grammar`, which ``grammar`` may also be. Other keywords are
        the fields of :class:`Sampling`. All of them replace the checkpoint's settings.
        """
        ids = ids_array(self.model.encode(prompt))
        matcher = self.model.matcher_of(sampling)
        drawing, stops = self.model.sampling(**sampling), self.model.stop_strings(stop)
        tokens = self._generate(ids, [], max_tokens, drawing, stops, matcher)
        return tokens if stream else completion_of(ids.tolist(), tokens)

    def _generate(
        self,
        ids: npt.NDArray[np.int32],
        seen: list[int],
        max_tokens: int | None,
        sampling: Sampling,
        stops: Sequence[str],
        matcher: Matcher | None,
    ) -> Tokens:
        """Appends ids and draws new ones. ``seen`` are ids that the session holds."""
        if max_tokens is not None:
            max_tokens = count_of(max_tokens, "max_tokens")
        room = self.model.artifact.info.max_seq - self.position - len(ids)
        if room < 0 or (max_tokens or 0) > room:
            asked = f" and {max_tokens} new ones" if max_tokens else ""
            most = self.model.artifact.info.max_seq
            raise OutOfRange(f"{len(ids)} ids{asked} exceed the artifact's max_seq {most}")
        if not len(ids):
            raise InvalidArgument("the prompt is empty")
        if self.model.artifact.manifest["model"].get("bidirectional"):
            if max_tokens:
                raise InvalidArgument(
                    "max_tokens: the model's tokens see later tokens, so that it "
                    "generates none; feed() gives the logits"
                )
            max_tokens = 0
        sampler = Sampler(self.model.artifact.info.vocab_size, sampling)
        before = [*seen, *ids.tolist()]
        sampler.accept_prompt(before)
        held = self.model.artifact.info.max_seq - room
        limit = self.model.limit(held) if max_tokens is None else max_tokens
        if limit <= 0:
            stops = ()
        text = self.model.text_after(before, stops)
        return self._tokens(ids, text, limit, sampler, matcher)

    def _tokens(
        self,
        ids: npt.NDArray[np.int32],
        text: TextStream | None,
        limit: int,
        sampler: Sampler,
        matcher: Matcher | None,
    ) -> Tokens:
        if limit <= 0:
            self.feed(ids, "none")
        for count in range(limit):
            if matcher:
                matcher.allow(sampler)
            id = self.draw(ids, sampler)
            sampler.accept(id)
            if matcher:
                matcher.accept(id)
            ids = np.array([id], np.int32)
            piece = text.push(id) if text else ""
            ended = self.model.ends(id) or (text is not None and text.stopped)
            ended = ended or (matcher is not None and matcher.finished)
            last = ended or count + 1 == limit
            yield Token(id, piece + text.finish() if text and last else piece)
            if last:
                return ended
        return False


def _rows(
    logits: str | Sequence[int], count: int, what: str = "logits"
) -> npt.NDArray[np.int64]:
    """The indexes of the ids whose logits (or hidden states) the caller asks for."""
    if isinstance(logits, str):
        if logits not in ("none", "last", "all"):
            raise InvalidArgument(
                f"{what}: expected none, last, all or indexes, got {logits!r}"
            )
        first = {"none": count, "last": count - 1, "all": 0}[logits]
        return np.arange(max(0, first), count, dtype=np.int64)
    with checking(what):
        rows = ids_array(logits).astype(np.int64)
    if (np.diff(rows, prepend=-1, append=count) < 1).any():
        raise InvalidArgument(
            f"{what}: expected increasing indexes below {count}, got {logits!r}"
        )
    return rows


def completion_of(prompt: list[int], tokens: Tokens) -> Completion:
    """Reads a stream to its end."""
    drawn: list[Token] = []
    while True:
        try:
            drawn.append(next(tokens))
        except StopIteration as end:
            text = "".join(token.text for token in drawn)
            return Completion(text, [token.id for token in drawn], prompt, end.value)
