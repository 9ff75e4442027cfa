"""Small programs in the llama dialect, run by the tools and in NumPy.

A Program is written op by op. Each value knows its text, for the compiler, and
how to compute itself, for the reference: a function of a Call, which holds the
ids, the position and the caches of one call of @forward. A program ends in a
head with the identity, so that its logits are the values under test.
"""

import dataclasses
import pathlib
import sys
import typing

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
import blocks  # noqa: E402
from weights import rounded, write_safetensors  # noqa: E402

import reference  # noqa: E402

ROWS = 128  # of every embedding: the most columns that logits have


@dataclasses.dataclass
class Value:
    """An SSA value; a None in the shape is the token count."""

    name: str
    shape: tuple
    dtype: str
    compute: typing.Callable

    @property
    def type(self):
        shape = "x".join("?" if n is None else str(n) for n in self.shape)
        element = f"!llama.blocks<{self.dtype}>" if self.in_blocks else self.dtype
        return f"tensor<{shape}x{element}>"

    @property
    def in_blocks(self):
        return self.dtype in blocks.FORMATS


# Half of the largest relative distance between neighbours.
HALF_STEPS = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


class Call:
    """One call of @forward in the reference, for the logits from row `first` on.

    With a storage type, results are rounded to it and arithmetic is f32: the
    reference of that type. Without, all is f64. With `noise`, a random generator,
    results are also moved by up to half the distance to the next number of the type, as
    another order of operations would move them.
    """

    def __init__(self, ids, position, caches, storage=None, first=0, noise=None):
        self.ids, self.position, self.caches = ids, position, caches
        self.first = first
        self.storage, self.known, self.noise = storage, {}, noise
        self.real = np.float32 if storage else np.float64
        self.widened = ()  # types of a prompt's rows that multiply widened weights

    def __getitem__(self, value):
        if value is None:
            return None
        if value.name not in self.known:
            result = value.compute(self).astype(self.real)
            if self.noise:
                step = HALF_STEPS.get(value.dtype, 0)
                result *= 1 + step * self.noise.uniform(-1, 1, result.shape)
            if self.storage:
                result = rounded(result, value.dtype)
            self.known[value.name] = result
        return self.known[value.name]

    def linear(self, x, weight, bias=None):
        """A llama.linear. Rows of several tokens may multiply widened weights in
        blocks: their numbers, rounded to the rows' type."""
        several = len(self.ids) > 1 and weight.shape[0] >= 32
        if weight.in_blocks and x.dtype in self.widened and several:
            w = rounded(self[weight], x.dtype) if self.storage else self[weight]
            return reference.linear(self[x], w, self[bias])
        return self.head(x, weight, bias)

    def head(self, x, weight, bias=None):
        """A llama.head, or a llama.linear whose weights are not widened. Rows of several
        tokens multiply rounded numbers in fp8."""
        w = self[weight]
        if weight.dtype == "fp8" and self.storage and len(self.ids) > 1:
            w = rounded(w, x.dtype)
        return reference.linear(self.factor(x, weight), w, self[bias])

    def factor(self, x, weight):
        """x as a product with the weight reads it, or as a cache holds it."""
        rows = self[x]
        if weight.dtype == "fp8":
            return rounded(rows, "bf16").astype(self.real) if x.dtype == "f32" else rows
        if weight.in_blocks:
            rows = blocks.rounded_rows(rows).astype(self.real)
        return rows


