"""towers.py BIN SCRATCH DEVICE: vision towers and projectors against transformers.

A tower reads the patches of an image as rows and returns a row for each of them; a
projector makes rows of a text's embeddings of these. Rows meet the bar; make_towers.py made
what transformers says. Checkpoints have the names of the hub, and those that transformers 5
writes.
"""

import json
import sys

import numpy as np

import weights
from capi import Model
from harness import HERE, Tools, check, execute, nmse, some

SEED = 11
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 18,  # 4 patches a side, and pixels that fill none
    "patch_size": 4,
}
DINO = {**SMALL, "mlp_ratio": 2, "image_size": 12}
TOWERS = {
    "clip": {
        **SMALL,
        "model_type": "clip_vision_model",
        "architectures": ["CLIPVisionModel"],
        "intermediate_size": 72,
    },
    "siglip": {
        **SMALL,
        "model_type": "siglip_vision_model",
        "architectures": ["SiglipVisionModel"],
        "intermediate_size": 72,
        "vision_use_head": False,
    },
    "dinov2": {**DINO, "model_type": "dinov2", "architectures": ["Dinov2Model"]},
    "registers": {
        **DINO,
        "model_type": "dinov2_with_registers",
        "architectures": ["Dinov2WithRegistersModel"],
        "num_register_tokens": 3,
    },
}
# timm's towers, by the names of openvla/openvla-7b. They are towers of transformers with
# other names; see make_towers.py.
TIMM = {
    "timm-dinov2": {
        **SMALL,
        "model_type": "vit_large_patch14_reg4_dinov2.lvd142m",
        "intermediate_size": 64,
        "num_register_tokens": 3,
    },
    "timm-siglip": {
        **SMALL,
        "model_type": "vit_so400m_patch14_siglip_224",
        "intermediate_size": 72,
    },
}
TEXT = {
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 64,
    "vocab_size": 96,
}
IMAGE, BEFORE, AFTER = 95, [1, 7], [3, 9, 11]  # ids of a prompt
COMPOSITES = {
    "llava": {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "image_token_index": IMAGE,
        "projector_hidden_act": "gelu",
        "tie_word_embeddings": False,
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "text_config": {**TEXT, "model_type": "llama"},
        "vision_config": {**TOWERS["clip"], "num_hidden_layers": 3},
    },
    "gemma3": {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "image_token_index": IMAGE,
        "mm_tokens_per_image": 4,
        "text_config": {
            **TEXT,
            "model_type": "gemma3_text",
            "layer_types": ["sliding_attention", "full_attention"],
            "sliding_window": 6,
        },
        "vision_config": {**TOWERS["siglip"], "image_size": 16},
    },
}
OPENVLA = {
    "architectures": ["OpenVLAForActionPrediction"],
    "arch_specifier": "no-align+fused-gelu-mlp",
    "image_resize_strategy": "resize-naive",
    "image_sizes": [224, 224],
    "llm_backbone_id": "llama2-7b-pure",
    "llm_max_length": 2048,
    "model_type": "openvla",
    "n_action_bins": 256,
    "norm_stats": {},
    "output_projector_states": False,
    "pad_to_multiple_of": 64,
    "pad_token_id": 32000,
    "text_config": {"model_type": "llama", "torch_dtype": "bfloat16", "vocab_size": 32064},
    "timm_model_ids": [tower["model_type"] for tower in TIMM.values()],
    "timm_override_act_layers": [None, None],
    "torch_dtype": "bfloat16",
    "use_fused_vision_backbone": True,
    "vision_backbone_id": "dinosiglip-vit-so-224px",
}
GOLDENS = HERE / "Inputs" / "towers.npz"
BAR = 2e-11  # of f64; transformers in f32: 3e-12 for SigLIP, 2e-12 or less for the others


def tensor(name, shape):
    """A tensor in f32, large enough to matter."""
    if name.endswith("soft_emb_norm.weight"):
        return weights.rounded(3 * weights.values(SEED, "x", shape), "f32")
    scale = 1 if name.endswith("norm.weight") else 6
    return weights.rounded(scale * weights.values(SEED, name, shape), "f32")


