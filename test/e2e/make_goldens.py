#!/usr/bin/env python3
"""Makes test/e2e/goldens: the results of Hugging Face transformers for tiny models
with the weights of `--random-weights`, and for stories260K.

A golden is a folder with config.json and golden.npz:
  ids      the tokens of the longest prompt; every shorter one is its beginning
  rows     positions whose logits are kept
  f32      (rows, vocab) f32 logits, computed in f32 from the weights as stored
  stored   the same computed in the storage type (f16 and bf16 models only), as
           the bits of that type
  greedy   the f32 model's continuation of the first ids
  seed     of --random-weights: the first one with which every greedy choice
           leads by more than MARGIN
and hidden.npz, of the last HIDDEN of these rows:
  f32      (rows, hidden) f32: last_hidden_state, computed as `f32` above
  stored   the same as `stored` above
SHA256SUMS covers all of it. Made with Python 3.11 and
  torch==2.15.0 transformers==5.23.0 numpy==2.2.6 safetensors==0.8.0

usage: make_goldens.py [STORIES260K_FOLDER|- [NAME...]]
       make_goldens.py hidden [NAME...]: hidden.npz of the goldens that are there
"""

import hashlib
import json
import pathlib
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

import cases
import weights

FOLDER = pathlib.Path(__file__).resolve().parent / "goldens"
MARGIN = 2e-3
HIDDEN = 8
TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def model_of(folder, state=None, dtype="f32"):
    """The model in `dtype`, with attention computed as in the paper."""
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(
        config, dtype=torch.float32
    ).eval()
    if state is None:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32
        )
    else:
        loaded = loaded_from(config, state)
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    rotary = getattr(model.base_model, "rotary_emb", None) or torch.nn.Module()
    tables = {name: table.clone() for name, table in rotary.named_buffers()}
    model = model.to(TORCH[dtype])
    for name, table in tables.items():  # f32 tables, as from_pretrained
        setattr(rotary, name, table)
    return model


def loaded_from(config, state):
    """The model of a checkpoint with these tensors, all of which it must have."""
    with tempfile.TemporaryDirectory() as checkpoint:
        config.save_pretrained(checkpoint)
        safetensors.torch.save_file(state, f"{checkpoint}/model.safetensors")
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            checkpoint, dtype=torch.float32, output_loading_info=True
        )
    assert not any(info.values()), info
    return model


def shapes_of(folder):
    """{checkpoint name: shape} of the tensors that transformers saves."""
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with tempfile.TemporaryDirectory() as checkpoint:
        model.save_pretrained(checkpoint)
        state = safetensors.torch.load_file(f"{checkpoint}/model.safetensors")
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def logits_of(model, ids):
    """(tokens, vocab) of one forward pass."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def hidden_of(model, ids):
    """(tokens, hidden) of one forward pass: the head's input."""
    with torch.no_grad():
        body = model.base_model(torch.tensor([ids]), use_cache=False)
    return body.last_hidden_state[0]


def greedy_of(model, ids, count):
    """`count` greedy ids, and the smallest margin of a choice."""
    ids, margin = list(ids), float("inf")
    for _ in range(count):
        best = torch.topk(logits_of(model, ids)[-1], 2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        ids.append(best.indices[0].item())
    return ids[-count:], margin


def bits_of(tensor):
    return tensor.contiguous().view(torch.int16).numpy().view(np.uint16)


def write(folder, name="golden.npz", **arrays):
    np.savez_compressed(folder / name, **arrays)


def state_of(seed, folder, dtype):
    """The weights of --random-weights, as stored in the type."""
    return {
        name: torch.from_numpy(
            weights.rounded(weights.values(seed, name, shape), dtype)
        )
        for name, shape in shapes_of(folder).items()
    }


def make_hidden(name, case):
    """Makes hidden.npz of a golden, after a check that the weights still give its
    logits."""
    folder = FOLDER / name
    with np.load(folder / "golden.npz") as golden:
        seed, ids = int(golden["seed"]), golden["ids"].tolist()
        rows, known = golden["rows"], golden["f32"]
    state = state_of(seed, folder, case.dtype)
    model, rows_kept = model_of(folder, state), rows[-HIDDEN:]
    apart = np.abs(logits_of(model, ids)[rows].numpy() - known).max()
    assert apart < 1e-4, (name, apart)
    arrays = {"f32": hidden_of(model, ids)[rows_kept].numpy()}
    if case.dtype != "f32":
        stored = hidden_of(model_of(folder, state, case.dtype), ids)
        arrays["stored"] = bits_of(stored[rows_kept])
    write(folder, "hidden.npz", **arrays)
    print(f"{name}: hidden states, spread {arrays['f32'].std():.3f}")


def seeded(case, folder):
    """The first seed with clear greedy choices, and its results."""
    config = case.config
    for seed in range(1, 100):
        state = state_of(seed, folder, case.dtype)
        model = model_of(folder, state)
        rng = np.random.default_rng(seed)
        ids = rng.integers(3, config["vocab_size"], case.tokens).tolist()
        start = ids[: case.greedy_from]
        greedy, margin = greedy_of(model, start, cases.GREEDY)
        if margin > MARGIN and config["eos_token_id"] not in greedy:
            return seed, state, model, ids, greedy
    raise RuntimeError(f"{folder.name}: no seed serves")


def make_random(name, case):
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, config in case.configs().items():
        text = json.dumps(config, indent=2) + "\n"
        (folder / file).write_text(text)
    seed, state, model, ids, greedy = seeded(case, folder)
    dtype = case.dtype
    rows = case.rows()
    arrays = {"f32": logits_of(model, ids)[rows].numpy(), "greedy": greedy}
    if dtype != "f32":
        stored = logits_of(model_of(folder, state, dtype), ids)[rows]
        arrays["stored"] = bits_of(stored)
    write(folder, seed=seed, ids=ids, rows=rows, **arrays)
    print(f"{name}: seed {seed}, spread {arrays['f32'].std():.3f}")


def make_stories(checkpoint):
    folder = FOLDER / "stories260K"
    folder.mkdir(parents=True, exist_ok=True)
    model = model_of(checkpoint)
    greedy, margin = greedy_of(model, [1], 200)
    rows = [*range(16), *range(23, 201, 16)]
    kept = logits_of(model, [1, *greedy])[rows].numpy()
    write(folder, ids=[1, *greedy], rows=rows, f32=kept, greedy=greedy)
    print(f"stories260K: margin {margin:.4f}, spread {kept.std():.3f}")


def main():
    torch.set_num_threads(1)
    only_hidden = sys.argv[1:2] == ["hidden"]
    for name, case in cases.CASES.items():
        if name in sys.argv[2:] or not sys.argv[2:]:
            if not only_hidden:
                make_random(name, case)
            make_hidden(name, case)
    if len(sys.argv) > 1 and sys.argv[1] != "-" and not only_hidden:
        make_stories(pathlib.Path(sys.argv[1]))
    files = sorted(path for path in FOLDER.glob("*/*.*") if path.is_file())
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  "
        f"{path.relative_to(FOLDER)}\n"
        for path in files
    ]
    (FOLDER / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    main()
