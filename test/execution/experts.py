"""Programs of mixtures of experts: {what: Program}, as in cases.py."""

import numpy as np

import blocks
import reference
from cases import TYPES, elementwise, linear_of, swiglu_of
from program import ROWS, Program, Value
from weights import rounded


COUNTS = [1, 33, 70]  # tokens


def program(dtype="f32"):
    p = Program(dtype)
    p.counts = COUNTS
    return p


def route_of(p, logits, k, correction=None, factors=None, **options):
    """The experts, as floats for the logits of a program, and their weights."""
    score = f" score {options['score']}" if "score" in options else ""
    normalize = f" normalize {options['normalize']}" if "normalize" in options else ""
    of = f" correction({correction.name} : {correction.type})" if correction else ""
    floats = [
        f"{key} = {options[key]:e} : f64"
        for key in ("floor", "logit_scale", "scale")
        if key in options
    ]
    numbers = [
        f"{key} = {options[key]} : i64"
        for key in ("groups", "kept_groups", "group_best")
        if key in options
    ]
    attributes = f" {{{', '.join(floats + numbers)}}}" if floats + numbers else ""
    times = f" factors({factors.name} : {factors.type})" if factors else ""
    op = f"llama.route {logits.name} top {k}{score}{of}{normalize}{times}{attributes}"
    name = f"%route{len(p.body)}"
    p.body.append(f"{name}:2 = {op} : {logits.type}")

    def part(i, dtype):
        routed = lambda call: reference.route(
            call[logits],
            k,
            correction=call[correction],
            factors=call[factors],
            **options,
        )[i]
        return Value(f"{name}#{i}", (None, k), dtype, routed)

    return part(0, "i32"), part(1, "f32")


def as_floats(p, chosen):
    floats = chosen.type.replace("i32", "f32")
    op = f"arith.sitofp {chosen.name} : {chosen.type} to {floats}"
    return p.emit(op, chosen.shape, lambda call: call[chosen], "f32")


ROUTES = [  # experts, chosen, options
    (1, 1, {}),
    (7, 7, {"normalize": "sum", "floor": 1e-20}),
    (8, 2, {"normalize": "sum"}),
    (33, 5, {"score": "sigmoid", "normalize": "sum_at_least", "floor": 3.5}),
    (32, 4, {"score": "logits", "normalize": "softmax"}),
    (9, 1, {"score": "logits", "normalize": "sigmoid", "scale": 0.5}),
]
GROUPS = [
    {"groups": 4, "kept_groups": 2},
    {"groups": 8, "kept_groups": 3, "group_best": 1},
    {"groups": 2, "kept_groups": 2, "group_best": 16},
]


def route():
    for experts, k, options in ROUTES:
        for part in 0, 1:
            p = program()
            made = route_of(p, p.tokens(experts, scale=2), k, **options)
            x = made[1] if part else as_floats(p, made[0])
            yield f"{experts} {k} {'weights' if part else 'experts'}", p.returns(x)
    p = program()
    options = {"normalize": "sum", "logit_scale": 0.3}
    made = route_of(p, p.tokens(9, scale=2), 4, factors=p.weight(9), **options)
    yield "factors", p.returns(made[1])
    for i, groups in enumerate(GROUPS):
        for part in 0, 1:
            p = program()
            bias = p.weight(32, scale=0.3)
            options = {"score": "sigmoid", "normalize": "sum", "scale": 2.5}
            made = route_of(p, p.tokens(32), 6, bias, floor=1e-20, **options, **groups)
            x = made[1] if part else as_floats(p, made[0])
            yield f"groups {i} {'weights' if part else 'experts'}", p.returns(x)


