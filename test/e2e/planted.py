"""planted.py BIN SCRATCH: cria-bisect names the kernel that a compiler bug has broken.

A bug is a change in the output of a phase, as a wrong pass would make it. Compilation
goes on from the changed text. The reference is the unchanged program, and
Inputs/tiny-activations.safetensors, which scripts/dump_activations.py has made from
examples/tiny in bf16, by torch 2.15.0 and transformers 5.23.0, for the ids 766,10,20.
"""

import concurrent.futures
import json
import re
import shlex
import sys

import families
from harness import HERE, Tools, check, execute, some

IDS = "5,3,90,17,44,8,61,29,70,12,33,2"
SMALL = {"num_hidden_layers": 2, "max_position_embeddings": 64, "vocab_size": 101}
CONFIGS = {
    "llama": families.config("llama", SMALL | {"intermediate_size": 96}),
    "gemma2": families.FAMILIES["gemma2"] | SMALL | {"sliding_window": 4},
    "mixtral": families.FAMILIES["mixtral"] | SMALL,
}
RANDOM = "--random-weights=1"

QKV, ATTENTION = "layers_attn_qkv_prefill", "layers_attn_prefill"
OUT, DOWN = "layers_attn_out_prefill", "layers_mlp_down_prefill"
UP, HEAD = "layers_mlp_gate_up_decode", "head_decode"
ROUTE = "layers_block_sparse_moe_gate_prefill"
EXPERTS = "layers_block_sparse_moe_experts_w2_prefill"
SCORES = r"\[#map\d+(, #map\d+, #map\d+\], [^\]]*\"reduction\")"
OTHER_HEAD = r"[affine_map<(d0, d1, d2, d3, d4) -> (d2, d1, d0, d4)>\1"
ROUND = r"(%\w+) = arith\.truncf (%\w+) : f32 to bf16\s+linalg\.yield \1 : bf16"
CUT = r"""%bits = arith.bitcast \2 : f32 to i32
      %half = arith.constant 16 : i32
      %high = arith.shrui %bits, %half : i32
      %short = arith.trunci %high : i32 to i16
      \1 = arith.bitcast %short : i16 to bf16
      linalg.yield \1 : bf16"""
CAPPED = r"linalg\.yield %\w+(?= : f32\s+\} -> tensor<1x101xf32>)"
SCALED = r"arith\.mulf (%\w+), %cst\w* : f32"
LEFT = r"arith.maximumf \1, \1 : f32"
# For each bug: the model; the function, the text that is replaced in it, the new text,
# and which match is replaced; and the names to expect: the kernel, if it is not the
# function, a turn of the layers, and a module.
BUGS = [
    ("other pairs in rope", "llama-f32", QKV, r"arith\.subf", "arith.addf", 0, None, 0, "model.layers.0.self_attn.q_proj"),
    ("another row of keys", "llama-f32", QKV, r"(tensor\.insert_slice %\w+ into %arg9\[%arg10, )0, %arg8", r"\g<1>0, %arg10", 0, None, 1, "model.layers.1.self_attn:key"),
    ("another eps", "llama-f32", UP, r"9\.99999997E-7", "1.0E-2", 0, None, 0, "model.layers.0.post_attention_layernorm"),
    ("no residual", "llama-f32", OUT, r"arith\.addf %\w+, (%\w+) : f32", LEFT, -1, None, 0, "model.layers.0.self_attn.o_proj"),
    ("gate for up", "llama-f32", "decode", r"(@layers_mlp_gate_up_decode\(%\w+, %\w+, )(%\w+), (%\w+)", r"\1\3, \2", 0, UP, 0, "model.layers.0.mlp.up_proj"),
    ("another layer's weight", "llama-f32", "prefill", r"(@down_proj\()%\w+", r"\1%c0", 0, DOWN, 1, "model.layers.0.mlp.down_proj"),
    ("no scale of scores", "llama-f32", ATTENTION, SCALED, LEFT, 0, None, 0, "model.layers.0.self_attn"),
    ("another KV head", "llama-f32", ATTENTION, SCORES, OTHER_HEAD, 0, None, 0, "model.layers.0.self_attn"),
    ("a store that cuts off", "llama-bf16", DOWN, ROUND, CUT, -1, None, 0, "model.layers.0.mlp.down_proj"),
    ("a window off by one", "gemma2-f32", ATTENTION, r"arith\.cmpi sgt", "arith.cmpi sge", 0, None, 0, "model.layers.0.self_attn"),
    ("no softcap", "gemma2-f32", HEAD, CAPPED, "linalg.yield %out", -1, None, 0, "lm_head"),
    ("a norm's weight without 1", "gemma2-f32", "head_prefill", r"arith\.addf (%in_\w+), %cst\w* : f32", LEFT, 0, None, 0, "model.norm"),
    ("other experts", "mixtral-f32", ROUTE, r"arith\.index_cast %\w+ : index to i32", "arith.constant 1 : i32", 1, None, 0, "block_sparse_moe.gate"),
    ("one expert for all", "mixtral-f32", EXPERTS, r"arith\.index_cast (%\w+) : i32 to index", "arith.constant 0 : index", 0, None, 0, "block_sparse_moe.experts.{}.w2"),
]


