"""ranks.py BIN SCRATCH: the package cria in programs that mpirun starts.

Each of two ranks loads its share and draws what one rank draws, on the CPU (in a batch
and with adapters, too) and on an emulated GPU, whose memory has no more than 1.05 of a rank's share. A caller's own
functions take the place of MPI's. Errors say what is missing.

With RANK ARTIFACT OUT DEVICE: one of the ranks, under mpirun.
"""

import json
import os
import pathlib
import sys

import cria
from cria import _native

import families
import harness
import weights
from harness import check

PROMPT = [1, 5, 9, 44, 200, 17, 3]
IDS = 16


def refused(error, text, call, **options):
    try:
        call(**options)
    except error as raised:
        check(text in str(raised), f"{raised}\nexpected '{text}'")
    else:
        check(False, f"expected {error.__name__} with '{text}'")


def wrapped(ranks):
    """The same ranks with functions of the caller's, and what keeps them alive; counts
    their calls."""
    own, calls = ranks._struct, []
    made = _native.struct("cria_ranks")
    for name in ("rank", "count", "local", "locals"):
        setattr(made, name, getattr(own, name))
    keep = [_native.ffi.new_handle(calls)]
    made.data = keep[0]
    for name, kind in {"sum": "float *", "max": "uint64_t *", "broadcast": "void *"}.items():
        @_native.ffi.callback(f"void(void *, {kind}, int64_t)")
        def call(data, values, count, inner=getattr(own, name)):
            _native.ffi.from_handle(data).append(count)
            inner(own.data, values, count)

        setattr(made, name, call)
        keep.append(call)
    ranks._struct = made
    return calls, keep


def run_rank(artifact, folder, out, device):
    with cria.join_ranks() as ranks:
        again = cria.join_ranks()
        check((again.rank, again.count) == (ranks.rank, 2), f"{again}, {ranks}")
        calls, _ = wrapped(ranks)
        model = cria.load(artifact, folder, device=device, ranks=ranks, threads=1)
        check(calls, "expected calls of the caller's functions")
        found = model.generate(PROMPT, temperature=0, max_tokens=IDS)
        drawn = model.generate(PROMPT, temperature=0.8, seed=3, max_tokens=IDS)
        result = {"greedy": list(found.ids), "drawn": list(drawn.ids)}
        if device == "cpu":
            adapted = model.session(lora=model.lora_set([folder / "lora"]))
            found = adapted.generate(PROMPT, temperature=0, max_tokens=IDS)
            result["adapted"] = list(found.ids)
            with model.batch() as batch:
                texts = batch.generate([PROMPT[:3], PROMPT], temperature=0, max_tokens=IDS)
                result["batch"] = list(texts[1].ids)
        result |= {"bytes": model.info.copied_bytes, "rank": ranks.rank}
        pathlib.Path(f"{out}.{ranks.rank}").write_text(json.dumps(result))
        ranks._struct.count = 1
        text = "ranks: rank "
        if ranks.rank == 1:
            refused(cria.InvalidArgument, text, cria.load, artifact=artifact,
                    weights=folder, ranks=ranks)
        del model


def check_device(tools, one, folder, config, device, *flags):
    two = tools.compile(config, "--dtype=f32", "--shards=2", "--chunk=4", *flags)
    out = tools.scratch / device
    program = [sys.executable, __file__, "RANK", two, folder, out, device]
    nccl = {"CRIA_NCCL": str(tools.bin.parent / "lib" / "libnccl-stand-in.so")}
    command = ["mpirun.mpich", "-n", 2, *program]
    harness.execute(command, env=os.environ | nccl).ok()
    results = [json.loads(pathlib.Path(f"{out}.{i}").read_text()) for i in range(2)]
    for kind, options in {
        "greedy": {"temperature": 0},
        "drawn": {"temperature": 0.8, "seed": 3},
        **({"batch": {"temperature": 0}} if device == "cpu" else {}),
    }.items():
        expected = list(one.generate(PROMPT, max_tokens=IDS, **options).ids)
        for result in results:
            got = result[kind]
            check(got == expected, f"{device}, {kind}: {result}, expected {expected}")
    if device == "cpu":
        merged = cria.load(one.artifact, folder, device="cpu", loras=[folder / "lora"])
        expected = list(merged.generate(PROMPT, temperature=0, max_tokens=IDS).ids)
        for result in results:
            got = result["adapted"]
            check(got == expected, f"adapted: {result}, expected {expected}")
    if device != "cpu":
        share = sum(f.stat().st_size for f in folder.glob("*.safetensors")) / 2
        for result in results:
            taken = result["bytes"]
            check(taken <= 1.05 * share, f"a rank has {taken} bytes of {share}")
    text = "is for 2 ranks, expected 1, the processes that share it"
    refused(cria.FailedPrecondition, text, cria.load, artifact=two, weights=folder)


def main():
    if sys.argv[1] == "RANK":
        artifact, folder, out, device = sys.argv[2:]
        return run_rank(artifact, pathlib.Path(folder), out, device)
    tools = harness.Tools(*sys.argv[1:])
    refused(cria.FailedPrecondition, "no mpirun", cria.join_ranks)
    config = tools.scratch / "config.json"
    read = families.FAMILIES["llama"] | {"vocab_size": 2048}
    config.write_text(json.dumps(read))
    folder = tools.scratch / "weights"
    folder.mkdir()
    arrays = weights.llama_weights(read, 7, "f32")
    weights.write_safetensors(folder / "model.safetensors", arrays, "f32")
    path = tools.compile(config, "--dtype=f32", "--chunk=4", out="one.cria")
    one = cria.load(path, folder, device="cpu")
    shapes = weights.llama_shapes(read)
    targets = ["q_proj", "down_proj"]
    weights.write_adapter(folder / "lora", {name: shape for name, shape in shapes.items()
                                            if name.split(".")[-2] in targets})
    check_device(tools, one, folder, config, "cpu", "--batch=2", "--lora-rank=4")
    check_device(tools, one, folder, config, "emulated", "--target=cuda")


main()
