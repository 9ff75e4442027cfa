"""images.py BIN SCRATCH: images of cria-run, against transformers.

Pixels are those of transformers' processors, to the last bit, for files of many kinds and
sizes; the logits and ids of texts with images meet the bars. make_images.py made what
transformers says, and the files.
"""

import json
import re
import struct
import subprocess
import sys
import zlib

import numpy as np

import towers
import weights
from harness import HERE, Tools, check, check_close, execute, some

sys.path.append(str(HERE.parent / "tools"))
from preflight import write_shard  # noqa: E402

FOLDER = HERE / "Inputs" / "images"
GOLDENS = HERE / "Inputs" / "images.npz"
SIDE, PATCH = towers.SMALL["image_size"], towers.SMALL["patch_size"]
FILES = [
    "photo.jpg", "turned.jpg", "mirrored.jpg", "grey.jpg", "progressive.jpg", "tall.png",
    "alpha.png", "palette.png", "transparent.png", "black.png", "greyalpha.png", "deep.png",
    "laced.png", "turned.png", "dot.png", "same.png",
]  # fmt: skip
SQUARE = {"height": SIDE, "width": SIDE}
CLIP = {
    "crop_size": SQUARE,
    "do_center_crop": True,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_processor_type": "CLIPImageProcessor",
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "processor_class": "LlavaProcessor",
    "resample": 3,
    "rescale_factor": 1 / 255,
    "size": {"shortest_edge": SIDE},
}
SIGLIP = {
    "do_normalize": True,
    "do_rescale": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_processor_type": "SiglipImageProcessor",
    "image_std": [0.5, 0.5, 0.5],
    "resample": 3,
    "size": SQUARE,
}
# Configs of processors, whose pixels are compared: 18 by 18.
PROCESSORS = {
    "clip": CLIP,
    "clip-wide-crop": CLIP | {"size": {"shortest_edge": 11}},
    "clip-plain": CLIP | {"do_normalize": False, "size": SIDE, "crop_size": SIDE},
    "llava-square": CLIP | {"image_processor_type": "LlavaImageProcessorFast", "do_pad": True},
    "siglip": SIGLIP,
    "siglip-shifted": SIGLIP | {"do_rescale": False, "image_mean": [100, 110, 120.5]},
    "gemma3": SIGLIP
    | {"image_processor_type": "Gemma3ImageProcessor", "resample": 2, "do_pan_and_scan": None},
}
PRISMATIC = {
    "image_processor_type": "PrismaticImageProcessor",
    "image_resize_strategy": "resize-naive",
    "input_sizes": [[3, SIDE, SIDE], [3, SIDE, SIDE]],
    "interpolations": ["bicubic", "bicubic"],
    "means": [[0.484375, 0.455078125, 0.40625], [0.5, 0.5, 0.5]],
    "processor_class": "PrismaticProcessor",
    "stds": [[0.228515625, 0.2236328125, 0.224609375], [0.5, 0.5, 0.5]],
    "tvf_do_letterbox": False,
    "use_fused_vision_backbone": True,
}
TEMPLATE = (
    "{% for message in messages %}{{ message['role'].upper() + ': ' }}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}"
    "{{ '<image>\n' }}{% endfor %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{{ content['text'] + ' ' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
LLAVA = towers.COMPOSITES["llava"] | {
    "text_config": towers.COMPOSITES["llava"]["text_config"]
    | {"max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2}
}
# Marks stand around the rows of an image, which are more than a window has.
GEMMA3 = towers.COMPOSITES["gemma3"] | {
    "boi_token_index": towers.IMAGE + 1,
    "eoi_token_index": towers.IMAGE + 2,
    "text_config": towers.COMPOSITES["gemma3"]["text_config"]
    | {"max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2}
    | {"vocab_size": towers.IMAGE + 3, "sliding_window": 3},
    "vision_config": towers.COMPOSITES["gemma3"]["vision_config"] | {"image_size": SIDE},
}
MARKS = ["<image>", "<start_of_image>", "<end_of_image>"]
PROMPTS = {"llava": ["look: <image> and <image>\nare"]}
PROMPTS["gemma3"] = [*PROMPTS["llava"], "<image><image>?", "Are <image>or <image>"]
PICTURES = ["photo.jpg", "tall.png"]
TALK = ["What is this?", "And now?"]
NEW = 64  # ids of a reply
REPLY = ["--temperature=0", f"--max-tokens={NEW}", "--print-ids"]
TIMM = [
    {key: value for key, value in tower.items() if key != "image_size"}
    for tower in towers.TIMM.values()
]
TIMM = [tower | {"num_hidden_layers": 3} for tower in TIMM]
STATISTICS = {
    "bridge_orig": {
        "action": {
            "mask": [True, True, True, True, True, True, False],
            "q01": [-0.0287, -0.0419, -0.0262, -0.0779, -0.0924, -0.2075, 0.0],
            "q99": [0.0283, 0.0409, 0.0402, 0.0819, 0.0772, 0.2002, 1.0],
        }
    }
}
OPENVLA = towers.OPENVLA | {
    "image_sizes": [SIDE, SIDE],
    "n_action_bins": 90,
    "norm_stats": STATISTICS,
    "pad_to_multiple_of": 3,
    "pad_token_id": towers.IMAGE,
    "text_config": {**towers.TEXT, "model_type": "llama", "max_position_embeddings": 512},
    "timm_model_ids": TIMM,
    "torch_dtype": "float32",
}
SCENE = "tall.png"  # its height shrinks more than its width
ORDER = "In: What action should the robot take to move?\nOut:"


def marks(config):
    """The model's tokens that stand for an image and around it."""
    return MARKS if "boi_token_index" in config else MARKS[:1]


def letters(config):
    """{token: id} of the tokenizer: letters, and ids of an image."""
    texts = ["<unk>", "<s>", "</s>", *map(chr, range(32, 123)), "\u2581", *marks(config)]
    return {text.replace("`", "\n"): i for i, text in enumerate(texts)}


def tokenizer(config):
    """A tokenizer.json of single letters; a text begins with <s>."""
    vocab = letters(config)
    special = ["<unk>", "<s>", "</s>", *marks(config)]
    begin = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": vocab[token], "content": token, "special": True}
            | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            for token in special
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [begin, {"Sequence": {"id": "A", "type_id": 0}}]
            + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocab,
            "merges": [],
        },
    }


def numbers(config):
    """(3, 256) f32: what a processor of transformers makes of each byte."""
    bytes = np.arange(256, dtype=np.float32)[None]
    scale = config.get("rescale_factor", 1 / 255)
    rescales = config.get("do_rescale", True)
    if not config.get("do_normalize", True):
        return np.repeat(bytes * np.float32(scale) if rescales else bytes, 3, 0)
    factor = np.float32(1 / scale if rescales else 1)
    mean = np.float32(config["image_mean"])[:, None] * factor
    return (bytes - mean) / (np.float32(config["image_std"])[:, None] * factor)


def prismatic_numbers(tower):
    """The same for OpenVLA's processor, which uses torchvision's to_tensor."""
    bytes = np.arange(256, dtype=np.float32)[None] / np.float32(255)
    mean, std = (np.float32(PRISMATIC[key][tower])[:, None] for key in ("means", "stds"))
    return (bytes - mean) / std


def patches_of(pixels, table):
    """The rows of an image of bytes, (height, width, 3)."""
    planes = np.stack([table[color][pixels[..., color]] for color in range(3)])
    return towers.patches(planes, PATCH)


def named(config, text):
    """The text with the token that stands for an image of this model."""
    return text.replace("<image>", marks(config)[-2:][0])


def write_model(folder, config, processor, tensors):
    folder.mkdir(parents=True)
    for name, value in [
        ("config.json", config),
        ("preprocessor_config.json", processor),
        ("tokenizer.json", tokenizer(config)),
        ("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2}),
    ]:
        (folder / name).write_text(json.dumps(value))
    template = {"chat_template": named(config, TEMPLATE)}
    (folder / "chat_template.json").write_text(json.dumps(template))
    weights.write_safetensors(folder / "model.safetensors", tensors, "f32")


class Folder:
    """A model's folder, and artifacts of its parts, as one compiles them by hand."""

    def __init__(self, tools, name, config, processor, parts, *flags):
        self.tools, self.path, self.config = tools, tools.scratch / name, config
        self.name = name
        source = tools.scratch / f"{name}.json"
        source.write_text(json.dumps(config))
        self.text = tools.compile(source, "--plain", *flags, out=f"{name}.cria")
        self.parts = [
            tools.compile(source, "--plain", f"--part={part}", out=f"{name}-{part}.cria")
            for part in parts
        ]
        tensors = {}
        for artifact in [self.text, *self.parts]:
            tensors |= towers.tensors(towers.manifest_of(tools, artifact))
        write_model(self.path, config, processor, tensors)

    def set_processor(self, config, file="preprocessor_config.json"):
        (self.path / file).write_text(json.dumps(config))

    def run(self, images, *flags):
        given = [f"--image={FOLDER / image}" for image in images]
        given += [f"--part={part}" for part in self.parts]
        return self.tools.run(self.text, f"--weights={self.path}", *given, *flags)

    def patches(self, images, prompt):
        file = self.tools.scratch / "patches.npy"
        self.run(images, f"--patches={file}", f"--prompt={prompt}", "-n0").ok()
        return np.load(file)


def check_pixels(folder, goldens):
    prompt = "<image>" * len(FILES)
    for name, config in PROCESSORS.items():
        folder.set_processor(config)
        got = folder.patches(FILES, prompt).reshape(len(FILES), -1)
        for file, rows, pixels in zip(FILES, got, goldens[f"pixels-{name}"]):
            wanted = patches_of(pixels, numbers(config)).ravel()
            worst = np.abs(rows - wanted).max()
            check((rows == wanted).all(), f"{file} by {name}: pixels differ by {worst}")
    # transformers 5 writes it as a part of processor_config.json.
    folder.set_processor({"image_processor": CLIP}, "processor_config.json")
    folder.set_processor(SIGLIP)
    same = folder.patches(["photo.jpg"], "<image>")
    wanted = patches_of(goldens["pixels-clip"][0], numbers(CLIP))
    check((same == wanted).all(), "image_processor of processor_config.json")
    (folder.path / "processor_config.json").unlink()


def check_text(folder, processor, goldens):
    """Texts with two images; the last one also as ids."""
    folder.set_processor(processor)
    file = folder.tools.scratch / "logits.npy"
    for number, prompt in enumerate(PROMPTS[folder.name]):
        name = f"{folder.name}-{number}"
        prompt, wanted = named(folder.config, prompt), goldens[f"{name}-new"].tolist()
        run = folder.run(PICTURES, f"--prompt={prompt}", f"--logits={file}", *REPLY).ok()
        check_close(goldens[f"{name}-logits"], np.load(file), f"logits of {name}")
        check(run.ids() == wanted, f"{run}\ngot {run.ids()}, expected {wanted}")
    ids = ",".join(map(str, goldens[f"{name}-ids"]))
    run = folder.run(PICTURES, f"--ids={ids}", *REPLY).ok()
    check(run.ids() == wanted, f"--ids: got {run.ids()}, expected {wanted}")


def check_chat(folder, goldens):
    """A chat with an image for each message."""
    flags = [f"--image={FOLDER / PICTURES[0]}", "--chat", f"--max-tokens={NEW}"]
    flags += ["--temperature=0", "-q", f"--weights={folder.path}"]
    flags += [f"--part={part}" for part in folder.parts]
    command = folder.tools.run_command(folder.text, *flags)
    lines = [TALK[0], f"/image {FOLDER / PICTURES[1]}", TALK[1]]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    replies = "".join(f"{reply}\n" for reply in goldens[f"{folder.name}-replies"])
    check(done.stdout == replies, f"{done}\nexpected {replies!r}")


def check_forgotten(folder):
    """After /reset and /load, the rows of earlier images are in no prompt."""
    saved = folder.tools.scratch / "talk.json"
    flags = ["--chat", f"--max-tokens={NEW}", "--temperature=0", f"--weights={folder.path}"]
    flags += ["-q", *(f"--part={part}" for part in folder.parts)]  # images may come later
    command = folder.tools.run_command(folder.text, *flags)

    def chat(*lines):
        done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
        check(done.returncode == 0, done)
        return done.stdout

    shown = [f"/image {FOLDER / PICTURES[0]}", TALK[0]]
    seen, blind = chat(*shown), chat(TALK[0], f"/save {saved}", TALK[1])
    check(not blind.startswith(seen), f"the image changes nothing: {blind}")
    found = chat(*shown, "/reset", TALK[0], TALK[1])
    check(found == seen + blind, f"after /reset: {found!r}, expected {seen + blind!r}")
    found = chat(*shown, f"/load {saved}", TALK[1])
    check(found == seen + chat(f"/load {saved}", TALK[1]), f"after /load: {found!r}")


def check_folder(folder, goldens, cache):
    """From the folder: parts are compiled, once, beside the text."""
    prompt = named(folder.config, PROMPTS[folder.name][0])
    wanted = goldens[f"{folder.name}-0-new"].tolist()
    command = [folder.tools.bin / "cria-run", folder.path, "--device=cpu", *REPLY]
    command += [f"--prompt={prompt}", *(f"--image={FOLDER / name}" for name in PICTURES)]
    for times in [1 + len(folder.parts), 0]:
        run = execute(command, env={"CRIA_CACHE": str(cache), "PATH": ""}).ok()
        check(run.ids() == wanted, f"{run}\ngot {run.ids()}, expected {wanted}")
        check(run.errors.count("compiling") == times, run)


def check_gemma_refusals(folder):
    """Texts in which the rows of an image would not see one another, or those of two."""
    whole, source = folder.text, folder.tools.scratch / "blind.json"
    source.write_text(json.dumps(folder.config["text_config"]))
    folder.text = folder.tools.compile(source, "--plain", out="blind.cria")
    refused(folder.run(["photo.jpg"], "-p<start_of_image>", "-q"), "but not in this artifact")
    folder.text = whole
    adjacent = folder.run(PICTURES, f"--ids=1,{towers.IMAGE},{towers.IMAGE}", "-q")
    refused(adjacent, "an image right behind another")


def check_openvla(folder, goldens):
    pixels = goldens["pixels-openvla"]
    run = folder.run([SCENE], f"--prompt={ORDER}", "--actions", "-q").ok()
    got, wanted = np.array(json.loads(run.text)), goldens["openvla-actions"]
    check(np.abs(got - wanted).max() < 1e-15, f"actions {got}, expected {wanted}")
    file, other = (folder.tools.scratch / f"openvla.{kind}" for kind in ("logits", "patches"))
    run = folder.run(
        [SCENE],
        "--ids=" + ",".join(map(str, goldens["openvla-ids"])),
        f"--logits={file}",
        f"--patches={other}",
        "--print-ids",
        "-n7",
        "--temperature=0",
    )
    check(run.ok().ids() == goldens["openvla-new"].tolist(), f"{run}, {run.text}")
    tables = map(prismatic_numbers, range(2))
    rows = np.concatenate([patches_of(pixels, table) for table in tables])
    check((np.load(other) == rows).all(), "pixels of OpenVLA differ")
    check_close(goldens["openvla-logits"], np.load(file), "logits of OpenVLA")


def linears(name, shapes):
    """{name: shape} of weights and their biases."""
    tensors = {f"{name}.{key}.weight": shape for key, shape in shapes.items()}
    biases = {f"{name}.{key}.bias": shape[:1] for key, shape in shapes.items()}
    return tensors | biases


def clip_tensors(width, inner, layers, positions, final="post_layernorm"):
    """The tensors of a tower of CLIP or SigLIP, as transformers names them."""
    tensors = {
        "embeddings.patch_embedding.weight": [width, 3, 14, 14],
        "embeddings.position_embedding.weight": [positions, width],
    }
    shapes = {f"self_attn.{key}_proj": [width, width] for key in ("q", "k", "v", "out")}
    shapes |= {"mlp.fc1": [inner, width], "mlp.fc2": [width, inner]}
    shapes |= {"layer_norm1": [width], "layer_norm2": [width]}
    for layer in range(layers):
        tensors |= linears(f"encoder.layers.{layer}", shapes)
    return tensors | {f"{final}.weight": [width], f"{final}.bias": [width]}


def timm_tensors(width, inner, layers, registers):
    """The tensors of a tower of OpenVLA, as timm names them."""
    tensors = {
        "patch_embed.proj.weight": [width, 3, 14, 14],
        "patch_embed.proj.bias": [width],
        "pos_embed": [1, 256, width],
        "norm.weight": [width],
        "norm.bias": [width],
    }
    if registers:
        tensors |= {"cls_token": [1, 1, width], "reg_token": [1, registers, width]}
    shapes = {"attn.qkv": [3 * width, width], "attn.proj": [width, width]}
    shapes |= {"mlp.fc1": [inner, width], "mlp.fc2": [width, inner]}
    shapes |= {"norm1": [width], "norm2": [width]}
    for layer in range(layers):
        tensors |= linears(f"blocks.{layer}", shapes)
        if registers:
            scales = (f"blocks.{layer}.ls{place}.scale_factor" for place in (1, 2))
            tensors |= dict.fromkeys(scales, [width])
    return tensors


def under(prefix, tensors):
    return {prefix + name: shape for name, shape in tensors.items()}


LLAMA = {
    "vocab_size": 32064,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
}
GEMMA = {
    "head_dim": 256,
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "model_type": "gemma3_text",
    "num_attention_heads": 8,
    "num_hidden_layers": 34,
    "num_key_value_heads": 4,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024,
    "vocab_size": 262208,
}


def published():
    """{name: (config, tensors of the parts for images, parts)}"""
    llava = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "image_token_index": 32000,
        "pad_token_id": 32001,
        "projector_hidden_act": "gelu",
        "text_config": {"model_type": "llama", **LLAMA, "torch_dtype": "float16"},
        "torch_dtype": "float16",
        "tie_word_embeddings": False,
        "vision_config": {
            "hidden_size": 1024,
            "image_size": 336,
            "intermediate_size": 4096,
            "model_type": "clip_vision_model",
            "num_attention_heads": 16,
            "num_hidden_layers": 24,
            "patch_size": 14,
            "projection_dim": 768,
            "vocab_size": 32000,
        },
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
    }
    clip = clip_tensors(1024, 4096, 24, 577)
    clip |= {"embeddings.class_embedding": [1024]}
    clip |= {"pre_layrnorm.weight": [1024], "pre_layrnorm.bias": [1024]}
    sizes = {"linear_1": [4096, 1024], "linear_2": [4096, 4096]}
    rows = linears("multi_modal_projector", sizes)
    yield "llava", llava, under("vision_tower.vision_model.", clip) | rows, ["vision"]
    gemma = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "mm_tokens_per_image": 256,
        "text_config": GEMMA,
        "torch_dtype": "float16",
        "vision_config": {
            "hidden_size": 1152,
            "image_size": 896,
            "intermediate_size": 4304,
            "model_type": "siglip_vision_model",
            "num_attention_heads": 16,
            "num_hidden_layers": 27,
            "patch_size": 14,
            "vision_use_head": False,
        },
    }
    siglip = clip_tensors(1152, 4304, 27, 4096)
    siglip |= {"embeddings.patch_embedding.bias": [1152]}
    tensors = under("vision_tower.vision_model.", siglip) | {
        "multi_modal_projector.mm_input_projection_weight": [1152, 2560],
        "multi_modal_projector.mm_soft_emb_norm.weight": [1152],
    }
    yield "gemma3", gemma, tensors, ["vision", "projector"]
    openvla = towers.OPENVLA | {"torch_dtype": "float16", "norm_stats": STATISTICS}
    tensors = under("vision_backbone.featurizer.", timm_tensors(1024, 4096, 24, 4))
    other = timm_tensors(1152, 4304, 27, 0)
    tensors |= under("vision_backbone.fused_featurizer.", other)
    sizes = {"fc1": [8704, 2176], "fc2": [4096, 8704], "fc3": [4096, 4096]}
    tensors |= linears("projector", sizes)
    yield "openvla", openvla, tensors, ["vision", "vision2", "projector"]


