#!/usr/bin/env python3
"""Makes test/e2e/Inputs/images/ and test/e2e/Inputs/images.npz: files of images, and what
Hugging Face transformers says of them and the models of images.py. Made with Python 3.11 and
  torch==2.15.0 torchvision==0.29.2 transformers==5.23.0 pillow==13.0.0 numpy==2.2.6
on a CPU with AVX2, where torchvision resizes bytes as bytes.

OpenVLA's model and processor are no part of transformers: here they are as
openvla/openvla has them (prismatic/extern/hf), of transformers' towers and Llama.
"""

import json
import pathlib
import struct
import tempfile
import zlib

import numpy as np
import torch
import transformers
from PIL import Image, ImageOps

import images
import make_towers
import towers
import weights


def pixels(height, width, channels, seed):
    """Smooth colors with some noise, so that JPEG has something to do."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (3, 4, channels), dtype=np.uint8)
    smooth = [
        np.asarray(Image.fromarray(coarse[..., c]).resize((width, height), Image.BICUBIC))
        for c in range(channels)
    ]
    noise = random.integers(-12, 13, (height, width, channels))
    return np.clip(np.stack(smooth, -1) + noise, 0, 255).astype(np.uint8)


def exif(orientation):
    made = Image.Exif()
    made[0x112] = orientation
    return made


def write_deep():
    """16 bits a color, which Pillow does not write."""
    random = np.random.default_rng(5)
    rows = random.integers(0, 65536, (21, 33, 3)).astype(">u2")
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    (images.FOLDER / "deep.png").write_bytes(images.png(33, 21, 16, 2, data))


def write_laced():
    """Interlaced, which Pillow does not write."""
    made = pixels(19, 26, 3, 6)
    data = b""
    for x, y, across, down in [
        (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
        (0, 1, 1, 2),
    ]:  # fmt: skip
        data += b"".join(b"\0" + row.tobytes() for row in made[y::down, x::across])
    header = struct.pack(">IIBBBBB", 26, 19, 8, 2, 0, 0, 1)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    whole = b"\x89PNG\r\n\x1a\n" + b"".join(images.chunk(*pair) for pair in chunks)
    (images.FOLDER / "laced.png").write_bytes(whole)


def write_files():
    images.FOLDER.mkdir(parents=True, exist_ok=True)

    def save(name, image, **options):
        image.save(images.FOLDER / name, **options)

    color = [Image.fromarray(pixels(48, 64, 3, seed)) for seed in range(4)]
    save("photo.jpg", color[0], quality=85)
    save("turned.jpg", color[1].resize((41, 30)), quality=90, exif=exif(6))
    save("mirrored.jpg", color[1].resize((30, 41)), quality=90, exif=exif(7), subsampling=0)
    save("progressive.jpg", color[2], quality=70, progressive=True)
    save("grey.jpg", color[3].convert("L"), quality=80)
    save("cmyk.jpg", color[3].convert("CMYK"))
    save("tall.png", Image.fromarray(pixels(71, 23, 3, 7)))
    save("alpha.png", Image.fromarray(pixels(20, 90, 4, 8)))
    save("palette.png", color[0].quantize(13))
    save("transparent.png", color[1].quantize(200), transparency=3)
    save("black.png", color[2].convert("1"))
    save("greyalpha.png", Image.fromarray(pixels(25, 25, 2, 9)))
    save("turned.png", Image.fromarray(pixels(13, 40, 3, 10)), exif=exif(8))
    save("dot.png", Image.fromarray(pixels(1, 1, 3, 11)))
    save("same.png", Image.fromarray(pixels(images.SIDE, images.SIDE, 3, 12)))
    write_deep()
    write_laced()


def opened(name):
    """As transformers' load_image opens a file, without what processors would read of its
    transparency, which is gone."""
    image = ImageOps.exif_transpose(Image.open(images.FOLDER / name)).convert("RGB")
    return Image.fromarray(np.asarray(image))


def processor_of(config):
    name = config["image_processor_type"].removesuffix("Fast")
    return getattr(transformers, name).from_dict(config)


def bytes_of(values, table):
    """(height, width, 3): the bytes whose numbers are `values`, which must be there."""
    made = np.stack([np.abs(v[..., None] - t).argmin(-1) for v, t in zip(values, table)], -1)
    again = np.stack([t[made[..., c]] for c, t in enumerate(table)])
    assert (again == values).all(), np.abs(again - values).max()
    return made.astype(np.uint8)


def processed(config):
    processor, table = processor_of(config), images.numbers(config)
    return np.stack([
        bytes_of(processor(opened(name), return_tensors="np")["pixel_values"][0], table)
        for name in images.FILES
    ])


def processor_of_model(name, tokens):
    """transformers' processor of the model."""
    if name == "llava":
        return transformers.LlavaProcessor(
            processor_of(images.CLIP),
            tokens,
            patch_size=images.PATCH,
            vision_feature_select_strategy="default",
            chat_template=images.TEMPLATE,
            num_additional_image_tokens=1,
        )
    return transformers.Gemma3Processor(
        processor_of(images.PROCESSORS["gemma3"]),
        tokens,
        images.named(images.GEMMA3, images.TEMPLATE),
        images.GEMMA3["mm_tokens_per_image"],
    )


