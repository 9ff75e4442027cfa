#!/usr/bin/env python3
"""Times the products with experts of a CPU beside what they could take.

usage: bench_experts.py BIN [--threads=N] [--rounds=N] [--tokens=N,...] [--uneven]
                        [--torch]

The model has two layers of the shape of Qwen3-30B-A3B: bf16, hidden size 2048, and 128
experts of size 768, of which a token chooses 8. Its peer has an MLP of size 6144 instead,
by which a token multiplies as much. Both have random weights; the experts' are in a file of
2.5 GB, in which attention adds nothing to its input, so that the router prefers no expert.
With --uneven they are those of cria-bench, whose router prefers some: what attention adds
is much alike for all tokens. cria-bench measures both models in turns. The medians over the
rounds are printed:

- of decoding, the fraction of the read loop that cria-bench reports;
- of each number of tokens, the time of all kernels of the MLPs, the router's too, and
  their floor over this time. The floor is the peer's time, or that of reading the experts
  which a router without preferences would choose, whichever is longer. With --uneven the
  fraction may exceed 100 %.

--torch also times a layer's experts in transformers by PyTorch, in bf16 by grouped_mm, for
random inputs, of which the router prefers no expert, and prints how many times as long it
takes. It needs both packages.
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

LAYERS, HIDDEN, EXPERTS, CHOSEN, SIZE = 2, 2048, 128, 8, 768
SHAPE = {
    "hidden_size": HIDDEN,
    "intermediate_size": CHOSEN * SIZE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 4096,
    "max_position_embeddings": 2048,
    "dtype": "bfloat16",
}
MODELS = {
    "experts": SHAPE
    | {"model_type": "qwen3_moe", "num_experts": EXPERTS, "norm_topk_prob": True}
    | {"num_experts_per_tok": CHOSEN, "moe_intermediate_size": SIZE},
    "dense": SHAPE | {"model_type": "qwen3"},
}


def compiled(bin, folder, name):
    config, artifact = folder / f"{name}.json", folder / f"{name}.cria"
    config.write_text(json.dumps(MODELS[name]))
    subprocess.run([bin / "cria-compile", config, "-o", artifact], check=True)
    return artifact


def tensors(weights):
    """Names and shapes of the tensors that a checkpoint must have."""
    for weight in weights:
        shape, last = weight["shape"], weight["first"] + max(weight["count"], 1)
        for layer in range(weight["first"], last):
            name = weight["name"].replace("{}", str(layer), 1)
            for expert in range(weight.get("experts", 1)):
                yield name.replace("{}", str(expert)), shape


def checkpoint(bin, artifact, folder):
    """Writes weights with which attention adds nothing. Returns the folder."""
    command = [bin / "cria-inspect", "--json", artifact]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    draw, header, end = random.Random(1), {}, 0
    for name, shape in tensors(report["weights"]):
        size = 2 * math.prod(shape)
        header[name] = {
            "dtype": "BF16",
            "shape": shape,
            "data_offsets": [end, end + size],
        }
        end += size
    # In bf16 these numbers are between 2^-7 and 2^-6, or negative.
    numbers = bytearray(draw.randbytes(1 << 26))
    numbers[1::2] = bytes(0x3C | byte & 0x80 for byte in numbers[1::2])
    norm, text = struct.pack("<H", 0x3F80), json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, tensor in header.items():
            size = 2 * math.prod(tensor["shape"])
            if name.endswith("norm.weight"):
                data = norm * (size // 2)
            elif "o_proj" in name:
                data = bytes(size)
            else:
                first = 2 * draw.randrange(len(numbers) - size >> 1)
                data = numbers[first : first + size]
            file.write(data)
    return folder


def measured(bin, artifact, weights, tokens, threads):
    """cria-bench's report, and the seconds of the kernels of the MLPs by the number of
    tokens."""
    command = [bin / "cria-bench", artifact, weights, "--gen-len=16"]
    command += [f"--prompt-len={','.join(map(str, tokens))}", "--kernels", "--json"]
    command += [f"--threads={threads}"] if threads else []
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    seconds = {
        table["tokens"]: sum(
            row["seconds"] for row in table["kernels"] if "_mlp_" in row["kernel"]
        )
        for table in report["kernels"]
    }
    return report, seconds


def bytes_of(tokens):
    """The bytes of the experts that tokens are expected to choose, of all layers."""
    chosen = EXPERTS * (1 - (1 - CHOSEN / EXPERTS) ** tokens)
    return LAYERS * chosen * 3 * HIDDEN * SIZE * 2


def torch_seconds(tokens, threads):
    """Of the experts of one layer, the best of some runs."""
    import torch
    from transformers import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

    if threads:
        torch.set_num_threads(threads)
    config = Qwen3MoeConfig(**MODELS["experts"], experts_implementation="grouped_mm")
    torch.manual_seed(1)
    block = Qwen3MoeSparseMoeBlock(config).to(torch.bfloat16)
    for weight in block.parameters():
        torch.nn.init.normal_(weight, std=0.02)
    result = {}
    with torch.inference_mode():
        for count in tokens:
            x, times = torch.randn(1, count, HIDDEN, dtype=torch.bfloat16), []
            for _ in range(6):
                begin = time.perf_counter()
                block(x)
                times.append(time.perf_counter() - begin)
            result[count] = min(times)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", default="16,64,512")
    parser.add_argument("--uneven", action="store_true")
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    prompts = [int(count) for count in options.tokens.split(",")]
    decode, fractions, ours = [], {n: [] for n in prompts}, {n: [] for n in [1, *prompts]}
    with tempfile.TemporaryDirectory() as folder:
        folder, random_weights = pathlib.Path(folder), "--random-weights=1"
        artifacts = {name: compiled(options.bin, folder, name) for name in MODELS}
        weights = dict.fromkeys(MODELS, random_weights)
        if not options.uneven:
            made = checkpoint(options.bin, artifacts["experts"], folder)
            weights["experts"] = f"--weights={made}"
        for _ in range(options.rounds):
            (report, experts), (_, dense) = (
                measured(options.bin, artifact, weights[name], prompts, options.threads)
                for name, artifact in artifacts.items()
            )
            decode.append(report["decode"][0]["fraction"])
            for count in prompts:
                reading = bytes_of(count) / report["read_bytes_per_second"]
                fractions[count].append(max(reading, dense[count]) / experts[count])
            for count, times in ours.items():
                times.append(experts[count] / LAYERS)
    theirs = torch_seconds(ours, options.threads) if options.torch else {}
    print(f"decode: {statistics.median(decode):.0%} of the read loop")
    for count, times in ours.items():
        seconds = statistics.median(times)
        line = f"{count} tokens: {seconds * 1e3:.2f} ms a layer"
        if count > 1:
            line += f", {statistics.median(fractions[count]):.0%} of the floor"
        if theirs:
            line += f"; transformers {theirs[count] / seconds:.1f} times as long"
        print(line)


if __name__ == "__main__":
    sys.exit(main())
