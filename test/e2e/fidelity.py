#!/usr/bin/env python3
"""fidelity.py BIN [NAME...]: every family, type and rope against transformers.

With --experts, of mixtures of experts: how often bf16 chooses other experts than f32.

transformers saves a random model. The tools run these files on the CPU or, with
--device=emulated, on the emulated GPU. Compared are the logits of prompts of 40 and of
300 tokens, and 64 greedy ids of generation with a cache. Prints the rows of a table in
docs/fidelity.md. Exits with 1 if a bar of harness.py is missed.

Needs torch and transformers, the versions make_goldens.py names.
"""

import argparse
import json
import sys
import tempfile
import unittest.mock

import numpy as np
import safetensors.torch
import torch
import transformers

import cases
import families
from harness import Tools, divergence, execute, nmse

LENGTHS = [40, 300]
GREEDY = 64
SEED = 3
MIXED = 4800  # tokens of more prompts for mixtures of experts and for matrices
EXPERTS = ["moe_num_experts", "n_routed_experts", "num_experts", "num_local_experts"]
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def models():
    """{name: (family, rope, config)}."""
    every = {}
    for name, config in families.FAMILIES.items():
        every[name] = (name, "default", config)
    for name, config in families.COMPOSITES.items():
        every[name] = (name, "default", config)
    base = families.FAMILIES["llama"]
    for kind in families.ROPES:
        if kind == "default":
            continue
        scaling = families.rope(kind) | {"rope_theta": 10000.0}
        config = base | {"rope_parameters": scaling}
        if kind == "dynamic":
            config |= {"max_position_embeddings": families.ORIGINAL}
        every[f"llama-{kind}"] = ("llama", kind, config)
    phi3 = families.FAMILIES["phi3"] | {
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0 + 0.1 * i for i in range(6)],
            "long_factor": [1.0 + 1.1 * i for i in range(6)],
        },
        "original_max_position_embeddings": families.ORIGINAL,
        "sliding_window": None,
    }
    every["phi3-longrope"] = ("phi3", "longrope", phi3)
    for name, kind in (("qwen3", "yarn"), ("smollm3", "llama3")):
        config = families.FAMILIES[name] | {"rope_scaling": families.rope(kind)}
        every[f"{name}-{kind}"] = (name, kind, config)
    return every


def loader(config):
    """The class of models with a head; some of them read images, too."""
    if "text_config" in config:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM


def save(config, folder):
    """Writes a checkpoint of weights that make attention and gates matter, as
    transformers saves it: config.json in its own words, beside safetensors."""
    made = transformers.AutoConfig.for_model(**families.in_own_names(config))
    model = loader(config).from_config(made)
    generator = torch.Generator().manual_seed(SEED)
    for name, tensor in model.state_dict().items():
        drawn = torch.randn(tensor.shape, generator=generator)
        if tensor.ndim == 1 and name.endswith(".weight"):
            drawn = tensor.float() + 0.2 * drawn
        else:
            drawn *= 2.0 * tensor.shape[-1] ** -0.5
        tensor.copy_(drawn)
    model.to(getattr(torch, config["dtype"])).save_pretrained(folder)


def peer(folder, dtype):
    """The transformers model in `dtype`."""
    config = json.loads((folder / "config.json").read_text())
    return loader(config).from_pretrained(
        folder, dtype=TORCH[dtype], attn_implementation="eager"
    ).eval()


def logits_of(model, ids):
    with torch.no_grad():
        out = model(torch.tensor([ids]), use_cache=False).logits[0]
    return out.float().numpy()


def greedy_of(model, ids):
    with torch.no_grad():
        out = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=GREEDY,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    return out[0, len(ids) :].tolist()


def ratio_of(tools, artifact, prompts, folder, dtype, flags):
    """Our mean divergence from f32, divided by that of transformers."""
    exact, stored = peer(folder, "f32"), peer(folder, dtype)
    ours, theirs = 0, 0
    for prompt in prompts:
        truth = logits_of(exact, prompt)
        ours += divergence(truth, tools.logits(artifact, prompt, *flags))
        theirs += divergence(truth, logits_of(stored, prompt))
    return ours / theirs


def is_mixture(folder):
    saved = json.loads((folder / "config.json").read_text())
    return any(saved.get(key) for key in EXPERTS)


def has_matrices(folder):
    """Whether heads have a matrix that each token updates."""
    saved = json.loads((folder / "config.json").read_text())
    keys = ("linear_num_key_heads", "mamba_n_heads", "mamba_num_heads")
    return any(key in saved.get("text_config", saved) for key in keys)


def experts_of(model, ids, layers):
    """The experts that transformers chooses: (layers, tokens, k), in order of number."""
    chosen, topk = [], torch.topk
    config = model.config.get_text_config()
    count = next(getattr(config, key) for key in EXPERTS if getattr(config, key, None))

    def recorded(scores, k, *others, **named):
        best = topk(scores, k, *others, **named)
        if scores.shape[-1] == count:  # else groups of experts
            chosen.append(best.indices.reshape(len(ids), k).sort().values.numpy())
        return best

    patch = unittest.mock.patch
    with patch("torch.topk", recorded), patch("torch.Tensor.topk", recorded):
        logits_of(model, ids)
    # Of a single group, the best experts are asked for before the chosen ones.
    step = len(chosen) // layers
    return np.stack(chosen[step - 1 :: step])