def tensors(manifest):
    """{name: array}: the tensors that an artifact binds."""
    made = {}
    for weight in manifest["weights"]:
        for layer in range(max(weight["count"], 1)):
            name = weight["name"].replace("{}", str(weight["first"] + layer))
            shape = list(weight["shape"])
            shape[0] = weight.get("rows", {"of": shape[0]})["of"]
            if weight.get("transposed"):
                shape.reverse()
            if not weight.get("input") and "tied" not in weight:
                made[name] = tensor(name, shape)
    return made


def image(config):
    """(channels, rows, columns) of pixels."""
    size = config["image_size"]
    return weights.rounded(50 * weights.values(SEED, "pixels", (3, size, size)), "f32")


def patches(pixels, size):
    """(patches, numbers): row by row; a patch by channel, row and column."""
    channels, side = pixels.shape[0], pixels.shape[1] // size
    cut = pixels[:, : side * size, : side * size]
    cut = cut.reshape(channels, side, size, side, size)
    return cut.transpose(1, 3, 0, 2, 4).reshape(side * side, -1)


def manifest_of(tools, artifact):
    run = tools.bin / "cria-inspect"
    return json.loads(execute([run, artifact, "--json"]).ok().text)


class Part:
    """A part of a model, compiled, with a folder for its checkpoint."""

    def __init__(self, tools, device, name, config, *flags, vocab=1):
        self.tools, self.device, self.vocab = tools, device, vocab
        self.what = " ".join([name, *flags])
        out = self.what.replace(" ", "").replace("=", "-")
        path = tools.scratch / f"{out}.json"
        path.write_text(json.dumps(config))
        target = "cpu" if device == "cpu" else "cuda"
        self.artifact = tools.compile(path, f"--target={target}", *flags, out=f"{out}.cria")
        self.folder = tools.scratch / out
        self.folder.mkdir()
        self.tensors = tensors(manifest_of(tools, self.artifact))

    def session(self, prefix="vision_model."):
        """A session with the names of towers after `prefix`."""
        named = {key.replace("vision_model.", prefix): x for key, x in self.tensors.items()}
        weights.write_safetensors(self.folder / "model.safetensors", named, "f32")
        model = Model(self.tools, self.artifact, 0, self.vocab, self.device, self.folder)
        return model.session()

    def forward(self, rows, width, prefix="vision_model."):
        return self.session(prefix).forward_embeddings(rows, width)

    def check(self, wanted, got, more=""):
        error = nmse(wanted, got)
        message = f"{self.what}{more}, {self.device}: NMSE {error:.1e}, expected {BAR}"
        check(error <= BAR, message)


def check_tower(tools, name, config, device, wanted):
    part = Part(tools, device, name, config)
    rows = patches(image(config), config["patch_size"])
    prefixes = ["vision_model.", ""] if device == "cpu" else ["vision_model."]
    for prefix in prefixes:
        got = part.forward(rows, config["hidden_size"], prefix)
        part.check(wanted, got, f", names after '{prefix}'")
    return part


def check_llava(tools, device, goldens):
    """The rows of an image in front of a text, and the logits behind them."""
    config = COMPOSITES["llava"]
    width, vocab = TEXT["hidden_size"], TEXT["vocab_size"]
    tower = Part(tools, device, "llava", config, "--part=vision")
    rows = patches(image(config["vision_config"]), config["vision_config"]["patch_size"])
    for prefix in ["vision_tower.vision_model.", "model.vision_tower."]:
        got = tower.forward(rows, width, prefix)
        tower.check(goldens["llava"], got, f", names after '{prefix}'")
    text = Part(tools, device, "llava", config, vocab=vocab)
    session = text.session()
    session.expect_prompt(len(BEFORE) + len(got) + len(AFTER))
    session.feed(BEFORE)
    problem = session.feed_embeddings(got)
    check(problem is None, problem)
    text.check(goldens["llava-logits"], session.feed(AFTER), ", logits")


