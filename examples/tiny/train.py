#!/usr/bin/env python3
"""Trains the model of this folder on the stories of stories.py, from nothing.

Writes the tokenizer, the config and the weights beside itself. Twenty minutes
on one core. Made with Python 3.11 and
  torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3 safetensors==0.8.0

usage: train.py [STEPS]
"""

import itertools
import json
import math
import pathlib
import sys
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


def make_config(tokenizer):
    return transformers.LlamaConfig(
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
    start = time.time()
    for step, ids in enumerate(itertools.islice(source, steps)):
        logits = model(ids[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), ids[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 0 or step == steps - 1:
            passed = time.time() - start
            print(f"{step} loss {loss.item():.4f} {passed:.0f} s", flush=True)


def save(tokenizer, model, config):
    """The Hugging Face layout, rounded once to bf16."""
    tokenizer.save(str(FOLDER / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
    }
    text = json.dumps(described, indent=2) + "\n"
    (FOLDER / "tokenizer_config.json").write_text(text)
    model = model.to(torch.bfloat16)
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        do_sample=True,
        temperature=0.7,
        top_p=0.95,
    )
    model.save_pretrained(FOLDER)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2600
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    tokenizer = train_tokenizer()
    config = make_config(tokenizer)
    model = transformers.LlamaForCausalLM(config)
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    train(model, batches(tokenizer), steps)
    save(tokenizer, model, config)


if __name__ == "__main__":
    main()
