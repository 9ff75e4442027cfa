"""Models: an artifact with the weights of a checkpoint."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import pathlib
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import (
    Any,
    AsyncGenerator,
    Callable,
    Literal,
    NamedTuple,
    Sequence,
    Union,
    overload,
)

import numpy as np

from cria import _native
from cria._artifact import Artifact, Source
from cria._async import AsyncBatch
from cria._batch import Batch
from cria._errors import CriaWarning, InvalidArgument, NotFound, checking
from cria._grammar import Grammar, Matcher
from cria._ranks import Ranks
from cria._sampling import Generation, Sampling
from cria._session import (
    Completion,
    Logits,
    Pooling,
    Prompt,
    Session,
    Token,
    Tokens,
    completion_of,
)
from cria._text import (
    ChatTemplate,
    Ids,
    Message,
    Stop,
    TextStream,
    Tokenizer,
    count_of,
    ids_array,
)

Path = Union[str, "os.PathLike[str]"]
#: The device that a model computes on: ``"auto"`` (a GPU if there is one), ``"cpu"``,
#: ``"cuda"`` or ``"emulated"``. ``"cuda:1"`` chooses one GPU of several.
Device = str
DEVICES = {"auto": 0, "cpu": 1, "cuda": 2, "emulated": 3}
LEVELS = {1: "info", 2: "warning"}


def _device_of(name: Device) -> tuple[int, list[int]]:
    """The kind of a device, and its index if it has one."""
    if not isinstance(name, str):
        raise InvalidArgument(f"device: expected a text, got {name!r:.80}")
    kind, colon, index = name.partition(":")
    numbered = kind in ("cuda", "emulated") and index.isdecimal()
    if kind not in DEVICES or (colon and not numbered):
        expected = "auto, cpu, cuda, cuda:1 or emulated"
        raise InvalidArgument(f"device: expected {expected}, got {name!r}")
    return DEVICES[kind], [int(index)] if colon else []


class DeviceInfo(NamedTuple):
    """A device of this machine."""

    #: As :func:`load` takes it: ``"cpu"``, ``"cuda:0"``.
    device: str
    #: ``"NVIDIA H200"``.
    name: str
    memory_bytes: int
    #: Bytes that are free now; 0 if unknown.
    free_bytes: int
    #: 90 for sm_90; 0 for the CPU.
    compute_capability: int


def devices(kind: Literal["cpu", "cuda", "emulated"]) -> list[DeviceInfo]:
    """The devices of a kind. Raises :class:`Unavailable` if there is no driver."""
    number, _ = _device_of(kind)
    count = _native.ffi.new("int32_t *")
    _native.call("cria_device_count", number, count)
    found = []
    for index in range(count[0]):
        info = _native.struct("cria_device_info")
        _native.call("cria_device_get_info", number, index, info)
        rest = (getattr(info, name) for name in DeviceInfo._fields[2:])
        called = kind if kind == "cpu" else f"{kind}:{index}"
        found.append(DeviceInfo(called, _native.text_of(info.name), *rest))
    return found


@dataclasses.dataclass(frozen=True)
class Lora:
    """A LoRA adapter in PEFT's layout, and a factor for its scale."""

    folder: Path
    scale: float = 1.0


def _adapters(loras: Sequence[Lora | Path]) -> tuple[Any, list[Any]]:
    """The structs of adapters, and objects that must live as long as the structs."""
    adapters = [lora if isinstance(lora, Lora) else Lora(lora) for lora in loras]
    folders = [_c_path(lora.folder) for lora in adapters]
    structs = _native.ffi.new("cria_lora[]", len(adapters))
    for struct, folder, lora in zip(structs, folders, adapters):
        struct.size = _native.ffi.sizeof("cria_lora")
        with checking("scale"):
            struct.folder, struct.scale = folder, lora.scale
    return structs, folders