def check_gemma3(tools, device, goldens):
    """The means of 2 by 2 rows are between the parts."""
    config = COMPOSITES["gemma3"]
    vision = config["vision_config"]
    side, width = vision["image_size"] // vision["patch_size"], vision["hidden_size"]
    tower = Part(tools, device, "gemma3", config, "--part=vision")
    got = tower.forward(patches(image(vision), vision["patch_size"]), width)
    pooled = got.reshape(side // 2, 2, side // 2, 2, width).mean((1, 3)).reshape(-1, width)
    projector = Part(tools, device, "gemma3", config, "--part=projector")
    rows = projector.forward(pooled, TEXT["hidden_size"])
    projector.check(goldens["gemma3"], rows)
    for flags in ["--chunk=5"], ["--chunk=5", "--batch=2"]:
        text = Part(tools, device, "gemma3", config, *flags, vocab=TEXT["vocab_size"])
        session = text.session()
        session.expect_prompt(len(BEFORE) + len(rows) + len(AFTER))
        session.feed(BEFORE)
        # The text multiplies embeddings, but transformers does not multiply an image's.
        problem = session.feed_embeddings(rows / np.float32(TEXT["hidden_size"] ** 0.5))
        check(problem is None, problem)
        text.check(goldens["gemma3-logits"], session.feed(AFTER), ", logits")
        problem = session.feed_embeddings(np.zeros((6, TEXT["hidden_size"])))
        check(problem and "6 embeddings that see one another" in problem, problem)


def check_refusals(tools, tower, rows):
    """Ids, too many patches, patches of another size, and parts that are not there."""
    session = tower.session()

    def refused(call, problem):
        got = call()
        check(got and problem in got, f"got {got}, expected {problem}")

    feed = session.feed_embeddings
    refused(lambda: feed(rows[:, 1:]), f"embeddings of {rows.shape[1] - 1} numbers")
    refused(lambda: feed(np.concatenate([rows, rows[:1]])), "is one call from position 0")
    check(feed(rows) is None, "the rows of an image")
    refused(lambda: feed(rows), "is one call from position 0")
    run = tools.run(tower.artifact, f"--weights={tower.folder}", "--ids=5")
    check(run.status == 1 and "takes rows of numbers" in run.errors, run)
    path = tools.scratch / "bad.json"
    for change, flags, problem in [
        ({}, ["--part=eyes"], "--part=eyes: expected text or vision"),
        ({"vision_feature_select_strategy": "full"}, ["--part=vision"], "only \"default\""),
        ({"vision_feature_layer": [-2, -3]}, ["--part=vision"], "'vision_feature_layer'"),
        (
            {"vision_config": {**TOWERS["clip"], "num_hidden_layers": 1}},
            ["--part=vision"],
            "'vision_feature_layer': expected -1 to -1, got -2",
        ),
        ({"vision_config": 3}, ["--part=vision"], "'vision_config': expected an object"),
        (
            {"vision_config": {**TOWERS["clip"], "patch_size": 19}},
            ["--part=vision"],
            "'patch_size': expected at most 18, the 'image_size', got 19",
        ),
        (
            {"vision_config": {**TOWERS["clip"], "depth": 3}},
            ["--part=vision"],
            "'vision_config.depth': unknown key, got 3",
        ),
    ]:
        path.write_text(json.dumps(COMPOSITES["llava"] | change))
        run = execute(tools.compile_command(path, tools.scratch / "bad.cria", *flags))
        check(run.status == 1 and problem in run.errors, f"{run}\nexpected {problem}")


def main():
    tools, device = Tools(*sys.argv[1:3]), sys.argv[3]
    with np.load(GOLDENS) as file:
        goldens = dict(file)
    if device != "cpu":  # all that programs of towers have
        small = [("clip", TOWERS["clip"]), ("timm-dinov2", TIMM["timm-dinov2"])]
        for name, config in some(small, 2):
            check_tower(tools, name, config, device, goldens[name])
        return check_gemma3(tools, device, goldens)
    for name, config in some({**TOWERS, **TIMM}.items(), 2):
        tower = check_tower(tools, name, config, device, goldens[name])
    check_llava(tools, device, goldens)
    check_gemma3(tools, device, goldens)
    check_refusals(tools, tower, patches(image(SMALL), SMALL["patch_size"]))


if __name__ == "__main__":
    main()
