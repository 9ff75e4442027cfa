"""The programs of the execution tests: {op: [(what, Program), ...]}.

Sizes are one, odd, that of a vector, and one more or less. The rows and columns of
products leave a rest in every tile of every schedule.
"""

import numpy as np

import reference
from program import ROWS, Program

TYPES = ["f32", "bf16", "f16"]
INV_FREQ = [1.0, 0.31622776, 0.1, 0.031622775, 0.01]
INV_FREQ += [10 ** (-i / 2) for i in range(5, 32)]


def embed():
    for dtype, size in [("f32", 1), ("f32", 33), ("bf16", 7), ("f16", 16)]:
        p = Program(dtype)
        yield f"{dtype} {size}", p.returns(p.tokens(size))


def rmsnorm_of(p, x, weight, eps=1e-5):
    operands, types = [x], [x.type]
    if weight:
        operands.append(weight)
        types.append(weight.type)
    names = ", ".join(value.name for value in operands)
    op = f"llama.rmsnorm {names} {{eps = {eps:e}}} : {', '.join(types)}"
    norm = lambda call: reference.rmsnorm(call[x], call[weight], eps)
    return p.emit(op, x.shape, norm)


def rmsnorm():
    sizes = [(1, True), (7, False), (64, True), (83, True)]
    for dtype in TYPES:
        for size, weighted in sizes if dtype == "f32" else sizes[-1:]:
            p = Program(dtype)
            weight = p.weight(size, scale=0.1, shift=1.0) if weighted else None
            y = rmsnorm_of(p, p.tokens(size), weight)
            yield f"{dtype} {size} weight {weighted}", p.returns(y)
    p = Program()  # eps is what keeps zeros and tiny rows finite
    yield "tiny rows", p.returns(rmsnorm_of(p, p.tokens(9, scale=1e-3), None))
    p = Program()
    yield "large eps", p.returns(rmsnorm_of(p, p.tokens(9), None, eps=0.5))


def layernorm_of(p, x, gamma, beta, eps=1e-5, offset=0):
    op = f"llama.layernorm {x.name}"
    op += f" gamma({gamma.name} : {gamma.type})" if gamma else ""
    op += f" beta({beta.name} : {beta.type})" if beta else ""
    norm = lambda call: reference.layernorm(
        call[x], offset + call[gamma] if gamma else None, call[beta], eps
    )
    flag = ", unit_offset" if offset else ""
    return p.emit(f"{op} {{eps = {eps:e}{flag}}} : {x.type}", x.shape, norm)


def layernorm():
    forms = [(64, 2), (33, 1), (7, 0)]
    for dtype in TYPES:
        for size, vectors in forms if dtype == "f32" else forms[:1]:
            p = Program(dtype)
            gamma = p.weight(size) if vectors > 0 else None
            beta = p.weight(size) if vectors > 1 else None
            x = p.tokens(size, shift=0.5)
            y = layernorm_of(p, x, gamma, beta)
            yield f"{dtype} {size} vectors {vectors}", p.returns(y)
    p = Program()
    gamma, beta = p.weight(33), p.weight(33)
    y = layernorm_of(p, p.tokens(33, shift=0.5), gamma, beta, offset=1)
    yield "unit_offset", p.returns(y)


def linear_of(p, x, weight, bias=None):
    op = f"llama.linear {x.name}, {weight.name}"
    op += f" bias({bias.name} : {bias.type})" if bias else ""
    product = lambda call: call.linear(x, weight, bias)
    shape = (None, weight.shape[0])
    return p.emit(f"{op} : {x.type}, {weight.type}", shape, product, x.dtype)


