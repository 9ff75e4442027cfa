"""paged.py BIN SCRATCH: several texts over paged caches have the logits of each alone.

The entries of an artifact of `--batch` are called by their ABI. Texts of several
lengths, whose pages lie in any order, are prefilled in chunks and then run
together, a token each, some joining late and some leaving early:

- logits are those of the artifact without `--batch`, by the bar of the type;
- each text's logits are the same, byte for byte, together with other texts, in another
  row, and alone with its prompt in other chunks. In one case some tokens of a prompt see
  one another, as those of an image do;
- in two cases upstream's tools lower the output of the linalg phase, and get the same by
  the bar of f32;
- where layers have a window, their pages behind it are overwritten by other pages' numbers
  as soon as no token sees them any more.
"""

import ctypes
import json
import struct
import sys
import typing

import numpy as np

import families
from entries import Artifact, Upstream, descriptor, upstream
from harness import Tools, check, check_close, nmse, some
from witness import Memory, empty_cache, text_of

CHUNK, ROWS, POOL = 32, 6, 64
SORTED = 72  # a chunk so large that rows are sorted by expert
LENGTHS = [3, 17, 40, 1, 33]  # of prompts
STEPS = 7
PIECES = {1: [1], 3: [3], 17: [16, 1], 33: [1, 32], 40: [32, 8]}
OTHER_PIECES = {1: [1], 3: [1, 1, 1], 17: [3, 14], 33: [19, 14], 40: [20, 20]}
# Positions of an image in prompts of these lengths, whose tokens see one another; in the
# second there are more of them than a window has.
IMAGES = {17: (2, 6), 40: (3, 31)}
# NMSE from the artifact without pages. Inputs of products with blocks are rounded to
# integers, which the smallest difference may change.
BARS = {"f32": 1e-8, "bf16": 2e-3, "blocks": 1e-4}
LLAMA = families.FAMILIES["llama"]
# Name: config, type, flags.
CASES = {
    "gemma2": (families.FAMILIES["gemma2"], "f32", []),
    "llama": (LLAMA, "f32", []),
    "experts": (families.FAMILIES["qwen3_moe"], "bf16", []),
    "images": (families.COMPOSITES["gemma3"], "f32", []),
    "latent": (families.FAMILIES["minicpm3"], "f32", []),
    "v3": (LLAMA, "bf16", ["--cpu=x86-64-v3"]),
    "cache": (families.config("llama", {"head_dim": 32}), "f32", ["--kv=q8_0"]),
    "tiles": (LLAMA, "bf16", []),
    "delta": (families.FAMILIES["qwen3_5_text"], "f32", []),
    "blocks": (
        families.config("llama", {"hidden_size": 64, "intermediate_size": 96}),
        "f32",
        ["--quantize=q4_0,head=q8_0"],
    ),
    "conv": (families.FAMILIES["lfm2"], "bf16", []),
    "scan": (families.FAMILIES["granitemoehybrid-mamba"], "bf16", []),
}


def manifest_of(path):
    """The manifest, at the place that the footer names."""
    data = path.read_bytes()
    offset, size = struct.unpack("<8sIIQQQQ", data[-48:])[3:5]
    return json.loads(data[offset : offset + size])


class Place(typing.NamedTuple):
    """The pages of a text, its window pages, and the states that it reads and writes."""

    pages: np.ndarray
    windows: np.ndarray
    states: np.ndarray


def parts(memory, entry, positions, places):
    """Pages and states of the text of prefill, or of the rows of batch."""
    if entry == "prefill":
        memory.leave_behind(places, positions[0])
        return places
    for place, position in zip(places, positions):
        memory.leave_behind(place, position)
    return [np.stack(each) for each in zip(*places)]


