"""libcria-text.so by ctypes."""

import ctypes
import json


class Error(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("message", ctypes.c_char * 1024),
    ]


class Failure(Exception):
    """A status that is not OK, with its message."""


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.free = ctypes.CDLL(None).free

    def call(self, name, *arguments):
        error = Error(ctypes.sizeof(Error))
        if getattr(self.library, "cria_" + name)(*arguments, ctypes.byref(error)):
            raise Failure(error.status, error.message.decode(errors="replace"))

    def take(self, text):
        """The malloc'ed text at a pointer, which is freed."""
        copy = ctypes.string_at(text).decode()
        self.free(text)
        return copy


    def take_ids(self, name, *arguments):
        """The malloc'ed ids that a function gives, which are freed."""
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        self.call(name, *arguments, ctypes.byref(ids), ctypes.byref(count))
        result = ids[: count.value]
        self.free(ids)
        return result


class Tokenizer:
    def __init__(self, library, path):
        self.library, self.handle = library, ctypes.c_void_p()
        library.call("tokenizer_open", str(path).encode(), ctypes.byref(self.handle))

    def close(self):
        self.library.library.cria_tokenizer_free(ctypes.byref(self.handle))

    def encode(self, text, special, parse_special=True):
        """The ids of `text`; without `parse_special`, special tokens that are
        written in it stay text."""
        data = text.encode()
        return self.library.take_ids(
            "tokenizer_encode" if parse_special else "tokenizer_encode_text",
            self.handle,
            data,
            ctypes.c_size_t(len(data)),
            special,
        )

    def decode(self, ids, special):
        text = ctypes.c_void_p()
        self.library.call(
            "tokenizer_decode",
            self.handle,
            (ctypes.c_int32 * len(ids))(*ids),
            ctypes.c_size_t(len(ids)),
            special,
            ctypes.byref(text),
        )
        return self.library.take(text)


class Chat:
    def __init__(self, library, folder=None, source=None):
        """The template of `folder`, or `source`."""
        self.library, self.handle = library, ctypes.c_void_p()
        if source is None:
            library.call("chat_open", str(folder).encode(), ctypes.byref(self.handle))
            return
        data = source.encode()
        library.call("chat_parse", data, ctypes.c_size_t(len(data)), ctypes.byref(self.handle))

    def render(self, variables):
        text = ctypes.c_void_p()
        data = json.dumps(variables).encode()
        self.library.call("chat_render", self.handle, data, ctypes.byref(text))
        return self.library.take(text)

    def encode(self, tokenizer, variables):
        """The ids of the rendered text, in which the template alone writes
        special tokens."""
        data = json.dumps(variables).encode()
        return self.library.take_ids("chat_encode", self.handle, tokenizer.handle, data)

    def close(self):
        self.library.library.cria_chat_free(ctypes.byref(self.handle))


class Grammar:
    """A grammar over a tokenizer's tokens."""

    KINDS = {"json_schema": 0, "gbnf": 1, "regex": 2}

    def __init__(self, tokenizer, kind, source, end_ids=()):
        self.library, self.handle = tokenizer.library, ctypes.c_void_p()
        data = source if isinstance(source, bytes) else source.encode()
        self.library.call(
            "grammar_create",
            tokenizer.handle,
            ctypes.c_int32(self.KINDS[kind]),
            data,
            ctypes.c_size_t(len(data)),
            (ctypes.c_int32 * len(end_ids))(*end_ids),
            ctypes.c_size_t(len(end_ids)),
            ctypes.byref(self.handle),
        )

    def __del__(self):
        self.library.library.cria_grammar_free(ctypes.byref(self.handle))


class Matcher:
    """One text of a grammar."""

    def __init__(self, grammar):
        self.library, self.handle = grammar.library, ctypes.c_void_p()
        self.library.call("matcher_create", grammar.handle, ctypes.byref(self.handle))

    def __del__(self):
        self.library.library.cria_matcher_free(ctypes.byref(self.handle))

    def copy(self):
        made = Matcher.__new__(Matcher)
        made.library, made.handle = self.library, ctypes.c_void_p()
        self.library.call("matcher_copy", self.handle, ctypes.byref(made.handle))
        return made

    def mask(self, vocab_size):
        """The words of the ids that may come next."""
        words = (ctypes.c_uint32 * ((vocab_size + 31) // 32))()
        self.library.call("matcher_mask", self.handle, words, ctypes.c_size_t(len(words)))
        return words

    def accept(self, id):
        self.library.call("matcher_accept", self.handle, ctypes.c_int32(id))

    @property
    def complete(self):
        return bool(self.library.library.cria_matcher_complete(self.handle))

    @property
    def finished(self):
        return bool(self.library.library.cria_matcher_finished(self.handle))
