"""lent_threads.py BIN SCRATCH: a session computes on threads that the program lends.

The logits of prompts and of single ids have the bits of a session with threads of its
own, however many tasks the program's function is given, and in whatever order it runs
them.
"""

import ctypes
import random
import sys
import threading

import numpy as np

from capi import Model, Session
from harness import HERE, Tools, check

TINY = HERE.parent.parent / "examples" / "tiny"
IDS = [766, 376, 448, 5, 300, 17, 42, 9]
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PARALLEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, TASK, ctypes.c_void_p, ctypes.c_int64
)


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("threads", ctypes.c_int32),
        ("parallel_for", PARALLEL),
        ("parallel_data", ctypes.c_void_p),
    ]


class Lent(Session):
    """A session on `threads` threads of this program."""

    def __init__(self, model, threads):
        self.model, self.session, self.counts = model, ctypes.c_void_p(), []
        self.function = PARALLEL(self.run)
        options = Options(ctypes.sizeof(Options), threads, self.function, None)
        self.threads = threads
        arguments = ctypes.byref(options), ctypes.byref(self.session)
        model.call("session_create", model.model, *arguments)

    def run(self, data, task, context, count):
        self.counts.append(count)
        order = random.Random(count).sample(range(count), count)

        def work(first):
            for index in order[first :: self.threads]:
                task(context, index)

        others = [
            threading.Thread(target=work, args=(i,)) for i in range(1, self.threads)
        ]
        for other in others:
            other.start()
        work(0)
        for other in others:
            other.join()


def main():
    tools = Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", out="tiny.cria")
    model = Model(tools, artifact, 0, 768, weights=TINY)
    own = model.session(2)
    expected = [own.feed(IDS), own.feed(IDS[:1])]
    for threads in (1, 2, 3):
        lent = Lent(model, threads)
        got = [lent.feed(IDS), lent.feed(IDS[:1])]
        same = all(map(np.array_equal, got, expected))
        check(same, f"{threads} threads: other bits than on threads of its own")
        counts = set() if threads == 1 else {4 * threads}
        check(set(lent.counts) == counts, f"{threads} threads: {set(lent.counts)} tasks")
        lent.free()


main()