def linear():
    shapes = [(1, 1, False), (5, 3, True), (13, 131, True), (64, 64, False)]
    for dtype in TYPES:
        for n, k, biased in shapes if dtype != "f16" else shapes[2:]:
            p = Program(dtype)
            x, w = p.tokens(k), p.weight(n, k)
            y = linear_of(p, x, w, p.weight(n) if biased else None)
            yield f"{dtype} {n}x{k} bias {biased}", p.returns(y)
    for dtype in TYPES:  # many steps and chunks of k, rows left of each block
        p = Program(dtype)
        y = linear_of(p, p.tokens(1039), p.weight(19, 1039))
        yield f"{dtype} long", p.returns(y)
    for dtype in TYPES:  # so much of a prompt that the CPU blocks it
        p = Program(dtype)
        y = linear_of(p, p.tokens(4111), p.weight(230, 4111))
        p.on_cuda = False  # it has no such schedule
        yield f"{dtype} blocked", p.returns(y)
    p = Program()  # logits that no head makes
    logits = linear_of(p, p.tokens(12), p.weight(128, 12), p.weight(128))
    p.on_cuda = False  # the rows asked for would have to be copied
    yield "logits", p.ends(p.last(logits))
    p = Program()  # activations of one type, weights of another
    y = linear_of(p, p.tokens(35), p.weight(10, 35, dtype="bf16"))
    yield "f32 by bf16", p.returns(y)


def blocks():
    """Products with matrices in blocks: one block and a group of eight and a
    rest, fewer rows than a stream, a tile and a group of rows has; rows that
    begin at 2, 4, 8 and 16 bytes, of more turns than a GPU's stages; a head, a
    lookup, a bias, two products of the same rows."""
    for dtype in TYPES:
        for form, n, k in [
            ("q8_0", 1, 32),
            ("q8_0", 19, 96),
            ("q8_0", 64, 256),
            ("q4_0", 37, 352),
            ("q4_0", 8, 32),
        ]:
            p = Program(dtype)
            x, w = p.tokens(k), p.weight(n, k, dtype=form)
            yield f"{dtype} {form} {n}x{k}", p.returns(linear_of(p, x, w))
    for form, n, k in [("q8_0", 37, 4608), ("q4_0", 21, 3456), ("q8_0", 10, 704)]:
        p = Program("bf16")
        x, w = p.tokens(k), p.weight(n, k, dtype=form)
        yield f"long {form} {n}x{k}", p.returns(linear_of(p, x, w))
    for form in ["q8_0", "q4_0"]:
        p = Program("bf16")
        x = p.tokens(64, dtype=form)
        yield f"lookup {form}", p.returns(x)
        for k in 64, 2432:
            p = Program()
            x = p.tokens(k)
            y = linear_of(p, x, p.weight(96, k, dtype=form), p.weight(96))
            z = linear_of(p, x, p.weight(96, k, dtype=form))
            sum = elementwise(p, "residual", y, z, lambda a, b: a + b)
            yield f"two products {form} {k}", p.returns(sum)
        p = Program()
        logits = p.head(p.tokens(2080), p.weight(101, 2080, dtype=form))
        yield f"head {form}", p.ends(logits)
        p = Program("bf16")  # several groups of rows
        y = linear_of(p, p.tokens(288), p.weight(1213, 288, dtype=form))
        yield f"groups {form}", p.ends(p.head(y, p.weight(128, 1213)))
    p = Program()  # rows of zeros, and of one number: once, and in all places
    table = np.zeros((128, 64))
    table[1::2, 40] = -3
    table[3::4] = 5
    x = p.tokens(64, array=table)
    y = linear_of(p, x, p.weight(32, 64, dtype="q8_0"))
    most = np.full((32, 64), 7.0)  # as large as four bits can say, beside a -8
    most[:, ::32] = -8
    z = linear_of(p, x, p.weight(32, 64, dtype="q4_0", array=most))
    yield "zeros", p.returns(elementwise(p, "residual", y, z, lambda a, b: a + b))


