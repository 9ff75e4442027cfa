"""ranks_witness.py BIN SCRATCH: what `linalg` prints for two ranks, run by upstream.

mpi.allreduce is the meaning of llama.all_reduce: upstream's passes alone lower the
text, and two ranks of MPICH run it, each with its share of the weights. Fed in
uneven chunks and token by token, their logits, put together, are those that the
artifact for one rank gives.

With RANK LIBRARY MANIFEST OUT: one of the two ranks, under mpirun.
"""

import ctypes
import json
import pathlib
import sys

import numpy as np

import families
import ranks
from entries import Artifact, Upstream, upstream
from harness import Tools, check_close, execute
from witness import CHUNK, PIECES, Memory, fed, text_of

MPI = "libmpich.so.12"
WORLD = 0x44000000  # MPI_COMM_WORLD in its mpi.h
FAMILIES = ["llama", "phi3", "granite", "olmo2"]
IDS = np.random.default_rng(0).integers(3, 320, sum(PIECES)).tolist()


def load_mpi():
    """MPI's functions, for all libraries to find."""
    return ctypes.CDLL(MPI, mode=ctypes.RTLD_GLOBAL)


def run_rank(library, manifest, out):
    mpi, rank = load_mpi(), ctypes.c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(ctypes.c_int(WORLD), ctypes.byref(rank))
    share = json.loads(pathlib.Path(manifest).read_text())
    memory = Memory(share, "f32", "f32", rank.value)
    logits, hidden = fed(Upstream(ctypes.CDLL(library), memory), IDS, [])
    np.savez(f"{out}.{rank.value}.npz", logits=logits, hidden=hidden)
    mpi.MPI_Finalize()


def check_family(tools, name):
    config = tools.scratch / f"{name}.json"
    config.write_text(json.dumps(families.FAMILIES[name]))
    flags = [f"--chunk={CHUNK}", "--dtype=f32"]
    artifacts, manifests = [], []
    for i, more in enumerate([[], ["--shards=2"]]):
        path = tools.compile(config, *flags, *more, out=f"{name}-{i}.cria")
        inspect = [tools.bin / "cria-inspect", path, "--json"]
        manifests.append(json.loads(execute(inspect).ok().out))
        artifacts.append(path)
    one = Artifact(artifacts[0], Memory(manifests[0], "f32", "f32"))
    whole, states = fed(one, IDS, [])
    upstream(tools, text_of(tools, config, [*flags, "--shards=2"]), name)
    manifest, out = (tools.scratch / f"{name}.{end}" for end in ("manifest", "logits"))
    manifest.write_text(json.dumps(manifests[1]))
    program = [sys.executable, __file__, "RANK", tools.scratch / f"{name}.so"]
    command = ["mpirun.mpich", "-n", 2, *program, manifest, out]
    execute(command, env=ranks.ENVIRONMENT).ok()
    parts = [np.load(f"{out}.{rank}.npz") for rank in range(2)]
    logits = np.concatenate([part["logits"] for part in parts], axis=1)
    check_close(whole, logits, name)
    for part in parts:  # which a rank has whole
        check_close(states, part["hidden"], f"{name}, hidden states")


def main():
    if sys.argv[1] == "RANK":
        return run_rank(*sys.argv[2:])
    load_mpi()
    tools = Tools(*sys.argv[1:3])
    for name in FAMILIES:
        check_family(tools, name)


main()
