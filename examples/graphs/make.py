"""Makes the checkpoints beside this file, and what they must say.

Run by hand with PyTorch and Hugging Face transformers:

    python make.py

Each model has random weights, biases and norms included. `expected.npz` holds
the ids of a text, its logits in f32, and, where the model generates, the ids
that follow greedily, else the hidden states; for the encoder-decoder the source
as well.
"""

import pathlib
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
VOCAB, GREEDY = 96, 24
SIZES = dict(vocab_size=VOCAB, max_position_embeddings=64)


def opt():
    config = transformers.OPTConfig(
        hidden_size=32,
        word_embed_proj_dim=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        **SIZES,
    )
    return transformers.OPTForCausalLM(config)


def bert():
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        **SIZES,
    )
    return transformers.BertForMaskedLM(config)


def bart():
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
    }
    config = transformers.BartConfig(d_model=32, **sides, **SIZES)
    return transformers.BartForConditionalGeneration(config)


MOE = dict(
    hidden_size=32,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_local_experts=4,
    num_experts_per_tok=2,
    **SIZES,
)


def mixtral():
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**MOE))


def granitemoe():
    return transformers.GraniteMoeForCausalLM(transformers.GraniteMoeConfig(**MOE))


def randomize(model):
    """Weights large enough that the best id is clear; norms about 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            is_norm = "norm" in name.lower() and name.endswith("weight")
            parameter.copy_(1 + 0.1 * noise if is_norm else 0.2 * noise)


def greedy(logits, ids):
    """The ids that follow, one argmax after the other."""
    follow = []
    for _ in range(GREEDY):
        follow.append(int(logits(ids + follow)[-1].argmax()))
    return follow


def tensors_of(model):
    """A checkpoint's tensors. A model that merges experts is saved with them apart."""
    if "experts" in "".join(model.state_dict()):
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            return load_file(pathlib.Path(folder) / "model.safetensors")
    tensors = {}  # a tied one once
    for key, tensor in model.state_dict().items():
        if all(tensor.data_ptr() != other.data_ptr() for other in tensors.values()):
            tensors[key] = tensor.contiguous()
    return tensors


def make(name, model, ids, source=None):
    randomize(model.eval())
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    save_file(tensors_of(model), folder / "model.safetensors", {"format": "pt"})

    @torch.no_grad()
    def logits(ids):
        ids = torch.tensor([ids])
        if source is None:
            return model(input_ids=ids).logits[0].numpy()
        other = torch.tensor([source])
        return model(input_ids=other, decoder_input_ids=ids).logits[0].numpy()

    expected = {"ids": ids, "logits": logits(ids)}
    if source is not None:
        expected["source"] = source
    if name == "bert":
        with torch.no_grad():
            states = model.base_model(input_ids=torch.tensor([ids]))
        expected["hidden"] = states.last_hidden_state[0].numpy()
    else:
        expected["greedy"] = greedy(logits, ids)
    np.savez(folder / "expected.npz", **expected)


def main():
    torch.manual_seed(0)
    ids = [(7 * i + 3) % VOCAB for i in range(30)]
    make("opt", opt(), ids)
    make("bert", bert(), ids)
    make("bart", bart(), ids[:5], source=ids)
    make("mixtral", mixtral(), ids)
    make("granitemoe", granitemoe(), ids)


main()