def fp8():
    """Products with matrices of 8-bit floats: of the sizes of blocks() and widened(), one
    row and many, a head and a lookup, an MLP; numbers of all exponents, subnormal ones
    too, and of both signs. In f32, only several rows multiply rounded numbers."""
    for dtype in TYPES:
        for n, k in [(1, 32), (19, 96), (64, 256), (37, 352)]:
            p = Program(dtype)
            p.bar = 1e-5
            x, w = p.tokens(k), p.weight(n, k, dtype="fp8")
            yield f"{dtype} {n}x{k}", p.returns(linear_of(p, x, w))
    for n, k in [(37, 4608), (10, 704)]:
        p = Program("bf16")
        y = linear_of(p, p.tokens(k), p.weight(n, k, dtype="fp8"))
        yield f"long {n}x{k}", p.returns(y)
    p = Program("bf16")
    yield "lookup", p.returns(p.tokens(64, dtype="fp8"))
    for k in 64, 2432:
        p = Program()
        p.bar = 1e-5
        x = p.tokens(k)
        y = linear_of(p, x, p.weight(96, k, dtype="fp8"), p.weight(96))
        z = linear_of(p, x, p.weight(96, k, dtype="fp8"))
        sum = elementwise(p, "residual", y, z, lambda a, b: a + b)
        yield f"two products {k}", p.returns(sum)
    p = Program("bf16")
    yield "head", p.ends(p.head(p.tokens(2080), p.weight(101, 2080, dtype="fp8")))
    p = Program("bf16")  # several groups of rows
    y = linear_of(p, p.tokens(288), p.weight(1213, 288, dtype="fp8"))
    yield "groups", p.ends(p.head(y, p.weight(128, 1213)))
    p = Program("bf16")
    x = p.tokens(64)
    spread = p.random.standard_normal((48, 64)) * 2.0 ** -p.random.integers(0, 20, (48, 64))
    yield "spread", p.returns(linear_of(p, x, p.weight(48, 64, dtype="fp8", array=spread)))
    for dtype, n, k in [("bf16", 320, 512), ("f16", 101, 2304), ("bf16", 67, 384)]:
        p = Program(dtype, positions=320, chunk=300)
        p.counts, p.slack = [2, 33, 70, 300], 4
        y = linear_of(p, p.tokens(k), p.weight(n, k, dtype="fp8"), p.weight(n))
        yield f"many {dtype} {n}x{k}", p.ends(p.head(y, p.weight(128, n)))
    p = Program("bf16", positions=320, chunk=300)
    p.counts, p.slack = [2, 33, 70, 300], 4
    x = p.tokens(256)
    y = rmsnorm_of(p, x, p.weight(256, scale=0.1, shift=1.0))
    weight = lambda *shape: p.weight(*shape, dtype="fp8", scale=0.1)
    gate, up = (linear_of(p, y, weight(512, 256)) for _ in "gu")
    z = linear_of(p, swiglu_of(p, gate, up), weight(256, 512))
    z = elementwise(p, "residual", x, z, lambda a, b: a + b)
    yield "MLP", p.ends(p.head(z, p.weight(128, 256)))