def planted(text, function, pattern, replacement, which):
    """The text with one change in a function."""
    begin = re.search(rf"func\.func (private )?@{function}\(", text).start()
    end = text.index("\n  }\n", begin)
    body = text[begin:end]
    places = list(re.finditer(pattern, body))
    check(places, f"{function} has no {pattern}")
    at = places[which]
    return text[: begin + at.start()] + at.expand(replacement) + text[begin + at.end() :]


class Model:
    """A model's program at linalg, and the reference."""

    def __init__(self, tools, name):
        config, dtype = name.split("-")
        self.tools, self.name = tools, name
        path = tools.scratch / f"{name}.json"
        path.write_text(json.dumps(CONFIGS[config]))
        emit = [tools.bin / "cria-compile", path, "--emit=linalg", "--chunk=16"]
        self.text = execute([*emit, f"--dtype={dtype}"]).ok().text
        self.reference = self.compiled("right", self.text)

    def compiled(self, name, text, *flags):
        path = self.tools.scratch / f"{self.name}-{name.replace(' ', '-')}.mlir"
        path.write_text(text)
        return self.tools.compile(path, "--taps", *flags, out=f"{path.stem}.cria")

    def bisect(self, artifact, *flags, reference=None):
        command = [self.tools.bin / "cria-bisect", artifact, RANDOM, f"--ids={IDS}"]
        return execute([*command, f"--against={reference or self.reference}", *flags])


def named(done, kernel, turn, module):
    """Whether a run names this kernel, turn and module as wrong."""
    lines = done.text.splitlines()
    first = re.fullmatch(r"wrong: (\w+)(?:, turn (\d+) of \d+)?", lines[0])
    return (
        done.status == 1
        and first
        and (first[1], int(first[2] or 0)) == (kernel, turn)
        and any(line.endswith(module) for line in lines[1:8])
        and f"func.func private @{kernel}(" in done.text
    )


def check_bug(models, bug):
    what, name, function, *change, kernel, turn, module = bug
    model = models[name]
    artifact = model.compiled(what, planted(model.text, function, *change), "--plain")
    done = model.bisect(artifact)
    kernel = kernel or function
    if not named(done, kernel, turn, module):
        return f"{what} ({kernel}):\n{done.text[:600]}{done.errors}"
    return None


def check_right(model):
    """Against upstream's loops, none of the schedules' kernels is called wrong."""
    done = model.bisect(model.compiled("plain", model.text, "--plain")).ok()
    check("none wrong" in done.text, done.text)
    check("the same best id at 12 of 12 positions" in done.text, done.text)


