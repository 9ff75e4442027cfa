"""The C API of libcria.so by ctypes, as far as the tests feed sessions."""

import ctypes
import sys

import numpy as np

LOGITS_ALL = 2
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
    ]


class Model:
    """An artifact on a device, bound to weights: drawn from a seed, or those of
    a folder."""

    def __init__(self, tools, artifact, seed, vocab, device="cpu", weights=None):
        library = tools.bin.parent / "lib" / "libcria.so"
        self.library = ctypes.CDLL(str(library))
        self.vocab = vocab
        self.artifact, self.model = ctypes.c_void_p(), ctypes.c_void_p()
        path = str(artifact).encode()
        self.call("artifact_open", path, ctypes.byref(self.artifact))
        options = ModelOptions(
            size=ctypes.sizeof(ModelOptions),
            weights=str(weights).encode() if weights else None,
            seed=seed,
            device=DEVICES[device],
            no_cache=1,
        )
        self.call(
            "model_load",
            self.artifact,
            ctypes.byref(options),
            ctypes.byref(self.model),
        )

    def call(self, name, *arguments):
        error = Error(ctypes.sizeof(Error))
        function = getattr(self.library, "cria_" + name)
        if function(*arguments, ctypes.byref(error)) != 0:
            sys.exit(f"cria_{name}: {error.message.decode()}")

    def session(self, threads=1):
        return Session(self, threads)


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

    def feed(self, ids):
        """(len(ids), vocab) logits."""
        ids = np.array(ids, dtype=np.int32)
        logits = np.empty((len(ids), self.model.vocab), dtype=np.float32)
        self.model.call(
            "session_feed",
            self.session,
            ids.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(len(ids)),
            LOGITS_ALL,
            logits.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(logits.size),
        )
        return logits

    def rewind(self, position):
        position = ctypes.c_int64(position)
        self.model.call("session_rewind", self.session, position)