def widened():
    """Prompts whose rows of 16 bits multiply widened weights in blocks, of up to three
    tiles: rows of weights that begin at 2, 4, 8 and 16 bytes, more than a tile has and
    fewer, of enough terms to be split; units of two products, which are an MLP's or
    pairs of RoPE."""

    def of(dtype):
        p = Program(dtype, positions=320, chunk=300)
        p.counts, p.slack = [2, 33, 70, 300], 4
        return p

    for dtype, form, n, k in [
        ("bf16", "q8_0", 320, 512),
        ("f16", "q4_0", 101, 2304),
        ("bf16", "q4_0", 1024, 256),
        ("f16", "q8_0", 33, 192),
        ("bf16", "q8_0", 67, 384),
        ("bf16", "q4_0", 32, 96),
    ]:
        p = of(dtype)
        y = linear_of(p, p.tokens(k), p.weight(n, k, dtype=form), p.weight(n))
        yield f"{dtype} {form} {n}x{k}", p.ends(p.head(y, p.weight(128, n)))
    p = of("bf16")  # rows of the input that do not begin at words
    wide = p.tokens(193)
    op = f"tensor.extract_slice {wide.name}[0, 1] [%n, 192] [1, 1]"
    op += f" : {wide.type} to tensor<?x192xbf16>"
    x = p.emit(op, (None, 192), lambda call: call[wide][:, 1:])
    y = linear_of(p, x, p.weight(64, 192, dtype="q8_0"))
    yield "from the second column", p.ends(p.head(y, p.weight(128, 64)))
    for dtype, form in [("bf16", "q8_0"), ("f16", "q4_0")]:
        p = of(dtype)
        x = p.tokens(256)
        y = rmsnorm_of(p, x, p.weight(256, scale=0.1, shift=1.0))
        up, down = (512, 256), (256, 512)
        weight = lambda shape: p.weight(*shape, dtype=form, scale=0.1)
        gate, up = (linear_of(p, y, weight(up)) for _ in "gu")
        z = linear_of(p, swiglu_of(p, gate, up), weight(down))
        z = elementwise(p, "residual", x, z, lambda a, b: a + b)
        yield f"MLP {dtype} {form}", p.ends(p.head(z, p.weight(128, 256)))
    for dtype, form in [("bf16", "q4_0"), ("f16", "q8_0")]:
        p = of(dtype)
        x = p.tokens(256)
        y = rmsnorm_of(p, x, p.weight(256, scale=0.1, shift=1.0))
        weight = lambda shape: p.weight(*shape, dtype=form, scale=0.1)
        q, k, v = (
            p.heads(linear_of(p, y, weight((n * 64, 256))), n, 64) for n in (4, 2, 2)
        )
        caches = [p.cache(1, 2, 64) for _ in range(2)]
        keys = p.append(rope_of(p, k), caches[0], 0)
        values = p.append(v, caches[1], 0)
        out = p.flat(gqa_of(p, rope_of(p, q), keys, values))
        yield (
            f"attention {dtype} {form}",
            p.ends(p.head(out, p.weight(128, 256)), keys, values),
        )


def head():
    for dtype, vocab, size in [
        ("f32", 70, 1),
        ("f32", 79, 65),
        ("bf16", 71, 37),
        ("f16", 96, 16),
    ]:
        p = Program(dtype)
        logits = p.head(p.tokens(size), p.weight(vocab, size))
        yield f"{dtype} {vocab}x{size}", p.ends(logits)


def amx():
    """Products of tiles of 16 rows and 32 k: sizes with and without rests, one
    group of rows and several, one chunk of k, equal chunks, and a last one that
    is short or only a rest; 4096 columns are copied. And attention of whole
    tiles."""
    shapes = [(32, 32), (33, 31), (47, 64), (48, 1), (64, 33), (95, 129), (300, 70)]
    shapes += [(517, 40), (79, 2080), (49, 2049), (40, 3001), (56, 4096), (32, 3072)]
    for n, k in shapes:
        p = Program("bf16")
        p.counts = [1, 2, 16, 17, 33, 49, 70]
        y = linear_of(p, p.tokens(k), p.weight(n, k))
        if n <= 128:
            yield f"{n}x{k}", p.returns(y)
        else:  # more columns than logits have
            p.slack = 4
            yield f"{n}x{k}", p.ends(p.head(y, p.weight(128, n)))
    # Attention: blocks of 64 and of 32 keys, rows of an odd number of tiles.
    yield "attention", attention("bf16", 8, 2, 32)
    yield "attention, three heads", attention("bf16", 3, 1, 64, positions=96)
    yield "attention, two blocks", attention("bf16", 2, 2, 96, chunk=69)
    yield "attention, window", attention("bf16", 2, 1, 32, window=40)
    yield "attention, not causal", attention("bf16", 2, 1, 32, causal=False)