def check_published(tools):
    """Checkpoints with the names and shapes that are published, whose data are holes, fit
    each part; and each part has a plan."""
    for name, config, tensors, parts in some(published(), 2):
        source, folder = tools.scratch / f"{name}-full.json", tools.scratch / f"{name}-full"
        source.write_text(json.dumps(config))
        folder.mkdir()
        write_shard(folder / "model.safetensors", tensors, {}, 0)
        for part in parts:
            flags = [f"--part={part}", "--target=cpu", "--plain"]
            artifact = tools.compile(source, *flags, out="full.cria")
            inspect = [tools.bin / "cria-inspect", artifact, f"--weights={folder}"]
            run = execute(inspect)
            check(run.status == 0 and "fits, " in run.text, f"{name}, {part}: {run}{run.text}")
        text = [tools.bin / "cria-compile", source, "--target=cpu", "--report=plan"]
        for flags in [[], [f"--part={parts[0]}"]]:
            run = execute([*text, *flags]).ok()
            check("prefill" in run.text, f"{name}, {flags}: {run.text[:400]}")


def check_documented(tools, llava, gemma3, openvla, cache):
    """The commands of docs/images.md, with small models in their folders' names."""
    llava.set_processor(CLIP)
    openvla.set_processor(PRISMATIC)
    place = tools.scratch / "documented"
    place.mkdir()
    for name, path in [
        ("llava-1.5-7b-hf", llava.path),
        ("gemma-3-4b-it", gemma3.path),
        ("openvla-7b", openvla.path),
        ("fox.jpg", FOLDER / "photo.jpg"),
        ("scene.jpg", FOLDER / "photo.jpg"),
        ("cub.png", FOLDER / "tall.png"),
    ]:
        (place / name).symlink_to(path)
    page = (HERE.parents[1] / "docs" / "images.md").read_text()
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    commands = "".join(body for language, body in fences if not language)
    check(commands.count("cria-run ") == 6, commands)
    environment = {"PATH": f"{tools.bin}:/usr/bin:/bin", "CRIA_CACHE": str(cache)}
    execute(["sh", "-exc", commands], cwd=place, env=environment).ok()