def composite(name, config):
    """Logits, ids and replies of the text."""
    made = {}
    model = make_towers.load(config)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tokenizer.json"
        file.write_text(json.dumps(images.tokenizer(config)))
        tokens = transformers.PreTrainedTokenizerFast(
            tokenizer_file=str(file), bos_token="<s>", eos_token="</s>", unk_token="<unk>",
            extra_special_tokens=dict(
                zip(("image_token", "boi_token", "eoi_token"), images.marks(config))
            ),
        )  # fmt: skip
    processor = processor_of_model(name, tokens)
    pictures = [opened(picture) for picture in images.PICTURES]
    keys = ["input_ids", "pixel_values", "attention_mask", "token_type_ids"]
    greedy = {"max_new_tokens": images.NEW, "do_sample": False, "pad_token_id": 0}
    for number, prompt in enumerate(images.PROMPTS[name]):
        text = images.named(config, prompt)
        inputs = processor(images=pictures, text=text, return_tensors="pt")
        only = {key: inputs[key] for key in keys if key in inputs}
        ids, key = inputs["input_ids"], f"{name}-{number}"
        made[f"{key}-ids"] = ids[0].numpy()
        made[f"{key}-logits"] = model(**only).logits[0].float().numpy()
        made[f"{key}-new"] = model.generate(**only, **greedy)[0, ids.shape[1] :].numpy()
    talk, replies = [], []
    for said, picture in zip(images.TALK, images.PICTURES):
        parts = [{"type": "image", "image": opened(picture)}, {"type": "text", "text": said}]
        talk.append({"role": "user", "content": parts})
        inputs = processor.apply_chat_template(
            talk, add_generation_prompt=True, tokenize=True, return_dict=True,
            return_tensors="pt",
        )  # fmt: skip
        only = {key: inputs[key] for key in keys if key in inputs}
        new = model.generate(**only, **greedy)[0, inputs["input_ids"].shape[1] :]
        replies.append(tokens.decode(new, skip_special_tokens=True))
        answer = [{"type": "text", "text": replies[-1]}]
        talk.append({"role": "assistant", "content": answer})
    made[f"{name}-replies"] = np.array(replies)
    return made


def timm_config(place):
    """A tower of OpenVLA as one of transformers."""
    small = {key: v for key, v in images.TIMM[place].items() if key != "model_type"}
    small["image_size"] = images.SIDE
    if place == 1:
        return {**towers.TOWERS["siglip"], **small, "hidden_act": "gelu"}
    small["mlp_ratio"] = small.pop("intermediate_size") // small["hidden_size"]
    return {**towers.TOWERS["registers"], **small}


def openvla():
    # Rows first, which all versions of Pillow before 13 do by themselves.
    image = opened(images.SCENE)
    for height in [image.height, images.SIDE]:
        image = image.resize((images.SIDE, height), Image.BICUBIC)
    made = {"pixels-openvla": np.asarray(image)}
    features = []
    for place, prefix in enumerate(["featurizer", "fused_featurizer"]):
        table = images.prismatic_numbers(place)
        planes = np.stack([table[c][made["pixels-openvla"][..., c]] for c in range(3)])
        model = make_towers.load(timm_config(place), make_towers.timm_tensor(prefix))
        pixels = torch.from_numpy(planes).double()[None]
        states = model(pixels, output_hidden_states=True).hidden_states
        count = (images.SIDE // images.PATCH) ** 2
        features.append(states[-2][:, -count:])
    rows = torch.cat(features, 2)
    width = towers.TEXT["hidden_size"]
    inner = 4 * rows.shape[-1]
    shapes = [(inner, rows.shape[-1]), (width, inner), (width, width)]
    for place, shape in enumerate(shapes, 1):
        name = f"projector.fc{place}"
        weight = torch.from_numpy(towers.tensor(f"{name}.weight", shape)).double()
        bias = torch.from_numpy(towers.tensor(f"{name}.bias", shape[:1])).double()
        rows = torch.nn.functional.linear(rows, weight, bias)
        if place < 3:
            rows = torch.nn.functional.gelu(rows)
    text = {**images.OPENVLA["text_config"], "architectures": ["LlamaForCausalLM"]}
    model = make_towers.load(text)
    vocab = images.letters(images.OPENVLA)
    ids = [1, *(vocab[letter] for letter in images.ORDER), vocab["\u2581"]]
    made["openvla-ids"] = np.array(ids)
    table = model.get_input_embeddings()
    new = []
    for step in range(7):
        given = table(torch.tensor([ids + new]))
        logits = model(inputs_embeds=torch.cat([given[:, :1], rows, given[:, 1:]], 1)).logits[0]
        if step == 0:
            made["openvla-logits"] = logits.float().numpy()
        new.append(int(logits[-1].argmax()))
    made["openvla-new"] = np.array(new)
    config = images.OPENVLA
    bins = np.linspace(-1, 1, config["n_action_bins"])
    centers = (bins[:-1] + bins[1:]) / 2
    last = config["text_config"]["vocab_size"] - config["pad_to_multiple_of"]
    number = centers[np.clip(last - np.array(new) - 1, 0, len(centers) - 1)]
    of = config["norm_stats"]["bridge_orig"]["action"]
    low, high = np.array(of["q01"]), np.array(of["q99"])
    moved = 0.5 * (number + 1) * (high - low) + low
    made["openvla-actions"] = np.where(of["mask"], moved, number)
    return made


def main():
    write_files()
    made = {f"pixels-{name}": processed(config) for name, config in images.PROCESSORS.items()}
    with torch.no_grad():
        made |= composite("llava", images.LLAVA) | composite("gemma3", images.GEMMA3)
        made |= openvla()
    np.savez_compressed(images.GOLDENS, **made)


if __name__ == "__main__":
    main()
