#!/usr/bin/env python3
"""Checks and times compiled models on a CUDA device, beside transformers.

usage: bench_cuda.py OUT.cria CHECKPOINT [--device=cuda|emulated] [--bin=DIR]
                     [--prompt-len=512] [--gen-len=64] [--no-torch]

Correct first: the logits of a prompt, and greedy ids after it, against Hugging
Face transformers in float32 on the CPU (CHECKPOINT is a folder with config.json
and safetensors). Then one table: tokens a second of Cria, of PyTorch eager and
of torch.compile with a static cache and CUDA graphs. Needs torch and
transformers; of Cria only the runtime and its tools. The device decides what is
measured: `emulated` checks, and times nothing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import transformers

# Of the squared error in the squared reference, by storage type.
BARS = {"float32": 1e-8, "bfloat16": 2e-3, "float16": 1e-4}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact")
    parser.add_argument("checkpoint")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--bin", default="build/bin", type=pathlib.Path)
    parser.add_argument("--prompt-len", default=512, type=int)
    parser.add_argument("--gen-len", default=64, type=int)
    parser.add_argument("--no-torch", action="store_true")
    return parser.parse_args()


def prompt_ids(model, length):
    generator = numpy.random.default_rng(1)
    return generator.integers(3, model.config.vocab_size, length).tolist()


def run_cria(args, ids, logits):
    command = [
        args.bin / "cria-run", args.artifact, f"--weights={args.checkpoint}",
        f"--device={args.device}", "--ids=" + ",".join(map(str, ids)),
        "--temperature=0", "--max-tokens=16", f"--logits={logits}", "--print-ids",
    ]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        sys.exit(f"cria-run: {done.stderr}")
    return [int(word) for word in done.stdout.split(",")]


def check(args, model):
    """Prints the error and the number of equal ids; exits where it is too big."""
    ids = prompt_ids(model, min(64, args.prompt_len))
    reference = model.float()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = pathlib.Path(folder, "logits.npy")
        found_ids = run_cria(args, ids, path)
        found = numpy.load(path).astype(numpy.float64)
        wanted = reference(torch.tensor([ids])).logits[0].double().numpy()
        wanted_ids = reference.generate(
            torch.tensor([ids]), do_sample=False, max_new_tokens=16
        )[0, len(ids):].tolist()
    error = ((found - wanted) ** 2).sum() / (wanted**2).sum()
    equal = sum(a == b for a, b in zip(found_ids, wanted_ids))
    print(f"logits against float32: NMSE {error:.2e}; {equal} of {len(wanted_ids)} greedy ids equal")
    stored = str(model.config.dtype or torch.float32).removeprefix("torch.")
    if not error < BARS[stored]:
        sys.exit(f"the error is above {BARS[stored]:g}")


def bench_cria(args):
    command = [
        args.bin / "cria-bench", args.artifact, f"--weights={args.checkpoint}",
        f"--device={args.device}", f"--prompt-len={args.prompt_len}",
        f"--gen-len={args.gen_len}", "--depth=0,512", "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cria-bench: {done.stderr}")
    report = json.loads(done.stdout)
    decode = [row["tokens_per_second"] for row in report["decode"]]
    return report["prefill"]["tokens_per_second"], decode[-1]


def seconds(run, repetitions=5):
    """The median, after two turns to warm up."""
    times = []
    for _ in range(repetitions + 2):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return float(numpy.median(times[2:]))


def bench_torch(args, model, compiled):
    model = model.to("cuda", model.config.dtype)
    ids = torch.tensor([prompt_ids(model, args.prompt_len)], device="cuda")
    options = {"cache_implementation": "static"} if compiled else {}
    if compiled:
        model.forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)

    def generate(tokens):
        return model.generate(
            ids, do_sample=False, min_new_tokens=tokens, max_new_tokens=tokens, **options
        )

    with torch.no_grad():
        first = seconds(lambda: generate(1))
        all_tokens = seconds(lambda: generate(args.gen_len + 1))
    return args.prompt_len / first, args.gen_len / (all_tokens - first)


def main():
    args = parse()
    load = transformers.AutoModelForCausalLM.from_pretrained
    check(args, load(args.checkpoint))
    if args.device == "emulated":
        return
    rows = [("Cria", bench_cria(args))]
    if not args.no_torch:
        for name, compiled in (("PyTorch eager", False), ("torch.compile, static cache", True)):
            rows.append((name, bench_torch(args, load(args.checkpoint), compiled)))
    print(f"{torch.cuda.get_device_name()}; prompt of {args.prompt_len}, decode after it")
    for name, (prefill, decode) in rows:
        print(f"{name:28} prefill {prefill:10.0f} tokens/s   decode {decode:8.1f} tokens/s")


if __name__ == "__main__":
    main()