def elementwise(p, mnemonic, x, y, compute):
    op = f"llama.{mnemonic} {x.name}, {y.name} : {x.type}"
    return p.emit(op, x.shape, lambda call: compute(call[x], call[y]))


def residual():
    for dtype, size in [("f32", 1), ("f32", 35), ("bf16", 35), ("f16", 16)]:
        p = Program(dtype)
        x, y = p.tokens(size), p.tokens(size)
        z = elementwise(p, "residual", x, y, lambda a, b: a + b)
        again = elementwise(p, "residual", z, x, lambda a, b: a + b)
        yield f"{dtype} {size}", p.returns(again)


def arithmetic_of(p, x, y):
    """Floats: a function, a product, a choice by a constant, and a sum in f32."""
    numbers = x.type.rsplit("x", 1)[0]  # the type without its element type
    p.body += [
        f"%half = arith.constant 5.0e-1 : {p.dtype}",
        f"%splat = tensor.splat %half[%n] : {x.type}",
        f"%over = arith.cmpf ogt, {x.name}, %splat : {x.type}",
    ]
    exp = lambda call: np.exp(call[x])
    grown = p.emit(f"math.exp {x.name} : {x.type}", x.shape, exp)
    multiply = lambda call: call[grown] * call[y]
    op = f"arith.mulf {grown.name}, {y.name} : {x.type}"
    product = p.emit(op, x.shape, multiply)
    choose = lambda call: np.where(call[x] > 0.5, call[product], call[y])
    op = f"arith.select %over, {product.name}, {y.name} : {numbers}xi1>, {x.type}"
    chosen = p.emit(op, x.shape, choose)
    if p.dtype == "f32":
        return chosen
    p.body += [
        f"%wide = arith.extf {chosen.name} : {x.type} to {numbers}xf32>",
        f"%more = arith.addf %wide, %wide : {numbers}xf32>",
    ]
    op = f"arith.truncf %more : {numbers}xf32> to {x.type}"
    return p.emit(op, x.shape, lambda call: 2 * call[chosen])


def integers_of(p, x):
    """The lesser of x and of the ids, which are at most 100."""
    p.body += [
        "%small = arith.constant 100 : i32",
        "%smalls = tensor.splat %small[%n] : tensor<?xi32>",
        "%low = arith.cmpi slt, %ids, %smalls : tensor<?xi32>",
        "%part = arith.select %low, %ids, %smalls : tensor<?xi1>, tensor<?xi32>",
        f"%floats = arith.sitofp %part : tensor<?xi32> to tensor<?x{p.dtype}>",
        "%column = tensor.expand_shape %floats [[0, 1]] output_shape [%n, 1] : "
        f"tensor<?x{p.dtype}> into {x.type}",
    ]
    least = lambda call: np.minimum(call[x], np.minimum(call.ids, 100)[:, None])
    return p.emit(f"arith.minimumf {x.name}, %column : {x.type}", x.shape, least)


def arithmetic():
    """Elementwise ops of arith and math."""
    for dtype, size in [("f32", 35), ("bf16", 35), ("f16", 16)]:
        p = Program(dtype)
        x, y = p.tokens(size), p.tokens(size)
        yield f"{dtype} {size}", p.returns(arithmetic_of(p, x, y))
    p = Program("f32")
    yield "integers", p.returns(integers_of(p, p.tokens(1, scale=100)))


def swiglu_of(p, gate, up):
    return elementwise(p, "swiglu", gate, up, reference.swiglu)


def swiglu():
    for dtype, size in [("f32", 1), ("f32", 35), ("bf16", 35), ("f16", 16)]:
        p = Program(dtype)
        # Up to where exp(-gate) overflows f32; f16 ends before.
        gate = p.tokens(size, scale=1 if dtype == "f16" else 40)
        yield f"{dtype} {size}", p.returns(swiglu_of(p, gate, p.tokens(size)))