class LoraSet(_native.Object):
    """Adapters in memory beside a model's weights, for sessions to choose from;
    :meth:`Model.lora_set` makes a set. Many threads may use one."""

    def __init__(self, model: Model, loras: Sequence[Lora | Path]) -> None:
        structs, folders = _adapters(loras)
        super().__init__(
            "lora_set", "cria_lora_set_create", model._handle, structs, len(folders)
        )
        #: The model.
        self.model = model


class ModelInfo(NamedTuple):
    """Where the weights are, and how long binding took."""

    #: Bytes of weights that are read from the mapped files.
    mapped_bytes: int
    #: Bytes of weights in the model's own memory.
    copied_bytes: int
    bind_seconds: float


class Model(_native.Object):
    """An artifact bound to weights; :func:`load` makes a model. Many threads may use
    one."""

    def __init__(
        self,
        artifact: Artifact,
        weights: Path | None,
        *,
        seed: int,
        device: Device,
        loras: Sequence[Lora | Path],
        lora_unmerged: bool,
        allow_unused: bool,
        weight_cache: Path | None,
        ranks: Ranks | None,
        threads: int,
        allow_unknown: Sequence[str],
        progress: Callable[[int, int], object] | None,
        log: Callable[[str, str], object] | None,
    ) -> None:
        kind, index = _device_of(device)
        structs, folders = _adapters(loras)
        keep = [_c_path(weights), _c_path(weight_cache)]
        with checking("device"):
            indexes = _native.ffi.new("int32_t[]", index)
        options = _native.struct(
            "cria_model_options",
            weights=keep[0],
            seed=seed,
            device=kind,
            devices=indexes,
            device_count=len(index),
            loras=structs,
            lora_count=len(folders),
            lora_unmerged=lora_unmerged,
            allow_unused=allow_unused,
            weight_cache=keep[1],
            ranks=_native.ffi.NULL if ranks is None else ranks._struct,
        )
        if progress is not None:
            report = progress
            called = _native.callback(
                "void(void *, uint64_t, uint64_t)",
                lambda _, done, total: report(done, total),
            )
            options.progress = called
        # The model's sessions call the function as well, and keep it alive.
        self._log: Any = None
        if log is not None:
            say = log
            self._log = _native.callback(
                "void(void *, int32_t, const char *)",
                lambda _, level, text: say(
                    LEVELS.get(level, "info"), _native.text_of(text)
                ),
            )
            options.log = self._log
        super().__init__("model", "cria_model_load", artifact._handle, options)
        #: The artifact.
        self.artifact = artifact
        #: The folder or file of the weights; None if they are random.
        self.weights = None if weights is None else pathlib.Path(weights)
        #: The default of a session's ``threads``.
        self.threads = threads
        self._allow_unknown = allow_unknown
        #: Warnings about the binding, a line each.
        self.warnings: list[str] = self._text("cria_model_warnings").splitlines()
        #: The device in words.
        self.device: str = self._text("cria_model_device")

    def _text(self, function: str) -> str:
        text = _native.ffi.new("const char **")
        _native.call(function, self._handle, text)
        return _native.text_of(text[0])

    def __repr__(self) -> str:
        return f"<cria.Model on {self.device}, weights {self.weights or 'drawn'}>"

    def _repr_html_(self) -> str:
        return self.artifact._repr_html_()

    @property
    def info(self) -> ModelInfo:
        """Where the weights are, and how long binding took."""
        info = _native.struct("cria_model_info")
        _native.call("cria_model_get_info", self._handle, info)
        return ModelInfo(*(getattr(info, name) for name in ModelInfo._fields))

    @functools.cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer beside the weights, if there is one."""
        if self.weights is None:
            return None
        path = self.weights
        if path.is_dir():
            path = path / "tokenizer.json"
        try:
            return Tokenizer(path)
        except NotFound:
            return None

    @functools.cached_property
    def generation(self) -> Generation | None:
        """The settings for generation in the weights' folder."""
        if self.weights is None:
            return None
        return Generation(self.weights, self._allow_unknown)

    @functools.cached_property
    def template(self) -> ChatTemplate:
        """The chat template beside the weights. Raises :class:`NotFound` if there is
        none."""
        if self.weights is None:
            raise NotFound("weights that are drawn have no chat template")
        return ChatTemplate(self.weights)

    def ends(self, id: int) -> bool:
        """Whether ``id`` ends a text, according to the checkpoint."""
        return self.generation is not None and self.generation.ends(id)

    def limit(self, held: int) -> int:
        """The most new ids after ``held`` ids: the checkpoint's limit, or else as many
        as fit the context."""
        room = self.artifact.info.max_seq - count_of(held, "held")
        if self.generation and self.generation.max_new_tokens is not None:
            return min(self.generation.max_new_tokens, room)
        if self.generation and self.generation.max_length is not None:
            return max(0, min(self.generation.max_length - held, room))
        return room

    def sampling(self, **changes: Any) -> Sampling:
        """The checkpoint's settings for sampling, with ``changes`` in place of some."""
        asked = self.generation.sampling if self.generation else Sampling()
        return asked.replace(**changes)

    def stop_strings(self, stop: Stop = None) -> list[str]:
        """The strings that end a text: ``stop``, or else the checkpoint's."""
        if stop is None:
            return self.generation.stop_strings if self.generation else []
        with checking("stop"):
            return [stop] if isinstance(stop, str) else list(stop)

    def grammar(
        self, *, json_schema: Any = None, grammar: str | None = None, regex: str | None = None
    ) -> Grammar:
        """The texts of a form, over the model's tokenizer, with the ids that end a text.
        See :class:`Grammar`. Make it once for texts of one form: it remembers the masks
        that it has computed."""
        ends = self.generation.end_ids if self.generation else []
        return Grammar(
            self._needed(),
            json_schema=json_schema,
            grammar=grammar,
            regex=regex,
            end_ids=ends,
        )

    def grammar_of(self, options: dict[str, Any]) -> Grammar | None:
        """The grammar that keywords ask for; it is taken out of them."""
        forms = {name: options.pop(name, None) for name in ("json_schema", "grammar", "regex")}
        given = {name: form for name, form in forms.items() if form is not None}
        if len(given) == 1 and isinstance(given.get("grammar"), Grammar):
            made = given["grammar"]
            assert isinstance(made, Grammar)
            return made
        return self.grammar(**given) if given else None

    def matcher_of(self, options: dict[str, Any]) -> Matcher | None:
        """A matcher of the grammar that keywords ask for."""
        grammar = self.grammar_of(options)
        return grammar.matcher() if grammar else None

    def text_after(self, ids: Ids, stops: Sequence[str] = ()) -> TextStream | None:
        """A stream for the text that follows ``ids``, up to one of ``stops``. None if
        there is no tokenizer."""
        if self.tokenizer is None:
            if stops:
                raise NotFound("stop strings need a tokenizer, and the weights have none")
            return None
        stream, before = self.tokenizer.stream(), ids_array(ids)
        for id in before.tolist():
            stream.push(id)
        stream.set_stop_strings(stops, before)
        return stream

    def encode(self, prompt: Prompt) -> Ids:
        """The ids of a prompt. The tokenizer encodes text; ids are returned as given."""
        if not isinstance(prompt, str):
            return prompt
        if self.tokenizer is None:
            raise NotFound("the weights have no tokenizer: give ids in place of text")
        return self.tokenizer.encode(prompt)

    def lora_set(self, loras: Sequence[Lora | Path]) -> LoraSet:
        """Loads adapters that sessions can choose. They are not merged into the weights,
        and the artifact must be compiled with room for them (``lora_rank``). A set of no
        adapters computes with the weights alone."""
        return LoraSet(self, loras)

    def session(
        self, *, threads: int | None = None, lora: LoraSet | None = None
    ) -> Session:
        """A session at position 0. ``threads`` 0 is one thread for each core. ``lora``
        are the adapters that the session begins with."""
        return Session(self, threads=threads, lora=lora)

    def batch(self, **options: Any) -> Batch:
        """A batch without sequences. The artifact must be of ``cria-compile --batch``.

        ``pages`` or ``cache_bytes`` limits the KV caches (default: a whole context for
        each sequence that runs). Layers with a window may have pages of their own, as many
        as ``window_pages`` (default: the windows of twice as many sequences). ``texts`` is
        the most sequences that run at once (default: the artifact's rows); rows beyond are
        for short prompts and drafts. With
        ``refuse``, a sequence that finds no free page fails instead of waiting. ``chunk``
        is the most ids of a prompt in one step. With ``reuse_drawn``, pages with drawn ids
        are found by later prompts as well. With ``draft_rows``, ids that sequences may
        draw next fill a step up to this number of rows, so that a sequence may draw
        several ids in a step, the same ones as ever. ``threads`` is as for
        :meth:`session`.
        """
        return Batch(self, **options)

    def async_batch(self, **options: Any) -> AsyncBatch:
        """A batch whose texts coroutines await. ``options`` are those of :meth:`batch`."""
        return AsyncBatch(self, **options)

    async def astream(self, prompt: Prompt, **options: Any) -> AsyncGenerator[Token, None]:
        """The tokens of :meth:`generate`, as they are drawn, for an ``async for``: a
        thread computes them in a session of its own. For many texts at once, see
        :meth:`async_batch`."""
        pool, run = ThreadPoolExecutor(1), asyncio.get_running_loop().run_in_executor
        try:
            tokens = await run(pool, lambda: self.generate(prompt, stream=True, **options))
            try:
                while (token := await run(pool, lambda: next(tokens, None))) is not None:
                    yield token
            finally:
                pool.submit(tokens.close)  # after the token that is computed now
        finally:
            pool.shutdown(wait=False)

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: Literal[False] = False,
        max_tokens: int | None = None,
        stop: Stop = None,
        source: Prompt | None = None,
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
        source: Prompt | None = None,
        **sampling: Any,
    ) -> Tokens: ...
    def generate(
        self,
        prompt: Prompt,
        *,
        stream: bool = False,
        max_tokens: int | None = None,
        stop: Stop = None,
        source: Prompt | None = None,
        **sampling: Any,
    ) -> Completion | Tokens:
        """Continues ``prompt``, text or ids, in a session of its own.

        ``source`` is the text for the encoder, if the model has one. The rest is as for
        :meth:`Session.generate`.
        """
        ids, matcher = ids_array(self.encode(prompt)), self.matcher_of(sampling)
        drawing = self.sampling(**sampling)
        session = self.session()
        try:
            if source is not None:
                session.encode(self.encode(source))
            stops = self.stop_strings(stop)
            tokens = session._generate(ids, [], max_tokens, drawing, stops, matcher)
            if stream:
                return _closing(session, tokens)
            return completion_of(ids.tolist(), tokens)
        finally:
            if not stream:
                session.close()

    def embed(
        self,
        prompts: Prompt | Sequence[Prompt],
        *,
        pooling: Pooling = "mean",
        normalize: bool = False,
    ) -> Logits:
        """The embedding of a text or of ids (hidden_size), computed in a session of its
        own. A list of several gives a row for each (count, hidden_size). See
        :meth:`Session.embed`."""
        given: Any = prompts
        several = isinstance(given, (list, tuple)) and any(
            not isinstance(each, (int, np.integer)) for each in given
        )
        rows: list[Logits] = []
        with self.session() as session:
            for prompt in given if several else [given]:
                session.rewind()
                ids = self.encode(prompt)
                rows.append(session.embed(ids, pooling=pooling, normalize=normalize))
        return np.stack(rows) if several else rows[0]

    @overload
    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: Literal[False] = False,
        max_tokens: int | None = None,
        stop: Stop = None,
        variables: dict[str, Any] | None = None,
        **sampling: Any,
    ) -> Completion: ...
    @overload
    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: Literal[True],
        max_tokens: int | None = None,
        stop: Stop = None,
        variables: dict[str, Any] | None = None,
        **sampling: Any,
    ) -> Tokens: ...
    def chat(
        self,
        messages: str | Sequence[Message],
        *,
        stream: bool = False,
        max_tokens: int | None = None,
        stop: Stop = None,
        variables: dict[str, Any] | None = None,
        **sampling: Any,
    ) -> Completion | Tokens:
        """The reply to a conversation. ``messages`` is a message of the user, or a list
        of messages with "role" and "content". ``variables`` are further variables of the
        template, for example ``{"tools": [...]}``. :meth:`conversation` keeps the
        messages from one reply to the next."""
        ids = self.chat_ids(messages, variables)
        sampling |= {"max_tokens": max_tokens, "stop": stop}
        if stream:
            return self.generate(ids, stream=True, **sampling)
        return self.generate(ids, stream=False, **sampling)

    def chat_ids(
        self, messages: str | Sequence[Message], variables: dict[str, Any] | None = None
    ) -> list[int]:
        """The ids of a conversation by the chat template, as :meth:`chat` feeds them."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.template.encode(self._needed(), messages, **(variables or {}))

    def _needed(self) -> Tokenizer:
        if self.tokenizer is None:
            raise NotFound(f"{self.weights}: has no tokenizer")
        return self.tokenizer

    def conversation(
        self, system: str | None = None, *, stop: Stop = None, **sampling: Any
    ) -> Conversation:
        """A conversation, which keeps its messages and its session. The other arguments
        are as for :meth:`generate`."""
        return Conversation(self, system, stop=stop, **sampling)


def _closing(session: Session, tokens: Tokens) -> Tokens:
    """The tokens. The session is closed after the last one, or when the caller stops."""
    try:
        return (yield from tokens)
    finally:
        session.close()


class Conversation:
    """Messages in turn, in one session.

    The chat template renders each message together with all messages before it. The
    session keeps the ids that it has in common with the new text, is rewound to the
    first different id, and computes the rest. Use a conversation in a ``with``, or
    :meth:`close` it, to free its memory at once.
    """

    def __init__(
        self,
        model: Model,
        system: str | None = None,
        *,
        stop: Stop = None,
        **sampling: Any,
    ) -> None:
        self.model = model
        #: The messages so far, with "role" and "content".
        self.messages: list[dict[str, Any]] = []
        self._system = system
        self._grammar = model.grammar_of(sampling)
        self._sampling = model.sampling(**sampling)
        self._stops = model.stop_strings(stop)
        self._held: list[int] = []
        #: The session.
        self.session = model.session()
        self.reset()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the session's memory now."""
        self.session.close()

    def reset(self) -> None:
        """Forgets all messages but the system's."""
        system = [{"role": "system", "content": self._system}]
        self.messages = system if self._system else []

    @overload
    def say(
        self,
        message: str,
        *,
        stream: Literal[False] = False,
        max_tokens: int | None = None,
    ) -> Completion: ...
    @overload
    def say(
        self, message: str, *, stream: Literal[True], max_tokens: int | None = None
    ) -> Tokens: ...
    def say(
        self, message: str, *, stream: bool = False, max_tokens: int | None = None
    ) -> Completion | Tokens:
        """The reply to a message of the user. With ``stream``, an iterator of tokens. If
        it is not read to its end, the reply is kept as far as it was read."""
        tokenizer = self.model._needed()
        messages = [*self.messages, {"role": "user", "content": message}]
        ids = self.model.template.encode(tokenizer, messages)
        if not ids:
            raise InvalidArgument("the chat template renders nothing")
        # If the session holds all ids, the last one is fed again for its logits.
        shared = 0
        for held, wanted in zip(self._held, ids[:-1]):
            if held != wanted:
                break
            shared += 1
        room = self.model.artifact.info.max_seq - len(ids)
        most = None
        if max_tokens is not None:
            most = max(0, min(count_of(max_tokens, "max_tokens"), room))
        self.session.rewind(shared)
        self.session.resume()
        self._held = ids[:shared]
        rest = ids_array(ids[shared:])
        matcher = self._grammar.matcher() if self._grammar else None
        tokens = self.session._generate(
            rest, ids[:shared], most, self._sampling, self._stops, matcher
        )
        self.session.expect_prompt(len(ids))
        # The next reply is drawn with another seed.
        self._sampling = self._sampling.replace(seed=self._sampling.seed + 1)
        self.messages = messages
        reply = self._reply(ids, tokens)
        return reply if stream else completion_of(ids, reply)

    def _reply(self, prompt: list[int], tokens: Tokens) -> Tokens:
        ids: list[int] = []
        try:
            while True:
                try:
                    token = next(tokens)
                except StopIteration as end:
                    return bool(end.value)
                ids.append(token.id)
                yield token
        finally:
            self._held = [*prompt, *ids][: self.session.position]
            said = ids[:-1] if ids and self.model.ends(ids[-1]) else ids
            stream = self.model._needed().stream()
            stream.set_stop_strings(self._stops, prompt)
            text = "".join([*map(stream.push, said), stream.finish()])
            self.messages.append({"role": "assistant", "content": text})