class Program:
    """Grows by calls of its methods, one for each op."""

    def __init__(self, dtype="f32", positions=128, chunk=69):
        self.dtype, self.positions, self.chunk = dtype, positions, chunk
        self.slack = 1  # on the NMSE that rounding makes
        self.bar = None  # the NMSE that is allowed; None: the type's
        # Tokens of the prompts to run: chunks are 69 tokens, then the last of 70
        # is decoded, or 33, then the last of 34 is; 70 make calls at several
        # positions.
        self.counts = [1, 3, 31, 32, 33, 34, 70]
        self.on_cuda = True  # whether the cuda target takes it
        self.places = None  # of caches that are rings; None: they are whole
        self.whole = False  # whether a text must be one call
        self.widened = ()  # types of rows that multiply widened weights in prompts
        self.random = np.random.default_rng(0)
        self.symbols, self.body, self.arrays, self.caches = [], [], {}, []

    def emit(self, op, shape, compute, dtype=None):
        name = f"%v{len(self.body)}"
        self.body.append(f"{name} = {op}")
        return Value(name, shape, dtype or self.dtype, compute)

    def weight(self, *shape, dtype=None, scale=1.0, shift=0.0, array=None):
        """A weight with normally distributed values, or those of `array`."""
        dtype, name = dtype or self.dtype, f"w{len(self.arrays)}"
        if array is None:
            array = self.random.standard_normal(shape) * scale + shift
        value = Value("", shape, dtype, None)
        array = self.arrays[name] = rounded(array, dtype)
        if value.in_blocks:
            array = blocks.dequantize(blocks.quantize(array, dtype), dtype)
        self.symbols.append(f'llama.weight @{name} : {value.type} from "{name}"')
        op = f"llama.get_weight @{name} : {value.type}"
        return self.emit(op, shape, lambda call: array, dtype)

    def tokens(self, size, **options):
        """(tokens, size): a random row for each id."""
        table = self.weight(ROWS, size, **options)
        dtype = self.dtype if table.in_blocks else table.dtype
        operands = f"%ids, {table.name}" + (f" as {dtype}" if table.in_blocks else "")
        op = f"llama.embed {operands} : tensor<?xi32>, {table.type}"
        row = lambda call: call[table][call.ids]
        return self.emit(op, (None, size), row, dtype)

    def heads(self, x, heads, size, rows="%n"):
        """x (rows, heads * size) as (rows, heads, size)."""
        shape = (None, heads, size)
        op = (
            f"tensor.expand_shape {x.name} [[0], [1, 2]] output_shape "
            f"[{rows}, {heads}, {size}] : {x.type} into "
        )
        value = Value("", shape, x.dtype, None)
        split = lambda call: call[x].reshape(-1, heads, size)
        return self.emit(op + value.type, shape, split, x.dtype)

    def flat(self, x):
        """x (tokens, heads, size) as (tokens, heads * size)."""
        shape = (None, x.shape[1] * x.shape[2])
        value = Value("", shape, x.dtype, None)
        op = f"tensor.collapse_shape {x.name} [[0], [1, 2]] : {x.type} into "
        merge = lambda call: call[x].reshape(-1, shape[1])
        return self.emit(op + value.type, shape, merge, x.dtype)

    def cache(self, layers, heads, size, dtype=None):
        """A cache, zero at first; of activations' type, or in blocks."""
        name, index = f"%cache{len(self.caches)}", len(self.caches)
        shape = (layers, heads, self.places or self.positions, size)
        value = Value(
            name, shape, dtype or self.dtype, lambda call: call.caches[index]
        )
        self.caches.append(value)
        return value

    def index(self, value):
        self.body.append(f"%i{len(self.body)} = arith.constant {value} : index")
        return self.body[-1].split()[0]

    def append(self, rows, cache, layer):
        op = (
            f"llama.kv_append {rows.name} into {cache.name}[{self.index(layer)}]"
            f" at %position {'{ring} ' if self.places else ''}: "
            f"{rows.type} into {cache.type}"
        )
        write = lambda call: reference.append(
            call[cache], call.factor(rows, cache), layer, call.position
        )
        return self.emit(op, cache.shape, write, cache.dtype)

    def last(self, x):
        """The rows of x (tokens, size) from %first on."""
        op = f"tensor.extract_slice {x.name}[%first, 0] [%m, {x.shape[1]}] "
        op += f"[1, 1] : {x.type} to {x.type}"
        return self.emit(op, x.shape, lambda call: call[x][call.first :], x.dtype)

    def head(self, x, weight):
        return self.head_of(self.last(x), weight)

    def head_of(self, x, weight):
        vocab = weight.shape[0]
        op = f"llama.head {x.name}, {weight.name} : {x.type}, {weight.type}"
        product = lambda call: call.head(x, weight)
        return self.emit(op, (None, vocab), product, "f32")

    def returns(self, x, *caches):
        """Ends the program: x (tokens, any) as logits, and its caches."""
        if len(x.shape) == 3:
            x = self.flat(x)
        shape = (ROWS, x.shape[1])
        identity = self.weight(*shape, dtype=x.dtype, array=np.eye(*shape))
        return self.ends(self.head(x, identity), *caches)

    def ends(self, logits, *caches):
        """Ends the program with logits as they are."""
        self.results = [logits, *caches]
        return self

    def text(self):
        """The program as the compiler reads it."""
        arguments = ["%ids: tensor<?xi32>", "%position: index", "%first: index"]
        arguments += [f"{cache.name}: {cache.type}" for cache in self.caches]
        types = ", ".join(result.type for result in self.results)
        names = ", ".join(result.name for result in self.results)
        head = [
            "%zero = arith.constant 0 : index",
            "%n = tensor.dim %ids, %zero : tensor<?xi32>",
            "%m = arith.subi %n, %first : index",
        ]
        return "\n".join(
            [
                *self.symbols,
                f"func.func @forward({', '.join(arguments)}) -> ({types}) {{",
                *head,
                *self.body,
                f"return {names} : {types}",
                "}\n",
            ]
        )

    def kept(self, cache):
        """The shape of a cache in the reference, which has no rings."""
        if self.places is None or len(cache.shape) != 4:
            return cache.shape
        return (*cache.shape[:2], self.positions, cache.shape[3])

    def expected(self, ids, storage=None):
        """(tokens, vocab) logits of ids fed in chunks, by the reference."""
        caches = [np.zeros(self.kept(c)) for c in self.caches]
        rows, ids = [], np.asarray(ids)
        for at in range(0, len(ids), self.chunk):
            call = Call(ids[at : at + self.chunk], at, caches, storage)
            call.widened = self.widened
            rows.append(call[self.results[0]])
            caches = [call[cache] for cache in self.results[1:]]
        return np.concatenate(rows)

    def write(self, folder):
        """program.mlir, and weights.safetensors for cria-run."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.mlir").write_text(self.text())
        write_safetensors(folder / "model.safetensors", self.arrays, "f32")
        return folder / "program.mlir"
