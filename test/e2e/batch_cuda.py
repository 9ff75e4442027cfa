"""batch_cuda.py BIN SCRATCH [CASE ...]: batches on the emulated GPU.

Texts of several lengths join, one of them so short that its prompt has rows, two with the
same beginning and one forked off another in the middle of a page:

- all bits of a text's logits are those of a session that is fed the same alone, in
  other chunks;
- logits are those of the CPU, by the bar of the type;
- and so are the bits of its hidden states;
- a sequence that finds no page, or is fed a bad id, changes nothing of the others;
- texts that draw in other ways, in one step, draw what the host draws from their
  logits, with drafts that are right and wrong as without.

- rows of an image that see one another give a prompt the same bits however its ids are cut,
  and a sequence that goes on from the session's state draws the same, as does a session that
  goes on from the sequence's;
- layers with a window, which have pages of their own, give the bits of whole caches.

Cases `16-bit` and `states` are one of several. A text of a model with states, saved and
restored, goes on with the same bits; steps end with pages, after which states are kept.
"""

import json
import sys

import numpy as np

import capi
import families
from harness import Tools, check, nmse, some

DRAWN, ROWS, CHUNK = 3, 12, 32  # prompts of up to 3 ids are short
BARS = {"f32": 1e-8, "bf16": 2e-3, "blocks": 1e-4}
TWO = {"num_hidden_layers": 2}
# Name: config, type, flags, bar. Windows of gemma2 are shorter than the texts, and
# its heads are for warpgroups. Of gemma3's layers one has a window, and its heads are for
# other tensor cores.
CASES = {
    "llama": (families.FAMILIES["llama"] | TWO, "f32", [], "f32"),
    "gemma2": (
        families.FAMILIES["gemma2"] | TWO | {"head_dim": 64},
        "bf16",
        [],
        "bf16",
    ),
    "cache": (
        families.config("llama", TWO, head_dim=32),
        "bf16",
        ["--kv=q8_0"],
        "bf16",
    ),
    "images": (
        families.COMPOSITES["gemma3"]
        | {
            "text_config": families.text_of("gemma3_text")
            | TWO
            | {"head_dim": 32, "sliding_window_pattern": 2}
        },
        "bf16",
        [],
        "bf16",
    ),
}


def small(name, **changes):
    config = families.FAMILIES[name] | TWO
    return config | {"hidden_size": 64, "intermediate_size": 64} | changes


SCAN = {"mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 32, "mamba_expand": 2}
HYBRID = {"layer_types": ["mamba", "attention"]}
HEADS_OF_80 = {"mamba_head_dim": 80, "mamba_num_heads": 4, "ssm_state_size": 32}
# Matrices of 32 columns for each block, or of 16; convolutions of one block, and of several.
# Layers of `nemotron_h` are in a loop.
STATES = {
    "delta_rule": small(
        "qwen3_5_text",
        linear_num_value_heads=2,
        linear_num_key_heads=1,
        linear_key_head_dim=32,
        linear_value_head_dim=64,
        full_attention_interval=2,
    ),
    "qwen3_next": small(
        "qwen3_next",
        linear_key_head_dim=32,
        linear_value_head_dim=32,
        full_attention_interval=2,
        mlp_only_layers=[0],
    ),
    "selective_scan": small("granitemoehybrid-mamba", **HYBRID, **SCAN),
    "nemotron_h": small(
        "nemotron_h",
        hybrid_override_pattern="M*M*",
        num_hidden_layers=4,
        **HEADS_OF_80,
    ),
    "granite-experts": small("granitemoehybrid-experts", **HYBRID, **SCAN),
    "falcon_h1": small("falcon_h1-norm", **SCAN | {"mamba_d_ssm": 128}),
    "nemotron_h-experts": small(
        "nemotron_h",
        hybrid_override_pattern="ME*",
        num_hidden_layers=3,
        **HEADS_OF_80,
    ),
    "causal_conv": small("lfm2", layer_types=["conv", "full_attention"]),
}
FINISH_FAILED = 4


def run(batch, drawn):
    """Steps until all have finished; ids and logits by sequence, in `drawn`."""
    problems = {}
    while batch.info.running + batch.info.waiting:
        for number, id, finish, message, logits, _ in batch.step():
            if finish == FINISH_FAILED:
                problems[number] = message
            else:
                drawn.setdefault(number, []).append((id, logits))
    return problems


def check_restored(batch, number, sampler, last):
    """A sequence that drew `last` goes on as its copy."""
    copy, drawn = batch.join(sampler()), {}
    batch.restore(copy, batch.save(number))
    check(not batch.feed(copy, [last, 11], DRAWN), "a feed failed")
    check(not batch.feed(number, [11], DRAWN), "a feed failed")
    check(not run(batch, drawn), "a sequence failed")
    check(drawn[copy] == drawn[number], "other bits after restoring")


def together(model, texts, has_states):
    """What each text draws, and what a fork of the first draws after it."""
    sampler = lambda: capi.Sampler(model, temperature=0)
    batch, drawn = capi.Batch(model, chunk=16 if has_states else 5), {}
    numbers = []
    for ids in texts[:-1]:
        numbers.append(batch.join(sampler()))
        check(not batch.feed(numbers[-1], ids, DRAWN), "a feed failed")
    check("expected 0 to" in batch.feed(batch.join(), [1 << 20], 1), "a bad id")
    run(batch, drawn)
    # Its beginning is there already.
    numbers.append(batch.join(sampler()))
    check(not batch.feed(numbers[-1], texts[-1], DRAWN), "a feed failed")
    fork = batch.fork(numbers[0], sampler())
    check(not batch.feed(fork, [5, 6], DRAWN), "a feed failed")
    check(not batch.feed(numbers[0], [7], DRAWN), "a feed failed")
    run(batch, drawn)
    check(batch.info.reused >= 16, f"{batch.info.reused} positions were reused")
    if has_states:
        check_restored(batch, numbers[1], sampler, drawn[numbers[1]][-1][0])
    batch.free()
    return [drawn[number] for number in numbers], drawn[fork]


def alone(model, feeds):
    session = capi.Session(model, 1)
    drawn, fed = [], []
    for ids in feeds:
        fed = fed + ids
        for _ in range(DRAWN):
            row = session.feed(fed, capi.LOGITS_LAST)[0]
            fed = [int(row.argmax())]
            drawn.append((fed[0], row.tobytes()))
    session.free()
    return drawn


def check_no_page(model, texts, want):
    """A pool for one long text and a short one."""
    batch, drawn = capi.Batch(model, pages=5, refuse=1), {}
    numbers = []
    for ids in (texts[0], texts[2], texts[1]):
        numbers.append(batch.join())
        check(not batch.feed(numbers[-1], ids, DRAWN), "a feed failed")
    problems = run(batch, drawn)
    check(list(problems) == [numbers[2]], f"{problems}, expected of the last alone")
    check("of the batch's 5 are free" in problems[numbers[2]], problems)
    for number, other in ((numbers[0], 0), (numbers[1], 2)):
        check(drawn[number] == want[other][:DRAWN], f"text {other} draws other ids")
    batch.free()


# With a bias the host draws, beside the device.
DRAWS = (
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "seed": 1},
    {"temperature": 0, "repetition_penalty": 1.5},
    {"temperature": 1.5, "min_p": 0.02, "repetition_penalty": 1.2, "seed": 2},
    {"temperature": 1, "top_p": 0.5, "seed": 3, "bias": {7: 4.0}},
)


