"""nested.py BIN SCRATCH: checkpoints of models that read images, too.

The tensors of the text have one of several names, and so have those of adapters. All give
the same bits. Tensors of images are not read.
"""

import json
import sys

import numpy as np

import families
import weights
from harness import Tools, check, execute

IDS = [1, 5, 9, 200, 33, 7]
NESTINGS = ["model.", "language_model.model.", "model.language_model.", ""]


def shapes(tools, artifact):
    """{name: shape} of the tensors that the artifact binds."""
    inspect = execute([tools.bin / "cria-inspect", artifact, "--json"])
    for weight in json.loads(inspect.ok().text)["weights"]:
        for layer in range(max(weight["count"], 1)):
            name = weight["name"].replace("{}", str(layer))
            if name != "lm_head.weight":  # tied
                yield name, weight["shape"]


def nested(name, prefix):
    return prefix + name.removeprefix("model.")


def write_adapter(folder, prefix, width, rows):
    module = nested("model.layers.1.self_attn.q_proj", prefix)
    draw = np.random.default_rng(5)
    arrays = {
        f"base_model.model.{module}.lora_A.weight": draw.normal(size=(2, width)),
        f"base_model.model.{module}.lora_B.weight": draw.normal(size=(rows, 2)),
    }
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    weights.write_safetensors(folder / "adapter_model.safetensors", arrays, "f32")
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 2}
    config |= {"target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def main():
    tools = Tools(*sys.argv[1:3])
    config = families.COMPOSITES["gemma3"] | {"dtype": "float32"}
    folder = tools.scratch / "gemma3"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    artifact = tools.compile(folder, "--max-seq=64", "--plain", out="gemma3.cria")
    arrays = {
        name: weights.rounded(weights.values(1, name, shape), "f32")
        for name, shape in shapes(tools, artifact)
    }
    images = {"vision_tower.embeddings.weight": np.zeros((2, 3), np.float32)}
    text = config["text_config"]
    size = text["hidden_size"], text["num_attention_heads"] * text["head_dim"]
    plain, changed = [], []
    for i, prefix in enumerate(NESTINGS):
        place = tools.scratch / f"checkpoint{i}"
        place.mkdir()
        named = {nested(name, prefix): array for name, array in arrays.items()}
        file = place / "model.safetensors"
        weights.write_safetensors(file, named | images, "f32")
        write_adapter(place, prefix, *size)
        plain.append(tools.logits(artifact, IDS, f"--weights={file}"))
        lora = f"--lora={place}"
        changed.append(tools.logits(artifact, IDS, f"--weights={file}", lora))
    for results in (plain, changed):
        for prefix, got in zip(NESTINGS, results):
            check(np.array_equal(got, results[0]), f"{prefix}: other logits")
    check(not np.array_equal(plain[0], changed[0]), "the adapter changes nothing")


if __name__ == "__main__":
    main()