def rope_of(p, x, scale=1.0, half=None, interleaved=False):
    """Of each head, columns before 2 * half are rotated, else all. Interleaved are pairs
    of neighbours."""
    half = half or x.shape[2] // 2
    frequencies = INV_FREQ[:half]
    table = f"tensor<{p.positions}x{half}xf32>"
    name = f"rope{len(p.body)}"
    listed = ", ".join(f"{f:e}" for f in frequencies)
    p.symbols.append(
        f"llama.rope_table @{name} {{positions = {p.positions} : i64, "
        f"inv_freq = array<f32: {listed}>, scale = {scale:e} : f64}}"
    )
    p.body.append(f"%{name}:2 = llama.get_rope @{name} : {table}")
    op = (
        f"llama.rope {x.name}, %{name}#0, %{name}#1 at %position "
        f"{'{interleaved} ' if interleaved else ''}: {x.type}, {table}"
    )

    def turn(call):
        turned, rest = np.split(call[x], [2 * half], axis=-1)
        if interleaved:  # as the order of halves, there and back
            turned = np.concatenate([turned[..., ::2], turned[..., 1::2]], -1)
        turned = scale * reference.rope(turned, call.position, frequencies)
        if interleaved:
            halves = np.split(turned, 2, axis=-1)
            turned = np.stack(halves, -1).reshape(turned.shape)
        return np.concatenate([turned, rest], -1)

    return p.emit(op, x.shape, turn)


def rope():
    for dtype, heads, size in [
        ("f32", 1, 2),
        ("f32", 3, 10),
        ("bf16", 2, 8),
        ("f16", 1, 6),
    ]:
        p = Program(dtype, chunk=33)
        x = p.heads(p.tokens(heads * size), heads, size)
        yield f"{dtype} {heads}x{size}", p.returns(rope_of(p, x))
    p = Program()
    x = p.heads(p.tokens(8), 2, 4)
    yield "scale", p.returns(rope_of(p, x, scale=1.25))
    for dtype in TYPES:
        p = Program(dtype, chunk=33)
        x = p.heads(p.tokens(20), 2, 10)
        y = rope_of(p, x, half=4, interleaved=True)
        yield f"{dtype} interleaved", p.returns(y)


def gqa_of(p, query, keys, values, layer=0, causal=True, window=None, scale=None):
    scale = scale or query.shape[2] ** -0.5
    if not causal:
        p.whole, p.chunk = True, max(p.counts)
    attributes = [f"scale = {scale:e}"]
    attributes += ["causal"] * causal
    attributes += [f"window = {window} : i64"] * bool(window)
    attributes += ["ring"] * bool(p.places)
    op = (
        f"llama.gqa {query.name}, {keys.name}, {values.name}[{p.index(layer)}] "
        f"at %position {{{', '.join(attributes)}}} : {query.type}, {keys.type}"
    )
    attend = lambda call: reference.gqa(
        call[query],
        call[keys],
        call[values],
        layer,
        call.position,
        scale,
        causal,
        window,
    )
    return p.emit(op, query.shape, attend)


def attention(
    dtype,
    heads,
    groups,
    size,
    layers=1,
    layer=0,
    positions=128,
    chunk=33,
    form=None,
    places=None,
    **options,
):
    """Attention over what this and earlier calls appended."""
    p = Program(dtype, positions, chunk)
    p.places = places
    rows = [p.heads(p.tokens(n * size), n, size) for n in (heads, groups, groups)]
    caches = [p.cache(layers, groups, size, form) for _ in range(2)]
    keys, values = (p.append(new, cache, layer) for new, cache in zip(rows[1:], caches))
    out = gqa_of(p, rows[0], keys, values, layer, **options)
    return p.returns(out, keys, values)