def _c_path(path: Path | None) -> Any:
    """A path as a C string, which lives as long as the returned object. NULL for None."""
    if path is None:
        return _native.ffi.NULL
    return _native.ffi.new("char[]", _native.path_of(path))


def load(
    artifact: Source | Artifact,
    weights: Path | None = None,
    *,
    random_weights: int | None = None,
    device: Device = "auto",
    loras: Sequence[Lora | Path] = (),
    lora_unmerged: bool = False,
    allow_unused: bool = False,
    weight_cache: Path | None = None,
    ranks: Ranks | None = None,
    threads: int = 0,
    allow_unknown: Sequence[str] = (),
    progress: Callable[[int, int], object] | None = None,
    log: Callable[[str, str], object] | None = None,
) -> Model:
    """Opens an artifact and binds weights to it.

    ``artifact`` is an :class:`Artifact`, or a path, bytes or file to open one from.
    ``weights`` is a folder of ``*.safetensors``, ``tokenizer.json`` and
    ``generation_config.json``, or a ``.gguf``. Instead, ``random_weights`` is a seed to
    draw weights from.

    ``loras`` are adapters, each a folder or a :class:`Lora`. They are merged into the
    weights, or kept apart with ``lora_unmerged``. With ``allow_unused`` the checkpoint
    may have more layers than the artifact. ``weight_cache`` is a folder that keeps
    quantized weights.
    ``ranks`` are the processes that share the model: :func:`join_ranks`.
    ``threads`` is the default for sessions: 0 is one thread for each core.
    ``allow_unknown`` names keys of ``generation_config.json`` to ignore. ``progress`` is
    called with the number of units of work that are done, and the number of all units.
    ``log`` is called with ``"info"`` or ``"warning"`` and a line of text, while the
    library loads the model and while sessions work; several threads may call it. What
    these two functions raise is raised when the call of the library ends.

    **An artifact is a program: load only those that you trust.** Weights need no trust.
    """
    if (weights is None) == (random_weights is None):
        raise InvalidArgument("expected either weights or random_weights")
    model = Model(
        artifact if isinstance(artifact, Artifact) else Artifact(artifact),
        weights,
        seed=random_weights or 0,
        device=device,
        loras=loras,
        lora_unmerged=lora_unmerged,
        allow_unused=allow_unused,
        weight_cache=weight_cache,
        ranks=ranks,
        threads=threads,
        allow_unknown=allow_unknown,
        progress=progress,
        log=log,
    )
    for line in model.warnings:
        warnings.warn(line, CriaWarning, stacklevel=2)
    return model