class Pool(Memory):
    """Memory whose caches are pages, handed out in random order."""

    def __init__(self, manifest, dtype):
        super().__init__(manifest, dtype, dtype)
        shapes = [cache | {"shape": [POOL, *cache["shape"]]} for cache in manifest["caches"]]
        self.caches = [empty_cache(cache, dtype) for cache in shapes]
        check(
            all(
                cache[0].nbytes == said["bytes"]
                for cache, said in zip(self.caches, manifest["caches"])
            ),
            "the bytes of a page",
        )
        self.free = np.random.default_rng(1).permutation(POOL).tolist()
        self.free_of_windows = np.random.default_rng(2).permutation(POOL).tolist()
        self.window = max(cache.get("window", 0) for cache in manifest["caches"])
        self.width, self.page = (manifest["batch"][key] for key in ("width", "page"))
        self.states, self.said = list(range(POOL)), manifest["caches"]
        self.has_states = any("state" in cache for cache in manifest["caches"])

    def place(self, positions):
        tables = (self.table(positions, free) for free in (self.free, self.free_of_windows))
        return Place(*tables, np.full(2, self.states.pop(), np.int32))

    def table(self, positions, free):
        """Pages of a text; the entries after them are no pages."""
        table = np.full(self.width, -(1 << 30), np.int32)
        count = -(-positions // self.page)
        table[:count] = [free.pop() for _ in range(count)]
        return table

    def leave_behind(self, place, position):
        """Has other numbers of the text in place of window pages that the token at
        `position` does not see any more."""
        behind = max(0, position - self.window + 1) // self.page if self.window else 0
        for page in set(place.windows[:behind]) - {place.windows[behind]}:
            for cache, said in zip(self.caches, self.said):
                if "window" in said:
                    cache[page].view(np.uint8)[...] = 0x7B  # large, and finite
        place.windows[:behind] = place.windows[behind]


class Batched(Artifact):
    """Calls entries over paged caches."""

    def call(self, entry, ids, positions, places, ahead=0):
        memory = self.memory
        ids, positions = (np.array(each, np.int32) for each in (ids, positions))
        pages, windows, states = parts(memory, entry, positions, places)
        caches = (ctypes.c_void_p * len(memory.caches))(
            *(cache.ctypes.data for cache in memory.caches)
        )
        logits = np.zeros((len(ids), memory.logits.shape[1]), np.float32)
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        getattr(self.library, f"cria_{entry}")(
            pointer(ids.ctypes.data),
            number(len(ids)),
            pointer(positions.ctypes.data),
            pointer(pages.ctypes.data),
            pointer(windows.ctypes.data if memory.window else None),
            pointer(states.ctypes.data if memory.has_states else None),
            number(0),
            number(len(ids)),  # no hidden states
            number(ahead),
            pointer(logits.ctypes.data),
            pointer(None),
            caches,
            pointer(memory.arena.ctypes.data + 63 & ~63),
            memory.slots,
            self.host,
        )
        return logits


class Stated(Upstream):
    """Calls the same entries as upstream's tools lowered them."""

    def call(self, entry, ids, positions, places, _ahead=0):
        memory = self.memory
        pages, windows, states = parts(memory, entry, positions, places)
        room = CHUNK if entry == "prefill" else ROWS
        logits = np.zeros((room, memory.logits.shape[1]), np.float32)
        filled = lambda array, shape: np.pad(
            np.array(array, np.int32), [(0, n - len(array)) for n in shape]
        )
        number = ctypes.c_int64
        if entry == "prefill":
            position = number(positions[0])
        else:
            position = filled(positions, [room])
            pages, windows, states = (
                np.concatenate([each, each[:1].repeat(room - len(each), 0)])
                for each in (pages, windows, states)
            )
        hidden = np.zeros((room, memory.hidden.shape[1]), np.float32)
        arguments = [filled(ids, [room]), number(len(ids)), position, number(0), number(0)]
        arguments += [pages, *[windows] * bool(memory.window)]
        arguments += [*[states] * memory.has_states, logits, hidden, *memory.caches]
        descriptors = [
            descriptor(each) if isinstance(each, np.ndarray) else each
            for each in arguments
        ]
        results = ctypes.create_string_buffer(128 * len(arguments))
        getattr(self.library, f"_mlir_ciface_{entry}")(
            results,
            *(
                each if isinstance(each, number) else ctypes.byref(each)
                for each in descriptors
            ),
        )
        return logits[: len(ids)]


class Prompts:
    """How prompts are cut; those with an image only before and after it."""

    def __init__(self, has_images):
        self.images = IMAGES if has_images else {}

    def calls(self, length, pieces):
        """(begin, end, tokens that a token sees ahead) of each call."""
        first, last = self.images.get(length, (0, 0))
        ends = {n for n in np.cumsum(pieces[length]).tolist() if not first < n < last}
        ends = sorted(ends | {first, last} - {0})
        for begin, end in zip([0, *ends], ends):
            yield begin, end, end - begin - 1 if (begin, end) == (first, last) else 0


def prefill(program, ids, place, calls):
    parts = [
        program.call("prefill", ids[begin:end], [begin], place, ahead)
        for begin, end, ahead in calls
    ]
    return np.concatenate(parts)


def alone(program, ids, length, calls):
    """Logits of the artifact without pages, for the prompt and then for each token."""
    rows = []
    for begin, end, ahead in [*calls, *((p, p + 1, 0) for p in range(length, len(ids)))]:
        entry = "decode" if begin >= length else "prefill"
        program.call(entry, ids[begin:end], begin, ahead)
        rows.append(program.memory.logits[: end - begin].copy())
    return np.concatenate(rows)


def together(program, prompts, texts, joins, order):
    """Logits of each text. A step has the texts that have joined and not ended."""
    places = [program.memory.place(len(ids)) for ids in texts]
    rows = [
        [prefill(program, ids, place, prompts.calls(length, PIECES))]
        for ids, place, length in zip(texts, places, LENGTHS)
    ]
    for step in range(2 * STEPS):
        now = [i for i in order if joins[i] <= step < joins[i] + STEPS]
        if not now:
            continue
        positions = [LENGTHS[i] + step - joins[i] for i in now]
        ids = [texts[i][p] for i, p in zip(now, positions)]
        logits = program.call("batch", ids, positions, [places[i] for i in now])
        for i, row in zip(now, logits):
            rows[i].append(row[None])
    return [np.concatenate(each) for each in rows]


def check_equal(want, got, what):
    check(np.array_equal(want.view(np.uint32), got.view(np.uint32)), what)


def check_case(tools, name, config, dtype, flags):
    program = tools.scratch / f"{name}.json"
    program.write_text(json.dumps(config))
    chunk = SORTED if name == "experts" else CHUNK
    flags = [f"--chunk={chunk}", f"--dtype={dtype}", *flags]
    batch = f"--batch={ROWS}"
    build = tools.compile_with_emulated_amx if name == "tiles" else tools.compile
    paged = build(program, *flags, batch, out=f"{name}-paged.cria")
    plain = build(program, *flags, out=f"{name}.cria")
    manifest = manifest_of(paged)
    width = -(-manifest["model"]["max_seq"] // 16)
    check(
        manifest["batch"] == {"rows": ROWS, "page": 16, "width": width},
        f"{name}: {manifest['batch']}",
    )
    generator = np.random.default_rng(0)
    vocab = manifest["model"]["vocab_size"]
    texts = [generator.integers(3, vocab, n + STEPS).tolist() for n in LENGTHS]

    own = manifest_of(plain)
    prompts = Prompts(manifest["model"].get("sees_ahead", False))
    check(bool(prompts.images) == (name == "images"), f"{name}: sees_ahead")
    want = []
    for ids, length in zip(texts, LENGTHS):
        memory = Memory(own, dtype, dtype)
        memory.logits = np.zeros((CHUNK, vocab), np.float32)
        memory.hidden = np.zeros((CHUNK, own["model"]["hidden"]), np.float32)
        calls = prompts.calls(length, PIECES)
        want.append(alone(Artifact(plain, memory), ids, length, calls))
    fresh = lambda: Batched(paged, Pool(manifest, dtype))
    got = together(fresh(), prompts, texts, joins=[0, 2, 1, 0, 5], order=[3, 0, 4, 1, 2])
    for i, (one, other) in enumerate(zip(want, got)):
        what = f"{name}, text {i}"
        bar = BARS["blocks" if name in ("blocks", "cache") else dtype]
        apart = nmse(one, other)
        check(apart <= bar, f"{what}: NMSE {apart:.2e}, expected at most {bar:.0e}")
    if name in ("gemma2", "delta"):
        text = text_of(tools, program, [*flags, batch])
        stated = Stated(upstream(tools, text, name), Pool(manifest, dtype))
        joins, order = [0, 2, 1, 0, 5], [3, 0, 4, 1, 2]
        for i, (one, other) in enumerate(
            zip(together(stated, prompts, texts, joins, order), got)
        ):
            check_close(one, other, f"{name}, text {i} as upstream lowers it")
    again = together(fresh(), prompts, texts, joins=[1, 0, 0, 3, 0], order=[0, 1, 2, 3, 4])
    for i, (one, other) in enumerate(zip(got, again)):
        check_equal(one, other, f"{name}, text {i}: other neighbours, other bits")
    for i, (ids, length) in enumerate(zip(texts, LENGTHS)):
        single = fresh()
        place = single.memory.place(len(ids))
        prompt = prefill(single, ids, place, prompts.calls(length, OTHER_PIECES))
        rows = [
            single.call("batch", [ids[p]], [p], [place])
            for p in range(length, len(ids))
        ]
        check_equal(got[i][length:], np.concatenate(rows), f"{name}, text {i} alone")
        # The head sums one row in another order, so that the number of rows matters.
        apart = nmse(got[i][:length], prompt)
        check(apart <= 1e-6, f"{name}, text {i} in other chunks: NMSE {apart:.2e}")


def main():
    tools = Tools(*sys.argv[1:3])
    for name in some(sys.argv[3:] or CASES, 3):
        check_case(tools, name, *CASES[name])


if __name__ == "__main__":
    main()