# (head size, query heads of a key head, key heads), each with a type of its own:
# sizes of models, and others; groups of any size, in one block and in several.
HEADS = [
    (64, 4, 2),
    (80, 1, 3),
    (96, 2, 2),
    (128, 8, 1),
    (256, 3, 1),
    (8, 16, 1),
    (24, 5, 2),
    (40, 6, 1),
    (72, 7, 1),
    (120, 9, 1),
    (136, 10, 1),
    (200, 11, 1),
    (64, 12, 1),
    (16, 13, 2),
    (32, 14, 1),
    (48, 15, 1),
]


def wide_attention(random, dtype, size, group, key_heads):
    """Attention between two projections, with a window, a cache and chunks of
    some size."""
    chunk, positions = (int(random.choice(of)) for of in ([33, 69], [72, 500, 1000]))
    p = Program(dtype, positions, chunk)
    p.slack = 4
    p.counts = [int(random.integers(1, 70)), 70]
    heads = (group * key_heads, key_heads, key_heads)
    x = p.tokens(40)
    query, *new = (
        p.heads(linear_of(p, x, p.weight(n * size, 40, scale=0.2)), n, size)
        for n in heads
    )
    caches = [p.cache(1, key_heads, size) for _ in new]
    keys, values = (p.append(rows, cache, 0) for rows, cache in zip(new, caches))
    window = int(random.integers(1, 70)) if random.random() < 0.5 else None
    causal = random.random() < 0.8
    out = p.flat(gqa_of(p, query, keys, values, causal=causal, window=window))
    columns = out.shape[1]
    out = linear_of(p, out, p.weight(100, columns, scale=columns**-0.5))
    return p.returns(out, keys, values)


def head_sizes():
    random = np.random.default_rng(1)
    for i, (size, group, key_heads) in enumerate(HEADS):
        dtype = TYPES[i % 3]
        what = f"{dtype} {size} x {group} x {key_heads}"
        yield what, wide_attention(random, dtype, size, group, key_heads)


def gqa():
    yield "multi-head", attention("f32", 3, 3, 5)
    yield "multi-head, two blocks", attention("f32", 2, 2, 4, chunk=69)
    yield "multi-query", attention("f32", 4, 1, 16)
    yield "grouped, layer 1", attention("f32", 6, 2, 8, layers=2, layer=1)
    yield "not causal", attention("f32", 2, 1, 8, causal=False)
    yield "window", attention("f32", 2, 1, 8, window=5)
    yield "window of one", attention("f32", 2, 2, 3, window=1)
    yield "window, not causal", attention("f32", 2, 1, 8, causal=False, window=40)
    yield "sharp", attention("f32", 2, 1, 8, scale=10.0)
    yield "head of one, odd cache", attention("f32", 1, 1, 1, positions=71)
    yield "bf16", attention("bf16", 6, 2, 9)
    yield "f16", attention("f16", 4, 2, 16)


def deep_cache():
    """A token behind 127: splits of several turns, splits that no key is left for,
    more query heads than a block has, a window that begins between."""

    def of(*sizes, positions=1000, **options):
        p = attention(*sizes, positions=positions, chunk=ROWS - 1, **options)
        p.counts = [ROWS]
        return p

    yield "few splits of many", of("bf16", 8, 2, 64)
    yield "two blocks of a group", of("f16", 12, 2, 128)
    yield "window", of("bf16", 4, 4, 64, window=70)
    yield "long splits", of("f16", 4, 4, 256, positions=192)
    yield "one split", of("f32", 217, 217, 16)


