"""Ops of the llama dialect in random forms, for random programs (random_graphs.py).

Each value is computed at once for a few tokens in f64. A large one is followed by a norm,
so that values stay within the range of f16.
"""

import re

import numpy as np

import blocks
import reference
from cases import TYPES
from program import ROWS, Call, Program, Value
from variants import ACTIVATIONS, GATES
from weights import rounded

LARGE = 12.0  # the magnitude of values that a norm follows


def number(value):
    """A float as MLIR reads it."""
    return f"{value:.9e}"


class Turn(Call):
    """A turn of a loop over layers."""

    def __init__(self, call, layer):
        super().__init__(
            call.ids, call.position, call.caches, call.storage, noise=call.noise
        )
        self.first, self.layer, self.known = call.first, layer, dict(call.known)


class Loop:
    """The loop whose body is written: what it carries, and its place in the text."""

    def __init__(self, number, begin, end, step, line):
        self.layer, self.line = f"%layer{number}", line
        self.turns, self.end, self.step = range(begin, end, step), end, step
        self.carried = []  # (the value in the body, the value in front of the loop)
        self.caches = {}  # the place of a cache in `carried`, by its number


class RandomOps(Program):
    """`kinds` has the rows of each value: "n" are all tokens, "m" those from %first on,
    "1" one row. `without` names forms that are left out."""

    def __init__(self, seed, without):
        random = np.random.default_rng(seed)
        super().__init__(str(random.choice(TYPES, p=[0.5, 0.3, 0.2])))
        self.random, self.seed, self.without = random, seed, set(without)
        self.draw_tokens()
        self.kinds, self.used, self.pool = {}, set(), []
        self.loop, self.latest, self.tables = None, [], []
        self.probe = Call(self.random.integers(0, 8, 5), 1, [])
        self.probe.first, self.probe.layer = 2, 0

    # Draws.

    def pick(self, values, p=None):
        return values[int(self.random.choice(len(values), p=p))]

    def chance(self, probability, feature=None):
        return self.random.random() < probability and feature not in self.without

    def draw_tokens(self):
        """The ids that the graph is run on, and how many make a call at most."""
        most = self.pick([6, 20, 40, 75], [0.3, 0.4, 0.2, 0.1])
        tokens = int(self.random.integers(2, most + 1))
        self.positions = max(tokens + self.pick([0, 1, 7, 60]), 6)
        self.chunk = self.pick([1, 2, 3, 8, 16, 17, 33, tokens, tokens + 5])
        self.chunk = min(self.chunk, self.positions)
        self.ids = self.random.integers(0, 8, tokens)
        self.draws = self.random.random(tokens)

    def pieces(self):
        """The tokens of each call, of two ways to run the ids: in calls as long as
        possible, and in others."""
        ways = []
        for drawn in [False] if self.whole else [False, True]:
            pieces, left = [], len(self.ids)
            while left:
                most = min(left, self.chunk)
                draw = self.draws[left - 1]
                size = 1 if draw < 0.5 else 1 + int((2 * draw - 1) * most)
                pieces.append(min(size, most) if drawn else most)
                left -= pieces[-1]
            ways.append(pieces)
        return ways

    # Values.

    def emit(self, op, shape, compute, dtype=None):
        self.used.update(re.findall(r"%\w+(?:#\d+)?", op))
        return super().emit(op, shape, compute, dtype)

    def made(self, x, op, compute, shape=None, kind=None, dtype=None):
        """The result of an op. It has the type and rows of x, unless others are given."""
        value = self.emit(op, shape or x.shape, compute, dtype or x.dtype)
        return self.known(value, kind or self.kinds[x.name])

    def known(self, value, kind):
        """Adds a value to the pool, or the norm of a large one."""
        self.kinds[value.name] = kind
        if value.shape[0] is not None and kind in "nm":
            raise ValueError(f"{value}: expected tokens")
        most = np.abs(self.probe[value]).max()
        assert np.isfinite(most), (self.seed, value)
        if kind in "nm" and most > LARGE:
            return self.rmsnorm(value)
        self.pool.append(value)
        return value

    def rows(self, x):
        """The number of x's rows, as the text has it."""
        return {"n": "%n", "m": "%m", "1": "1"}[self.kinds[x.name]]

    def index(self, value):
        if self.loop and value is self.loop:
            return self.loop.layer
        return super().index(value)

    def weight(self, *shape, dtype=None, scale=None, shift=0.0, rows=None, plain=False):
        """A weight, which in a loop is mostly one for each layer."""
        dtype, name = dtype or self.dtype, f"w{len(self.symbols)}"
        scale = shape[-1] ** -0.5 if scale is None else scale
        count = self.loop.end if self.loop and not plain and self.chance(0.9) else 0
        numbers = []
        first, of = rows or (0, shape[0])
        for layer in range(max(count, 1)):
            array = self.random.standard_normal((of, *shape[1:])) * scale + shift
            array = rounded(array, dtype)
            self.arrays[f"{name}.{layer}" if count else name] = array
            array = array[first : first + shape[0]]
            if dtype in blocks.FORMATS:
                array = blocks.dequantize(blocks.quantize(array, dtype), dtype)
            numbers.append(array)
        type = Value("", shape, dtype, None).type
        symbol = f'llama.weight @{name}{f"[{count}]" if count else ""} : {type} '
        symbol += f'from "{name}{".{}" if count else ""}"'
        self.symbols.append(symbol + (f" rows {first} of {of}" if rows else ""))
        layer = f"[{self.loop.layer}]" if count else ""
        op = f"llama.get_weight @{name}{layer} : {type}"
        read = lambda call: numbers[call.layer if count else 0]
        return self.emit(op, shape, read, dtype)

    def float_type(self, x):
        """The type of a weight that is used with x."""
        return self.pick(TYPES) if self.chance(0.1, "mixed") else x.dtype

    def matrix(self, x, n):
        """A weight (n, x's columns), maybe of another type, or a part of another."""
        k = x.shape[1]
        if k % 32 == 0 and self.chance(0.2, "blocks"):
            return self.weight(n, k, dtype=self.pick(blocks.FORMATS))
        dtype = self.float_type(x)
        if self.chance(0.06):
            first, more = self.random.integers(0, 9, 2)
            return self.weight(n, k, dtype=dtype, rows=(first, first + n + more))
        if not self.chance(0.08, "sliced_weight"):
            return self.weight(n, k, dtype=dtype)
        (r, c), s = self.random.integers(0, 4, 2), self.pick([1, 1, 2, 3])
        s = 1 if "strided" in self.without else s
        whole = self.weight(n + 5, c + k * s, dtype=dtype, scale=k**-0.5)
        cut = Value("", (n, k), dtype, None)
        op = f"tensor.extract_slice {whole.name}[{r}, {c}] [{n}, {k}] [1, {s}] : "
        part = lambda call: call[whole][r : r + n, c : c + k * s : s]
        return self.emit(op + f"{whole.type} to {cut.type}", (n, k), part, dtype)

    def vector(self, x, size, **options):
        return self.weight(size, dtype=self.float_type(x), **options)

    # Ops of rows.

    def embed(self, size):
        dtype, scale = self.dtype, self.pick([1.0, 1.0, 5.75])
        form = size % 32 == 0 and self.chance(0.2, "blocks")
        form = self.pick(blocks.FORMATS) if form else dtype
        table = self.weight(ROWS, size, dtype=form, scale=1.0, plain=True)
        op = f"llama.embed %ids, {table.name}" + (f" as {dtype}" * (form != dtype))
        op += f" {{scale = {number(scale)}}}" if scale != 1 else ""
        op += f" : tensor<?xi32>, {table.type}"
        row = lambda call: call.real(scale) * call[table][call.ids]
        value = self.emit(op, (None, size), row, dtype)
        self.tables.append(table)
        return self.known(value, "n")

    def rmsnorm(self, x):
        size, eps = x.shape[-1], self.pick([1e-5, 1e-6, 0.1])
        flags = [f"eps = {eps:e}"]
        offset, weight = 0, None
        if self.chance(0.8):
            flags += ["round_once"] * self.chance(0.3)
            offset = int(self.chance(0.3))
            flags += ["unit_offset"] * offset
            weight = self.vector(x, size, scale=0.1, shift=1.0 - offset)
        values = [x, weight] if weight else [x]
        op = f"llama.rmsnorm {', '.join(v.name for v in values)} "
        op += f"{{{', '.join(flags)}}} : {', '.join(v.type for v in values)}"
        norm = lambda call: reference.rmsnorm(
            call[x], call[weight] + offset if weight else None, eps
        )
        return self.made(x, op, norm)

    def layernorm(self, x):
        size, eps, op = x.shape[-1], self.pick([1e-5, 0.1]), f"llama.layernorm {x.name}"
        vectors = [None, None]
        for i in range(self.pick([0, 1, 2, 2])):
            vectors[i] = self.vector(x, size, scale=0.1, shift=1.0 - i)
            op += f" {('gamma', 'beta')[i]}({vectors[i].name} : {vectors[i].type})"
        norm = lambda call: reference.layernorm(
            call[x], call[vectors[0]], call[vectors[1]], eps
        )
        return self.made(x, f"{op} {{eps = {eps:e}}} : {x.type}", norm)

    def norm(self, x):
        return self.layernorm(x) if self.chance(0.25) else self.rmsnorm(x)

    def linear(self, x, n, biased=0.25):
        w = self.matrix(x, n)
        bias = self.vector(x, n, scale=0.3) if self.chance(biased) else None
        op = f"llama.linear {x.name}, {w.name}"
        op += f" bias({bias.name} : {bias.type})" if bias else ""
        product = lambda call: call.linear(x, w, bias)
        shape = (x.shape[0], n)
        return self.made(x, f"{op} : {x.type}, {w.type}", product, shape)

    def gated(self, gate, up):
        name = self.pick(["silu", "silu", *GATES])
        op = f"llama.swiglu {gate.name}, {up.name} activation {name} : {gate.type}"
        compute = lambda call: ACTIVATIONS[name](call[gate]) * call[up]
        return self.made(gate, op, compute)

    def activated(self, x):
        name = self.pick(list(ACTIVATIONS))
        op = f"llama.activate {name} {x.name} : {x.type}"
        return self.made(x, op, lambda call: ACTIVATIONS[name](call[x]))

    def residual(self, x, y):
        scale = self.pick([1.0, 1.0, 0.22, -0.5, 0.0], [0.5, 0.2, 0.2, 0.08, 0.02])
        op = f"llama.residual {x.name}, {y.name} "
        op += f"{{scale = {number(scale)}}} : {x.type}" if scale != 1 else f": {x.type}"
        add = lambda call: call[x] + call.real(scale) * call[y]
        return self.made(x, op, add)

    # Elementwise ops of arith and math.

    def arith(self, op, *values, compute, dtype=None):
        """The result of an op, which no other step takes."""
        x = values[0]
        names = ", ".join(v.name for v in values)
        made = Value("", x.shape, dtype or x.dtype, None).type
        types = x.type if made == x.type else f"{x.type} to {made}"
        read = lambda call: compute(*(call[v] for v in values))
        value = self.emit(f"{op} {names} : {types}", x.shape, read, dtype or x.dtype)
        self.kinds[value.name] = self.kinds[x.name]
        return value

    def splat(self, x, constant):
        """A tensor of x's type that is a number throughout."""
        scalar = f"%s{len(self.body)}"
        self.body.append(f"{scalar} = arith.constant {number(constant)} : {x.dtype}")
        size = f"[{self.rows(x)}]" if x.shape[0] is None else ""
        full = lambda call: np.full(call[x].shape, constant)
        op = f"tensor.splat {scalar}{size} : {x.type}"
        value = self.emit(op, x.shape, full, x.dtype)
        self.kinds[value.name] = self.kinds[x.name]
        return value

    def chosen(self, x, y, otherwise):
        """x where x > y, else `otherwise`."""
        flags = f"%b{len(self.body)}"
        self.body.append(f"{flags} = arith.cmpf ogt, {x.name}, {y.name} : {x.type}")
        shape = "x".join("?" if n is None else str(n) for n in x.shape)
        op = f"arith.select {flags}, {x.name}, {otherwise.name} : "
        choose = lambda call: np.where(call[x] > call[y], call[x], call[otherwise])
        self.used.update([y.name, otherwise.name])
        op += f"tensor<{shape}xi1>, {x.type}"
        value = self.emit(op, x.shape, choose, x.dtype)
        self.kinds[value.name] = self.kinds[x.name]
        return value

    def computed(self, x, y):
        """Something of x and y, number by number."""
        form = self.pick(["binary", "binary", "math", "choice", "wide"])
        if form == "binary":
            names = {
                "addf": np.add,
                "subf": np.subtract,
                "maximumf": np.maximum,
                "minimumf": np.minimum,
            }
            name = self.pick(list(names))
            return self.arith(f"arith.{name}", x, y, compute=names[name])
        if form == "math":
            one = self.splat(x, 1.0)
            low = self.arith("arith.minimumf", x, one, compute=np.minimum)
            name, compute = self.pick(
                [("exp", np.exp), ("tanh", np.tanh), ("absf", np.abs)]
            )
            return self.arith(f"math.{name}", low, compute=compute)
        if form == "choice":
            zero, part = self.splat(x, 0.0), self.splat(x, 0.25)
            low = self.arith("arith.mulf", x, part, compute=np.multiply)
            return self.chosen(x, *self.pick([(zero, low), (y, y)]))
        if x.dtype == "f32":
            return self.arith("arith.negf", x, compute=np.negative)
        same = lambda v: v
        wide = [self.arith("arith.extf", v, compute=same, dtype="f32") for v in (x, y)]
        total = self.arith("arith.addf", *wide, compute=np.add)
        return self.arith("arith.truncf", total, compute=same, dtype=x.dtype)

    def add_rows(self, x, table, position):
        op = f"llama.add_rows {x.name}, {table.name} "
        op += f"at %position : {x.type}, {table.type}" if position else ""
        op += "" if position else f": {x.type}, {table.type}"
        add = lambda call: call[x] + (
            call[table][call.position :][: len(call[x])] if position else call[table]
        )
        return self.made(x, op, add)

    # Ops that move values.

    def cut(self, x, begin, sizes, steps):
        """x[begin, ...][rows, sizes...][1, steps...], of all rows."""
        shape = (x.shape[0], *sizes)
        op = f"tensor.extract_slice {x.name}[0, {', '.join(map(str, begin))}] "
        op += f"[{self.rows(x)}, {', '.join(map(str, sizes))}] "
        op += f"[1, {', '.join(map(str, steps))}] : {x.type} to "
        op += Value("", shape, x.dtype, None).type
        parts = tuple(
            slice(b, b + (n - 1) * s + 1, s) for b, n, s in zip(begin, sizes, steps)
        )
        return self.made(x, op, lambda call: call[x][(slice(None), *parts)], shape)

    def head(self, x, number):
        """One head of x (tokens, heads, size)."""
        shape = (x.shape[0], x.shape[2])
        op = f"tensor.extract_slice {x.name}[0, {number}, 0] "
        op += f"[{self.rows(x)}, 1, {x.shape[2]}] [1, 1, 1] : {x.type} to "
        op += Value("", shape, x.dtype, None).type
        return self.made(x, op, lambda call: call[x][:, number], shape)

    def heads(self, x, heads, size):
        shape = (x.shape[0], heads, size)
        op = f"tensor.expand_shape {x.name} [[0], [1, 2]] output_shape "
        op += f"[{self.rows(x)}, {heads}, {size}] : {x.type} into "
        op += Value("", shape, x.dtype, None).type
        split = lambda call: call[x].reshape(-1, heads, size)
        return self.made(x, op, split, shape)

    def flat(self, x):
        shape = (x.shape[0], x.shape[1] * x.shape[2])
        op = f"tensor.collapse_shape {x.name} [[0], [1, 2]] : {x.type} into "
        op += Value("", shape, x.dtype, None).type
        return self.made(x, op, lambda call: call[x].reshape(-1, shape[1]), shape)

    def last(self, x):
        """The rows of x (tokens, size) from %first on."""
        op = f"tensor.extract_slice {x.name}[%first, 0] [%m, {x.shape[1]}] "
        op += f"[1, 1] : {x.type} to {x.type}"
        return self.made(x, op, lambda call: call[x][call.first :], kind="m")

    # Heads and attention.

    def rope_table(self, half):
        """Cosines and sines, and their numbers."""
        base = self.pick([10.0, 1e4])
        frequencies = np.float32(base ** -(np.arange(half) / half))
        scale = self.pick([1.0, 1.0, 1.25])
        name = f"rope{len(self.symbols)}"
        listed = ", ".join(number(f) for f in frequencies)
        self.symbols.append(
            f"llama.rope_table @{name} {{positions = {self.positions} : i64, "
            f"inv_freq = array<f32: {listed}>, scale = {number(scale)} : f64}}"
        )
        type = f"tensor<{self.positions}x{half}xf32>"
        self.body.append(f"%{name}:2 = llama.get_rope @{name} : {type}")
        return name, type, frequencies, scale

    def rope(self, x, table):
        name, type, frequencies, scale = table
        half = len(frequencies)

        def turn(call):
            turned, rest = np.split(call[x], [2 * half], axis=-1)
            turned = scale * reference.rope(turned, call.position, frequencies)
            return np.concatenate([turned, rest], -1)

        op = f"llama.rope {x.name}, %{name}#0, %{name}#1 at %position : "
        return self.made(x, f"{op}{x.type}, {type}", turn)

    def new_cache(self, layers, heads, size, dtype):
        """The number of a cache."""
        cache = super().cache(layers, heads, size, dtype)
        shape = (layers, heads, self.positions, size)
        self.probe.caches.append(np.zeros(shape))
        self.latest.append(cache)
        return len(self.latest) - 1

    def cache_of(self, cache):
        """The value of a cache now. A loop carries it from the first use on."""
        if self.loop and cache not in self.loop.caches:
            self.loop.caches[cache] = len(self.loop.carried)
            self.latest[cache] = self.carry(self.latest[cache])
        return self.latest[cache]

    def append(self, rows, cache, layer):
        into = self.cache_of(cache)
        op = f"llama.kv_append {rows.name} into {into.name}[{self.index(layer)}]"
        op += f" at %position : {rows.type} into {into.type}"
        write = lambda call: reference.append(
            call[into],
            call.factor(rows, into),
            self.layer_of(call, layer),
            call.position,
        )
        self.latest[cache] = self.emit(op, into.shape, write, into.dtype)

    def layer_of(self, call, layer):
        return call.layer if isinstance(layer, Loop) else layer

    def gqa(self, query, keys, values, layer):
        keys, values = self.cache_of(keys), self.cache_of(values)
        scale = self.pick([query.shape[2] ** -0.5, 0.3, 1.0])
        causal, window = self.chance(0.9), None
        if not causal:
            self.whole, self.chunk = True, max(len(self.ids), self.chunk)
            self.chunk = min(self.chunk, self.positions)
        attributes = [f"scale = {number(scale)}"] + ["causal"] * causal
        if self.chance(0.3):
            window = self.pick([1, 2, 5, 16, 17, 40])
            attributes.append(f"window = {window} : i64")
        cap = self.pick([None, None, None, 1.5])
        attributes += [f"softcap = {number(cap)}"] if cap else []
        op = f"llama.gqa {query.name}, {keys.name}, {values.name}[{self.index(layer)}] "
        op += f"at %position {{{', '.join(attributes)}}} : {query.type}, {keys.type}"
        attend = lambda call: reference.gqa(
            call[query],
            call[keys],
            call[values],
            self.layer_of(call, layer),
            call.position,
            scale,
            causal,
            window,
            cap,
        )
        return self.made(query, op, attend)

    def carry(self, outer):
        """The value in a loop's body of what the loop carries."""
        inner = Value(
            f"{self.loop.layer}_{len(self.loop.carried)}",
            outer.shape,
            outer.dtype,
            None,
        )
        self.loop.carried.append((inner, outer))
        self.probe.known[inner.name] = self.probe[outer]
        return inner

    def logits(self, x):
        size = x.shape[1]
        tied = [t for t in self.tables if t.shape[1] == size]
        if tied and self.chance(0.4):
            weight = self.pick(tied)
        else:
            weight = self.matrix(x, self.pick([8, 17, 33, 64, 100, ROWS]))
        n = weight.shape[0]
        bias = self.vector(x, n) if self.chance(0.2) else None
        scale, cap = self.pick([1.0, 1.0, 0.5]), self.pick([None, None, None, 3.0])
        op = f"llama.head {x.name}, {weight.name}"
        op += f" bias({bias.name} : {bias.type})" if bias else ""
        flags = [f"scale = {number(scale)}"] * (scale != 1)
        flags += [f"softcap = {number(cap)}"] if cap else []
        op += f" {{{', '.join(flags)}}} : {x.type}, {weight.type}"

        def product(call):
            rows = call.real(scale) * call.factor(x, weight)
            return reference.capped(
                reference.linear(rows, call[weight], call[bias]), cap
            )

        self.ends(self.emit(op, (None, n), product, "f32"), *self.latest)
