#!/usr/bin/env python3
"""Trains a model on the stories of stories.py, from nothing.

Writes the tokenizer, the config and the weights of the model of this folder,
or, with --experts, of the mixture of experts in ../tiny-moe. Made with Python
3.11 and
  torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0
"""

import argparse
import itertools
import json
import math
import pathlib
import time

import tokenizers
import torch
import transformers

import stories

FOLDER = pathlib.Path(__file__).resolve().parent
SEED = 1
CONTEXT = 256  # tokens
BATCH = 16  # sequences a step
PEAK_RATE = 4e-3
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
# The expression of Llama 3: contractions, words, up to three digits,
# punctuation, white space.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer():
    """Byte-level BPE of 768 tokens, the two special ones last, as Llama 3."""
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(ignore_merges=True, byte_fallback=False)
    )
    pre = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = pre.Sequence(
        [
            pre.Split(tokenizers.Regex(SPLIT), "isolated"),
            pre.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=766,
        initial_alphabet=sorted(pre.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        itertools.islice(stories.stories(SEED), 5000), trainer
    )
    tokenizer.add_special_tokens([BOS, EOS])
    bos = tokenizer.token_to_id(BOS)
    tokenizer.post_processor = tokenizers.processors.Sequence(
        [
            tokenizers.processors.ByteLevel(trim_offsets=False),
            tokenizers.processors.TemplateProcessing(
                single=f"{BOS} $A",
                pair=f"{BOS} $A {BOS}:1 $B:1",
                special_tokens=[(BOS, bos)],
            ),
        ]
    )
    return tokenizer


def batches(tokenizer):
    """Yields (BATCH, CONTEXT + 1) ids: stories end to end, each row begins
    with one."""
    source = stories.stories(SEED + 1)
    end = [tokenizer.token_to_id(EOS)]
    while True:
        rows = []
        for _ in range(BATCH):
            row = []
            while len(row) <= CONTEXT:
                row += tokenizer.encode(next(source)).ids + end
            rows.append(row[: CONTEXT + 1])
        yield torch.tensor(rows)


def shared_config(tokenizer):
    """What the two models have in common."""
    return dict(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=5,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(BOS),
        eos_token_id=tokenizer.token_to_id(EOS),
        pad_token_id=None,
    )


def make_dense(shared):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shared))


def make_experts(shared):
    """A layer has eight small experts in place of an MLP; two of them see a
    token."""
    config = transformers.Qwen3MoeConfig(
        **shared,
        head_dim=16,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        norm_topk_prob=True,
        router_aux_loss_coef=0.01,
    )
    return transformers.Qwen3MoeForCausalLM(config)


def balance(router_logits, config):
    """The mean over layers of the balance loss of the Switch Transformer (2022,
    equation 4): 1 where every expert gets as many tokens as the others."""
    losses = []
    for logits in router_logits:  # (tokens, experts)
        chances = logits.softmax(-1)
        chosen = chances.topk(config.num_experts_per_tok).indices
        counts = torch.bincount(chosen.flatten(), minlength=config.num_experts)
        load = config.num_experts * counts / counts.sum()
        losses.append(load @ chances.mean(0))
    return torch.stack(losses).mean()


def rate(step, steps):
    """Warm-up over 100 steps, then a cosine to zero."""
    if step < 100:
        return (step + 1) / 100
    return 0.5 + 0.5 * math.cos(math.pi * (step - 100) / (steps - 100))


def train(model, source, steps):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rate(step, steps)
    )
    experts = hasattr(model.config, "num_experts")
    asked = {"output_router_logits": True} if experts else {}
    for step, ids in enumerate(itertools.islice(source, steps)):
        output = model(ids[:, :-1], use_cache=False, **asked)
        loss = torch.nn.functional.cross_entropy(
            output.logits.flatten(0, 1), ids[:, 1:].flatten()
        )
        total, note = loss, ""
        if asked:
            unbalance = balance(output.router_logits, model.config)
            total = loss + model.config.router_aux_loss_coef * unbalance
            note = f" balance {unbalance.item():.3f}"
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0 or step == steps - 1:
            note += f" {time.process_time():.0f} s"
            print(f"{step} loss {loss.item():.4f}{note}", flush=True)


def save(tokenizer, model, folder):
    """The Hugging Face layout, rounded once to bf16."""
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    text = json.dumps(described, indent=2) + "\n"
    (folder / "tokenizer_config.json").write_text(text)
    model = model.to(torch.bfloat16)
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=model.config.bos_token_id,
        eos_token_id=model.config.eos_token_id,
        do_sample=True,
        temperature=0.7,
        top_p=0.95,
    )
    model.save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experts", action="store_true")
    parser.add_argument("--steps", type=int, default=2600)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    tokenizer = train_tokenizer()
    make = make_experts if options.experts else make_dense
    model = make(shared_config(tokenizer))
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    train(model, batches(tokenizer), options.steps)
    folder = FOLDER.parent / "tiny-moe" if options.experts else FOLDER
    save(tokenizer, model, folder)


if __name__ == "__main__":
    main()
