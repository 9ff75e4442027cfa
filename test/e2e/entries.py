"""Entry functions of the linalg phase, lowered by upstream's tools, and those of
shared objects: both called with arrays.
"""

import ctypes
import math
import mmap
import re

import numpy as np

import weights
from harness import check, execute

DECOMPOSE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%m: !transform.any_op {transform.readonly}) {
    %s = transform.structured.match ops{["linalg.softmax"]} in %m : (!transform.any_op) -> !transform.any_op
    %d = transform.structured.decompose_interface %s : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
# linalg.softmax has no loops of its own; the rest is upstream's usual order.
PASSES = """
--canonicalize --transform-preload-library=transform-library-paths={decompose}
--transform-interpreter --eliminate-empty-tensors
--one-shot-bufferize=bufferize-function-boundaries=1\0allow-return-allocs-from-loops=1\0function-boundary-type-conversion=identity-layout-map
--canonicalize --drop-equivalent-buffer-results --canonicalize --cse --canonicalize
--convert-linalg-to-loops --convert-scf-to-cf --expand-strided-metadata
--lower-affine --llvm-request-c-wrappers
--arith-emulate-unsupported-floats=source-types=bf16\0target-type=f32
--math-extend-to-supported-types --arith-expand=include-bf16=true
--convert-math-to-llvm --convert-math-to-libm --convert-to-llvm --reconcile-unrealized-casts
"""
DECLARED = re.compile(
    r"func\.func private @([\w.]+)\((index)?\) -> tensor<([\dx]+)x(\w+)> "
    r"attributes \{cria\.(?:weight|rope) = \{(?:experts = (\d+) : index, )?slot = (\d+)"
)


def descriptor(array):
    """An array as a memref, and what keeps it alive."""

    class MemRef(ctypes.Structure):
        _fields_ = [
            ("allocated", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
            ("sizes", ctypes.c_int64 * array.ndim),
            ("strides", ctypes.c_int64 * array.ndim),
        ]

    sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (n // array.itemsize for n in array.strides)
    data = array.ctypes.data
    return MemRef(data, data, 0, sizes, (ctypes.c_int64 * array.ndim)(*strides))


def harness_source(text):
    """C functions for the weights and tables, which return the memory of a slot."""
    lines = ["typedef long i64;", "void **slots;"]
    for number, found in enumerate(DECLARED.finditer(text)):
        name, layered, sizes, _, experts, slot = found.groups()
        sizes = [int(size) for size in sizes.split("x")]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        rank, layer = len(sizes), f"layer * {experts or 1}" if layered else "0"
        lines += [
            f"struct m{number} {{ void *a, *p; i64 o, s[{rank}], t[{rank}]; }};",
            f"void f{number}(struct m{number} *r{', i64 layer' if layered else ''})"
            f' __asm__("_mlir_ciface_{name}");',
            f"void f{number}(struct m{number} *r{', i64 layer' if layered else ''}) {{",
            f"  *r = (struct m{number}){{slots[{slot} + {layer}], "
            f"slots[{slot} + {layer}], 0, {{{', '.join(map(str, sizes))}}}, "
            f"{{{', '.join(map(str, strides))}}}}};",
            "}",
        ]
    return "\n".join(lines) + "\n"


def upstream(tools, text, name):
    """The text lowered by upstream's tools, as a library."""
    base = tools.scratch / name
    decompose = tools.scratch / "decompose.mlir"
    decompose.write_text(DECOMPOSE)
    base.with_suffix(".mlir").write_text(text)
    base.with_suffix(".c").write_text(harness_source(text))
    passes = [
        option.replace("\0", " ").replace("{decompose}", str(decompose))
        for option in PASSES.split()
    ]
    folder = execute(["llvm-config-22", "--libdir"]).ok().text.strip()
    runner = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lmlir_c_runner_utils"]
    out = {kind: base.with_suffix(kind) for kind in (".llvm", ".ll", ".o", ".so")}
    for command in [
        ["mlir-opt-22", base.with_suffix(".mlir"), *passes, "-o", out[".llvm"]],
        # Extensions that math needs keep an attribute of arith, which says nothing here.
        ["mlir-translate-22", "--mlir-to-llvmir", "--allow-unregistered-dialect"]
        + [out[".llvm"], "-o", out[".ll"]],
        ["llc-22", "-O1", "-relocation-model=pic", "-filetype=obj", out[".ll"]]
        + ["-o", out[".o"]],
        ["cc", "-O1", "-shared", "-fPIC", base.with_suffix(".c"), out[".o"]]
        + [*runner, "-lm", "-o", out[".so"]],
    ]:
        execute(command).ok()
    return ctypes.CDLL(str(out[".so"]))


def encoded(array, dtype):
    """f64 values in the storage type."""
    array = weights.rounded(array, dtype)
    if dtype == "bf16":
        return (array.view(np.uint32) >> 16).astype(np.uint16)
    return array.astype(np.float16 if dtype == "f16" else np.float32)


def widened(array):
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def protect(begin, size):
    """Makes pages unreadable."""
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    failed = mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(size), 0)
    check(not failed, f"mprotect: errno {ctypes.get_errno()}")


def guarded(array):
    """A copy, aligned only to its elements, with memory after it that cannot be read."""
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    end = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + size
    protect(end, mmap.PAGESIZE)
    copy = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes)
    copy = copy.reshape(array.shape)
    copy[...] = array
    return copy


def hidden_of(memory, entry):
    """The memory for an entry's hidden states, or None."""
    return getattr(memory, "hidden", None) if entry == "prefill" else None


class Upstream:
    """Calls entries through MLIR's C wrappers. A memory has `slots`, `caches`, `arena`,
    `logits`, and `chunk`: the most tokens of a call. It has `hidden` if the program
    returns hidden states: those of a prefill are kept.
    """

    def __init__(self, library, memory):
        self.library, self.memory = library, memory
        ctypes.c_void_p.in_dll(library, "slots").value = ctypes.addressof(memory.slots)

    def call(self, entry, ids, position, source, first=0):
        memory = self.memory
        padded = np.zeros(memory.chunk, np.int32)
        padded[: len(ids)] = ids
        hidden = hidden_of(memory, entry)
        first_hidden = [] if hidden is None else [0]
        numbers = [len(ids), position, first, *first_hidden, source]
        outputs = [memory.logits] if hidden is None else [memory.logits, hidden]
        buffers = [padded, *outputs, *memory.caches]
        memrefs = [ctypes.byref(descriptor(array)) for array in buffers]
        arguments = [memrefs[0], *map(ctypes.c_int64, numbers), *memrefs[1:]]
        results = ctypes.create_string_buffer(128 * len(buffers))
        getattr(self.library, f"_mlir_ciface_{entry}")(results, *arguments)


def permit_tiles():
    """Asks Linux for the tile registers of AMX, as the runtime does. Without AMX
    the answer is no, and no code needs them.
    """
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)


