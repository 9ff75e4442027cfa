"""The C API of libcria.so by ctypes, as far as the tests feed sessions."""

import ctypes
import sys

import numpy as np

LOGITS_LAST, LOGITS_ALL = 1, 2
DEVICES = {"cpu": 1, "cuda": 2, "emulated": 3}


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32)]


class Error(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("message", ctypes.c_char * 1024),
    ]


class ModelOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("weights", ctypes.c_char_p),
        ("seed", ctypes.c_uint64),
        ("device", ctypes.c_int32),
        ("no_cache", ctypes.c_int32),
        ("loras", ctypes.c_void_p),
        ("lora_count", ctypes.c_size_t),
        ("lora_unmerged", ctypes.c_int32),
        ("allow_unused", ctypes.c_int32),
        ("weight_cache", ctypes.c_char_p),
    ]


class Lora(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("folder", ctypes.c_char_p),
        ("scale", ctypes.c_double),
    ]


def adapters(loras):
    """The structs of (folder, scale) pairs."""
    size = ctypes.sizeof(Lora)
    return (Lora * len(loras))(*(Lora(size, str(f).encode(), s) for f, s in loras))


class Outputs(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("logits_of", ctypes.c_int32),
        ("hidden_of", ctypes.c_int32),
        ("logit_rows", ctypes.c_void_p),
        ("logit_row_count", ctypes.c_size_t),
        ("logits", ctypes.c_void_p),
        ("logits_capacity", ctypes.c_size_t),
        ("hidden", ctypes.c_void_p),
        ("hidden_capacity", ctypes.c_size_t),
    ]


class EmbedOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("pooling", ctypes.c_int32),
        ("normalize", ctypes.c_int32),
    ]


class Model:
    """An artifact on a device, bound to random weights of a seed or to a folder's."""

    def __init__(
        self, tools, artifact, seed, vocab, device="cpu", weights=None, loras=()
    ):
        """`loras`, pairs of folder and scale, are kept apart from the weights."""
        library = tools.bin.parent / "lib" / "libcria.so"
        self.library = ctypes.CDLL(str(library))
        self.vocab = vocab
        self.artifact, self.model = ctypes.c_void_p(), ctypes.c_void_p()
        path = str(artifact).encode()
        self.call("artifact_open", path, ctypes.byref(self.artifact))
        structs = adapters(loras)
        options = ModelOptions(
            size=ctypes.sizeof(ModelOptions),
            weights=str(weights).encode() if weights else None,
            seed=seed,
            device=DEVICES[device],
            no_cache=1,
            loras=ctypes.cast(structs, ctypes.c_void_p),
            lora_count=len(loras),
            lora_unmerged=1,
        )
        self.call(
            "model_load",
            self.artifact,
            ctypes.byref(options),
            ctypes.byref(self.model),
        )

    def problem(self, name, *arguments):
        """Calls a function. Returns its error's message, or None."""
        error = Error(ctypes.sizeof(Error))
        function = getattr(self.library, "cria_" + name)
        failed = function(*arguments, ctypes.byref(error)) != 0
        return error.message.decode() if failed else None

    def call(self, name, *arguments):
        problem = self.problem(name, *arguments)
        if problem is not None:
            sys.exit(f"cria_{name}: {problem}")

    def session(self, threads=1):
        return Session(self, threads)

    def lora_set(self, loras):
        """A set of adapters for sessions to choose."""
        made, count = ctypes.c_void_p(), ctypes.c_size_t(len(loras))
        structs = adapters(loras)
        self.call("lora_set_create", self.model, structs, count, ctypes.byref(made))
        return made

    def free(self):
        self.library.cria_model_free(ctypes.byref(self.model))
        self.library.cria_artifact_free(ctypes.byref(self.artifact))


class SamplerOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("temperature", ctypes.c_double),
        ("top_k", ctypes.c_int64),
        ("top_p", ctypes.c_double),
        ("min_p", ctypes.c_double),
        ("repetition_penalty", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("presence_penalty", ctypes.c_double),
        ("frequency_penalty", ctypes.c_double),
        ("penalty_window", ctypes.c_int64),
    ]


