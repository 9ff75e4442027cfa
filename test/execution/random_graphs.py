"""Random programs in the llama dialect. Graph(seed) is the same each time.

A Graph grows by steps until it has enough ops. A step takes tensors that exist and makes
more of them, as parts of models do (norms, products of one input, gates, heads,
attention, loops over layers) and as they do not (any slice, any sum). In the end, results
that no step read are added up, so that no op is idle.
"""

import numpy as np

from program import Call, Value
from random_ops import Loop, RandomOps, Turn

WIDTHS = [1, 2, 5, 7, 8, 12, 16, 24, 31, 32, 33, 48, 64, 65, 96, 128]
HEAD_SIZES = [1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 32, 33, 64]


class Graph(RandomOps):
    """A program of about `ops` ops. `without` names steps, or forms of ops, that are
    left out."""

    def __init__(self, seed, ops=None, without=()):
        super().__init__(seed, without)
        self.stores = []  # caches of attention outside of loops
        self.widths = [self.pick(WIDTHS) for _ in range(2)]
        self.grow(ops or int(self.random.integers(6, 22)))

    # Attention.

    def projected(self, x, counts, size):
        """Heads that products of x make: one product for each, or one of all."""
        if self.chance(0.3):
            whole, begin, parts = self.linear(x, sum(counts) * size), 0, []
            for count in counts:
                part = self.cut(whole, [begin], [count * size], [1])
                begin += count * size
                parts.append(part)
        else:
            parts = [self.linear(x, count * size) for count in counts]
        return [self.heads(x, n, size) for x, n in zip(parts, counts)]

    def attention(self, x):
        size = self.pick(HEAD_SIZES)
        groups, group = self.pick([1, 2, 3]), self.pick([1, 1, 2, 3, 4])
        caches, layers = [], [0]
        if not self.loop and self.stores and self.chance(0.4):
            groups, size, caches, layers = self.pick(self.stores)
        if self.chance(0.6):
            x = self.norm(x)
        single = self.chance(0.15)  # keys are the values, too
        counts = [groups * group] + [groups] * (1 if single else 2)
        heads = self.turned(self.projected(x, counts, size))
        if self.kinds[x.name] == "n" and self.chance(0.05, "short"):
            heads[0] = self.heads(self.last(self.flat(heads[0])), counts[0], size)
        same = [cache for cache in caches if self.latest[cache].dtype == x.dtype]
        if caches and (len(same) < len(counts) - 1 or not layers):
            return self.attended(heads[0], caches, 0)
        if not caches:
            caches, layers = self.new_caches(heads[1], len(counts) - 1)
        layer = self.loop or layers.pop(0)
        for rows, cache in zip(heads[1:], caches):
            self.append(rows, cache, layer)
        return self.attended(heads[0], caches, layer)

    def turned(self, heads):
        """Heads with norms and ropes of queries and keys."""
        for i in range(2):
            heads[i] = self.rmsnorm(heads[i]) if self.chance(0.2) else heads[i]
        size = heads[0].shape[2]
        if size > 1 and self.chance(0.7):
            half = self.pick([size // 2, size // 2, 1])
            table = self.rope_table(half)
            for i in range(2):
                if self.chance(0.9):
                    heads[i] = self.rope(heads[i], table)
        return heads

    def new_caches(self, rows, count):
        """Numbers of caches for such rows, and the layers that are left."""
        _, groups, size = rows.shape
        in_blocks = size % 32 == 0 and self.chance(0.35, "blocks")
        form = "q8_0" if in_blocks else rows.dtype
        layers = self.loop.end if self.loop else self.pick([1, 1, 2])
        caches = [self.new_cache(layers, groups, size, form) for _ in range(count)]
        left = list(range(layers))
        if not self.loop:
            self.stores.append((groups, size, caches, left))
        return caches, left

    def attended(self, query, caches, layer):
        """What attention to the caches' layer adds to a tensor."""
        out = self.gqa(query, caches[0], caches[-1], layer)
        if self.chance(0.1, "flat_heads"):
            out = self.rmsnorm(out)
        out = self.flat(out)
        return self.joined(out) if self.chance(0.7) else out

    # Steps.

    def any(self, kinds="n"):
        """A tensor of rows, mostly one of the last."""
        found = [
            v for v in self.pool if len(v.shape) == 2 and self.kinds[v.name] in kinds
        ]
        return found[-1 - int(len(found) * self.random.random() ** 3)]

    def width(self):
        return self.pick(self.widths) if self.chance(0.6) else self.pick(WIDTHS)

    def peers(self, x):
        """Other tensors of x's type and rows."""
        return [
            v
            for v in self.pool
            if v.type == x.type and self.kinds[v.name] == self.kinds[x.name]
        ]

    def joined(self, y):
        """y, or a product of it, added to another tensor."""
        x = self.any(self.kinds[y.name])
        if x.dtype != y.dtype:
            return y
        if x.shape != y.shape or self.chance(0.7):
            y = self.linear(y, x.shape[1])
        if self.chance(0.1):
            y = self.norm(y)
        return self.residual(x, y)

    def step_norm(self, x):
        self.norm(x)

    def step_linears(self, x):
        if self.chance(0.5):
            x = self.norm(x)
        for _ in range(self.pick([1, 1, 2, 3])):
            self.linear(x, self.width())

    def step_mlp(self, x):
        normed = self.norm(x) if self.chance(0.8) else x
        inner, form = self.width(), self.pick(
            ["two", "two", "halves", "strided", "one"]
        )
        if form == "strided" and "strided" in self.without:
            form = "halves"
        if form == "one":
            y = self.activated(self.linear(normed, inner))
        elif form == "two":
            y = self.gated(self.linear(normed, inner), self.linear(normed, inner))
        else:  # columns of one product: halves, or every other
            both = self.linear(normed, 2 * inner)
            apart, step = (1, 2) if form == "strided" else (inner, 1)
            y = self.gated(
                *(self.cut(both, [i * apart], [inner], [step]) for i in range(2))
            )
        self.joined(y) if self.chance(0.8) else None

    def step_gate(self, x):
        self.gated(x, self.pick(self.peers(x)))

    def step_activate(self, x):
        self.activated(x)

    def step_arith(self, x):
        """Elementwise ops, maybe of one another's results."""
        kind = self.kinds[x.name]
        for _ in range(self.pick([1, 1, 2, 3])):
            x = self.computed(x, self.pick([x, *self.peers(x)]))
        self.known(x, kind)

    def step_residual(self, x):
        self.residual(x, self.pick(self.peers(x)))

    def step_join(self, x):
        self.joined(x)

    def step_rows(self, x):
        position = self.chance(0.5)
        rows = self.positions + self.pick([0, 3]) if position else 1
        table = self.weight(rows, x.shape[1], dtype=self.float_type(x), scale=0.5)
        y = self.add_rows(x, table, position)
        if position and self.kinds[x.name] == "n" and self.chance(0.3, "at_position"):
            z = self.at_position(x, table)
            self.residual(y, z) if y.type == z.type else None

    def at_position(self, x, table):
        """The rows of a table from the position on, of a type that may be x's."""
        shape = (None, x.shape[1])
        op = f"tensor.extract_slice {table.name}[%position, 0] [%n, {x.shape[1]}] "
        op += f"[1, 1] : {table.type} to {Value('', shape, table.dtype, None).type}"
        rows = lambda call: call[table][call.position :][: len(call.ids)]
        return self.made(table, op, rows, shape, "n")

    def step_select(self, x):
        """One of two tensors, chosen by the position."""
        y, bound = self.pick(self.peers(x)), int(self.random.integers(1, 9))
        name = f"%b{len(self.body)}"
        self.body.append(
            f"{name} = arith.cmpi ult, %position, {self.index(bound)} : index"
        )
        op = f"arith.select {name}, {x.name}, {y.name} : {x.type}"
        self.made(x, op, lambda call: call[x if call.position < bound else y])

    def step_first_row(self, x):
        """The first row of each call, added to all."""
        if "first_row" in self.without or self.kinds[x.name] != "n":
            return
        size = x.shape[1]
        op = f"tensor.extract_slice {x.name}[0, 0] [1, {size}] [1, 1] : {x.type} to "
        op += Value("", (1, size), x.dtype, None).type
        row = self.made(x, op, lambda call: call[x][:1], (1, size), "1")
        self.use_row(x, row)

    def step_weight_row(self, x):
        """A row of a weight, which ops of rows read."""
        table = self.weight(3, x.shape[1], dtype=x.dtype)
        op = f"tensor.extract_slice {table.name}[1, 0] [1, {x.shape[1]}] [1, 1] : "
        op += f"{table.type} to " + Value("", (1, x.shape[1]), x.dtype, None).type
        row = lambda call: call[table][1:2]
        self.use_row(x, self.made(table, op, row, (1, x.shape[1]), "1"))

    def use_row(self, x, row):
        kind = self.pick(["plain", "norm", "sum", "linear", "weight"])
        if kind == "norm":
            row = self.norm(row)
        elif kind == "sum":
            row = self.residual(row, self.weight(1, x.shape[1], dtype=x.dtype))
        elif kind == "linear":
            row = self.linear(row, x.shape[1])
        elif kind == "weight":  # a product with the row
            op = f"llama.linear {x.name}, {row.name} : {x.type}, {row.type}"
            product = lambda call: call[x] @ call[row].T
            return self.made(x, op, product, (None, 1))
        return self.add_rows(x, row, False)

    def step_cut(self, x):
        size = x.shape[1]
        step = 1 if "strided" in self.without else self.pick([1, 1, 2, 3])
        begin = int(self.random.integers(0, min(size, 9)))
        room = (size - begin - 1) // step + 1
        count = self.pick(
            [room, max(1, room // 2), 1 + int(self.random.integers(room))]
        )
        y = self.cut(x, [begin], [count], [step])
        if self.chance(0.3):
            y = self.norm(y)
        self.linear(y, self.width()) if self.chance(0.5) else None

    def step_heads(self, x):
        """Something of each head, then flat again."""
        heads, size = self.pick([1, 2, 3, 4]), self.pick(HEAD_SIZES)
        if "flat_heads" in self.without:
            return
        if x.shape[1] % heads == 0 and self.chance(0.5):
            size = x.shape[1] // heads
        else:
            x = self.linear(x, heads * size)
        y = self.heads(x, heads, size)
        for _ in range(self.pick([1, 1, 2])):
            kind = self.pick(["norm", "rope", "part", "some", "one", "again"])
            heads, size = y.shape[1:]
            if kind == "norm":
                y = self.rmsnorm(y)
            elif kind == "rope" and size > 1 and self.kinds[y.name] == "n":
                y = self.rope(y, self.rope_table(self.pick([size // 2, 1])))
            elif kind == "part" and size > 1:  # columns of each head
                count, step = size // 2, self.pick([1, 2])
                step = 1 if "strided" in self.without else step
                y = self.cut(y, [0, self.pick([0, 1])], [heads, count], [1, step])
            elif kind == "some" and heads > 1:
                count = self.pick([1, heads - 1])
                y = self.cut(y, [heads - count, 0], [count, size], [1, 1])
            elif kind == "one":
                self.joined(self.head(y, self.pick([0, heads - 1])))
            elif kind == "again":
                heads, size = self.pick([(size, heads), (1, heads * size)])
                y = self.heads(self.flat(y), heads, size)
        y = self.flat(y)
        self.joined(y) if self.chance(0.6) else None

    def step_attention(self, x):
        self.attention(x)

    def step_embed(self, x):
        self.embed(self.width())

    # Loops.

    def step_loop(self, x):
        if self.loop:
            return
        begin, step = self.pick([(0, 1), (0, 1), (0, 1), (1, 1), (0, 2)])
        end = begin + self.pick([1, 2, 3])
        self.loop = Loop(len(self.body), begin, end, step, len(self.body))
        bounds = [self.index(i) for i in (begin, end, step)]
        self.loop.line = len(self.body)
        self.body.append("")
        loop, outer, pool = self.loop, self.probe, list(self.pool)
        self.probe = Turn(outer, begin)
        streams = [x]
        if self.chance(0.3):
            streams.append(self.pick([self.any(), *self.peers(x)]))
        inner = [self.carry(stream) for stream in streams]
        for stream, value in zip(streams, inner):
            self.kinds[value.name] = self.kinds[stream.name]
        start = len(pool)
        self.pool = pool + inner
        for _ in range(self.pick([1, 2, 3])):
            self.step(
                ["norm", "linears", "mlp", "cut", "heads", "attention", "gate", "arith"]
            )
        ends = [self.gathered(inner[0], self.pool[start:])]
        for stream in inner[1:]:
            ends.append(self.joined_to(stream, self.any()))
            if ends[0].type == ends[1].type and self.chance(0.5):
                ends = ends[::-1]
        self.probe, self.pool, self.loop = outer, pool, None
        self.close(loop, ends, bounds)

    def joined_to(self, x, y):
        """x with y added, which may be of another size."""
        if y.dtype != x.dtype:
            return x
        if len(y.shape) == 3:
            y = self.flat(y)
        if y.shape != x.shape:
            y = self.linear(y, x.shape[1])
        return self.residual(x, y)

    def gathered(self, x, values):
        """x, and everything of its rows that nothing reads."""
        for value in values:
            kind = self.kinds.get(value.name)
            if value.name in self.used or value is x or kind != self.kinds[x.name]:
                continue
            x = self.joined_to(x, value)
        return x

    def close(self, loop, ends, bounds):
        """Writes the loop around its body."""
        streams = len(ends)
        for cache in loop.caches:
            ends.append(self.latest[cache])
        types = ", ".join(value.type for value in ends)
        names = ", ".join(value.name for value in ends)
        arguments = ", ".join(f"{i.name} = {o.name}" for i, o in loop.carried)
        self.used.update(o.name for _, o in loop.carried)
        self.used.update(value.name for value in ends)
        name = f"%v{loop.line}"
        self.body[loop.line] = (
            f"{name}:{len(ends)} = scf.for {loop.layer} = {bounds[0]} to {bounds[1]} "
            f"step {bounds[2]} iter_args({arguments}) -> ({types}) {{"
        )
        self.body += [f"scf.yield {names} : {types}", "}"]

        def turns(call):
            if name not in call.known:
                values = [call[outer] for _, outer in loop.carried]
                for layer in loop.turns:
                    turn = Turn(call, layer)
                    for (inner, _), value in zip(loop.carried, values):
                        turn.known[inner.name] = value
                    values = [turn[end] for end in ends]
                call.known[name] = values
            return call.known[name]

        results = [
            Value(f"{name}#{i}", v.shape, v.dtype, lambda call, i=i: turns(call)[i])
            for i, v in enumerate(ends)
        ]
        for (_, stream), result in zip(loop.carried[:streams], results):
            self.known(result, self.kinds[stream.name])
        for cache, result in zip(loop.caches, results[streams:]):
            self.latest[cache] = result

    # The whole.

    STEPS = {
        "norm": 2,
        "linears": 3,
        "mlp": 4,
        "gate": 1,
        "activate": 1,
        "residual": 1,
        "arith": 2,
        "join": 1,
        "rows": 1,
        "select": 0.3,
        "first_row": 0.3,
        "weight_row": 0.3,
        "cut": 2,
        "heads": 2,
        "attention": 4,
        "embed": 0.3,
        "loop": 3,
    }

    def step(self, names, kinds="n"):
        odds = np.array([self.STEPS[name] for name in names], float)
        name = self.pick(names, odds / odds.sum())
        if name not in self.without:
            getattr(self, "step_" + name)(self.any(kinds))

    def grow(self, ops):
        self.embed(self.width())
        names = list(self.STEPS)
        while len(self.body) < ops:
            self.step(names)
        self.loop = None
        x = self.last(self.gathered(self.any(), list(self.pool)))
        for _ in range(self.pick([0, 0, 1, 2])):
            self.step(["norm", "linears", "mlp", "cut", "gate", "rows"], "m")
        ends = [v for v in self.pool if self.kinds[v.name] == "m"]
        self.logits(self.gathered(x, ends))

    def expected(self, pieces, firsts, storage=None, noise=None):
        """Logits of each call, from a token of the call on."""
        caches = [np.zeros(c.shape) for c in self.caches]
        rows, at = [], 0
        for count, first in zip(pieces, firsts):
            ids = self.ids[at : at + count]
            call = Call(ids, at, caches, storage, noise=noise)
            call.first, call.layer = first, 0
            rows.append(call[self.results[0]])
            caches = [call[cache] for cache in self.results[1:]]
            at += count
        return rows, caches
