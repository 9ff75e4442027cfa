"""preflight.py BIN SCRATCH CONFIG.json: the pre-flight check of a 70B checkpoint.

The 30 shards are sparse files with headers and no data. The check names tensors that are
missing, of another type, extra or unaligned, and reads nothing but headers.
"""

import json
import math
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
from harness import Tools, check, execute  # noqa: E402
from weights import llama_shapes  # noqa: E402

SHARDS = 30


def write_shard(path, shapes, dtypes, pad):
    """A safetensors file whose data is a hole."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        dtype = dtypes.get(name, "F16")
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [end, end + size],
        }
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + pad)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def write_checkpoint(folder, shapes, dtypes={}, pad=0):
    folder.mkdir()
    names, where = list(shapes), {}
    for shard in range(SHARDS):
        name = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        mine = {key: shapes[key] for key in names[shard::SHARDS]}
        write_shard(folder / name, mine, dtypes, pad)
        where.update({key: name for key in mine})
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def main():
    tools = Tools(*sys.argv[1:3])
    config = json.loads(pathlib.Path(sys.argv[3]).read_text())
    artifact = tools.compile(sys.argv[3], "--max-seq=4096")
    shapes = llama_shapes(config)
    inspect = [tools.bin / "cria-inspect", artifact]

    write_checkpoint(tools.scratch / "good", shapes)
    good = execute(inspect + [f"--weights={tools.scratch / 'good'}"]).ok()
    for line in (
        f"fits, {len(shapes)} tensors",
        "0 tensors for their alignment",
        "KV caches for 4096 positions",
        "longest context: 0 positions",
    ):
        check(line in good.text, good.text[-2000:])

    # 137 GB over machines of 24 GB, and of 8 GB.
    for flags, line in (
        (["--memory=24576", "--context=512"], "ranks: 8 at least, each with "),
        (["--memory=8192"], "ranks: no number of them that divides 8 KV heads"),
    ):
        run = execute(inspect + [f"--weights={tools.scratch / 'good'}", *flags]).ok()
        check(line in run.text, run.text[-2000:])
    shared = tools.compile(sys.argv[3], "--max-seq=512", "--shards=8", out="8.cria")
    run = execute([tools.bin / "cria-inspect", shared, "--memory=24576"]
                  + [f"--weights={tools.scratch / 'good'}"]).ok()
    for line in (
        f"fits, {len(shapes)} tensors",
        "each of 8 ranks takes:",
        "ranks: 8 at least, each with ",
    ):
        check(line in run.text, run.text[-2000:])

    deeper = shapes | {"model.layers.80.mlp.up_proj.weight": (8, 8)}
    write_checkpoint(tools.scratch / "deeper", deeper)
    flags = [f"--weights={tools.scratch / 'deeper'}"]
    run = execute(inspect + flags)
    check(run.status == 1 and "1 layer that the artifact" in run.text, run)
    check("the artifact does not have 'model.layers.80'" in run.errors, run)
    allowed = execute(inspect + flags + ["--allow-unused"]).ok()
    check("1 tensor is not used: 'model.layers.80." in allowed.text, allowed)

    gone, other, shaped = list(shapes)[5:8]
    bad = {name: shape for name, shape in shapes.items() if name != gone}
    bad[shaped] = (3, *shapes[shaped][1:])
    bad["model.extra.weight"] = (8, 8)
    write_checkpoint(tools.scratch / "bad", bad, {other: "I16"}, pad=1)
    run = execute(inspect + [f"--weights={tools.scratch / 'bad'}"])
    check(run.status == 1, run)
    for name in gone, other, shaped, "model.extra.weight":
        check(f"'{name}'" in run.text, f"{name}: {run.text[-2000:]}")
    for line in "3 tensors do not fit", "720 tensors for their alignment":
        check(line in run.text, run.text[-2000:])


if __name__ == "__main__":
    main()
