"""aarch64.py BIN SCRATCH RUN: code for 64-bit Arm, by the cross-compiled RUN under QEMU.

Small models of several types and shapes against transformers, as golden.py has it; the
model of examples/tiny; and, for weights and caches in blocks and for long products, the
logits and ids of code for AVX2, which rounds at the same places. QEMU's CPU `max` has bf16
and i8mm, `cortex-a76` has neither.
"""

import json
import sys

from families import config
from harness import HERE, Golden, Tools, check, execute, nmse, some

TINY = HERE.parent.parent / "examples" / "tiny"
CPUS = ["cortex-a76", "neoverse-v2"]
PEER = "--cpu=x86-64-v3"
GOLDENS = ["f32-deepseek_v3", "f16-odd-tied", "bf16-odd", "bf16-qwen3"]
BLOCKS = [["--quantize=q8_0"], ["--quantize=q4_0", "--kv=q8_0"], ["--quantize=fp8"]]
# Both machines round activations to the same numbers, but for ties.
SAME = 1e-5
BF16 = 5e-5  # rows.py has the same bar


class ArmTools(Tools):
    def __init__(self, bin, scratch, program):
        super().__init__(bin, scratch)
        self.program = program

    def run_command(self, artifact, *flags, cpu="max"):
        return ["qemu-aarch64", "-cpu", cpu, self.program, artifact, "--quiet", *flags]


def check_golden(arm, name):
    golden = Golden(name)
    artifact = arm.compile(golden.config, "--max-seq=512", f"--cpu={','.join(CPUS)}")
    for cpu in CPUS:
        flags = [f"--random-weights={golden.seed}", f"--cpu={cpu}"]
        ids = golden.ids[:33]
        logits = arm.logits(artifact, ids, "--threads=2", *flags)
        golden.check(logits, f"{name} on {cpu}")
        if golden.stored is None:
            got = arm.greedy(artifact, golden.start, 8, *flags)
            expected = golden.greedy[:8]
            check(got == expected, f"{name} on {cpu}: {got}, expected {expected}")


def check_blocks(tools, arm, flags):
    """Logits of a prompt and of one token, and the ids that follow."""
    sizes = {"hidden_size": 64, "intermediate_size": 192, "head_dim": 32}
    path = arm.scratch / "config.json"
    path.write_text(json.dumps(config("llama", sizes, dtype="bfloat16")))
    own = tools.compile(path, *flags, PEER)
    artifact = arm.compile(path, *flags, f"--cpu={','.join(CPUS)}", out="arm.cria")
    weights = "--random-weights=3"
    for ids in [list(range(1, 38)), [5]]:
        expected = tools.logits(own, ids, weights)
        text = tools.greedy(own, ids, 8, weights)
        for cpu in CPUS:
            got = arm.logits(artifact, ids, weights, f"--cpu={cpu}")
            what, error = f"{flags}, {len(ids)} ids on {cpu}", nmse(expected, got)
            check(error <= SAME, f"{what}: NMSE {error:.2e}, expected at most {SAME}")
            ours = arm.greedy(artifact, ids, 8, weights, f"--cpu={cpu}")
            check(ours == text, f"{what}: {ours}, expected {text}")


def check_slices(tools, arm):
    """Logits of a prompt whose products of bf16 are blocked for the L2 cache: of more than
    262,144 numbers."""
    sizes = {"hidden_size": 64, "intermediate_size": 4104, "head_dim": 32}
    path = arm.scratch / "slices.json"
    path.write_text(json.dumps(config("llama", sizes, dtype="bfloat16")))
    artifact = arm.compile(path, f"--cpu={CPUS[1]}")
    ids, weights = list(range(1, 81)), "--random-weights=3"
    expected = tools.logits(tools.compile(path, PEER), ids, weights)
    error = nmse(expected, arm.logits(artifact, ids, weights))
    check(error <= BF16, f"{len(ids)} ids: NMSE {error:.2e}, expected at most {BF16}")


def check_tiny(tools, arm):
    artifact = arm.compile(TINY / "config.json", f"--cpu={','.join(CPUS)}")
    case = json.loads((TINY / "expected.json").read_text())["prompts"][0]
    story = [f"--weights={TINY}", f"--prompt={case['prompt']}", "--temperature=0"]
    story += ["--max-tokens=64", "--print-ids"]
    for cpu in CPUS:
        got = arm.run(artifact, *story, f"--cpu={cpu}").ok().ids()
        check(got == case["greedy"][:64], f"tiny on {cpu}: {got}")
    # The runtime asks the system for features, and takes the first code that it can.
    named = arm.run_command(artifact, "--cpu=neoverse-v2", *story, cpu="cortex-a76")
    refused = execute(named)
    check(refused.status == 1, f"{refused.errors}")
    check("this CPU lacks: bf16, i8mm" in refused.errors, f"{refused.errors}")
    got = execute(arm.run_command(artifact, *story, cpu="cortex-a76")).ok().ids()
    check(got == case["greedy"][:64], f"tiny: {got}")
    lacks = execute(arm.run_command(artifact, *story, cpu="cortex-a72"))
    check("for cortex-a76 this CPU lacks: dotprod" in lacks.errors, f"{lacks.errors}")
    # Neither machine runs the other's code.
    foreign = tools.run(artifact, *story)
    expected = "compiled for aarch64 linux, this machine is x86_64 linux"
    check(expected in foreign.errors, f"{foreign.errors}")
    own = tools.compile(TINY / "config.json", PEER)
    foreign = arm.run(own, *story)
    expected = "compiled for x86_64 linux, this machine is aarch64 linux"
    check(expected in foreign.errors, f"{foreign.errors}")


def main():
    bin, scratch, program = sys.argv[1:4]
    tools, arm = Tools(bin, scratch), ArmTools(bin, f"{scratch}/arm", program)
    check_tiny(tools, arm)
    check_slices(tools, arm)
    for name in some(GOLDENS, 2):
        check_golden(arm, name)
    for flags in some(BLOCKS, 2):
        check_blocks(tools, arm, flags)


main()