class Sampler:
    """Draws ids for one text; options as in cria_sampler_options."""

    def __init__(self, model, **options):
        self.model, self.sampler = model, ctypes.c_void_p()
        defaults = {"temperature": 1, "top_p": 1, "repetition_penalty": 1}
        asked = SamplerOptions(ctypes.sizeof(SamplerOptions))
        for key, value in {**defaults, **options}.items():
            setattr(asked, key, value)
        vocab = ctypes.c_int64(model.vocab)
        sampler = ctypes.byref(self.sampler)
        model.call("sampler_create", ctypes.byref(asked), vocab, sampler)

    def accept(self, id):
        self.model.call("sampler_accept", self.sampler, id)

    def accept_prompt(self, ids):
        given = np.array(ids, dtype=np.int32)
        pointer = given.ctypes.data_as(ctypes.c_void_p)
        self.model.call(
            "sampler_accept_prompt", self.sampler, pointer, ctypes.c_size_t(len(given))
        )

    def set_bias(self, bias):
        """Adds numbers to the logits of ids: {id: number}."""
        ids = np.array(list(bias), dtype=np.int32)
        added = np.array(list(bias.values()), dtype=np.float32)
        self.model.call(
            "sampler_set_bias",
            self.sampler,
            ids.ctypes.data_as(ctypes.c_void_p),
            added.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
        )

    def free(self):
        self.model.library.cria_sampler_free(ctypes.byref(self.sampler))


def sample(model, sampler, logits):
    """The next id for a row of logits."""
    id = ctypes.c_int32()
    row = logits.ctypes.data_as(ctypes.c_void_p)
    model.call("sampler_sample", sampler.sampler, row, ctypes.byref(id))
    return id.value


