"""upstream_passes.py BIN SCRATCH: passes of upstream run over our text of a phase.

A small llama is printed at a phase; one pass runs over it, and the text is compiled again,
for a CPU and for CUDA. The artifact has the logits of the text as it was, or the compiler
refuses the text by name. After the passes that change no schedule, no op is left to the
schedule of any op.
"""

import json
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from harness import Tools, check, execute, nmse, some  # noqa: E402

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "head_dim": 16,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "vocab_size": 64,
}
CHUNK = 8
# A whole chunk is a prefill, and the last id a decode.
IDS = [(7 * i + 3) % 64 for i in range(CHUNK + 1)]
COMMON = ["canonicalize", "symbol-dce", "inline"]
ONCE = ["cse", "loop-invariant-code-motion", "linalg-generalize-named-ops"]
CHANGES = ["linalg-fuse-elementwise-ops", "linalg-fold-unit-extent-dims"]
PASSES = {
    "fuse": COMMON,
    "linalg": COMMON + ONCE + CHANGES,
    "tile": COMMON,
}
TARGETS = ["cpu", "cuda"]
# What the compiler refuses, and the start of its reason.
REFUSED = {
    ("linalg-fold-unit-extent-dims", "cpu"): "expected a kernel to return only buffers",
}
# mlir-opt itself fails: it takes x W^T for linalg.matmul, which is x W.
FAILS = {"linalg-specialize-generic-ops": "'linalg.matmul' op inferred input/output"}


class Texts:
    """Texts of a phase, compiled and run for a target."""

    def __init__(self, tools):
        self.tools = tools
        self.config = tools.scratch / "config.json"
        self.config.write_text(json.dumps(CONFIG))

    def printed(self, phase, target):
        flags = [f"--emit={phase}", f"--chunk={CHUNK}", f"--target={target}"]
        return self.tools.compile(self.config, *flags, out=f"{phase}-{target}.mlir")

    def changed(self, base, name):
        """The run of a pass, or of none, and the text. mlir-opt knows no llama."""
        out = base.with_name(f"{base.stem}-{name}.mlir")
        is_ours = base.name.startswith("fuse")
        opt = self.tools.bin / "cria-opt" if is_ours else "mlir-opt-22"
        flags = [f"--{name}"] if name else []
        return execute([opt, base, *flags, "-o", out]), out

    def compiled(self, text, target):
        artifact = text.with_suffix(f".{target}.cria")
        flags = [f"--target={target}", "--remarks"]
        return execute(self.tools.compile_command(text, artifact, *flags)), artifact

    def logits(self, artifact, target):
        device = "cpu" if target == "cpu" else "emulated"
        flags = [f"--device={device}", "--random-weights=1"]
        return self.tools.logits(artifact, IDS, *flags, max_tokens=0)


def check_phase(texts, phase, target, wanted):
    base = texts.printed(phase, target)
    ran, plain = texts.changed(base, "")
    ran.ok()
    for name in some(PASSES[phase], 4, TARGETS.index(target)):
        what = f"{name}, {phase}, {target}"
        ran, text = texts.changed(base, name)
        ran.ok()
        if text.read_bytes() == plain.read_bytes():
            check(name not in CHANGES, f"{what}: nothing changes")
            continue
        ran, artifact = texts.compiled(text, target)
        if reason := REFUSED.get((name, target)):
            check(ran.status == 1 and reason in ran.errors, f"{what}: {ran}")
            continue
        missed = ran.ok().errors.count("[Missed]")
        check(name in CHANGES or not missed, f"{what}: {ran}")
        error = nmse(wanted, texts.logits(artifact, target))
        print(f"{what}: NMSE {error:.1e}, {missed} missed")
        check(error <= (1e-4 if name in CHANGES else 0), f"{what}: NMSE {error:.1e}")


def main():
    texts = Texts(Tools(*sys.argv[1:3]))
    for target in TARGETS:
        ran, artifact = texts.compiled(texts.printed("linalg", target), target)
        check("[Missed]" not in ran.ok().errors, ran)
        wanted = texts.logits(artifact, target)
        for phase in PASSES:
            check_phase(texts, phase, target, wanted)
    for name, message in FAILS.items():
        ran, _ = texts.changed(texts.printed("linalg", "cpu"), name)
        check(ran.status == 1 and message in ran.errors, f"{name}: {ran}")


if __name__ == "__main__":
    main()
