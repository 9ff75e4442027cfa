"""ranks.py BIN SCRATCH MPI: two ranks of mpirun.MPI are one model.

For small models of several families in f32, compiled with --shards=2: greedy, the
64 ids of one rank; logits by the bar of f32. Of a checkpoint on disk, its tensors
in several files and of another type, as of --random-weights. Matrices in blocks,
caches in blocks, GGUF, GPTQ, adapters, sampling, and a vocabulary that two ranks
cannot share. A rank's memory is its share of the weights.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import tokenizers

import families
import gguf_files
import packed
import weights
from harness import Tools, check, check_close, execute, some
from run_faults import TINY

SEED = 7
PROMPT = [1, 5, 9, 44, 200, 17, 3]
# Two KV heads, and an even intermediate size, as all of SMALL.
FAMILIES = ["llama", "granitemoe", "gpt_oss", "phi3", "gemma2", "granite", "qwen3",
            "olmo2", "deepseek_v3"]
CHANGES = {"gemma2": {"num_key_value_heads": 2}, "olmo2": {"num_hidden_layers": 2}}
# Two ranks on any machine, whoever runs them.
OPTIONS = {
    "mpich": [],
    "openmpi": ["--oversubscribe", "--bind-to", "none"],
}
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "CRIA_MPI_TIMEOUT": "120",
}


class Ranks(Tools):
    """Runs artifacts under mpirun, as many ranks as `count`, on `device`: of the
    emulated ones each process has its own."""

    def __init__(self, bin, scratch, mpi, count=2, device="cpu"):
        super().__init__(bin, scratch)
        self.mpi, self.count, self.device = mpi, count, device
        nccl = self.bin.parent / "lib" / "libnccl-stand-in.so"
        self.environment = ENVIRONMENT | {"CRIA_NCCL": str(nccl)}

    def mpirun(self, *programs):
        """One program for all ranks, or one for each."""
        each = self.count if len(programs) == 1 else 1
        command = [f"mpirun.{self.mpi}", *OPTIONS[self.mpi]]
        for i, program in enumerate(programs):
            command += [":"] * (i > 0) + ["-n", each, *program]
        return command

    def run(self, artifact, *flags):
        own = ["--threads=1", f"--device={self.device}"]
        program = self.run_command(artifact, *own, *flags)
        return execute(self.mpirun(program), env=self.environment)


def config_of(tools, name, **changes):
    config = families.FAMILIES[name] | CHANGES.get(name, {}) | changes
    path = tools.scratch / f"{name}.json"
    path.write_text(json.dumps(families.in_own_names(config)))
    return path


def both(tools, config, *flags):
    """The artifacts of one rank and of two."""
    one = tools.compile(config, "--dtype=f32", *flags, out="one.cria")
    two = tools.compile(config, "--dtype=f32", "--shards=2", *flags, out="two.cria")
    return one, two


def check_same(tools, ranks, artifacts, what, *flags, count=64):
    """`count` ids and the logits of the prompt."""
    one, two = artifacts
    source = flags or [f"--random-weights={SEED}"]
    expected = tools.greedy(one, PROMPT, count, *source)
    got = ranks.greedy(two, PROMPT, count, *source)
    check(got == expected, f"{what}: two ranks say {got}, one {expected}")
    logits = [where.logits(which, PROMPT, *source)
              for where, which in ((tools, one), (ranks, two))]
    check_close(*logits, what)


def check_family(tools, ranks, name):
    artifacts = both(tools, config_of(tools, name))
    check_same(tools, ranks, artifacts, name)


def write_shards(folder, arrays, dtype):
    """Every second tensor to each of two files, and their index."""
    folder.mkdir()
    names, where = list(arrays), {}
    for part in range(2):
        file = f"model-{part + 1:05}-of-00002.safetensors"
        own = {name: arrays[name] for name in names[part::2]}
        weights.write_safetensors(folder / file, own, dtype, align=64)
        where |= {name: file for name in own}
    index = json.dumps({"metadata": {}, "weight_map": where})
    (folder / "model.safetensors.index.json").write_text(index)


def check_checkpoint(tools, ranks):
    """In place, and converted; with and without an adapter."""
    config = config_of(tools, "llama", attention_bias=True)
    artifacts = both(tools, config)
    drawn = ranks.logits(artifacts[1], PROMPT, f"--random-weights={SEED}")
    read = json.loads(config.read_text())
    for dtype in ("f32", "bf16"):
        folder = tools.scratch / f"checkpoint-{dtype}"
        write_shards(folder, weights.llama_weights(read, SEED, dtype), dtype)
        check_same(tools, ranks, artifacts, dtype, f"--weights={folder}")
    folder = tools.scratch / "checkpoint-f32"
    got = ranks.logits(artifacts[1], PROMPT, f"--weights={folder}")
    check(np.array_equal(drawn, got), "--weights: not what --random-weights gives")
    lora = tools.scratch / "lora"
    shapes = weights.llama_shapes(read)
    targets = ["q_proj", "o_proj", "down_proj"]
    weights.write_adapter(lora, {name: shape for name, shape in shapes.items()
                                 if name.split(".")[-2] in targets
                                 and name.endswith("weight")})
    source = [f"--weights={folder}", f"--lora={lora}"]
    check_same(tools, ranks, artifacts, "adapter", *source)
    merged = tools.logits(artifacts[0], PROMPT, *source)
    artifacts = both(tools, config, "--lora-rank=6")
    source.append("--lora-unmerged")
    check_same(tools, ranks, artifacts, "unmerged adapter", *source)
    check_close(merged, ranks.logits(artifacts[1], PROMPT, *source), "unmerged")


def check_blocks(tools, ranks):
    """Shares of rows and columns that are whole blocks."""
    config = config_of(tools, "llama", intermediate_size=192, head_dim=32,
                       vocab_size=321)
    artifacts = both(tools, config, "--quantize=q4_0,head=q8_0", "--kv=q8_0")
    check_same(tools, ranks, artifacts, "in blocks")


def check_formats(tools, ranks):
    """GGUF, whose rows of queries and keys are in another order, and GPTQ."""
    sizes = {"intermediate_size": 256, "head_dim": 32, "hidden_size": 256}
    config = config_of(tools, "llama", **sizes)
    read = json.loads(config.read_text())
    known = {key: value for key, value in read.items() if value is not None}
    arrays = weights.llama_weights(read, SEED, "f32")
    for kind, flags in ("F32", []), ("Q8_0", ["--quantize=q8_0"]):
        artifacts = both(tools, config, *flags)
        file = tools.scratch / f"{kind}.gguf"
        gguf_files.write(file, known, arrays, gguf_files.TYPES[kind])
        check_same(tools, ranks, artifacts, kind, f"--weights={file}")
    # Blocks of 256 columns; half of one is none.
    blocks = {
        name: np.zeros((array.shape[0], array.shape[1] // 256 * 144), "u1")
        for name, array in arrays.items()
        if array.ndim == 2 and array.shape[1] % 256 == 0
    }
    file = tools.scratch / "Q4_K.gguf"
    gguf_files.write(file, known, arrays, gguf_files.TYPES.Q4_K, blocks=blocks)
    run = ranks.run(artifacts[1], f"--weights={file}", "--ids=1")
    text = "in blocks of 256 columns; a rank's share of 128 is no whole blocks"
    check(run.status != 0 and text in run.errors, f"{run}\nexpected '{text}'")
    random, tensors = np.random.default_rng(SEED), {}
    for name, array in arrays.items():
        if "_proj." in name:
            tensors |= packed.gptq(name, array.astype(np.float64), random)[0]
        else:
            tensors[name] = ("F32", array)
    packed.write(tools.scratch / "gptq", tensors)
    folder = tools.scratch / "gptq"
    check_same(tools, ranks, both(tools, config), "gptq", f"--weights={folder}")


def check_sampled(tools, ranks):
    artifacts = both(tools, config_of(tools, "llama"))
    flags = [f"--random-weights={SEED}", "--ids=1,2,3", "--max-tokens=24"]
    flags += ["--temperature=0.8", "--top-p=0.9", "--seed=3", "--print-ids"]
    expected, got = (where.run(which, *flags).ok().ids()
                     for where, which in ((tools, artifacts[0]), (ranks, artifacts[1])))
    check(got == expected, f"sampled: {got}, expected {expected}")


def check_ends(tools, ranks):
    """Logits that are all equal, and one that is not finite, of the other rank."""
    config = config_of(tools, "llama")
    artifact = tools.compile(config, "--dtype=f32", "--shards=2")
    arrays = weights.llama_weights(json.loads(config.read_text()), SEED, "f32")
    flags = ["--ids=1,2,3", "--max-tokens=4", "--temperature=0", "--print-ids"]
    head = arrays["lm_head.weight"]
    head[:] = 0
    write_shards(tools.scratch / "equal", arrays, "f32")
    run = ranks.run(artifact, f"--weights={tools.scratch / 'equal'}", *flags)
    check(run.ok().ids() == [0] * 4, f"equal logits: {run.ids()}")
    head[200] = np.nan
    write_shards(tools.scratch / "nan", arrays, "f32")
    run = ranks.run(artifact, f"--weights={tools.scratch / 'nan'}", *flags)
    failed = run.status != 0 and "the logit of id 200 is nan" in run.errors
    check(failed, f"{run}\nexpected an error that names id 200")


def write_text_model(tools, name):
    """A folder of random weights in f32 with the tokenizer of the shipped model. The
    embedding of the only id of "Z" is not finite."""
    folder = tools.scratch / name
    config = json.loads((TINY / "config.json").read_text())
    config |= {"tie_word_embeddings": False, "num_hidden_layers": 2}
    arrays = weights.llama_weights(config, SEED, "f32")
    tokenizer = tokenizers.Tokenizer.from_file(str(TINY / "tokenizer.json"))
    ids = tokenizer.encode("Z", add_special_tokens=False).ids
    arrays["model.embed_tokens.weight"][ids[-1]] = np.nan
    write_shards(folder, arrays, "f32")
    (folder / "config.json").write_text(json.dumps(config))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / file, folder)
    return folder


STORY = "Once upon a time, there was a little fox named Lily. " * 2


def check_lines(tools, ranks, artifacts, source, lines, failures, *flags):
    """Both say the same to each line, and so many fail; ids of pages are reused."""
    file = tools.scratch / "prompts.txt"
    file.write_text("\n".join(lines) + "\n")
    runs = [where.run(which, f"--prompts={file}", f"--weights={source}", *flags)
            for where, which in zip((tools, ranks), artifacts)]
    # mpirun may say something, too.
    expected, got = (re.findall("{.*}", run.text) for run in runs)
    check(got == expected, f"{runs[1]}\n{got}, expected {expected}")
    words = f"error: --prompts: {failures} of {len(lines)} prompts failed"
    for run in runs:
        check(run.status == 1 and words in run.errors, f"{run}\nexpected '{words}'")
    reused = [re.search(r"(\d+) tokens were there", run.errors)[1] for run in runs]
    check(reused[0] == reused[1] != "0", f"{reused} ids were reused")


def check_prompts(tools, ranks):
    """A batch: texts that join and leave, find each other's pages, and fail alone
    on both ranks. The vocabulary is shared, or not; a session runs as well."""
    folder = write_text_model(tools, "text")
    lines = [STORY, "One day", STORY + "She", "", "Z", "word " * 300, STORY * 2, "Tom"]
    flags = ["--max-tokens=24", "--seed=3"]
    artifacts = both(tools, folder / "config.json", "--batch=3")
    for temperature in (0, 0.8):
        check_lines(tools, ranks, artifacts, folder, lines, 2, *flags,
                    f"--temperature={temperature}")
    ids = [where.greedy(which, PROMPT, 24, f"--weights={folder}")
           for where, which in zip((tools, ranks), artifacts)]
    check(ids[0] == ids[1], f"a session: {ids}")
    # A rank whose tokenizer is another.
    other = tools.scratch / "other"
    shutil.copytree(folder, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    vocab["T"], vocab["L"] = vocab["L"], vocab["T"]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    file = tools.scratch / "prompts.txt"
    programs = [ranks.run_command(artifacts[1], "--threads=1", f"--weights={source}",
                                  f"--prompts={file}") for source in (folder, other)]
    run = execute(ranks.mpirun(*programs), env=ranks.environment)
    text = "the ranks differ: not all have the same ids of a prompt"
    check(run.status != 0 and text in run.errors, f"{run}\nexpected '{text}'")
    artifacts = both(tools, TINY / "config.json", "--batch=3")
    check_lines(tools, ranks, artifacts, TINY, lines, 1, *flags, "--temperature=0.8")


def check_chat(tools, ranks):
    """The conversation of one rank. A person may think for longer than ranks wait for
    each other."""
    folder = tools.scratch / "chat"
    shutil.copytree(TINY, folder)
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)
    flags = ["--chat", f"--weights={folder}", "--max-tokens=12", "--temperature=0.8",
             "--seed=3"]
    one, two = both(tools, TINY / "config.json")
    commands = [tools.run_command(one, *flags),
                ranks.mpirun(ranks.run_command(two, "--threads=1", *flags))]
    said = []
    for command in commands:
        talk = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            bufsize=0,  # communicate reads what readline has not
            env=ranks.environment | {"CRIA_MPI_TIMEOUT": "1"})
        talk.stdin.write(b"a fox\n\xff\n" + b"long " * 400 + b"\na mouse\n")
        talk.stdin.flush()
        reply = talk.stdout.readline()
        time.sleep(2 * (command is commands[1]))
        rest, _ = talk.communicate(b"/reset\na bird\n/exit\n", timeout=100)
        check(talk.returncode == 0, f"{command}: exit {talk.returncode}")
        said.append(reply + rest)
    check(said[0] == said[1] and said[0].count(b"\n") == 3, f"{said}")


def check_bench(tools, ranks):
    """cria-bench measures two ranks at once, and reports them once."""
    _, two = both(tools, config_of(tools, "llama"), "--batch=2")
    bench = [tools.bin / "cria-bench", two, "--threads=1", "--gen-len=8"]
    bench += ["--prompt-len=16", "--batch=1,2", f"--device={ranks.device}", "--json"]
    run = execute(ranks.mpirun(bench), env=ranks.environment).ok()
    report = json.loads(run.text)
    check(report["ranks"] == 2, f"{run}: {report}")
    check(report["read_bytes_per_second"] > 0, f"{run}: {report}")
    for row in (*report["decode"], *report["prefill"], *report["batch"]):
        check(row["fraction"] > 0 and row["seconds"] > 0, f"{run}: {row}")
    check(report["batch"][1]["sequences"] == 2, f"{run}: {report}")
    run = execute(ranks.mpirun([*bench, "--kernels"]), env=ranks.environment)
    text = "--kernels: expected an artifact for one rank"
    check(run.status != 0 and text in run.errors, f"{run}\nexpected '{text}'")
    run = execute(bench)
    text = "is for 2 ranks: start cria-bench by mpirun -n 2"
    check(run.status == 1 and text in run.errors, f"{run}\nexpected '{text}'")


def peak(run):
    found = re.search(r"peak memory of a rank ([\d.]+) MiB", run.ok().errors)
    check(found, f"{run}\nexpected the peak memory of a rank")
    return float(found[1])


def check_memory(tools, ranks):
    """What a rank takes beyond a tiny model's is at most 1.05 of its share."""
    config = config_of(
        tools, "llama", hidden_size=1024, intermediate_size=3072,
        num_attention_heads=16, num_key_value_heads=4, vocab_size=4096)
    read = json.loads(config.read_text())
    folder = tools.scratch / "large"
    write_shards(folder, weights.llama_weights(read, SEED, "f32"), "f32")
    # Hardly any scratch and caches, which are no share of the weights.
    flags = ["--dtype=f32", "--shards=2", "--max-seq=8", "--chunk=4"]
    small = tools.compile(config_of(tools, "qwen3"), *flags, out="small.cria")
    large = tools.compile(config, *flags, out="large.cria")
    prompt = ["--ids=1,2,3", "--max-tokens=3", "--print-ids"]
    base = peak(ranks.run(small, f"--random-weights={SEED}", *prompt))
    taken = peak(ranks.run(large, f"--weights={folder}", *prompt)) - base
    share = sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 2
    embedding = read["vocab_size"] * read["hidden_size"] * 4 / 2
    most = 1.05 * share / 2**20
    check(taken <= most, f"a rank takes {taken:.1f} MiB, expected at most {most:.1f}")
    least = (share - embedding) / 2**20
    check(taken >= 0.95 * least, f"a rank takes {taken:.1f} MiB of {least:.1f}?")


def main():
    bin, scratch, mpi, *parts = sys.argv[1:]
    tools, ranks = Tools(bin, scratch), Ranks(bin, f"{scratch}-ranks", mpi)
    for name in parts or some(FAMILIES, 3):
        if name in FAMILIES:
            check_family(tools, ranks, name)
        else:
            globals()[f"check_{name}"](tools, ranks)


if __name__ == "__main__":
    main()
