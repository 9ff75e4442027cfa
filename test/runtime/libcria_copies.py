"""Several copies of libcria.so in one process: each does its own work, and
their handlers of SIGBUS pass on the signals of others, also after dlclose.

usage: libcria_copies.py LIBRARY ARTIFACT CHECKPOINT SCRATCH
"""

import _ctypes
import ctypes
import mmap
import os
import shutil
import signal
import sys
from pathlib import Path

from libcria import Error

OK, DATA_LOSS = 0, 15
library, artifact, checkpoint, scratch = sys.argv[1:]


def check(condition, message):
    if not condition:
        sys.exit(f"libcria_copies.py: {message}")


class Copy:
    """A copy of the library with a session on a copy of the checkpoint."""

    def __init__(self, name, mode):
        folder = Path(scratch) / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(checkpoint, folder)
        shutil.copy(library, folder / "libcria.so")
        self.weights = folder / "model.safetensors"
        self.library = ctypes.CDLL(str(folder / "libcria.so"), mode=mode)
        self.artifact, self.model, self.session = (ctypes.c_void_p() for _ in "ams")
        self.call("artifact_open", artifact.encode(), ctypes.byref(self.artifact))
        self.call(
            "model_bind",
            self.artifact,
            str(folder).encode(),
            ctypes.byref(self.model),
        )
        self.call("session_create", self.model, None, ctypes.byref(self.session))

    def status(self, name, *arguments):
        error = Error(ctypes.sizeof(Error))
        function = getattr(self.library, "cria_" + name)
        return function(*arguments, ctypes.byref(error)), error.message.decode()

    def call(self, name, *arguments):
        status, message = self.status(name, *arguments)
        check(status == OK, f"cria_{name}: {message}")

    def feed(self):
        ids = (ctypes.c_int32 * 2)(1, 2)
        count, none = ctypes.c_size_t(2), ctypes.c_size_t(0)
        return self.status("session_feed", self.session, ids, count, 0, None, none)

    def cut(self):
        """Feeds while another cuts the weights."""
        check(self.feed()[0] == OK, "a feed fails")
        os.truncate(self.weights, 0)
        self.call("session_rewind", self.session, ctypes.c_int64(0))
        status, message = self.feed()
        expected = f"{self.weights}: was cut"
        check(status == DATA_LOSS and expected in message, f"{status}: {message}")

    def close(self):
        for name in ("session", "model", "artifact"):
            handle = getattr(self, name)
            getattr(self.library, f"cria_{name}_free")(ctypes.byref(handle))
        _ctypes.dlclose(self.library._handle)


def touch_lost_page():
    """Reads a page of a file that was cut, which no library guards."""
    path = Path(scratch) / "page"
    path.write_bytes(bytes(mmap.PAGESIZE))
    with open(path, "r+b") as file:
        page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        os.truncate(path, 0)
        page[0]


def ends_with_sigbus(body):
    child = os.fork()
    if child == 0:
        body()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGBUS


# The symbols of the first are seen by the others, which keep to their own.
copies = [Copy("first", ctypes.RTLD_GLOBAL), Copy("second", ctypes.RTLD_LOCAL)]
copies.append(Copy("third", ctypes.RTLD_GLOBAL))
copies[0].cut()  # through the handlers of the others
copies[2].cut()
check(ends_with_sigbus(touch_lost_page), "SIGBUS is lost between the copies")
for copy in (copies[0], copies[2]):
    copy.close()
check(ends_with_sigbus(touch_lost_page), "SIGBUS is lost after dlclose")
copies[1].cut()
print("the copies work side by side")