def check_types(model, reference):
    """A program in bf16 against the same program in f32: nothing is wrong, and a planted
    bug is named."""
    _, _, function, *change, _, turn, module = BUGS[6]
    right = model.tools.scratch / f"{model.name}-plain.cria"
    done = model.bisect(right, reference=reference).ok()
    check("none wrong" in done.text, done.text)
    changed = model.compiled("types", planted(model.text, function, *change), "--plain")
    done = model.bisect(changed, reference=reference)
    check(named(done, function, turn, module), done.text)


def check_saved(model):
    """The files of --save reproduce a bug without the other kernels."""
    bug = next(bug for bug in BUGS if bug[0] == "no scale of scores")
    _, _, function, *change, _, turn, module = bug
    artifact = model.compiled("saved", planted(model.text, function, *change), "--plain")
    folder = model.tools.scratch / "saved"
    done = model.bisect(artifact, f"--save={folder}")
    check(named(done, function, turn, module), done.text)
    commands = re.findall(r"^  (?:alone| ) +(cria-.*)$", done.text, re.MULTILINE)
    check(len(commands) == 2, done.text)
    for command in commands:
        tool, *arguments = shlex.split(command)
        done = execute([model.tools.bin / tool, *arguments])
    check(named(done, function, turn, module), done)
    inspected = execute([model.tools.bin / "cria-inspect", folder / "kernel.cria", "--json"])
    kernels = json.loads(inspected.ok().text)["kernels"]
    kernels = [name for name in kernels if "_tap" not in name]
    check(kernels == [function], kernels)


def check_transformers(tools, source):
    """Against transformers: all results of a model are right, and a bug is named."""
    folder = source / "examples/tiny"
    emit = [tools.bin / "cria-compile", folder / "config.json", "--emit=linalg"]
    text = execute([*emit, "--chunk=16"]).ok().text
    changed = planted(text, ATTENTION, SCALED, LEFT, 0)
    dump = HERE / "Inputs/tiny-activations.safetensors"
    for name, program in ("tiny", text), ("tiny-changed", changed):
        path = tools.scratch / f"{name}.mlir"
        path.write_text(program)
        artifact = tools.compile(path, "--taps", "--plain", out=f"{name}.cria")
        done = execute(
            [tools.bin / "cria-bisect", artifact, f"--weights={folder}"]
            + [f"--reference={dump}"]
        )
        if program is text:
            check("74 results compared, none wrong" in done.ok().text, done.text)
        else:
            right = named(done, ATTENTION, 0, "model.layers.0.self_attn")
            check(right, done.text)


def check_emulated(model):
    """The same of a program at tile, for GPUs."""
    command = [model.tools.bin / "cria-compile", model.tools.scratch / "llama-f32-right.mlir"]
    text = execute([*command, "--taps", "--target=cuda", "--chip=sm_80", "--emit=tile"]).ok().text
    begin = text.index("gpu.func @layers_mlp_down_decode(")
    changed = text[:begin] + text[begin:].replace("arith.addf", "arith.subf", 1)
    path = model.tools.scratch / "tile.mlir"
    path.write_text(changed)
    artifact = model.tools.compile(path, out="tile.cria")
    done = model.bisect(artifact, "--device=emulated", "--against-device=cpu")
    check(named(done, "layers_mlp_down_decode", 0, "mlp.down_proj"), done.text + done.errors)


def main():
    tools = Tools(*sys.argv[1:])
    models = {name: Model(tools, name) for name in ("llama-f32", "llama-bf16", "gemma2-f32", "mixtral-f32")}
    for model in models.values():
        check_right(model)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        missed = list(pool.map(lambda bug: check_bug(models, bug), some(BUGS, 2)))
    missed = [each for each in missed if each]
    check(not missed, "not named:\n" + "\n".join(missed))
    check_types(models["llama-bf16"], models["llama-f32"].reference)
    check_saved(models["llama-f32"])
    check_transformers(tools, HERE.parents[1])
    check_emulated(models["llama-f32"])


main()