def rings():
    """Texts that are longer than a ring: blocks of 64 keys, of eight and of one,
    tiles of tensor cores, one place more than a window and a call take."""

    def of(*sizes, **options):
        p = attention(*sizes, **options)
        p.counts = [60, ROWS]
        return p

    yield "blocks of eight keys", of("f32", 2, 1, 8, window=5, places=72)
    yield "layer 1", of("f32", 3, 3, 5, layers=2, layer=1, window=7, places=71)
    # The last token is a call of its own. Its window begins before the ring's end.
    p = attention("bf16", 2, 1, 64, chunk=39, window=12, places=112)
    p.counts = [3 * 39 + 1]
    yield "over the end", p
    yield "whole blocks", of("bf16", 4, 2, 64, window=20, places=128, positions=500)
    yield "f16", of("f16", 8, 2, 64, window=33, places=112)
    yield "in blocks", of("f32", 6, 2, 64, form="q8_0", window=9, places=80)
    yield "bf16, in blocks", of("bf16", 2, 2, 32, form="q8_0", window=40, places=128)


def cache_in_blocks():
    """Keys and values in q8_0: one block of a head and several, caches of a few
    keys, rows that begin behind others."""

    def of(*sizes, **options):
        return attention(*sizes, form="q8_0", **options)

    yield "one block", of("f32", 2, 2, 32)
    yield "grouped, layer 1", of("f32", 6, 2, 64, layers=2, layer=1)
    yield "three blocks, two calls", of("f32", 2, 1, 96, chunk=69)
    yield "window", of("f32", 2, 1, 32, window=5)
    yield "not causal", of("f32", 2, 1, 32, causal=False)
    yield "odd cache", of("f32", 1, 1, 32, positions=71)
    yield "bf16", of("bf16", 6, 2, 64)
    yield "bf16, wide", of("bf16", 2, 2, 128, window=40)
    yield "f16", of("f16", 4, 2, 64)
    p = Program(chunk=33)  # rows of zeros
    rows = p.heads(p.tokens(64, array=np.zeros((128, 64))), 2, 32)
    caches = [p.cache(1, 2, 32, "q8_0") for _ in range(2)]
    keys, values = (p.append(rows, cache, 0) for cache in caches)
    yield "zeros", p.returns(gqa_of(p, rows, keys, values), keys, values)


def kv_append():
    # What was appended shows in attention that sees a single key. The other layers
    # and later positions must stay zero.
    yield "last key", attention("f32", 1, 1, 7, layers=3, layer=2, window=1)
    yield "bf16", attention("bf16", 2, 2, 4, layers=2, layer=1, window=1)
    p = Program(chunk=33)
    row = p.heads(p.tokens(6), 2, 3)
    cache = p.cache(2, 2, 3)
    written = p.append(row, cache, 1)
    untouched = gqa_of(p, row, written, written, layer=0)
    yield "other layer", p.returns(untouched, written)


def fused():
    """Kernels of several ops, which keep f32 in between."""
    for dtype in TYPES:
        p = Program(dtype)
        p.slack = 4
        x = p.tokens(35)
        y = rmsnorm_of(p, x, p.weight(35, scale=0.1, shift=1.0))
        gate, up = (linear_of(p, y, p.weight(50, 35, scale=0.2)) for _ in "gu")
        down = linear_of(p, swiglu_of(p, gate, up), p.weight(35, 50, scale=0.2))
        z = elementwise(p, "residual", x, down, lambda a, b: a + b)
        yield f"{dtype} MLP", p.returns(z)
    for dtype in TYPES:
        p = Program(dtype)
        p.slack = 4
        x = p.tokens(24)
        y = rmsnorm_of(p, x, p.weight(24, scale=0.1, shift=1.0))
        q, k, v = (
            p.heads(linear_of(p, y, p.weight(n * 6, 24, scale=0.2)), n, 6)
            for n in (4, 2, 2)
        )
        caches = [p.cache(1, 2, 6) for _ in range(2)]
        keys = p.append(rope_of(p, k), caches[0], 0)
        values = p.append(v, caches[1], 0)
        out = p.flat(gqa_of(p, rope_of(p, q), keys, values))
        out = linear_of(p, out, p.weight(24, 24, scale=0.2))
        z = elementwise(p, "residual", x, out, lambda a, b: a + b)
        yield f"{dtype} attention", p.returns(z, keys, values)
