"""checkpoint.py BIN SCRATCH: a checkpoint on disk gives the results of its seed.

The weights of a seed are written as one file, as shards with tensors at odd addresses,
and in a wider type. All give the bits of --random-weights. A model of a wider type that
reads them gives transformers' f32 logits. Shards, names and ties are read as transformers
reads them.
"""

import json
import sys

import numpy as np

import weights
from harness import Golden, Tools, check, check_close
from lora import shapes_of


def write_sharded(folder, arrays, dtype):
    """Every third tensor to each of three files, and their index."""
    folder.mkdir()
    names, where = list(arrays), {}
    for part in range(3):
        file = f"model-{part + 1:05}-of-00003.safetensors"
        own = {name: arrays[name] for name in names[part::3]}
        weights.write_safetensors(folder / file, own, dtype)
        where |= {name: file for name in own}
    index = {"metadata": {}, "weight_map": where}
    text = json.dumps(index)
    (folder / "model.safetensors.index.json").write_text(text)


def write_single(folder, arrays, dtype):
    folder.mkdir()
    weights.write_safetensors(folder / "model.safetensors", arrays, dtype)


def check_model(tools, name, dtypes):
    golden = Golden(name)
    artifact = tools.compile(golden.config)
    ids, seed = golden.ids[:33], golden.seed
    expected = tools.logits(artifact, ids, f"--random-weights={seed}")
    config = json.loads(golden.config.read_text())
    arrays = weights.llama_weights(config, seed, dtypes[0])
    for dtype in dtypes:
        for write in [write_single, write_sharded]:
            folder = tools.scratch / f"{name}-{dtype}-{write.__name__}"
            write(folder, arrays, dtype)
            got = tools.logits(artifact, ids, f"--weights={folder}")
            check(np.array_equal(expected, got), f"{folder.name}: other logits")


def check_widened(tools, name, dtype):
    """A checkpoint of 16-bit weights, computed in f32."""
    golden = Golden(name)
    config = json.loads(golden.config.read_text())
    folder = tools.scratch / f"{name}-widened"
    arrays = weights.llama_weights(config, golden.seed, dtype)
    write_single(folder, arrays, dtype)
    artifact = tools.compile(golden.config, "--dtype=f32")
    got = tools.logits(artifact, golden.ids, f"--weights={folder}")
    check_close(golden.exact, got[golden.rows], f"{name} in f32")


def check_other_head(tools, name):
    """If a tied head differs from the embedding in the file, the head is used."""
    golden = Golden(name)
    config = json.loads(golden.config.read_text())
    arrays = weights.llama_weights(config, golden.seed, "f32")
    arrays["lm_head.weight"] = -arrays["model.embed_tokens.weight"]
    folder = tools.scratch / f"{name}-own-head"
    write_single(folder, arrays, "f32")
    apart = folder / "config.json"
    apart.write_text(json.dumps(config | {"tie_word_embeddings": False}))
    both = [
        tools.compile(c, "--target=cpu,cuda", out=f"{name}-{i}.cria")
        for i, c in enumerate([golden.config, apart])
    ]
    for device in ("cpu", "emulated"):
        flags = [f"--weights={folder}", f"--device={device}"]
        runs = [tools.logits(file, golden.ids[:9], *flags) for file in both]
        same = np.array_equal(runs[0], runs[1])
        check(same, f"{name} on {device}: the head is not the checkpoint's")
    run = tools.run(both[0], "--ids=1", "--max-tokens=1", *flags)
    check("'lm_head.weight' differs from" in run.errors, run)


def check_other_names(tools, name):
    """Names as transformers' base models have them, or nested once more, and a tied
    model's head without its embedding."""
    golden = Golden(name)
    config = json.loads(golden.config.read_text())
    arrays = weights.llama_weights(config, golden.seed, "f16")
    base = {key.removeprefix("model."): array for key, array in arrays.items()}
    head = dict(arrays)
    head["lm_head.weight"] = head.pop("model.embed_tokens.weight")
    nested = {"model." + key.removeprefix("model."): head[key] for key in head}
    artifact = tools.compile(golden.config)
    ids = golden.ids[:9]
    expected = tools.logits(artifact, ids, f"--random-weights={golden.seed}")
    for i, names in enumerate([base, head, nested]):
        folder = tools.scratch / f"{name}-names{i}"
        write_single(folder, names, "f16")
        run = tools.run(artifact, f"--weights={folder}", "--ids=1", "--max-tokens=1")
        check("not used" not in run.ok().errors, run)
        got = tools.logits(artifact, ids, f"--weights={folder}")
        check(np.array_equal(expected, got), f"{folder.name}: other logits")


def check_own_names(tools, name):
    """Names of GPT-2 as its repository has them, beside what its config determines."""
    golden = Golden(name)
    artifact = tools.compile(golden.config)
    arrays = {
        key.removeprefix("transformer."): weights.values(golden.seed, key, shape)
        for key, shape in shapes_of(tools, artifact).items()
    }
    masks = {"bias": np.tri(512)[None, None], "masked_bias": np.array([-1e4])}
    arrays |= {f"h.0.attn.{key}": array for key, array in masks.items()}
    folder = tools.scratch / f"{name}-names"
    write_single(folder, arrays, "f32")
    run = tools.run(artifact, f"--weights={folder}", "--ids=1", "--max-tokens=1")
    derived = "2 tensors are not used (derived from the config): 'h.0.attn.bias'; 'h."
    check(derived in run.ok().errors and run.errors.count("not used") == 1, run)
    ids = golden.ids[:9]
    got = tools.logits(artifact, ids, f"--weights={folder}")
    expected = tools.logits(artifact, ids, f"--random-weights={golden.seed}")
    check(np.array_equal(expected, got), f"{folder.name}: other logits")


def check_deeper(tools, name):
    """A checkpoint with one more layer is refused unless the user allows it."""
    golden = Golden(name)
    artifact = tools.compile(golden.config)
    config = json.loads(golden.config.read_text())
    layers = config["num_hidden_layers"]
    more = config | {"num_hidden_layers": layers + 1}
    folder = tools.scratch / f"{name}-deeper"
    write_single(folder, weights.llama_weights(more, golden.seed, "f32"), "f32")
    flags = [f"--weights={folder}", "--ids=1", "--max-tokens=1"]
    run = tools.run(artifact, *flags)
    check(run.status == 1 and f"'model.layers.{layers}'" in run.errors, run)
    ids = golden.ids[:9]
    got = tools.logits(artifact, ids, flags[0], "--allow-unused")
    expected = tools.logits(artifact, ids, f"--random-weights={golden.seed}")
    check(np.array_equal(expected, got), f"{folder.name}: other logits")


def main():
    tools = Tools(*sys.argv[1:])
    # The first type is the model's; the others hold its values exactly.
    check_model(tools, "f32-odd", ["f32"])
    check_model(tools, "bf16-odd", ["bf16", "f32"])
    check_model(tools, "f16-odd-tied", ["f16", "f32"])
    check_widened(tools, "bf16-llama3-rope-tied", "bf16")
    check_widened(tools, "f16-grouped", "f16")
    check_other_head(tools, "f32-grouped-tied")
    check_other_names(tools, "f16-odd-tied")
    check_own_names(tools, "f32-gpt2")
    check_deeper(tools, "f32-odd")


main()
