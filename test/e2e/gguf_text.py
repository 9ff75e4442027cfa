"""gguf_text.py BIN SCRATCH FOLDER: a GGUF file with everything in it.

The weights, tokenizer, ids and chat template of the model in FOLDER are written to a
file. For a prompt, in a chat and with an adapter the file gives the same text as the
folder.
"""

import json
import pathlib
import subprocess
import sys

import gguf_files
from gguf_files import TYPES
from harness import Tools, check
from weights import read_safetensors

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"


def write(path, folder, kind=None):
    """The model in `folder`, matrices as `kind` or as they are there."""
    config = json.loads((folder / "config.json").read_text())
    config["rope_theta"] = config.get("rope_parameters", config)["rope_theta"]
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    pieces = "▁" in json.dumps(tokenizer["normalizer"], ensure_ascii=False)
    scores = gguf_files.scores_of(tokenizer) if pieces else None

    def text(writer):
        ids = {key: config[f"{key}_token_id"] for key in ("bos", "eos")}
        pre = None if pieces else "llama-bpe"
        gguf_files.add_tokenizer(writer, tokenizer, pre, scores, **ids)
        writer.add_chat_template(TEMPLATE)

    arrays = read_safetensors(folder / "model.safetensors")
    own = TYPES.BF16 if "bfloat16" in json.dumps(config) else TYPES.F32
    gguf_files.write(path, config, arrays, own if kind is None else kind, text)


def check_same(tools, artifacts, sources, *flags):
    """Both give the same text, which is returned."""
    runs = [
        tools.run(artifact, f"--weights={source}", *flags).ok()
        for artifact, source in zip(artifacts, sources)
    ]
    check(runs[0].out and runs[0].out == runs[1].out, f"{runs[0]}\n{runs[1]}")
    return runs[0].text


def chat(tools, artifact, source):
    flags = ["--chat", "--max-tokens=12", "--temperature=0"]
    run = subprocess.run(
        tools.run_command(artifact, f"--weights={source}", *flags),
        input=b"Once upon a time\n",
        capture_output=True,
        check=False,
    )
    check(run.returncode == 0, run.stderr.decode())
    return run.stdout


def main():
    tools, given = Tools(*sys.argv[1:3]), pathlib.Path(sys.argv[3])
    folder = tools.scratch / "folder"
    folder.mkdir()
    for file in given.glob("*.*"):
        (folder / file.name).symlink_to(file.resolve())
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    file = tools.scratch / "model.gguf"
    write(file, folder)
    artifacts = [
        tools.compile(source, out=f"{name}.cria")
        for name, source in (("folder", folder / "config.json"), ("gguf", file))
    ]
    sources = [folder, file]
    greedy = ["--temperature=0", "--max-tokens=60"]
    check_same(tools, artifacts, sources, *greedy, "--prompt=Once upon a time")
    check_same(tools, artifacts, sources, *greedy, "--ids=1", "--print-ids")
    # Either artifact takes either checkpoint.
    check_same(tools, artifacts[::-1], sources, *greedy, "--prompt=The fox, 12")
    talks = [chat(tools, *pair) for pair in zip(artifacts, sources)]
    check(talks[0] and talks[0] == talks[1], f"{talks[0]} against {talks[1]}")


if __name__ == "__main__":
    main()