class Artifact:
    """Calls the entries of an artifact, as runtime/Abi.h has them."""

    BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, BODY, ctypes.c_void_p, ctypes.c_int64)
    ENTER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)

    def __init__(self, path, memory):
        self.library, self.memory = ctypes.CDLL(str(path)), memory
        permit_tiles()
        self.parallel = self.FOR(lambda host, body, context, n: body(context, 0, n))
        self.enter = self.ENTER(lambda host, kernel: None)
        self.host = (ctypes.c_void_p * 2)(
            *(ctypes.cast(call, ctypes.c_void_p) for call in (self.parallel, self.enter))
        )

    def call(self, entry, ids, position, source, first=0):
        memory = self.memory
        ids = np.array(ids, np.int32)
        caches = (ctypes.c_void_p * len(memory.caches))(
            *(cache.ctypes.data for cache in memory.caches)
        )
        arena = memory.arena.ctypes.data + 63 & ~63
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        hidden = hidden_of(memory, entry)
        first_hidden = len(ids) if hidden is None else 0
        getattr(self.library, f"cria_{entry}")(
            pointer(ids.ctypes.data),
            *map(number, [len(ids), position, first, first_hidden, source]),
            pointer(memory.logits.ctypes.data),
            pointer(None if hidden is None else hidden.ctypes.data),
            caches,
            pointer(arena),
            memory.slots,
            self.host,
        )