def sampler_of(model, ids, bias=None, **options):
    sampler = capi.Sampler(model, **options)
    if bias:
        sampler.set_bias(bias)
    for id in ids:
        sampler.accept(id)
    return sampler


def check_draws(model, texts):
    batch, mirrors = capi.Batch(model), {}
    for ids, options in zip(texts, DRAWS):
        number = batch.join(sampler_of(model, [], **options))
        mirrors[number] = sampler_of(model, ids, **options)
        check(not batch.feed(number, ids, 2 * DRAWN), "a feed failed")
    drawn = {}
    check(not run(batch, drawn), "a sequence failed")
    for number, mirror in mirrors.items():
        check(len(drawn[number]) == 2 * DRAWN, f"{len(drawn[number])} draws")
        for id, logits in drawn[number]:
            wanted = capi.sample(model, mirror, np.frombuffer(logits, np.float32))
            check(id == wanted, f"sequence {number} drew {id}, the host {wanted}")
            mirror.accept(id)
    batch.free()
    for ids, options, number in zip(texts, DRAWS, mirrors):
        check_drafts(model, ids, options, drawn[number])


def check_drafts(model, ids, options, expected):
    """With two right ids a step, in turns with a wrong one before a right one."""
    batch, drawn = capi.Batch(model, draft_rows=3), []
    number = batch.join(sampler_of(model, [], **options))
    check(not batch.feed(number, ids, len(expected)), "a feed failed")
    while batch.info.running + batch.info.waiting:
        next = [id for id, _ in expected[len(drawn) : len(drawn) + 2]]
        if next and len(drawn) % 2 == 0:
            next[0] = (next[0] + 1) % model.vocab
        batch.propose(number, next)
        drawn += [(id, logits) for _, id, _, _, logits, _ in batch.step()]
    check(drawn == expected, f"other bits with drafts: {options}")
    check(0 < batch.info.accepted < batch.info.drafted, "right and wrong drafts")
    batch.free()


def check_hidden(gpu, cpu, texts, width, most):
    """Hidden states of several texts, beside one that draws."""
    batch, got = capi.Batch(gpu, chunk=5), {}
    for i, ids in enumerate(texts):
        number = batch.join(hidden=width)
        got[number] = b""
        check(not batch.feed(number, ids, DRAWN if i == 1 else 0), "a feed failed")
    while batch.info.running + batch.info.waiting:
        for number, _, _, _, _, hidden in batch.step():
            got[number] += hidden
    for ids, states in zip(texts, got.values()):
        of_gpu, of_cpu = (capi.Session(each, 1).forward(ids, width)[1] for each in (gpu, cpu))
        size = of_gpu.nbytes
        check(states[:size] == of_gpu.tobytes(), "other hidden states than alone")
        apart = nmse(of_cpu, of_gpu)
        check(apart <= most, f"hidden states: NMSE {apart:.2e} from the CPU")
    check(batch.info.reused == 0, "hidden states of pages that are found are missing")
    batch.free()


