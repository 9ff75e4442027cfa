"""nested.py BIN SCRATCH: checkpoints whose tensors have one of several names.

The text of a model that reads images, too, and its adapters; experts in many tensors, and
those of a layer in one. All give the same bits. Tensors of images are not read.
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
            name = weight["name"].replace("{}", str(weight["first"] + layer), 1)
            for expert in range(max(weight.get("experts", 0), 1)):
                if name != "lm_head.weight":  # tied
                    yield name.replace("{}", str(expert)), weight["shape"]


def compiled(tools, name, config):
    """The artifact of a config, and a random array for each tensor's name."""
    folder = tools.scratch / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
    artifact = tools.compile(folder, "--max-seq=64", "--plain", out=f"{name}.cria")
    return artifact, {
        name: weights.rounded(weights.values(1, name, shape), "f32")
        for name, shape in shapes(tools, artifact)
    }


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


def joined(arrays):
    """The experts of each layer in one tensor, the rows of gate before those of up."""
    experts, others = {}, {}
    for name, array in arrays.items():
        layer, _, rest = name.partition("experts.")
        if rest:
            number, module, _ = rest.split(".")
            experts.setdefault(layer, {}).setdefault(module, {})[int(number)] = array
        else:
            others[name] = array
    for layer, modules in experts.items():
        gate, up, down = (
            np.stack([modules[f"{name}_proj"][i] for i in range(len(modules["up_proj"]))])
            for name in ("gate", "up", "down")
        )
        others[f"{layer}experts.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        others[f"{layer}experts.down_proj"] = down
    return others


def check_experts(tools):
    config = families.FAMILIES["qwen3_5_moe_text"] | {"tie_word_embeddings": True}
    artifact, arrays = compiled(tools, "qwen3_5_moe", config)
    results = []
    for name, tensors in ("many", arrays), ("one", joined(arrays)):
        file = tools.scratch / f"{name}.safetensors"
        weights.write_safetensors(file, tensors, "f32")
        results.append(tools.logits(artifact, IDS[:3] + IDS[4:], f"--weights={file}"))
    check(len(joined(arrays)) < len(arrays) - 8, "the experts are in few tensors")
    check(np.array_equal(*results), "experts in one tensor give other logits")


def check_nestings(tools):
    config = families.COMPOSITES["gemma3"]
    artifact, arrays = compiled(tools, "gemma3", config)
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


def main():
    tools = Tools(*sys.argv[1:3])
    check_nestings(tools)
    check_experts(tools)


if __name__ == "__main__":
    main()
