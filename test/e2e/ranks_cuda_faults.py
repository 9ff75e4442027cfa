"""ranks_cuda_faults.py BIN SCRATCH: what is wrong with ranks on GPUs is said, and
nothing hangs. The GPUs are emulated, as in ranks_cuda.py.
"""

import signal
import sys

from harness import Tools
from ranks import Ranks, config_of
from ranks_faults import check_end, expect

FLAGS = ["--random-weights=1", "--ids=1,2,3", "--max-tokens=4", "--print-ids"]


def check_library(ranks, two):
    """No NCCL, and a library that is none."""
    own = ranks.environment["CRIA_NCCL"]
    for file, text in {
        "no/such.so": "error: NCCL, which joins ranks on GPUs, is not available: ",
        ranks.bin.parent / "lib" / "libcria.so": "is no NCCL, or too old a one: it has",
    }.items():
        ranks.environment["CRIA_NCCL"] = str(file)
        expect(ranks.run(two, *FLAGS), text)
    ranks.environment["CRIA_NCCL"] = own


def check_calls(ranks, two):
    """A call that fails in one rank ends all; so does a sum of which ranks disagree
    how long it is."""
    for fault, text in {
        "0:id": "rank 0: error: ncclGetUniqueId: system error while naming the ranks'",
        "1:init": "rank 1: error: ncclCommInitRank: system error while joining 2 ranks",
        "1:sum:5": "rank 1: error: ncclAllReduce: internal error while enqueueing a sum",
        "1:count:3": "error: ncclAllReduce: invalid usage while summing over ranks",
    }.items():
        ranks.environment["CRIA_NCCL_FAULT"] = fault
        expect(ranks.run(two, *FLAGS), text)
    del ranks.environment["CRIA_NCCL_FAULT"]


def main():
    bin, scratch = sys.argv[1:]
    tools = Tools(bin, scratch)
    ranks = Ranks(bin, f"{scratch}-ranks", "mpich", device="emulated")
    flags = ["--dtype=f32", "--shards=2", "--target=cuda", "--chunk=4"]
    config = config_of(tools, "llama", max_position_embeddings=65536)
    two = tools.compile(config, *flags, "--max-seq=65536")
    check_library(ranks, two)
    check_calls(ranks, two)
    check_end(ranks, two, signal.SIGKILL, "PID {}", tries=3)
    stopped = "waited 2 s for the other ranks: rank 1 (process {}) has stopped"
    check_end(ranks, two, signal.SIGSTOP, stopped, CRIA_MPI_TIMEOUT="2")


main()
