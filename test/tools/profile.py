"""Checks a trace of cria-run --profile for its form, which Perfetto reads: slices nest,
are called by their modules, and the kernels of a step take about as long as the step.

    profile.py TRACE --layers=N [--floors]
"""

import argparse
import json
import re

MODULES = [
    r"model\.layers\.(\d+)\.self_attn\.qkv",
    r"model\.layers\.(\d+)\.self_attn",
    r"model\.layers\.(\d+)\.self_attn\.o_proj",
    r"model\.layers\.(\d+)\.mlp\.gate_up",
    r"model\.layers\.(\d+)\.mlp\.down_proj",
]


def end(slice):
    return slice["ts"] + slice["dur"]


def inside(outer, events, category):
    """The slices of a category in another, in order; rounding may cost some ns."""
    found = [
        e
        for e in events
        if e["cat"] == category and outer["ts"] <= e["ts"] + e["dur"] / 2 < end(outer)
    ]
    assert all(end(e) <= end(outer) + 0.01 for e in found), (outer, found[-1])
    assert all(end(a) <= b["ts"] + 0.01 for a, b in zip(found, found[1:])), outer
    return found


def check_step(step, events, layers, floors):
    """Returns the part of a step that its kernels take."""
    kernels = inside(step, events, "kernel")
    total = sum(kernel["dur"] for kernel in kernels)
    assert total <= step["dur"] + 0.01, (step, total)
    expected = [r"model\.embed_tokens", *MODULES * layers, "lm_head"]
    models = [
        kernel
        for kernel in kernels
        # The CPU also calls the kernel of hidden states, though none are wanted.
        if "bytes" in kernel["args"] and kernel["name"] != "model.norm.rmsnorm"
    ]
    numbers = []
    for pattern, kernel in zip(expected, models, strict=True):
        found = re.fullmatch(pattern, kernel["name"])
        assert found, (pattern, kernel)
        numbers += found.groups()
        args = kernel["args"]
        assert args["kernel"].endswith("_" + step["name"]), kernel
        assert args["bytes"] > 0, kernel
        assert ("floor_us" in args) == floors, kernel
        if floors:
            assert abs(args["fraction"] * kernel["dur"] - args["floor_us"]) < 1e-3
    assert numbers == [str(i) for i in range(layers) for _ in MODULES], numbers
    for kernel in kernels:
        launches = inside(kernel, events, "launch")
        assert len(launches) != 1, kernel
        if launches:
            summed = sum(launch["dur"] for launch in launches)
            assert abs(summed - kernel["dur"]) < 0.1, kernel
    return total / step["dur"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--floors", action="store_true")
    options = parser.parse_args()
    with open(options.trace) as file:
        events = json.load(file)["traceEvents"]
    for event in events:
        assert event["ph"] == "X" and event["dur"] >= 0 and event["ts"] >= 0, event
        assert {"pid", "tid", "args"} <= event.keys(), event
    steps = [event for event in events if event["cat"] == "step"]
    assert [step["name"] for step in steps] == ["prefill", "decode", "decode"], steps
    parts = [check_step(s, events, options.layers, options.floors) for s in steps]
    # Another process may have the core between a step's kernels and its end.
    assert max(parts) > 0.5, parts


main()
