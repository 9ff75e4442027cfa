"""Texts for asyncio: many coroutines await the texts of one batch."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, AsyncGenerator, Dict, List, Sequence, Tuple, Union

from cria._batch import Batch, BatchResult, Drawn, Finish
from cria._errors import Error, FailedPrecondition
from cria._session import Completion, Prompt, Token
from cria._text import Message, Stop

if TYPE_CHECKING:
    from cria._model import LoraSet, Model

#: What a text gets: tokens, and at last whether it ended by itself, or why it failed.
Item = Union[Token, bool, Exception]


class _Text:
    """A text on its way between its coroutine and the thread that computes."""

    def __init__(self, drawn: Drawn, lora: LoraSet | None) -> None:
        self.drawn, self.lora = drawn, lora
        self.loop = asyncio.get_running_loop()
        self.items: asyncio.Queue[Item] = asyncio.Queue()
        #: Set by the coroutine that no longer waits, read by the thread.
        self.gone = False

    def take(self, result: BatchResult) -> list[Item]:
        """What a result adds. The last item is no token if the text ends."""
        if result.error:
            return [result.error]
        items: list[Item] = []
        last = result.finish != Finish.NONE
        if result.id is not None:
            last |= self.drawn.take(result.id, last)
            self.drawn.ended |= result.finish == Finish.END
            piece = self.drawn.piece + (self.drawn.rest() if last else "")
            items.append(Token(result.id, piece))
        return [*items, self.drawn.ended] if last else items


#: Items by the loops of their texts.
Sent = Dict[asyncio.AbstractEventLoop, List[Tuple[_Text, Item]]]


class AsyncBatch:
    """Texts of one model for asyncio, computed together; :meth:`Model.async_batch` makes it.

    Coroutines of any number await their texts, each of which is the one that
    :meth:`Model.generate` makes. A thread computes while there are texts. A coroutine that
    is cancelled ends its text before the next step; the others go on. More texts than the
    batch has rows wait, first come, first served. Use it in an ``async with``, or
    :meth:`close` it, to free its memory at once.
    """

    def __init__(self, model: Model, **options: Any) -> None:
        self.model = model
        self._batch = Batch(model, **options)
        # For what follows.
        self._lock = threading.Lock()
        self._joining: list[_Text] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    async def __aenter__(self) -> AsyncBatch:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Fails the texts that are not complete, and frees the memory."""
        with self._lock:
            self._closed, thread = True, self._thread
        if thread:
            await asyncio.to_thread(thread.join)
        self._batch.close()

    async def generate(
        self,
        prompt: Prompt,
        *,
        max_tokens: int | None = None,
        stop: Stop = None,
        lora: LoraSet | None = None,
        **sampling: Any,
    ) -> Completion:
        """Continues a prompt, text or ids. ``lora`` are the adapters to compute with; the
        other arguments are as for :meth:`Session.generate`."""
        text = await self._join(prompt, max_tokens, stop, lora, sampling)
        tokens = [token async for token in self._tokens(text)]
        return Completion(
            "".join(token.text for token in tokens),
            [token.id for token in tokens],
            text.drawn.prompt.tolist(),
            text.drawn.ended,
        )

    async def stream(
        self,
        prompt: Prompt,
        *,
        max_tokens: int | None = None,
        stop: Stop = None,
        lora: LoraSet | None = None,
        **sampling: Any,
    ) -> AsyncGenerator[Token, None]:
        """The tokens of :meth:`generate`, as they are drawn, for an ``async for``. A text
        whose tokens are not read to the end goes on until ``aclose`` is called, or the
        generator is dropped."""
        text = await self._join(prompt, max_tokens, stop, lora, sampling)
        try:
            async for token in self._tokens(text):
                yield token
        finally:
            text.gone = True

    async def chat(
        self,
        messages: str | Sequence[Message],
        *,
        variables: dict[str, Any] | None = None,
        **options: Any,
    ) -> Completion:
        """The reply to a conversation, as :meth:`Model.chat`. ``options`` are those of
        :meth:`generate`."""
        ids = await asyncio.to_thread(self.model.chat_ids, messages, variables)
        return await self.generate(ids, **options)

    async def _join(
        self,
        prompt: Prompt,
        max_tokens: int | None,
        stop: Stop,
        lora: LoraSet | None,
        sampling: dict[str, Any],
    ) -> _Text:
        drawn = await asyncio.to_thread(self._prepare, prompt, max_tokens, stop, sampling)
        text = _Text(drawn, lora)
        with self._lock:
            if self._closed:
                raise FailedPrecondition("the batch is closed")
            self._joining.append(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="cria-batch")
                self._thread.start()
        return text

    def _prepare(
        self, prompt: Prompt, max_tokens: int | None, stop: Stop, sampling: dict[str, Any]
    ) -> Drawn:
        grammar = self.model.grammar_of(sampling)
        drawing = self.model.sampling(**sampling)
        stops = self.model.stop_strings(stop)
        return Drawn(self.model, prompt, max_tokens, drawing, stops, grammar)

    async def _tokens(self, text: _Text) -> AsyncGenerator[Token, None]:
        try:
            while not isinstance(item := await text.items.get(), bool):
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            text.gone = True

    def _run(self) -> None:
        """Computes until there are no texts. Only this thread uses the batch."""
        texts: dict[int, _Text] = {}
        problem: Exception = FailedPrecondition("the batch was closed")
        try:
            while self._go_on(texts):
                pass
        except Exception as error:
            problem = error
            with self._lock:
                self._closed = True
        with self._lock:
            if not self._closed:  # another thread may compute already
                return
            left, self._joining = [*texts.values(), *self._joining], []
        for text in left:  # first: who waits is told in any case
            _send(text.loop, [(text, problem)])
        for number in texts:
            self._batch.leave(number)

    def _go_on(self, texts: dict[int, _Text]) -> bool:
        """Takes texts that are new, drops those that nobody awaits, and makes a step."""
        with self._lock:
            if self._closed:
                return False
            if not (self._joining or texts):
                self._thread = None
                return False
            joining, self._joining = self._joining, []
        sent: Sent = defaultdict(list)
        for number in [number for number, text in texts.items() if text.gone]:
            self._batch.leave(number)
            del texts[number]
        for text in joining:
            try:
                if not text.gone:
                    texts[self._batch._begin(text.drawn, text.lora)] = text
            except Exception as error:  # also of Python, if `lora` is no LoraSet
                sent[text.loop].append((text, error))
        if texts:
            self._step(texts, sent)
        for loop, items in sent.items():
            _send(loop, items)
        return True

    def _step(self, texts: dict[int, _Text], sent: Sent) -> None:
        try:
            self._batch._try({number: text.drawn for number, text in texts.items()})
            results = self._batch.step()
        except Error as error:  # of all texts
            for text in texts.values():
                sent[text.loop].append((text, error))
            results, failed = [], list(texts)
            for sequence in failed:
                self._batch.leave(sequence)
                del texts[sequence]
        for result in results:
            text_of = texts.get(result.sequence)
            if text_of is None:  # it ended in this step
                continue
            try:
                items = text_of.take(result)
            except Error as error:  # of its grammar, say
                items = [error]
            sent[text_of.loop] += [(text_of, item) for item in items]
            if items and not isinstance(items[-1], Token):
                self._batch.leave(result.sequence)
                del texts[result.sequence]


def _send(loop: asyncio.AbstractEventLoop, items: list[tuple[_Text, Item]]) -> None:
    """Gives texts what they wait for, in the thread of their loop."""

    def put() -> None:
        for text, item in items:
            text.items.put_nowait(item)

    try:
        loop.call_soon_threadsafe(put)
    except RuntimeError:  # the loop is closed
        for text, _ in items:
            text.gone = True
