"""A plan of launches and its PTX in the emulated CUDA driver, by ctypes."""

import ctypes
import json
import re
import struct

import numpy as np

from entries import hidden_of
from harness import check


def plan_of(text):
    """The attribute cria.plan of a printed gpu.module, as the artifact has it."""
    start = end = text.index("cria.plan = ") + len("cria.plan = ")
    depth = 0
    while depth or end == start:
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        end += 1
    plan = re.sub(r"(\w+) = ", r'"\1": ', text[start:end])
    return json.loads(re.sub(r" : i64", "", plan))


def blocks(size, tokens):
    """A dimension of a grid, where all logits and hidden states are wanted."""
    if isinstance(size, int):
        return size
    if not size.get("from", 0) <= tokens <= size.get("to", tokens):
        return 0
    over = size.get("tokens") or size.get("hidden") or size["logits"]
    return max(-(-tokens // over), size.get("least", 0))


def ptx_of(text):
    """The PTX in what gpu-module-to-binary makes."""
    escaped = re.search(r'assembly = "((?:[^"\\]|\\.)*)"', text)[1].encode()
    return re.sub(
        rb"\\([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), escaped
    )


class Plan:
    """Runs entries of a plan. A memory is as for entries.Upstream."""

    def __init__(self, tools, ptx, plan, memory):
        self.plan, self.memory = plan, memory
        library = tools.bin.parent / "lib/libcria-emulator.so"
        self.driver = ctypes.CDLL(str(library))
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.do("cuInit", 0)
        self.do("cuDeviceGet", ctypes.byref(device), 0)
        self.do("cuDevicePrimaryCtxReset_v2", device)
        self.do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.do("cuCtxSetCurrent", context)
        self.do("cuModuleLoadData", ctypes.byref(module), ptx.rstrip(b"\0") + b"\0")
        self.module = module
        self.slots = [self.copied(array) for array in memory.weights.values()]
        self.caches = [self.copied(array) for array in memory.caches]
        self.arena = self.room(plan["arena"])
        zeroed = plan["workspace_zeroed"]
        if zeroed["bytes"]:
            place = ctypes.c_uint64(self.arena.value + zeroed["offset"])
            bytes_ = ctypes.c_size_t(zeroed["bytes"])
            self.do("cuMemsetD8_v2", place, ctypes.c_ubyte(0), bytes_)

    def do(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        check(result == 0, f"{name}: error {result} of the emulated driver")

    def room(self, size):
        address = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def copied(self, array):
        array = np.ascontiguousarray(array)
        address = self.room(array.nbytes)
        pointer = ctypes.c_void_p(array.ctypes.data)
        self.do("cuMemcpyHtoD_v2", address, pointer, ctypes.c_size_t(array.nbytes))
        return address

    def read(self, address, array):
        pointer = ctypes.c_void_p(array.ctypes.data)
        self.do("cuMemcpyDtoH_v2", pointer, address, ctypes.c_size_t(array.nbytes))

    def call(self, entry, ids, position, source):
        padded = np.zeros(self.memory.chunk, np.int32)
        padded[: len(ids)] = ids
        state = np.zeros(1024, np.uint8)
        state[:16] = np.frombuffer(
            struct.pack("4i", position, len(ids), 0, source), np.uint8
        )
        own = {
            "ids": self.copied(padded),
            "logits": self.copied(self.memory.logits),
            "state": self.copied(state),
        }
        hidden = hidden_of(self.memory, entry)
        if hidden is not None:  # all: first_hidden is 0
            own["hidden"] = self.copied(hidden)
        for step in self.plan["entries"][entry]:
            for turn in range(step.get("loop", 1)):
                for launch in step.get("body", [step]):
                    self.launch(launch, turn, own, len(ids))
        self.do("cuCtxSynchronize")
        self.read(own["logits"], self.memory.logits)
        if hidden is not None:
            self.read(own["hidden"], hidden)
        for address, array in zip(self.caches, self.memory.caches):
            self.read(address, array)

    def address(self, argument, turn, own):
        if "weight" in argument:
            layer = turn * argument.get("stride", 1) if "layered" in argument else 0
            return self.slots[argument["weight"] + layer].value
        if "cache" in argument:
            offset = argument.get("offset", 0) + turn * argument.get("layer_bytes", 0)
            return self.caches[argument["cache"]].value + offset
        if "arena" in argument:
            return self.arena.value + argument["arena"]
        (kind,) = argument
        return own[kind].value

    def launch(self, launch, turn, own, tokens):
        function = ctypes.c_void_p()
        name = launch["launch"].encode()
        self.do("cuModuleGetFunction", ctypes.byref(function), self.module, name)
        sizes = [blocks(size, tokens) for size in launch["grid"]]
        if 0 in sizes:
            return
        values = [
            ctypes.c_uint64(self.address(argument, turn, own))
            for argument in launch["args"]
        ]
        pointers = (ctypes.c_void_p * max(1, len(values)))(
            *(ctypes.addressof(value) for value in values)
        )
        numbers = map(ctypes.c_uint, [*sizes, *launch["block"], launch["shared"]])
        self.do("cuLaunchKernel", function, *numbers, None, pointers, None)