def ties():
    """Few different numbers, so that most choices are ties; and NaN and infinities."""
    for name, values in [
        ("integers", [0, 1, 2]),
        ("zeros", [0.0, -0.0]),
        ("nan", [np.nan, -1, 0, 1]),
        ("infinite", [np.inf, -np.inf, np.nan, 0]),
    ]:
        sizes = [(16, 4, {}), (24, 5, GROUPS[0])]
        for experts, k, groups in sizes + [(8, 8, {})] * (name == "integers"):
            p = program()
            p.counts = [33]
            table = p.random.choice(values, (ROWS, experts))
            logits = p.tokens(experts, array=table)
            chosen = route_of(p, logits, k, score="logits", **groups)[0]
            yield f"{name} {experts} {k}", p.returns(as_floats(p, chosen))


def experts_weight(p, e, n, k, how, scale=0.2, dtype=None):
    """(E, N, K) as the checkpoint has it: "apart", "stacked", or "rows", the last N of
    2 N rows of each expert in a stack."""
    first = n if how == "rows" else 0
    array = p.random.standard_normal((e, first + n, k)) * scale
    name, dtype = f"w{len(p.arrays)}", dtype or p.dtype
    array = rounded(array, dtype)
    if how == "apart":
        for i, matrix in enumerate(array):
            p.arrays[f"{name}.{i}"] = matrix
    else:
        p.arrays[name] = array
    pattern = f"{name}.{{}}" if how == "apart" else name
    rows = f" rows {n} of {2 * n}" if how == "rows" else ""
    value = Value("", (e, n, k), dtype, None)
    if value.in_blocks:
        array = blocks.dequantize(blocks.quantize(array, dtype), dtype)
    kind = value.type
    p.symbols.append(f'llama.weight @{name} experts : {kind} from "{pattern}"{rows}')
    op = f"llama.get_weight @{name} : {kind}"
    return p.emit(op, (e, n, k), lambda call: array[:, first:], dtype)


def expert_linear_of(p, x, weight, chosen, bias=None):
    op = f"llama.expert_linear {x.name}, {weight.name}[{chosen.name}]"
    op += f" bias({bias.name} : {bias.type})" if bias else ""
    product = lambda call: reference.expert_linear(
        call.factor(x, weight), call[weight], call[chosen].astype(int), call[bias]
    )
    shape = (None, chosen.shape[1], weight.shape[1])
    op += f" : {x.type}, {weight.type}, {chosen.type}"
    return p.emit(op, shape, product)


def combine_of(p, weights, x):
    op = f"llama.combine {weights.name}, {x.name} : {weights.type}, {x.type}"
    sum = lambda call: reference.combine(call[weights], call[x])
    return p.emit(op, (None, x.shape[2]), sum)


def routed(p, experts, k, **options):
    """A route by a table of logits in f32, whatever the program's type is."""
    return route_of(p, p.tokens(experts, dtype="f32", scale=2), k, **options)


def expert_linear():
    for dtype in TYPES:
        for how, biased in [("apart", False), ("stacked", True), ("rows", False)]:
            p = program(dtype)
            chosen, _ = routed(p, 5, 2)
            x, w = p.tokens(45), experts_weight(p, 5, 37, 45, how)
            bias = p.weight(5, 37) if biased else None
            y = expert_linear_of(p, x, w, chosen, bias)
            yield f"{dtype} {how}", p.returns(y)
    p = program("bf16")  # the last panels of parts are whole, or folded in two or four
    p.counts = [45, 70, 96, 100]
    chosen, _ = routed(p, 5, 2)
    x, w = p.tokens(48), experts_weight(p, 5, 32, 48, "apart")
    yield "folded", p.returns(expert_linear_of(p, x, w, chosen))
    for experts, k in [(1, 1), (6, 6), (33, 1)]:
        p = program()
        chosen, _ = routed(p, experts, k)
        x, w = p.tokens(9), experts_weight(p, experts, 3, 9, "apart")
        y = expert_linear_of(p, x, w, chosen)
        yield f"{k} of {experts}", p.returns(y)
    for dtype in TYPES:  # rows so long that an expert's tokens are in two parts
        p = program(dtype)
        chosen, _ = routed(p, 2, 1)
        x, w = p.tokens(8192), experts_weight(p, 2, 33, 8192, "apart", scale=0.01)
        yield f"{dtype} long", p.returns(expert_linear_of(p, x, w, chosen))


