"""torch_tasks.py OPTIONS TASK MODEL: tasks that need PyTorch and transformers. Without
a GPU they run on the CPU as a rehearsal, with small models and without graphs."""

import contextlib
import json
import pathlib
import sys
import tempfile
import time

import torch
import transformers

from tasks import (
    BARS, DEPTHS, DEVICE, FOLDER, GPU, LENGTHS, artifact_of, ids_and_logits, model_named, nmse,
    prompt, row,
)

WHERE = "cuda" if GPU else "cpu"
STEPS = 32 if GPU else 2


def synchronize():
    if GPU:
        torch.cuda.synchronize()


def median(values):
    return sorted(values)[len(values) // 2]


def clock(run, turns=5, warm=2):
    """Median seconds of a call, by the host."""
    times = []
    for _ in range(warm + turns):
        synchronize()
        begin = time.perf_counter()
        run()
        synchronize()
        times.append(time.perf_counter() - begin)
    return median(times[warm:])


def graph_of(run):
    """`run` as a CUDA graph. None without a GPU, or if `run` waits for the host."""
    if not GPU:
        return None
    try:
        return captured(run)
    except RuntimeError as error:
        row("failed", said=f"no graph: {str(error)[:200]}")
        return None


def captured(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def device_seconds(run, count, turns=5):
    """Median seconds of one of `count` calls that follow each other on the
    device, by events."""
    times = []
    for _ in range(turns + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / count)
    return median(times[1:])


def config_of(name):
    return transformers.AutoConfig.from_pretrained(FOLDER / model_named(name)["config"])


def build(name, dtype=torch.bfloat16):
    """A model with random weights, made on the device that runs it."""
    torch.manual_seed(1)
    with torch.device(WHERE):
        model = transformers.AutoModelForCausalLM.from_config(config_of(name), dtype=dtype)
    return model.to(WHERE).eval()


def ids_of(model, length):
    return torch.tensor([prompt(model.config.vocab_size, length)], device=WHERE)


def check(name):
    """Makes a checkpoint, and compares Cria's logits and ids with those of transformers
    in float32. Also measures how far transformers' own in bfloat16 are from float32."""
    model = build(name)
    ids = prompt(model.config.vocab_size, 48 if GPU else 6)
    count = 16 if GPU else 2
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        pathlib.Path(folder, "generation_config.json").unlink(missing_ok=True)
        given = torch.tensor([ids], device=WHERE)
        own = model(given).logits[0].float().cpu().numpy()
        model = model.float()
        wanted = model(given).logits[0].cpu().numpy()
        wanted_ids = []
        for _ in range(count):
            wanted_ids.append(int(model(given).logits[0, -1].argmax()))
            given = torch.cat([given, given.new_tensor([wanted_ids[-1:]])], 1)
        got_ids, got = ids_and_logits(
            artifact_of(name), DEVICE, ids, count, f"--weights={folder}"
        )
    error, peer = nmse(wanted, got), nmse(wanted, own)
    row("beside transformers", error <= BARS["bf16"], model=name, NMSE=error, at_most=BARS["bf16"],
        PyTorch_bf16=peer, equal_ids=f"{sum(map(int.__eq__, got_ids, wanted_ids))} of {count}")


def copy_rate():
    size = (4 << 30) if GPU else (16 << 20)
    source = torch.empty(size, dtype=torch.uint8, device=WHERE).random_()
    target = torch.empty_like(source)
    run = lambda: target.copy_(source)
    seconds = device_seconds(run, 5) if GPU else clock(run)
    row("rates", what="copy, read and written", rate=2 * size / seconds / 1e12, unit="TB/s")


def products(config):
    """{name: (outputs, inputs)} of a layer's matmuls, fused as Cria fuses them,
    and of the head."""
    hidden, inner = config.hidden_size, config.intermediate_size
    head = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    return {
        "qkv": ((heads + 2 * groups) * head, hidden),
        "out": (hidden, heads * head),
        "gate_up": (2 * inner, hidden),
        "down": (hidden, inner),
        "head": (config.vocab_size, hidden),
    }


def cublas(name):
    """Each product on random numbers, from weights that no cache holds."""
    if not name.startswith("llama-3.1"):  # once
        copy_rate()
    for what, (outputs, inputs) in products(config_of(name)).items():
        copies = max(1, (256 << 20) // (2 * outputs * inputs)) if GPU else 1
        shape = (copies, outputs, inputs)
        weights = torch.randn(shape, device=WHERE, dtype=torch.bfloat16).unbind()
        for tokens in [1, *LENGTHS]:
            if what == "head" and tokens > 1:
                continue
            x = torch.randn(tokens, inputs, device=WHERE, dtype=torch.bfloat16)
            run = lambda: [torch.nn.functional.linear(x, weight) for weight in weights]
            graph = graph_of(run)
            seconds = (device_seconds(graph.replay, 3) if graph else clock(run)) / copies
            row("cuBLAS", model=name, product=what, tokens=tokens, us=seconds * 1e6,
                TFLOPs=2e-12 * tokens * outputs * inputs / seconds,
                TBs=2e-12 * outputs * inputs / seconds)


def speed_row(name, call, system, tokens, seconds, device):
    row("speed", model=name, call=call, system=system, clock_ms=seconds * 1e3,
        tokens_a_second=tokens / seconds, device_ms=device * 1e3 if device else None)


class StaticDecode:
    """A greedy decode step without arguments or results: a graph can hold it."""

    def __init__(self, model, forward, depth):
        self.forward, self.depth = forward, depth
        room = depth + 64
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=room)
        model(ids_of(model, max(depth, 1)), past_key_values=self.cache, logits_to_keep=1)
        self.ids = ids_of(model, 1)
        self.rewind()

    def rewind(self):
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.depth)

    def step(self):
        logits = self.forward(self.ids, past_key_values=self.cache, logits_to_keep=1).logits
        self.ids.copy_(logits[:, -1:].argmax(-1))


def decode_clock(run, ids, rewind):
    """Median seconds of a step whose id the host waits for."""
    times = []
    rewind()
    for _ in range(STEPS):
        begin = time.perf_counter()
        run()
        ids.item()
        times.append(time.perf_counter() - begin)
    return median(times)


def eager_decode(model, name, depth):
    """Times decoding by the host's clock as generate() does it, with a cache that grows;
    and on the device the same kernels with a static cache, in a graph."""
    cache = transformers.DynamicCache(config=model.config)
    if depth:
        model(ids_of(model, depth), past_key_values=cache, logits_to_keep=1)
    ids = ids_of(model, 1)

    def step():
        logits = model(ids, past_key_values=cache, logits_to_keep=1).logits
        ids.copy_(logits[:, -1:].argmax(-1))

    seconds = decode_clock(step, ids, lambda: None)
    del cache
    device = None
    if GPU:
        static = StaticDecode(model, model.forward, depth)
        graph = graph_of(static.step)
        static.rewind()
        device = device_seconds(graph.replay, 8, turns=3) if graph else None
    speed_row(name, f"decode at {depth}", "PyTorch eager", 1, seconds, device)


def compiled_decode(model, name, depth):
    torch._dynamo.reset()
    forward = torch.compile(model.forward, fullgraph=True, dynamic=False)
    static = StaticDecode(model, forward, depth)
    for _ in range(3):  # the second may compile again
        static.step()
    static.rewind()
    graph = graph_of(static.step)
    run = graph.replay if graph else static.step
    seconds = decode_clock(run, static.ids, static.rewind)
    static.rewind()
    device = device_seconds(run, 8, turns=3) if GPU else None
    speed_row(name, f"decode at {depth}", "torch.compile", 1, seconds, device)


def prefill(model, name, tokens, compiled):
    """Times a prompt with a static cache, and the id after it."""
    forward = model.forward
    if compiled:
        torch._dynamo.reset()
        forward = torch.compile(model.forward, fullgraph=True, dynamic=False)
    cache = transformers.StaticCache(config=model.config, max_cache_len=tokens)
    ids, following = ids_of(model, tokens), ids_of(model, 1)
    model(ids, past_key_values=cache, logits_to_keep=1)

    def step():
        for layer in cache.layers:
            layer.cumulative_length.zero_()
        logits = forward(ids, past_key_values=cache, logits_to_keep=1).logits
        following.copy_(logits[:, -1:].argmax(-1))

    step()
    graph = graph_of(step)
    seconds = clock(graph.replay if compiled and graph else step, 5 if GPU else 1)
    device = device_seconds(graph.replay, 2, turns=3) if graph else None
    system = "torch.compile" if compiled else "PyTorch eager"
    speed_row(name, f"prefill of {tokens}", system, tokens, seconds, device)


def run(name, calls):
    """Each of `calls` for a model; one that fails becomes a row."""
    model = build(name)
    for call, *arguments in calls:
        try:
            call(model, name, *arguments)
        except Exception as error:
            what = f"{call.__name__} of {arguments[0]}"
            row("failed", model=name, call=what, said=f"{type(error).__name__}: {str(error)[:200]}")
        with contextlib.suppress(RuntimeError):
            torch.cuda.empty_cache()


def eager(name):
    run(name, [(eager_decode, DEPTHS[0]), *((prefill, n, False) for n in LENGTHS),
               *((eager_decode, depth) for depth in DEPTHS[1:])])


def main():
    task, name = sys.argv[2:]
    with torch.no_grad():
        if task == "compile-decode":
            run(name, [(compiled_decode, DEPTHS[0])])
        elif task == "compile-prefill":
            run(name, [(prefill, LENGTHS[0], True)])
        else:
            {"check": check, "cublas": cublas, "eager": eager}[task](name)


main()
