"""Batches: many texts of one model, computed together."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from cria import _native
from cria._errors import Error, InvalidArgument, OutOfRange, checking, error_of
from cria._grammar import Grammar
from cria._sampling import Sampler, Sampling
from cria._session import Completion, Logits, Prompt
from cria._text import Ids, Stop, count_of, ids_array, ids_pointer

if TYPE_CHECKING:
    from cria._model import LoraSet, Model


class Finish(enum.IntEnum):
    """Why a sequence stopped."""

    #: It still runs.
    NONE = 0
    #: It drew an id that ends a text.
    END = 1
    #: It drew as many ids as :meth:`Batch.feed` asked for.
    LENGTH = 2
    #: The context is full.
    CONTEXT = 3
    #: See ``error`` of the result.
    FAILED = 4


class BatchResult(NamedTuple):
    """The result of a step for one sequence."""

    sequence: int
    #: The drawn id, or None if none was drawn.
    id: int | None
    finish: Finish
    #: Why the sequence failed. After :class:`ResourceExhausted` it goes on when
    #: :meth:`Batch.feed` is called without ids.
    error: Error | None
    #: The logits that the id was drawn from (vocab_size), if asked for.
    logits: Logits | None
    #: Hidden states of ids that the step has computed (count, hidden_size), if asked for.
    #: Such a result has no id.
    hidden: Logits | None


class BatchInfo(NamedTuple):
    """The state of a batch, and counts of its work so far."""

    #: Ids that a step computes, each in a row.
    rows: int
    #: Positions of a page.
    page: int
    page_bytes: int
    #: Pages of the pool.
    pages: int
    #: Pages that no sequence uses.
    free_pages: int
    #: Free pages that can still be found by their content.
    kept_pages: int
    #: Sequences that run, and sequences that wait.
    running: int
    waiting: int
    #: Ids computed in chunks of a prompt; ids computed each in a row, drawn ones and those
    #: of short feeds; ids among these that were computed again; ids not computed, as a page
    #: had them already.
    prefilled: int
    decoded: int
    recomputed: int
    reused: int
    #: How often a sequence lost its pages and waited again.
    put_back: int
    #: Ids computed as drafts; of these, those that were drawn, which count as decoded too.
    drafted: int
    accepted: int
    #: Sequences that run at once.
    texts: int
    #: Of layers with a window, if they have pages of their own; else 0.
    window_page_bytes: int
    window_pages: int
    free_window_pages: int
    kept_window_pages: int


class SequenceInfo(NamedTuple):
    """What is known of a sequence after the last step."""

    #: Ids that are in pages now.
    computed: int
    #: Ids that the sequence has.
    position: int
    #: Ids that were found in pages when they were first needed.
    reused: int


def _copied(numbers: Any, count: int) -> Logits:
    """``count`` floats that lie at ``numbers``."""
    return np.frombuffer(_native.ffi.buffer(numbers, 4 * count), np.float32).copy()


class Drawn:
    """A prompt, and the ids that a sequence draws after it."""

    def __init__(
        self,
        model: Model,
        prompt: Prompt,
        max_tokens: int | None,
        sampling: Sampling,
        stops: Sequence[str],
        grammar: Grammar | None,
    ) -> None:
        self.prompt = ids_array(model.encode(prompt))
        held, most = len(self.prompt), model.artifact.info.max_seq
        if max_tokens is not None:
            max_tokens = count_of(max_tokens, "max_tokens")
        if not held:
            raise InvalidArgument("the prompt is empty")
        if held + (max_tokens or 0) > most:
            asked = f" and {max_tokens} new ones" if max_tokens else ""
            raise OutOfRange(f"{held} ids{asked} exceed the artifact's max_seq {most}")
        self.limit = model.limit(held) if max_tokens is None else max_tokens
        self.sampler = Sampler(model.artifact.info.vocab_size, sampling)
        self._text = model.text_after(self.prompt, stops if self.limit else ())
        self._matcher = grammar.matcher() if grammar and self.limit else None
        if self._matcher:
            self._matcher.allow(self.sampler)
        self._ids: list[int] = []
        self._pieces: list[str] = []
        #: Whether an id, a stop string or a grammar has ended the text.
        self.ended = False

    def take(self, id: int, last: bool) -> bool:
        """Adds an id, maybe the last one. Returns whether it completes a stop string or
        the grammar's text, which ends the text."""
        self._ids.append(id)
        self._pieces.append(self._text.push(id) if self._text else "")
        if self._text:
            self.ended = self._text.stopped
        if self._matcher:
            self._matcher.accept(id)
            self.ended |= self._matcher.finished
            if not (self.ended or last):
                self._matcher.allow(self.sampler)
        return self.ended

    def forced(self, most: int) -> tuple[list[int], npt.NDArray[np.bool_] | None]:
        """Up to ``most`` ids to try, which the grammar leaves no choice in, and the masks
        after each."""
        runs = self._ids and not self.ended and len(self._ids) < self.limit
        if not (self._matcher and runs):
            return [], None
        ids = self._matcher.forced(most)
        masks = self._matcher.masks_after(ids, self.sampler._vocab_size)
        return ids[: len(masks)], masks

    @property
    def piece(self) -> str:
        """The text that the last id has completed."""
        return self._pieces[-1]

    def rest(self) -> str:
        """The text that is held back, after the last id."""
        return self._text.finish() if self._text else ""

    def completion(self) -> Completion:
        text = "".join([*self._pieces, self.rest()])
        return Completion(text, self._ids, self.prompt.tolist(), self.ended)