def check_image(gpu, cpu, ids, width, most):
    """An image of more rows than a window has, after nine ids."""
    rows = np.random.default_rng(1).normal(size=(28, width)) / 4

    def read(model, cuts, pieces):
        session, begin = capi.Session(model, 1), 0
        session.expect_prompt(len(ids) + len(rows))
        for end in cuts:
            session.feed(ids[begin:end])
            begin = end
        for piece in np.array_split(rows, pieces):
            check(not session.feed_embeddings(piece), "rows were refused")
        return session, session.feed(ids[9:], capi.LOGITS_LAST)[0]

    session, logits = read(gpu, [9], 1)
    check(logits.tobytes() == read(gpu, [2, 9], 1)[1].tobytes(), "other bits in other chunks")
    blind = nmse(logits, read(gpu, [9], 2)[1])
    apart = nmse(read(cpu, [9], 1)[1], logits)
    check(apart <= most, f"an image: NMSE {apart:.2e} from the CPU")
    check(blind > 10 * most, f"rows do not see one another: NMSE {blind:.2e}")
    batch, drawn = capi.Batch(gpu), {}
    number = batch.join(capi.Sampler(gpu, temperature=0))
    batch.restore(number, session.save())
    first = int(logits.argmax())
    check(not batch.feed(number, [first], DRAWN), "a feed failed")
    check(not run(batch, drawn), "a sequence failed")
    for id, row in drawn[number]:
        wanted = session.feed([first], capi.LOGITS_LAST)[0]
        check(row == wanted.tobytes(), "other bits after an image than in the session")
        first = id
    session.restore(batch.save(number))
    again = session.feed([first], capi.LOGITS_LAST)[0]
    check(not batch.feed(number, [], 1), "a feed failed")
    check(not run(batch, drawn), "a sequence failed")
    check(drawn[number][-1][1] == again.tobytes(), "other bits of a restored session")
    batch.free()


def check_case(tools, name, config, dtype, flags, bar):
    program = tools.scratch / f"{name}.json"
    program.write_text(json.dumps(config))
    text, reads_images = config.get("text_config", config), "text_config" in config
    flags = [f"--dtype={dtype}", f"--chunk={CHUNK}", f"--batch={ROWS}", *flags]
    artifact = tools.compile(program, *flags, "--target=cpu,cuda", out=f"{name}.cria")
    generator = np.random.default_rng(0)
    vocab, width = text["vocab_size"], text["hidden_size"]
    texts = [generator.integers(3, vocab, count).tolist() for count in (3, 21, 40)]
    texts.append(texts[2][:33] + [9, 8])
    gpu = capi.Model(tools, artifact, 1, vocab, device="emulated")
    got, fork = together(gpu, texts, name in STATES)
    for i, (ids, drawn) in enumerate(zip(texts, got)):
        want = alone(gpu, [ids] if i else [ids, [7]])
        check(drawn == want, f"{name}, text {i}: other bits than alone")
    check(fork == alone(gpu, [texts[0], [5, 6]])[DRAWN:], f"{name}: the fork's bits")
    check_no_page(gpu, texts, got)
    check_draws(gpu, texts)
    if "sliding_window" in text:
        whole = [*flags, "--target=cuda", "--window-cache=whole"]
        path = tools.compile(program, *whole, out=f"{name}-whole.cria")
        model = capi.Model(tools, path, 1, vocab, device="emulated")
        check(got[2] == alone(model, [texts[2]]), f"{name}: other bits than whole caches")
        model.free()
    cpu = capi.Model(tools, artifact, 1, vocab)
    for i, (ids, drawn) in enumerate(zip(texts, got)):
        rows = alone(cpu, [ids])
        if dtype == "f32":
            check([id for id, _ in drawn[:DRAWN]] == [id for id, _ in rows], "ids")
        first = [np.frombuffer(each[0][1], np.float32) for each in (rows, drawn)]
        apart = nmse(*first)
        what = f"{name}, text {i}: NMSE {apart:.2e} from the CPU"
        check(apart <= BARS[bar], f"{what}, expected at most {BARS[bar]:.0e}")
    check_hidden(gpu, cpu, texts, width, BARS[bar])
    if reads_images:
        check_image(gpu, cpu, texts[1], width, BARS[bar])
    gpu.free()
    cpu.free()


def main():
    tools = Tools(*sys.argv[1:3])
    states = {name: (config, "f32", [], "f32") for name, config in STATES.items()}
    groups = {"states": states, "16-bit": ["images", "cache"]}
    for name in sys.argv[3:] or CASES:
        group = groups.get(name, [name])
        for each in some(group, len(group)):
            check_case(tools, each, *(CASES | states)[each])


if __name__ == "__main__":
    main()