class Session:
    """A session of `model` at position 0."""

    def __init__(self, model, threads):
        self.model, self.session = model, ctypes.c_void_p()
        options = Options(ctypes.sizeof(Options), threads)
        model.call(
            "session_create",
            model.model,
            ctypes.byref(options),
            ctypes.byref(self.session),
        )

    def free(self):
        self.model.library.cria_session_free(ctypes.byref(self.session))

    def encode(self, ids):
        """Runs the source of a model with an encoder."""
        ids = np.array(ids, dtype=np.int32)
        self.model.call(
            "session_encode",
            self.session,
            ids.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
        )

    def feed(self, ids, wanted=LOGITS_ALL):
        """(len(ids), vocab) logits, or (1, vocab) of the last."""
        ids = np.array(ids, dtype=np.int32)
        rows = len(ids) if wanted == LOGITS_ALL else 1
        logits = np.empty((rows, self.model.vocab), dtype=np.float32)
        self.model.call(
            "session_feed",
            self.session,
            ids.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
            wanted,
            logits.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(logits.size),
        )
        return logits

    def forward(self, ids, hidden, wanted=LOGITS_ALL):
        """Logits (len(ids) or 1, vocab) and hidden states (len(ids), hidden)."""
        ids = np.array(ids, dtype=np.int32)
        rows = len(ids) if wanted == LOGITS_ALL else 1
        logits = np.empty((rows, self.model.vocab), dtype=np.float32)
        states = np.empty((len(ids), hidden), dtype=np.float32)
        outputs = Outputs(
            size=ctypes.sizeof(Outputs),
            logits_of=wanted,
            hidden_of=LOGITS_ALL,
            logits=logits.ctypes.data,
            logits_capacity=logits.size,
            hidden=states.ctypes.data,
            hidden_capacity=states.size,
        )
        self.model.call(
            "session_feed_outputs",
            self.session,
            ids.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
            ctypes.byref(outputs),
        )
        return logits, states

    def embed(self, ids, hidden, pooling, normalize=0):
        """The embedding (hidden) of `ids`."""
        ids = np.array(ids, dtype=np.int32)
        embedding = np.empty(hidden, dtype=np.float32)
        options = EmbedOptions(ctypes.sizeof(EmbedOptions), pooling, normalize)
        self.model.call(
            "session_embed",
            self.session,
            ids.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
            ctypes.byref(options),
            embedding.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(hidden),
        )
        return embedding

    def drop(self, begin, end):
        """Nothing, or what is wrong."""
        bounds = ctypes.c_int64(begin), ctypes.c_int64(end)
        return self.model.problem("session_drop", self.session, *bounds)

    def feed_embeddings(self, rows):
        """Nothing, or what is wrong."""
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        return self.model.problem(
            "session_feed_embeddings",
            self.session,
            rows.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(rows.shape[0]),
            ctypes.c_size_t(rows.shape[1]),
        )

    def forward_embeddings(self, rows, hidden):
        """Hidden states (len(rows), hidden) of embeddings."""
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        states = np.empty((len(rows), hidden), dtype=np.float32)
        outputs = Outputs(
            size=ctypes.sizeof(Outputs),
            hidden_of=LOGITS_ALL,
            hidden=states.ctypes.data,
            hidden_capacity=states.size,
        )
        self.model.call(
            "session_feed_embeddings_outputs",
            self.session,
            rows.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(rows.shape[0]),
            ctypes.c_size_t(rows.shape[1]),
            ctypes.byref(outputs),
        )
        return states

    def set_lora(self, lora_set):
        self.model.call("session_set_lora", self.session, lora_set)

    def expect_prompt(self, count):
        size = ctypes.c_size_t(count)
        self.model.call("session_expect_prompt", self.session, size)

    def draw(self, ids, sampler):
        """The id that follows `ids`, or an error message."""
        ids, drawn = np.array(ids, dtype=np.int32), ctypes.c_int32()
        problem = self.model.problem(
            "session_draw",
            self.session,
            ids.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
            sampler.sampler,
            ctypes.byref(drawn),
        )
        return drawn.value if problem is None else problem

    def rewind(self, position):
        position = ctypes.c_int64(position)
        self.model.call("session_rewind", self.session, position)

    def save(self):
        """The bytes of the state."""
        size = ctypes.c_size_t()
        self.model.call("session_state_size", self.session, ctypes.byref(size))
        state = ctypes.create_string_buffer(size.value)
        self.model.call("session_save", self.session, state, size)
        return state.raw

    def restore(self, state):
        size = ctypes.c_size_t(len(state))
        self.model.call("session_restore", self.session, state, size)

    def copy_to(self, other):
        self.model.call("session_copy", self.session, other.session)


class SequenceOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("sampler", ctypes.c_void_p),
        ("end_ids", ctypes.c_void_p),
        ("end_count", ctypes.c_size_t),
        ("logits", ctypes.c_int32),
        ("lora", ctypes.c_void_p),
        ("salt", ctypes.c_int32),
        ("hidden", ctypes.c_int32),
    ]


class BatchOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("threads", ctypes.c_int32),
        ("refuse", ctypes.c_int32),
        ("cache_bytes", ctypes.c_uint64),
        ("pages", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("reuse_drawn", ctypes.c_int32),
        ("draft_rows", ctypes.c_int64),
        ("texts", ctypes.c_int64),
        ("window_pages", ctypes.c_int64),
    ]


class BatchResult(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("sequence", ctypes.c_int64),
        ("id", ctypes.c_int32),
        ("finish", ctypes.c_int32),
        ("status", ctypes.c_int),
        ("message", ctypes.c_char_p),
        ("logits", ctypes.c_void_p),
        ("hidden", ctypes.c_void_p),
        ("hidden_rows", ctypes.c_size_t),
    ]


class BatchInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("rows", ctypes.c_int64)] + [
        ("page", ctypes.c_int64),
        ("page_bytes", ctypes.c_uint64),
        *(
            (name, ctypes.c_int64)
            for name in "pages free_pages kept_pages running waiting prefilled "
            "decoded recomputed reused put_back drafted accepted texts".split()
        ),
        ("window_page_bytes", ctypes.c_uint64),
        *(
            (name, ctypes.c_int64)
            for name in ["window_pages", "free_window_pages", "kept_window_pages"]
        ),
    ]


class Batch:
    """Many texts of `model` at once; options as in cria_batch_options."""

    def __init__(self, model, **options):
        self.model, self.batch = model, ctypes.c_void_p()
        self.draft_rows, self.width = options.get("draft_rows", 0), 0
        asked = BatchOptions(ctypes.sizeof(BatchOptions), **options)
        batch = ctypes.byref(self.batch)
        model.call("batch_create", model.model, ctypes.byref(asked), batch)

    def free(self):
        self.model.library.cria_batch_free(ctypes.byref(self.batch))

    def add(self, name, arguments, sampler, logits=1, hidden=0):
        options = SequenceOptions(ctypes.sizeof(SequenceOptions), logits=logits)
        options.hidden = 1 if hidden else 0
        self.width = hidden or self.width
        options.sampler = sampler.sampler if sampler else None
        number = ctypes.c_int64()
        added = ctypes.byref(options), ctypes.byref(number)
        self.model.call(name, self.batch, *arguments, *added)
        return number.value

    def join(self, sampler=None, logits=1, hidden=0):
        """The number of a new sequence, by default with logits in its results, and with
        hidden states of `hidden` numbers."""
        return self.add("batch_join", (), sampler, logits, hidden)

    def fork(self, sequence, sampler=None):
        return self.add("batch_fork", (ctypes.c_int64(sequence),), sampler)

    def leave(self, sequence):
        self.model.call("batch_leave", self.batch, ctypes.c_int64(sequence))

    def feed(self, sequence, ids, most):
        """Nothing, or what is wrong."""
        ids = np.array(ids, dtype=np.int32)
        return self.model.problem(
            "batch_feed",
            self.batch,
            ctypes.c_int64(sequence),
            ids.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
            ctypes.c_int64(most),
        )

    def propose(self, sequence, ids):
        ids = np.array(ids, dtype=np.int32)
        pointer = ids.ctypes.data_as(ctypes.c_void_p)
        count = ctypes.c_size_t(len(ids))
        number, none = ctypes.c_int64(sequence), ctypes.c_size_t(0)
        self.model.call("batch_propose", self.batch, number, pointer, count, None, none)

    def save(self, sequence):
        """The bytes of a sequence's state."""
        size, number = ctypes.c_size_t(), ctypes.c_int64(sequence)
        self.model.call("batch_state_size", self.batch, number, ctypes.byref(size))
        state = ctypes.create_string_buffer(size.value)
        self.model.call("batch_save", self.batch, number, state, size)
        return state.raw

    def restore(self, sequence, state):
        number, size = ctypes.c_int64(sequence), ctypes.c_size_t(len(state))
        self.model.call("batch_restore", self.batch, number, state, size)

    def step(self):
        """Of each result: sequence, id or -1, finish, message, logits' bytes, hidden
        states' bytes."""
        count = ctypes.c_size_t()
        self.model.call("batch_step", self.batch, ctypes.byref(count), None)
        for index in range(count.value):
            result = BatchResult(ctypes.sizeof(BatchResult))
            at = ctypes.c_size_t(index)
            self.model.call("batch_get_result", self.batch, at, ctypes.byref(result))
            logits = None
            if result.logits:
                logits = ctypes.string_at(result.logits, 4 * self.model.vocab)
            size = 4 * self.width * result.hidden_rows
            hidden = ctypes.string_at(result.hidden, size) if size else b""
            message = result.message.decode()
            yield result.sequence, result.id, result.finish, message, logits, hidden

    @property
    def info(self):
        info = BatchInfo(ctypes.sizeof(BatchInfo))
        self.model.call("batch_get_info", self.batch, ctypes.byref(info))
        return info
