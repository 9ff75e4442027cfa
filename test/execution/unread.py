"""unread.py BIN SCRATCH: experts that no token chooses are not read.

Runs tokens through gate, up and down of the experts that their logits choose: one token,
and more, which are sorted by expert. The other experts lie on pages that cannot be read.
The results are those of readable experts, bit for bit, and NumPy's. A checkpoint that
lacks an expert is refused by name.
"""

import ctypes
import json
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import entries  # noqa: E402
from harness import Tools, check, execute, nmse  # noqa: E402
from weights import write_safetensors  # noqa: E402

import reference  # noqa: E402
from cases import swiglu_of  # noqa: E402
from execution import BAR, compiled  # noqa: E402
from experts import combine_of, expert_linear_of, experts_weight, route_of  # noqa: E402
from program import Program  # noqa: E402

EXPERTS, CHOSEN, SIZE, INNER = 8, 2, 48, 40


def mixture(dtype):
    """The program, and its logits of experts."""
    p = Program(dtype)
    logits = p.tokens(EXPERTS, dtype="f32")
    chosen, weights = route_of(p, logits, CHOSEN)
    sizes = [(INNER, SIZE), (INNER, SIZE), (SIZE, INNER)]
    gate, up, down = (experts_weight(p, EXPERTS, *size, "apart") for size in sizes)
    x = p.tokens(SIZE)
    h = swiglu_of(p, *(expert_linear_of(p, x, w, chosen) for w in (gate, up)))
    y = expert_linear_of(p, h, down, chosen)
    return p.returns(combine_of(p, weights, y)), p.arrays["w0"]


class Memory:
    """What an entry is called with. Each expert has pages of its own."""

    def __init__(self, manifest, program):
        self.arrays, self.experts = [None] * manifest["slots"], []
        for weight in manifest["weights"]:
            count = weight.get("experts", 0)
            for i in range(max(count, 1)):
                name = weight["name"].replace("{}", str(i))
                array = entries.encoded(program.arrays[name], weight["dtype"])
                self.arrays[weight["slot"] + i] = array = entries.guarded(array)
                if count:
                    self.experts.append((i, array))
        self.slots = (ctypes.c_void_p * len(self.arrays))(
            *(array.ctypes.data for array in self.arrays)
        )
        self.caches, self.chunk = [], manifest["model"]["chunk"]
        columns = manifest["model"]["vocab_size"]
        self.logits = np.zeros((self.chunk, columns), np.float32)
        self.arena = np.zeros(manifest["cpu"][0]["arena"] // 64 + 2, "V64")

    def hide(self, chosen):
        """Makes the pages of all other experts unreadable."""
        page = entries.mmap.PAGESIZE
        for expert, array in self.experts:
            if expert not in chosen:
                begin = array.ctypes.data // page * page
                size = array.ctypes.data + array.nbytes - begin
                entries.protect(begin, size)


def check_missing(tools, program, artifact):
    """The checkpoint lacks an expert, which the error names."""
    arrays = {name: a for name, a in program.arrays.items() if name != "w1.3"}
    folder = tools.scratch / "missing"
    folder.mkdir(exist_ok=True)
    write_safetensors(folder / "model.safetensors", arrays, "f32")
    run = tools.run(artifact, f"--weights={folder}", "--ids=1", "--max-tokens=1")
    check(run.status == 1 and "'w1.3' is missing" in run.errors, run)


def main():
    tools = Tools(*sys.argv[1:3])
    for dtype in ["f32", "bf16"]:
        program, table = mixture(dtype)
        artifact = compiled(tools, program, "native", dtype)
        inspect = [tools.bin / "cria-inspect", artifact, "--json"]
        manifest = json.loads(execute(inspect).ok().out)
        for entry, ids in [("decode", [11]), ("prefill", [11]), ("prefill", [11, 5, 11])]:
            memory = Memory(manifest, program)
            chosen = set(reference.route(table[ids], CHOSEN)[0].flat)
            called = entries.Artifact(artifact, memory)
            called.call(entry, ids, 0, 0)
            want = memory.logits[: len(ids)].copy()
            memory.hide(chosen)
            memory.logits[:] = 0
            called.call(entry, ids, 0, 0)
            check(np.array_equal(want, memory.logits[: len(ids)]), f"{dtype} {entry}")
            error, bar = nmse(program.expected(ids), want), BAR[dtype] * 4
            check(error <= bar, f"{dtype} {entry}: NMSE {error:.2e}")
    check_missing(tools, program, artifact)


if __name__ == "__main__":
    main()