def refused(run, problem):
    check(run.status == 1 and problem in run.errors, f"{run}\nexpected {problem}")
    check(run.errors.count("\n") == 1 and not run.out, run)


def chunk(kind, data):
    """A chunk of a PNG."""
    whole = kind + data
    return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))


def png(width, height, depth=8, color=2, data=b""):
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def check_files(folder):
    """Files that are no images, or not ones that are read."""
    folder.set_processor(CLIP)
    photo = (FOLDER / "photo.jpg").read_bytes()
    tall = (FOLDER / "tall.png").read_bytes()
    bad = folder.tools.scratch / "bad"
    for data, problem in [
        (b"", "expected a PNG or JPEG file"),
        (b"GIF89a", "expected a PNG or JPEG file"),
        (photo[: len(photo) // 2], "the file ends early"),
        (photo[:300], "the file ends early"),
        (photo[:3], "the file ends early"),
        (tall[: len(tall) // 2], "the file ends early"),
        (tall[:20], "the file ends early"),
        (tall[:29] + b"CRC?" + tall[33:], "IHDR: CRC error"),
        (png(0, 5), "Invalid IHDR data"),
        (png(60000, 60000), "expected at most 89478485 pixels"),
        (png(70000, 1), "65535 in a row or column, got 70000 x 1"),
        (png(4, 4), "Not enough image data"),
        (png(1, 1, 16, 0, b"\0\0\0"), "grey of 16 bits is not supported"),
        ((FOLDER / "cmyk.jpg").read_bytes(), "expected grey or three colors, got 4"),
    ]:
        bad.write_bytes(data)
        refused(folder.run([bad], "-p<image>", "-q"), problem)
    refused(folder.run([folder.path], "-p<image>", "-q"), "is a folder, expected a file")
    folder.set_processor(PROCESSORS["llava-square"])
    bad.write_bytes(png(20000, 1, data=b"\0" * 60001))
    problem = "the image as a square has 20000 x 20000 pixels, expected at most 89478485"
    refused(folder.run([bad], "-p<image>", "-q"), problem)
    folder.set_processor(CLIP | {"size": {"shortest_edge": 80}})
    refused(folder.run([bad], "-p<image>", "-q"), "the image resized has 1600000 x 80 pixels")
    folder.set_processor(CLIP)
    for name, data in [("photo", photo), ("tall", tall)]:  # any byte may be any other
        for at in range(4, len(data), max(len(data) // 12, 1)):
            bad.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
            run = folder.run([bad], "-p<image>", "-n0", "-q")
            check(run.status in (0, 1) and run.errors.count("\n") <= 1, f"{name}, {at}: {run}")


def check_refusals(folder, tools):
    one = ["photo.jpg"]
    for prompt, images, problem in [
        ("none", one, "stands, 0 times, expected 1 for the images of --image, or 16"),
        ("<image><image>", one, "2 times, expected 1"),
        ("<image>", one * 2, "1 times, expected 2"),
    ]:
        refused(folder.run(images, f"-p{prompt}", "-q"), problem)
    ids = ",".join(["95"] * 8 + ["4"] + ["95"] * 8)
    refused(folder.run(one, f"--ids={ids}", "-q"), "8 times from index 0 on, expected 16")
    image = f"--image={FOLDER / one[0]}"
    run = tools.run(folder.text, f"--weights={folder.path}", image, "-p<image>", "-q")
    refused(run, "part 'vision' is missing: give --part=FILE")
    weights = f"--weights={folder.path}"
    run = tools.run(folder.text, weights, f"--part={folder.parts[0]}", "-p<image>", "-q")
    refused(run, "--part needs --image or --chat")
    for changes, problem in [
        ({"size": {"longest_edge": 3}}, "'size.longest_edge' is not supported"),
        ({"resample": 1}, "not supported: expected 2 (bilinear) or 3 (bicubic)"),
        ({"do_pad": True}, "'do_pad' is true, which is not supported: expected false"),
        ({"do_pan_and_scan": True}, "'do_pan_and_scan' is true, which is not supported"),
        ({"image_std": [0, 1, 1]}, "'image_std[0]'"),
        ({"image_mean": [1]}, "'image_mean' is array, expected three numbers"),
        ({"color": 3}, "'color' is not supported"),
        ({"image_processor_type": "ViTImageProcessor"}, "'image_processor_type' is \"ViT"),
        ({"size": 80, "crop_size": 80}, "80 x 80 pixels, 400 patches; part 'vision' reads 16"),
    ]:
        folder.set_processor(CLIP | changes)
        refused(folder.run(one, "-p<image>", "-q"), problem)
    folder.set_processor({**PRISMATIC, "image_resize_strategy": "letterbox"})
    refused(folder.run(one, "-p<image>", "-q"), "expected \"resize-naive\"")
    folder.set_processor(PRISMATIC)
    refused(folder.run(one, "-p<image>", "-q"), "is for 2 towers, the model has 1")
    (folder.path / "preprocessor_config.json").unlink()
    refused(folder.run(one, "-p<image>", "-q"), "preprocessor_config.json")
    for config, problem in [
        ({**towers.TEXT, "model_type": "llama"}, 'expected a model of type "gemma3", "llava"'),
    ]:
        path = tools.scratch / "other"
        path.mkdir(exist_ok=True)
        (path / "config.json").write_text(json.dumps(config))
        flags = ["--random-weights=1", "--ids=3", "-q", image]
        refused(tools.run(folder.text, f"--weights={path}", *flags), problem)
    refused(tools.run(folder.text, *flags), "--image needs --weights")


def check_action_refusals(folder):
    for flags, problem in [
        (["--actions=kuka"], "has no statistics of --actions=kuka; it has bridge_orig"),
        ([f"--part={folder.text}"], "is part '', expected one for each part that reads images"),
        ([f"--part={folder.parts[0]}"], "is part 'vision', expected one for each"),
    ]:
        refused(folder.run(["photo.jpg"], f"-p{ORDER}", "-q", *flags), problem)
    refused(folder.run(["photo.jpg"] * 2, f"-p{ORDER}", "-q"), "takes one image, got 2")


def main():
    tools = Tools(*sys.argv[1:3])
    with np.load(GOLDENS) as file:
        goldens = dict(file)
    cache = tools.scratch / "cache"
    llava = Folder(tools, "llava", LLAVA, CLIP, ["vision"])
    check_pixels(llava, goldens)
    check_text(llava, CLIP, goldens)
    check_chat(llava, goldens)
    check_forgotten(llava)
    check_files(llava)
    check_refusals(llava, tools)
    gemma3 = Folder(tools, "gemma3", GEMMA3, SIGLIP, ["vision", "projector"], "--chunk=7")
    check_text(gemma3, PROCESSORS["gemma3"], goldens)
    check_chat(gemma3, goldens)
    check_forgotten(gemma3)
    check_folder(gemma3, goldens, cache)
    check_gemma_refusals(gemma3)
    source = tools.scratch / "gemma3.json"
    gemma3.text = tools.compile(source, "--plain", "--chunk=5", "--batch=2", out="pages.cria")
    check_text(gemma3, PROCESSORS["gemma3"], goldens)
    parts = ["vision", "vision2", "projector"]
    openvla = Folder(tools, "openvla", OPENVLA, PRISMATIC, parts)
    check_openvla(openvla, goldens)
    check_action_refusals(openvla)
    check_published(tools)
    check_documented(tools, llava, gemma3, openvla, cache)


if __name__ == "__main__":
    main()
