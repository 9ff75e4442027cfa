"""ranks_cuda.py BIN SCRATCH PART...: two ranks of MPICH on emulated GPUs are one
model.

Each rank is a process with an emulated device of its own, as it would have a GPU of
its own: the path is that of a run on GPUs, but for NCCL, whose place a library of the
tests takes (test/nccl). Ids and logits are those of one rank on the CPU.
"""

import json
import sys

import numpy as np

import ranks as cpu
import weights
from harness import Tools, check, check_as_faithful, some
from ranks import PROMPT, SEED, Ranks, check_same, config_of, write_shards

IDS = 24


def both(tools, config, *flags, chip="sm_80"):
    """The artifacts of one rank, for the CPU, and of two."""
    one = tools.compile(config, "--dtype=f32", *flags, out="one.cria")
    cuda = ["--shards=2", "--target=cuda", f"--chip={chip}", "--chunk=4"]
    two = tools.compile(config, "--dtype=f32", *cuda, *flags, out="two.cria")
    return one, two


def check_f32(tools, ranks):
    for name, count in {"llama": IDS, "phi3": IDS, "gemma2": IDS, "olmo2": 8}.items():
        artifacts = both(tools, config_of(tools, name))
        check_same(tools, ranks, artifacts, name, count=count)


def check_bf16(tools, ranks):
    """Two ranks are as near to f32 as one is."""
    config, source = config_of(tools, "llama"), f"--random-weights={SEED}"
    folder = tools.scratch / "bf16"
    read = json.loads(config.read_text())
    write_shards(folder, weights.llama_weights(read, SEED, "bf16"), "bf16")
    source = f"--weights={folder}"
    exact, peer = (
        tools.logits(tools.compile(config, f"--dtype={dtype}"), PROMPT, source)
        for dtype in ("f32", "bf16")
    )
    two = tools.compile(config, "--dtype=bf16", "--shards=2", "--target=cuda", "--chunk=4")
    check_as_faithful(exact, peer, ranks.logits(two, PROMPT, source), "bf16")


def check_overlap(tools, ranks):
    """On a chip whose launches overlap, between sums, which the emulator checks."""
    ranks.environment["CRIA_EMULATOR_DEVICE"] = "sm_90"
    artifacts = both(tools, config_of(tools, "llama"), chip="sm_90")
    check_same(tools, ranks, artifacts, "sm_90", count=IDS)
    del ranks.environment["CRIA_EMULATOR_DEVICE"]


def check_checkpoint(tools, ranks):
    """Shares of rows and columns of a checkpoint of another type, with an adapter,
    and a vocabulary that two ranks cannot share."""
    config = config_of(tools, "llama", attention_bias=True, vocab_size=321)
    read = json.loads(config.read_text())
    folder, lora = tools.scratch / "checkpoint", tools.scratch / "lora"
    write_shards(folder, weights.llama_weights(read, SEED, "bf16"), "bf16")
    shapes = weights.llama_shapes(read)
    targets = ["q_proj", "down_proj"]
    weights.write_adapter(lora, {name: shape for name, shape in shapes.items()
                                 if name.split(".")[-2] in targets
                                 and name.endswith("weight")})
    source = [f"--weights={folder}", f"--lora={lora}"]
    check_same(tools, ranks, both(tools, config), "checkpoint", *source, count=IDS)


def check_tied(tools, ranks):
    """A head that is the embedding, each rank's share of it or all of it."""
    for vocab in (320, 321):
        config = config_of(tools, "llama", tie_word_embeddings=True, vocab_size=vocab)
        what = f"tied, {vocab} ids"
        check_same(tools, ranks, both(tools, config), what, count=IDS)


def check_blocks(tools, ranks):
    """Shares of rows and columns that are whole blocks."""
    config = config_of(tools, "llama", intermediate_size=192, head_dim=32)
    artifacts = both(tools, config, "--quantize=q4_0,head=q8_0", "--kv=q8_0")
    check_same(tools, ranks, artifacts, "in blocks", count=IDS)


def check_sampled(tools, ranks):
    """The draws of one rank, and the embeddings of a prefix before the prompt."""
    artifacts = both(tools, config_of(tools, "llama"))
    prefix = tools.scratch / "prefix.npy"
    random = np.random.default_rng(SEED)
    np.save(prefix, random.normal(0, 1, (5, 64)).astype(np.float32))
    flags = [f"--random-weights={SEED}", "--ids=1,2,3", f"--max-tokens={IDS}"]
    flags += ["--temperature=0.8", "--top-p=0.9", "--seed=3", "--print-ids"]
    flags += [f"--prefix-embeddings={prefix}"]
    expected = tools.run(artifacts[0], *flags).ok().ids()
    got = ranks.run(artifacts[1], *flags).ok().ids()
    check(got == expected, f"sampled: {got}, expected {expected}")


def check_prompts(tools, ranks):
    """A batch, whose embeddings the host brings."""
    folder = cpu.write_text_model(tools, "text")
    lines = [cpu.STORY, "Z", cpu.STORY + "She"]
    artifacts = both(tools, folder / "config.json", "--batch=2", "--max-seq=64")
    cpu.check_lines(tools, ranks, artifacts, folder, lines, 1, "--max-tokens=3",
                    "--temperature=0")


def main():
    bin, scratch, *parts = sys.argv[1:]
    tools = Tools(bin, scratch)
    ranks = Ranks(bin, f"{scratch}-ranks", "mpich", device="emulated")
    for part in some(parts, 3):
        globals()[f"check_{part}"](tools, ranks)


main()