def own_experts(tools, artifact, ids, *flags):
    """The same of an artifact with taps."""
    dump = tools.scratch / "taps.safetensors"
    text = ",".join(map(str, ids))
    command = [tools.bin / "cria-bisect", artifact, f"--ids={text}", f"--dump={dump}"]
    execute([*command, *flags]).ok()
    made = safetensors.torch.load_file(dump)
    inspected = execute([tools.bin / "cria-inspect", artifact, "--json"]).ok().text
    chosen = {}
    for kernel in json.loads(inspected)["taps"]["kernels"]:
        for number, result in enumerate(kernel["results"]):
            if kernel["entry"] != "prefill" or not result.get("integers"):
                continue
            name, module = kernel["kernel"].replace("_prefill", ""), kernel["modules"][-1]
            for turn in range(kernel["turns"]):
                layer = module.get("first", 0) + module.get("step", 0) * turn
                chosen[layer] = made[f"{name}.{number}@{turn}"].int().numpy()
    return np.sort(np.stack([chosen[layer] for layer in sorted(chosen)]))


def compare_experts(tools, name, entry, device):
    """A row of the table of experts, or nothing if the model has none."""
    folder = tools.scratch / f"{name}-experts"
    folder.mkdir()
    save(entry[2] | {"dtype": "bfloat16"}, folder)
    if not is_mixture(folder):
        return None
    exact, stored = peer(folder, "f32"), peer(folder, "bf16")
    target = "--target=cpu" if device == "cpu" else "--target=cuda"
    artifact = tools.compile(
        folder / "config.json", "--max-seq=512", "--taps", target, out=f"{name}-experts.cria"
    )
    flags = [f"--weights={folder}", f"--device={device}"]
    rng = np.random.default_rng(SEED)
    ours, theirs = [], []
    for prompt in rng.integers(3, entry[2]["vocab_size"], (MIXED // 300, 300)).tolist():
        own = own_experts(tools, artifact, prompt, *flags)
        truth = experts_of(exact, prompt, len(own))
        ours.append((own != truth).any(-1))
        theirs.append((experts_of(stored, prompt, len(own)) != truth).any(-1))
    share = [100 * np.mean(each) for each in (theirs, ours)]
    cells = [name, f"{truth.shape[-1]}", f"{len(truth)}", *(f"{each:.2f} %" for each in share)]
    return "| " + " | ".join(cells) + " |", share[1] <= 1.25 * share[0]


def compare(tools, name, entry, dtype, device):
    """Rows of the table: one for each length."""
    family, rope, config = entry
    folder = tools.scratch / f"{name}-{dtype}"
    folder.mkdir()
    config = config | {"dtype": cases.DTYPES[dtype]}
    save(config, folder)
    target = "--target=cpu" if device == "cpu" else "--target=cuda"
    artifact = tools.compile(
        folder / "config.json", "--max-seq=512", target, out=f"{name}-{dtype}.cria"
    )
    flags = [f"--weights={folder}", f"--device={device}"]
    rng = np.random.default_rng(SEED)
    text = config.get("text_config", config)
    ids = rng.integers(3, text["vocab_size"], max(LENGTHS)).tolist()
    rows = []
    for length in LENGTHS:
        prompt = ids[:length]
        exact = logits_of(peer(folder, "f32"), prompt)
        got = tools.logits(artifact, prompt, *flags)
        row = {"name": name, "family": family, "rope": rope, "dtype": dtype}
        row |= {"length": length, "delta": np.abs(exact - got).max()}
        row |= {"nmse": nmse(exact, got), "spread": exact.std()}
        if dtype == "f32":
            ours = tools.greedy(artifact, prompt, GREEDY, *flags)
            theirs = greedy_of(peer(folder, "f32"), prompt)
            same = [a == b for a, b in zip(ours, theirs)] + [False]
            row["greedy"] = same.index(False)
            row["good"] = row["delta"] <= 1e-3 and row["nmse"] <= 1e-8
            row["good"] &= row["greedy"] == GREEDY
        else:
            # Where scores of experts nearly tie, a rounding chooses other experts: a few
            # such tokens are more than all others of a prompt. What a state rounds once
            # stays for the rest of a prompt.
            prompts = [prompt]
            if is_mixture(folder) or has_matrices(folder):
                shape = (MIXED // length, length)
                more = rng.integers(3, text["vocab_size"], shape)
                prompts += more.tolist()
            row["ratio"] = ratio_of(tools, artifact, prompts, folder, dtype, flags)
            row["good"] = row["ratio"] <= 1.25
        rows.append(row)
    return rows


def line(row):
    """A row of the table of docs/fidelity.md."""
    cells = [row["name"], row["rope"], row["dtype"], str(row["length"])]
    if row["dtype"] == "f32":
        cells += [f"{row['delta']:.1e}", f"{row['nmse']:.1e}", ""]
        cells.append(f"{row['greedy']} of {GREEDY}")
    else:
        cells += ["", "", f"{row['ratio']:.2f}", ""]
    return "| " + " | ".join(cells) + (" |" if row["good"] else " | MISSED |")


def main():
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("bin")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--experts", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_intermixed_args()
    every = models()
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        tools = Tools(options.bin, scratch)
        for name in options.names or list(every):
            if options.experts:
                row = compare_experts(tools, name, every[name], options.device)
                if row:
                    print(row[0], flush=True)
                    good = good and row[1]
                continue
            for dtype in ("f32", "bf16"):
                for row in compare(tools, name, every[name], dtype, options.device):
                    print(line(row), flush=True)
                    good = good and row["good"]
    sys.exit(not good)


if __name__ == "__main__":
    main()