def combine():
    for dtype in TYPES:
        p = program(dtype)
        chosen, weights = routed(p, 6, 3, normalize="sum")
        x, w = p.tokens(5), experts_weight(p, 6, 11, 5, "apart")
        y = expert_linear_of(p, x, w, chosen)
        p.slack = 4
        yield dtype, p.returns(combine_of(p, weights, y))


def mixture(dtype, how, experts, k, size, inner, form=None, **options):
    """A router, gate and up of the experts that it chooses, down, and their sum."""
    p = program(dtype)
    p.slack = 4
    x = p.tokens(size)
    router = p.weight(experts, size, scale=size**-0.5)
    op = f"llama.linear {x.name}, {router.name} as f32 : {x.type}, {router.type}"
    product = lambda call: reference.linear(call[x], call[router], None)
    logits = p.emit(op, (None, experts), product, "f32")
    chosen, weights = route_of(p, logits, k, **options)
    matrices = lambda n, k: experts_weight(p, experts, n, k, how, dtype=form)
    gate, up = (
        expert_linear_of(p, x, matrices(inner, size), chosen) for _ in range(2)
    )
    h = swiglu_of(p, gate, up)
    y = expert_linear_of(p, h, matrices(size, inner), chosen)
    return p, x, combine_of(p, weights, y)


def mixtures():
    for dtype in TYPES:
        how = {"f32": "apart", "bf16": "stacked", "f16": "rows"}[dtype]
        p, _, y = mixture(dtype, how, 8, 2, 32, 24, normalize="sum")
        yield dtype, p.returns(y)


def expert_blocks():
    """Matrices of experts in blocks: as many as a stream and a group of eight, and
    others; a bias, and all of an MLP."""
    for form, how, n, k in [
        ("q8_0", "apart", 7, 32),
        ("q8_0", "rows", 40, 352),
        ("q4_0", "stacked", 37, 96),
    ]:
        p = program("bf16")
        chosen, _ = routed(p, 5, 2)
        x, w = p.tokens(k), experts_weight(p, 5, n, k, how, dtype=form)
        y = expert_linear_of(p, x, w, chosen, p.weight(5, n))
        yield f"{form} {how}", p.returns(y)
    for form in blocks.INTEGERS:
        p, _, y = mixture("bf16", "apart", 8, 2, 64, 32, form, normalize="sum")
        yield f"mixture {form}", p.returns(y)


def shared():
    """An expert beside the mixture, with a gate of its own."""
    p, x, y = mixture("f32", "apart", 4, 3, 24, 17)
    gate = linear_of(p, x, p.weight(1, 24))
    up = linear_of(p, x, p.weight(24, 24, scale=0.2))
    op = f"llama.swiglu {gate.name}, {up.name} activation sigmoid"
    op += f" : {gate.type}, {up.type}"
    opened = p.emit(op, up.shape, lambda call: reference.sigmoid(call[gate]) * call[up])
    yield "", p.returns(elementwise(p, "residual", y, opened, lambda a, b: a + b))


def unused():
    """Experts that no token chooses are not read: theirs are NaN."""
    p = program()
    bias = np.where(np.arange(6) % 2, -1e9, 0)
    logits = p.tokens(6, dtype="f32")
    chosen, _ = route_of(p, logits, 2, p.weight(6, array=bias), score="logits")
    w = experts_weight(p, 6, 5, 7, "apart")
    for name, matrix in p.arrays.items():
        if name.endswith((".1", ".3", ".5")):
            matrix[:] = np.nan
    yield "", p.returns(expert_linear_of(p, p.tokens(7), w, chosen))