class Batch(_native.OneThread):
    """Many texts of one model, computed together; :meth:`Model.batch` makes a batch.

    A sequence joins, is fed ids and the number of ids to draw, goes on with each
    :meth:`step`, and leaves. The ids that it draws do not depend on other sequences. One
    thread at a time may use a batch. Use a batch in a ``with``, or :meth:`close` it, to
    free its memory at once.
    """

    def __init__(
        self,
        model: Model,
        *,
        threads: int | None = None,
        pages: int = 0,
        cache_bytes: int = 0,
        refuse: bool = False,
        chunk: int = 0,
        reuse_drawn: bool = False,
        draft_rows: int = 0,
        texts: int = 0,
        window_pages: int = 0,
    ) -> None:
        options = _native.struct(
            "cria_batch_options",
            threads=model.threads if threads is None else threads,
            refuse=refuse,
            cache_bytes=cache_bytes,
            pages=pages,
            chunk=chunk,
            reuse_drawn=reuse_drawn,
            draft_rows=draft_rows,
            texts=texts,
            window_pages=window_pages,
        )
        super().__init__("batch", "cria_batch_create", model._handle, options)
        self.model = model
        self._draft_rows = draft_rows
        #: Sequences that run or wait, as of the last step.
        self.unfinished = 0
        #: What the last step returned. A step that raises an error, which is one of all
        #: sequences, leaves the results of those that failed alone here.
        self.results: list[BatchResult] = []

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    @property
    def info(self) -> BatchInfo:
        """The state of the batch, and counts of its work so far."""
        info = _native.struct("cria_batch_info")
        self._call("cria_batch_get_info", info)
        return BatchInfo(*(getattr(info, name) for name in BatchInfo._fields))

    def _add(
        self,
        function: str,
        arguments: Sequence[Any],
        sampler: Sampler | None,
        end_ids: Iterable[int],
        logits: bool,
        lora: LoraSet | None = None,
        salt: int = 0,
        hidden: bool = False,
    ) -> int:
        with checking("end_ids"):
            ends = ids_array(list(end_ids))
        options = _native.struct(
            "cria_sequence_options",
            sampler=sampler._handle if sampler else _native.ffi.NULL,
            end_ids=ids_pointer(ends),
            end_count=len(ends),
            logits=logits,
            lora=lora._handle if lora else _native.ffi.NULL,
            salt=salt,
            hidden=hidden,
        )
        number = _native.ffi.new("int64_t *")
        self._call(function, *arguments, options, number)
        return int(number[0])

    def join(
        self,
        sampler: Sampler | None = None,
        *,
        end_ids: Iterable[int] = (),
        logits: bool = False,
        lora: LoraSet | None = None,
        salt: int = 0,
        hidden: bool = False,
    ) -> int:
        """Adds an empty sequence and returns its number.

        ``sampler`` draws the sequence's ids and notes them, so that no other sequence
        may use the sampler (default: the likeliest id). Each of ``end_ids`` ends the
        text. With ``logits``, a result has the logits that the id was drawn from.
        ``lora`` are the adapters to compute with (default: those of the model). Only
        sequences with the same ``salt`` share pages. With ``hidden``, results have the
        hidden states of the sequence's ids.
        """
        return self._add(
            "cria_batch_join", (), sampler, end_ids, logits, lora, salt, hidden
        )

    def fork(
        self,
        sequence: int,
        sampler: Sampler | None = None,
        *,
        end_ids: Iterable[int] = (),
        logits: bool = False,
    ) -> int:
        """Adds a sequence with the ids of ``sequence``, in the same pages, and with the
        same adapters. Returns the new sequence's number."""
        return self._add("cria_batch_fork", (sequence,), sampler, end_ids, logits)

    def leave(self, sequence: int) -> None:
        """Removes a sequence, also one that runs."""
        self._call("cria_batch_leave", sequence)

    def feed(self, sequence: int, ids: Ids, draw: int) -> None:
        """Appends ids. The sequence then runs until it has drawn ``draw`` ids or ends
        before. With 0 the ids are computed and none is drawn."""
        array = ids_array(ids)
        self._call("cria_batch_feed", sequence, ids_pointer(array), len(array), draw)
        self.unfinished += 1

    def propose(
        self, sequence: int, ids: Ids, masks: npt.ArrayLike | None = None
    ) -> None:
        """Proposes ids that the sequence may draw next. The next step may compute them as
        drafts, which saves the steps of those that the sequence then draws. Where its
        sampler has a mask, ``masks`` has the mask after each id (:meth:`Matcher.mask`)."""
        array = ids_array(ids)
        pointer, words = _native.ffi.NULL, 0
        if masks is not None:
            with checking("masks"):
                rows = np.asarray(masks, np.bool_)
            shape = (len(array), self.model.artifact.info.vocab_size)
            if rows.shape != shape:
                raise InvalidArgument(f"masks: expected shape {shape}, got {rows.shape}")
            padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % 32)))
            packed = np.packbits(padded, axis=1, bitorder="little").view(np.uint32)
            pointer, words = _native.ffi.from_buffer("uint32_t[]", packed), packed.shape[1]
        self._call(
            "cria_batch_propose", sequence, ids_pointer(array), len(array), pointer, words
        )

    def _try(self, texts: Mapping[int, Drawn]) -> None:
        """Has the next step try what grammars leave texts no choice in."""
        most = self._draft_rows - len(texts)
        for sequence, text in texts.items() if most > 0 else ():
            ids, masks = text.forced(most)
            if ids:
                self.propose(sequence, ids, masks)

    def step(self) -> list[BatchResult]:
        """Computes one id of each sequence that decodes, with its drafts, and a chunk of
        one prompt. A sequence has a result for each id that it drew, in order. After an
        error a step may be repeated, when :attr:`results` are read."""
        counts = _native.ffi.new("size_t[2]", [0, self.unfinished])
        try:
            self._call("cria_batch_step", counts, counts + 1)
        finally:
            self.unfinished = int(counts[1])
            self.results = [self._result(index) for index in range(counts[0])]
        return self.results

    def _result(self, index: int) -> BatchResult:
        result = _native.struct("cria_batch_result")
        self._call("cria_batch_get_result", index, result)
        sizes = self.model.artifact.info
        logits = hidden = None
        if result.logits != _native.ffi.NULL:
            logits = _copied(result.logits, sizes.vocab_size)
        if result.hidden != _native.ffi.NULL:
            states = _copied(result.hidden, result.hidden_rows * sizes.hidden_size)
            hidden = states.reshape(-1, sizes.hidden_size)
        error = None
        if result.status:
            error = error_of(result.status, _native.text_of(result.message))
        return BatchResult(
            int(result.sequence),
            None if result.id < 0 else int(result.id),
            Finish(result.finish),
            error,
            logits,
            hidden,
        )

    def sequence(self, sequence: int) -> SequenceInfo:
        """What is known of a sequence after the last step."""
        info = _native.struct("cria_sequence_info")
        self._call("cria_batch_get_sequence", sequence, info)
        return SequenceInfo(*(getattr(info, name) for name in SequenceInfo._fields))

    def position(self, sequence: int) -> tuple[int, int]:
        """How many ids of a sequence are computed (in its pages), and how many it has."""
        numbers = _native.ffi.new("int64_t[2]")
        self._call("cria_batch_position", sequence, numbers, numbers + 1)
        return int(numbers[0]), int(numbers[1])

    def save(self, sequence: int) -> bytes:
        """The state of a sequence, which another sequence or a session can restore."""
        size = _native.ffi.new("size_t *")
        self._call("cria_batch_state_size", sequence, size)
        state = bytearray(size[0])
        buffer = _native.ffi.from_buffer(state, require_writable=True)
        self._call("cria_batch_save", sequence, buffer, len(state))
        return bytes(state)

    def restore(self, sequence: int, state: bytes | bytearray | memoryview) -> None:
        """Gives an empty sequence the state that a sequence or a session has saved."""
        buffer = _native.buffer_of(state, "state")
        size = memoryview(state).nbytes
        self._call("cria_batch_restore", sequence, buffer, size)

    def _begin(self, text: Drawn, lora: LoraSet | None = None) -> int:
        """Adds a sequence that goes on with a text."""
        ends = self.model.generation.end_ids if self.model.generation else []
        sequence = self.join(text.sampler, end_ids=ends, lora=lora)
        try:
            self.feed(sequence, text.prompt, text.limit)
        except BaseException:
            self.leave(sequence)
            raise
        return sequence

    def generate(
        self,
        prompts: Iterable[Prompt],
        *,
        max_tokens: int | None = None,
        stop: Stop = None,
        **sampling: Any,
    ) -> list[Completion]:
        """Continues each of ``prompts``, texts or ids, in a sequence of its own.

        Each completion is the one that :meth:`Model.generate` makes of the prompt. If a
        prompt fails, its error is raised, and the other prompts end.
        """
        model, grammar = self.model, self.model.grammar_of(sampling)
        drawing, stops = model.sampling(**sampling), model.stop_strings(stop)
        with checking("prompts"):
            given = list(prompts)
        texts = [
            Drawn(model, prompt, max_tokens, drawing, stops, grammar) for prompt in given
        ]
        drawn: dict[int, Drawn] = {}
        left: set[int] = set()
        try:
            for text in texts:
                drawn[self._begin(text)] = text
            while self.unfinished:
                self._try({number: drawn[number] for number in drawn.keys() - left})
                for result in self.step():
                    if result.sequence not in drawn or result.sequence in left:
                        continue
                    if result.error:
                        raise result.error
                    one = drawn[result.sequence]
                    last = result.finish != Finish.NONE
                    if result.id is not None and one.take(result.id, last):
                        left.add(result.sequence)
                        self.leave(result.sequence)
                    one.ended |= result.finish == Finish.END
        finally:
            for sequence in drawn.keys() - left:
                self.leave(sequence)
        return [one.completion() for one in drawn.values()]
