#!/usr/bin/env python3
"""Makes test/e2e/Inputs/towers.npz: what Hugging Face transformers says of the image and
the tensors of towers.py, computed in f64. Made with Python 3.11 and
  torch==2.15.0 transformers==5.23.0 numpy==2.2.6

A tower of timm is one of transformers. Its tensors have other names, those of queries, keys
and values are one, and its registers and class have no position.
"""

import pathlib
import re
import tempfile

import numpy as np
import torch
import transformers

import towers
import weights

NESTINGS = {
    "vision_tower.": "vision_model.",
    "language_model.model.": "model.",
    "language_model.lm_head": "lm_head",
}


def canonical(name, config):
    """The name of a tensor by which a program of Cria asks for it."""
    for nested, plain in NESTINGS.items():
        if name.startswith(nested):
            return plain + name.removeprefix(nested)
    is_tower = config.model_type in ("clip_vision_model", "siglip_vision_model")
    return ("vision_model." if is_tower else "") + name


def shapes_of(model):
    """{name: shape} of a model's checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = weights.read_safetensors(pathlib.Path(folder) / "model.safetensors")
    return {name: array.shape for name, array in saved.items()}


def load(config, tensor=towers.tensor):
    """A model with the tensors of towers.py, all of which it must have."""
    own = transformers.AutoConfig.for_model(**config)
    model = getattr(transformers, config["architectures"][0])(own)
    shapes = shapes_of(model)
    arrays = {name: tensor(canonical(name, own), shape) for name, shape in shapes.items()}
    with tempfile.TemporaryDirectory() as folder:
        own.save_pretrained(folder)
        file = pathlib.Path(folder) / "model.safetensors"
        weights.write_safetensors(file, arrays, "f32")
        loaded, info = type(model).from_pretrained(
            folder,
            dtype=torch.float64,
            attn_implementation="eager",
            output_loading_info=True,
        )
    assert not any(info.values()), info
    return loaded.eval()


def pixels_of(config):
    return torch.from_numpy(towers.image(config)).double()[None]


def rows_of(config, *more):
    """The last hidden states of the patches."""
    states = load(config, *more)(pixels_of(config)).last_hidden_state[0].numpy()
    count = (config["image_size"] // config["patch_size"]) ** 2
    return states[len(states) - count :]


def timm_name(name, prefix):
    """timm's name of a tensor of DINOv2 or SigLIP."""
    for own, timm in [
        ("vision_model.", ""),
        ("embeddings.patch_embeddings.projection", "patch_embed.proj"),
        ("embeddings.patch_embedding", "patch_embed.proj"),
        ("embeddings.cls_token", "cls_token"),
        ("embeddings.register_tokens", "reg_token"),
        ("encoder.layers.", "blocks."),
        ("encoder.layer.", "blocks."),
        ("layer_norm", "norm"),
        ("post_layernorm", "norm"),
        ("layernorm", "norm"),
        ("attention.output.dense", "attn.proj"),
        ("self_attn.out_proj", "attn.proj"),
        ("layer_scale1.lambda1", "ls1.scale_factor"),
        ("layer_scale2.lambda1", "ls2.scale_factor"),
    ]:
        name = name.replace(own, timm)
    return f"vision_backbone.{prefix}.{name}"


def timm_tensor(prefix):
    """Tensors of transformers' model with the numbers of timm's."""

    def tensor(name, shape):
        if "position_embedding" in name:
            rows = shape[-2] - (prefix == "featurizer")
            timm = (1, rows, shape[-1])
            made = towers.tensor(f"vision_backbone.{prefix}.pos_embed", timm)
            if prefix == "featurizer":
                made = np.concatenate([np.zeros_like(made[:, :1]), made], 1)
            return made.reshape(shape)
        module, kind = name.split(".")[-2:]
        for place, names in enumerate(["query q_proj", "key k_proj", "value v_proj"]):
            if module in names.split():
                block = re.search(r"\d+", name)[0]
                whole = f"vision_backbone.{prefix}.blocks.{block}.attn.qkv.{kind}"
                all = towers.tensor(whole, (3 * shape[0], *shape[1:]))
                return all[place * shape[0] : (place + 1) * shape[0]]
        return towers.tensor(timm_name(name, prefix), shape)

    return tensor


def composite(name):
    """The rows of an image, and the logits of the ids behind them."""
    config = towers.COMPOSITES[name]
    model, pixels = load(config), pixels_of(config["vision_config"])
    features = model.get_image_features(pixels).pooler_output[0]
    ids = torch.tensor([[*towers.BEFORE, *[towers.IMAGE] * len(features), *towers.AFTER]])
    types = {"token_type_ids": (ids == towers.IMAGE).long()} if name == "gemma3" else {}
    output = model(input_ids=ids, pixel_values=pixels, **types)
    return features.numpy(), output.logits[0, -len(towers.AFTER) :].numpy()


def main():
    with torch.no_grad():
        made = {name: rows_of(config) for name, config in towers.TOWERS.items()}
        small = towers.TIMM["timm-dinov2"]
        other = {
            **towers.TOWERS["registers"],
            **{key: value for key, value in small.items() if key != "model_type"},
            "mlp_ratio": small["intermediate_size"] // small["hidden_size"],
        }
        other.pop("intermediate_size")
        made["timm-dinov2"] = rows_of(other, timm_tensor("featurizer"))
        other = {**towers.TOWERS["siglip"], "hidden_act": "gelu"}
        made["timm-siglip"] = rows_of(other, timm_tensor("fused_featurizer"))
        for name in towers.COMPOSITES:
            made[name], made[f"{name}-logits"] = composite(name)
    made = {name: array.astype(np.float32) for name, array in made.items()}
    np.savez_compressed(towers.GOLDENS, **made)


if __name__ == "__main__":
    main()
