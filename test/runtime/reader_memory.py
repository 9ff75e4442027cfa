"""reader_memory.py BIN TINY ARTIFACT SCRATCH: the memory of readers of foreign files.

Each file is valid or refused, and is made to take the most memory for its size. A tool
reads the file. Its peak memory may exceed that of the same command with a small file by
the size of the file and 64 MiB, or, for a tokenizer, by 768 MiB.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

MIB = 1 << 20
BIN, TINY, ARTIFACT, SCRATCH = map(pathlib.Path, sys.argv[1:])


def peak(*command):
    """The most memory of a command, and what it says."""
    command = [BIN / command[0], *command[1:]]
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=-1, stderr=subprocess.STDOUT
    )
    said = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if os.WIFSIGNALED(status):
        sys.exit(f"{command}: signal {os.WTERMSIG(status)}")
    return usage.ru_maxrss * 1024, said


# JSON.


def many(text, count):
    return ",".join([text] * count)


def members(value, count):
    return "{" + ",".join(f'"{i:x}":{value}' for i in range(count)) + "}"


def tokenizer(vocab="{}", merges="[]", added="[]", truncation="null"):
    return (
        f'{{"truncation":{truncation},"added_tokens":{added},'
        f'"model":{{"type":"BPE","vocab":{vocab},"merges":{merges}}}}}'
    )


def vocabulary(texts):
    return "{" + ",".join(f'"{text}":{i}' for i, text in enumerate(texts)) + "}"


def merges(count):
    """Tokens, and the pairs that they are made of: the first digits and the last."""
    texts = [f"{i:x}" for i in range(count)]
    return texts, [(text[:-1], text[-1]) for text in texts[16:]]


def added(count):
    flags = '"single_word":false,"lstrip":false,"rstrip":false,"normalized":true'
    return "[" + ",".join(
        f'{{"id":{i},"content":"{i:0250x}",{flags},"special":false}}'
        for i in range(count)
    ) + "]"


def of_merges(count):
    texts, pairs = merges(count)
    listed = ",".join(f'["{a}","{b}"]' for a, b in pairs)
    return tokenizer(vocabulary(texts), f"[{listed}]")


def string(size):
    return '"' + size * "x" + '"'


TOKENIZERS = {
    "objects": lambda: tokenizer(truncation="[" + many('{"":{}}', 3_900_000) + "]"),
    "strings": lambda: tokenizer(truncation="[" + many(string(900_000), 100) + "]"),
    "vocab": lambda: tokenizer(vocabulary(f"{i:x}" for i in range(1_900_000))),
    "long": lambda: tokenizer(vocabulary(c * 900_000 for c in "abcd")),
    "merges": lambda: of_merges(400_000),
    "added": lambda: tokenizer(added=added(1 << 16)),
}

# What config.json, generation_config.json and the like can hold.
CONFIGS = {
    "members": lambda: members("{}", 490_000),
    "arrays": lambda: '{"a":[' + many("[]", 490_000) + "]}",
    "objects": lambda: '{"a":[' + many('{"":{}}', 240_000) + "]}",
    "strings": lambda: '{"a":[' + many(string(4_000_000), 4) + "]}",
}


# Binary files.


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def array(kind, count, values):
    return struct.pack("<IQ", kind, count) + values


def gguf(keys, tensors=()):
    counts = struct.pack("<IQQ", 3, len(tensors), len(keys))
    return b"GGUF" + counts + b"".join(keys) + b"".join(tensors)


def vocabulary_of(kind, texts, *more):
    pre = [key("tokenizer.ggml.pre", 8, text("gpt-2"))] if kind == "gpt2" else []
    tokens = array(8, len(texts), b"".join(map(text, texts)))
    return gguf(
        [
            key("general.architecture", 8, text("llama")),
            key("tokenizer.ggml.model", 8, text(kind)),
            key("tokenizer.ggml.tokens", 9, tokens),
            *pre,
            *more,
        ]
    )


def strings(values):
    return array(8, len(values), b"".join(map(text, values)))


def many_tokens(kind, *more):
    return vocabulary_of(kind, [f"{i:x}" for i in range(COUNT)], *more)


COUNT = 1_200_000
NO_MERGES = key("tokenizer.ggml.merges", 9, strings([]))
GGUFS = {
    "vocab": lambda: many_tokens("gpt2", NO_MERGES),
    "added": lambda: many_tokens(
        "gpt2",
        NO_MERGES,
        key(
            "tokenizer.ggml.token_type",
            9,
            array(5, COUNT, COUNT * struct.pack("<I", 3)),
        ),
    ),
    "scores": lambda: many_tokens(
        "llama", key("tokenizer.ggml.scores", 9, array(6, COUNT, bytes(4 * COUNT)))
    ),
    "merges": lambda: vocabulary_of(
        "gpt2",
        ["a"],
        key("tokenizer.ggml.merges", 9, array(8, 7_900_000, bytes(8 * 7_900_000))),
    ),
}


def safetensors(header):
    header = header.encode()
    return struct.pack("<Q", len(header)) + header


def tensors(count):
    infos = [
        text(f"{i:0255x}") + struct.pack("<IQIQ", 1, 32, 0, 128 * i)
        for i in range(count)
    ]
    return gguf([], infos) + bytes(31 + 128 * count)


def index(count):
    shards = ",".join(f'"{i:0100x}":"a.safetensors"' for i in range(count))
    return f'{{"weight_map":{{{shards}}}}}'


def write(path, make):
    """Writes a file in a process of its own: the peak memory of a process counts for
    the processes that it starts."""
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    data = make()
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    os._exit(0)


def excess(path, make, room, *command):
    """Runs a command with the file, and with what was there before. Returns whether the
    file takes too much."""
    before = path.read_bytes() if path.exists() else None
    base, _ = peak(*command)
    write(path, make)
    size = path.stat().st_size
    most, said = peak(*command)
    path.unlink() if before is None else path.write_bytes(before)
    bound = room if room > 64 * MIB else size + room
    is_more = most - base > bound
    print(
        f"{path.name}: {size / MIB:.0f} MiB take {(most - base) / MIB:.0f}, expected at "
        f"most {bound / MIB:.0f}{' WRONG' * is_more}: {said.strip()[-120:]!r}"
    )
    return is_more


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    model, lora = SCRATCH / "model", SCRATCH / "lora"
    shutil.copytree(TINY, model)
    lora.mkdir()
    vocabulary, checkpoint = SCRATCH / "x.gguf", SCRATCH / "y.gguf"
    vocabulary.write_bytes(gguf([]))
    checkpoint.write_bytes(gguf([]))
    weights = f"--weights={model}"
    run = ["cria-run", ARTIFACT, weights, "--max-tokens=1"]
    inspect = ["cria-inspect", ARTIFACT, weights]
    readers = {
        model / "generation_config.json": [*run, "--prompt=a"],
        model / "tokenizer_config.json": [*run, "--chat"],
        model / "config.json": ["cria-compile", model / "config.json", "--emit=import"],
        lora / "adapter_config.json": [*inspect, f"--lora={lora}"],
    }
    tokens = model / "tokenizer.json"
    found = [
        excess(tokens, make, 768 * MIB, "cria-tokenize", tokens)
        for make in TOKENIZERS.values()
    ]
    found += [
        excess(vocabulary, make, 768 * MIB, "cria-tokenize", vocabulary)
        for make in GGUFS.values()
    ]
    found += [
        excess(path, make, 64 * MIB, *command)
        for path, command in readers.items()
        for make in CONFIGS.values()
    ]
    chat = lambda: json.dumps({"chat_template": "{{ 1 }}" * 500_000})
    templates = model / "tokenizer_config.json"
    found.append(excess(templates, chat, 64 * MIB, *readers[templates]))
    entry = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    empty = lambda: safetensors(members(entry, 80_000))
    found.append(excess(model / "model.safetensors", empty, 64 * MIB, *inspect))
    command = ["cria-inspect", ARTIFACT, f"--weights={checkpoint}"]
    found.append(excess(checkpoint, lambda: tensors(1 << 16), 64 * MIB, *command))
    (model / "model.safetensors").unlink()
    shards = model / "model.safetensors.index.json"
    found.append(excess(shards, lambda: index(140_000), 64 * MIB, *inspect))
    print(f"{sum(found)} of {len(found)} above their bounds")


main()
