"""lora.py BIN SCRATCH DEVICE NAME...: adapters against a merge in f64.

NumPy adds adapters in PEFT's layout to a checkpoint in f64, as PEFT documents it: W +
alpha / r * B A, or alpha / sqrt(r). The sum is rounded once and written as another
checkpoint. cria-run must give its logits with --lora and the checkpoint without adapters.
Weights that no adapter targets are used in place in the files. Adapters that are kept
apart, in an artifact with room for them, must give the same logits. Sessions of one model
that choose different sets must give the bits of models loaded with one set each.
"""

import dataclasses
import json
import math
import re
import sys

import numpy as np

import families
import weights
from capi import Model
from harness import Tools, check, check_close, divergence, execute, some

IDS = [1, 5, 300, 17, 42, 42, 260, 9, 77, 130, 2]
SEED = 11


def is_transposed(name):
    """Whether a checkpoint of GPT-2 has the weight (K, N). Its pair is as any other."""
    return re.search(r"\.c_(attn|fc|proj)\.weight", name)


@dataclasses.dataclass
class Adapter:
    """The contents of adapter_config.json, and the modules that have a pair."""

    rank: int
    alpha: float
    modules: str  # an expression of the weights' names
    seed: int
    scale: float = 1.0  # of the command line
    dtype: str = "f32"
    more: dict = dataclasses.field(default_factory=dict)

    def at(self, module):
        """(rank, factor) at a module."""

        def choose(key, otherwise):
            for pattern, value in self.more.get(key, {}).items():
                if re.match(rf"(.*\.)?({pattern})$", module):
                    return value
            return otherwise

        rank = choose("rank_pattern", self.rank)
        root = math.sqrt(rank) if self.more.get("use_rslora") else rank
        return rank, choose("alpha_pattern", self.alpha) / root

    def pairs(self, shapes):
        """{weight name: (A, B)}; as large as the weights together."""
        random = np.random.default_rng(self.seed)
        pairs = {}
        for name, shape in shapes.items():
            if not re.search(self.modules, name):
                continue
            rank, factor = self.at(name.removesuffix(".weight"))
            rows, columns = shape[::-1] if is_transposed(name) else shape
            a = random.normal(0, 0.3, (rank, columns))
            b = random.normal(0, 0.06 / factor / math.sqrt(rank), (rows, rank))
            pairs[name] = tuple(weights.rounded(x, self.dtype) for x in (a, b))
        return pairs

    def write(self, folder, shapes, arrays=None):
        """As PEFT saves it: pairs of embeddings are transposed, and the weight of a
        head or an embedding, one of `arrays`, is below its pair."""
        folder.mkdir()
        config = {"peft_type": "LORA", "r": self.rank, "lora_alpha": self.alpha}
        config |= {"bias": "none", "use_dora": False, "modules_to_save": None}
        text = json.dumps(config | self.more)
        (folder / "adapter_config.json").write_text(text)
        tensors = {}
        for name, (a, b) in self.pairs(shapes).items():
            module = "base_model.model." + name.removesuffix(".weight")
            if "embed_tokens" in name:
                tensors[f"{module}.lora_embedding_A"] = b.T
                tensors[f"{module}.lora_embedding_B"] = a.T
            else:
                tensors[f"{module}.lora_A.weight"] = a
                tensors[f"{module}.lora_B.weight"] = b
            if "embed_tokens" in name or "lm_head" in name:
                tensors[f"{module}.base_layer.weight"] = arrays[name]
        path = folder / "adapter_model.safetensors"
        weights.write_safetensors(path, tensors, self.dtype)


# A type, a family, and adapters.
ATTENTION, ALL = r"(q|k|v|o)_proj", r"_proj\.weight"
CASES = {
    "several": (
        "f32",
        "qwen2",
        [
            Adapter(4, 8, r"(q|v)_proj\.weight", 2, scale=0.5),
            Adapter(7, 3, ALL, 3, scale=-1.25, dtype="bf16"),
            Adapter(3, 1, "lm_head|embed_tokens", 4),
        ],
    ),
    "patterns": (
        "f32",
        "gemma2",
        [
            Adapter(
                6,
                12,
                r"layers\.[12]\..*_proj\.weight",
                5,
                more={
                    "use_rslora": True,
                    "rank_pattern": {"q_proj": 3, r"layers\.2\.mlp\..*": 2}
                    | {r"^model\.layers\.1\.mlp\.up_proj": 9},
                    "alpha_pattern": {"(k|v)_proj": 5.5},
                },
            )
        ],
    ),
    "fused": (
        "f32",
        "phi3",
        [Adapter(8, 16, ALL, 6), Adapter(3, 6, "qkv_proj", 7)],
    ),
    "transposed": (
        "f32",
        "gpt2",
        [Adapter(5, 9, r"\.c_.*weight", 6, more={"fan_in_fan_out": True})],
    ),
    "bf16": ("bf16", "llama", [Adapter(16, 32, ALL, 8, dtype="bf16")]),
    "f16": ("f16", "mistral", [Adapter(9, 16, ATTENTION, 9, dtype="f16")]),
}


def shapes_of(tools, artifact):
    """{checkpoint name: shape} of the tensors that an artifact binds, each once."""
    inspect = [tools.bin / "cria-inspect", artifact, "--json"]
    shapes = {}
    for weight in json.loads(execute(inspect).ok().text)["weights"]:
        if "tied" in weight:
            continue
        shape = list(weight["shape"])
        shape[0] = weight.get("rows", {}).get("of", shape[0])
        if weight.get("transposed"):
            shape.reverse()
        for i in range(weight["count"] or 1):
            name = weight["name"].replace("{}", str(weight["first"] + i))
            shapes[name] = shape
    return shapes


def merged(arrays, adapters, dtype):
    """The checkpoint with the adapters in it."""
    result = {name: array.astype(np.float64) for name, array in arrays.items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    for adapter in adapters:
        for name, (a, b) in adapter.pairs(shapes).items():
            factor = adapter.at(name.removesuffix(".weight"))[1]
            delta = b.astype(np.float64) @ a.astype(np.float64)
            delta = delta.T if is_transposed(name) else delta
            result[name] = result[name] + adapter.scale * factor * delta
    return {name: weights.rounded(x, dtype) for name, x in result.items()}


class Case:
    """A model, its checkpoint, its adapters on disk, and the merged checkpoint."""

    def __init__(self, tools, name, device):
        self.tools, self.name, self.device = tools, name, device
        self.dtype, family, self.adapters = CASES[name]
        config = tools.scratch / f"{name}.json"
        config.write_text(json.dumps(families.in_own_names(families.FAMILIES[family])))
        targets = "cpu" if device == "cpu" else "cpu,cuda"
        self.flags = [config, f"--dtype={self.dtype}", f"--target={targets}"]
        self.artifact = tools.compile(*self.flags, out=f"{name}.cria")
        self.shapes = shapes_of(tools, self.artifact)
        arrays = {
            name: weights.rounded(weights.values(SEED, name, s), self.dtype)
            for name, s in self.shapes.items()
        }
        self.base = self.write("base", arrays)
        whole = merged(arrays, self.adapters, self.dtype)
        self.changed = [
            name for name in arrays if not np.array_equal(arrays[name], whole[name])
        ]
        self.whole = self.write("whole", whole)
        self.loras = []
        for i, adapter in enumerate(self.adapters):
            folder = tools.scratch / f"{name}-adapter{i}"
            adapter.write(folder, self.shapes, arrays)
            scale = "" if adapter.scale == 1 else f"={adapter.scale}"
            self.loras.append(f"--lora={folder}{scale}")

    def write(self, what, arrays):
        folder = self.tools.scratch / f"{self.name}-{what}"
        folder.mkdir()
        path = folder / "model.safetensors"
        weights.write_safetensors(path, arrays, self.dtype, align=8)
        return folder

    def logits(self, folder, *flags, artifact=None):
        return self.draw(f"--weights={folder}", *flags, artifact=artifact)

    def draw(self, *flags, artifact=None):
        device = f"--device={self.device}"
        artifact = artifact or self.artifact
        return self.tools.logits(artifact, IDS, device, *flags)

    def check(self, expected, got, what):
        """The bar of f32, or mean KL divergence."""
        what = f"{self.name}: {what}"
        if self.dtype == "f32":
            return check_close(expected, got, what)
        apart = divergence(expected, got)
        check(apart <= 1e-5, f"{what}: KLD {apart:.2e}, expected at most 1e-5")


def check_bytes(case):
    """Weights that no adapter targets are used in place in the files."""
    flags = [f"--weights={case.base}", *case.loras]
    inspect = [case.tools.bin / "cria-inspect", case.artifact, *flags]
    size = 4 if case.dtype == "f32" else 2
    total, copied = (
        sum(size * math.prod(case.shapes[name]) for name in names) / 2**20
        for names in (case.shapes, case.changed)
    )
    line = f"weights: {total - copied:.1f} MiB in place, {copied:.1f} MiB copied"
    check(line in execute(inspect).ok().text, f"{case.name}: expected {line}")


def check_unmerged(case, expected):
    """Adapters are kept apart, in an artifact with exactly the room that they need."""
    ranks = dict.fromkeys(case.shapes, 0)
    for adapter in case.adapters:
        for name in adapter.pairs(case.shapes):
            ranks[name] += adapter.at(name.removesuffix(".weight"))[0]
    room = f"--lora-rank={max(ranks.values())}"
    artifact = case.tools.compile(*case.flags, room, out="room.cria")
    flags = [*case.loras, "--lora-unmerged"]
    got = case.logits(case.base, *flags, artifact=artifact)
    case.check(expected, got, "merged in f64 and by --lora-unmerged")
    got = case.logits(case.base, *case.loras, artifact=artifact)
    case.check(expected, got, "merged where there is room")
    plain = case.logits(case.base, artifact=artifact)
    case.check(case.logits(case.base), plain, "with empty room")
    check_sets(case, artifact)


def fed(session, pieces):
    """The logits of IDS from position 0 on, in pieces."""
    session.rewind(0)
    ends = np.cumsum(pieces)
    return [session.feed(IDS[end - n : end]) for end, n in zip(ends, pieces)]


def check_sets(case, artifact):
    """Sessions with different sets take turns. Each computes as in a model with its set
    alone; so does a session that changes its set, hidden states included."""
    folders = [case.tools.scratch / f"{case.name}-adapter{i}" for i in range(9)]
    whole = [(folders[i], a.scale) for i, a in enumerate(case.adapters)]
    choices = [whole, [(folders[0], -0.75)], []]

    vocab, width = next(iter(case.shapes.values()))

    def model(loras):
        return Model(case.tools, artifact, 0, vocab, case.device, case.base, loras)

    pieces = [len(IDS) - 3, 1, 1, 1]
    alone = [fed(model(choice).session(), pieces) for choice in choices]
    check(not np.array_equal(alone[0][0], alone[1][0]), f"{case.name}: alike sets")
    together = model([])
    sets = [together.lora_set(choice) if choice else None for choice in choices]
    sessions = [together.session() for _ in choices]
    for session, lora_set in zip(sessions, sets):
        session.set_lora(lora_set)
    ends = np.cumsum(pieces)
    for turn, (end, n) in enumerate(zip(ends, pieces)):
        for i, session in enumerate(sessions):
            got = session.feed(IDS[end - n : end])
            same = np.array_equal(got, alone[i][turn])
            check(same, f"{case.name}: set {i}, turn {turn}: other bits than alone")
    states = []
    for session in sessions:
        session.rewind(0)
        states.append(session.forward(IDS, width)[1])
    for i in (1, 2, 0):
        sessions[0].set_lora(sets[i])
        for got, expected in zip(fed(sessions[0], pieces), alone[i]):
            check(np.array_equal(got, expected), f"{case.name}: chose {i}, other bits")
        sessions[0].rewind(0)
        got = sessions[0].forward(IDS, width)[1]
        same = np.array_equal(got, states[i])
        check(same, f"{case.name}: chose {i}, other hidden states")


def main():
    tools = Tools(*sys.argv[1:3])
    for name in some(sys.argv[4:], 3):
        case = Case(tools, name, sys.argv[3])
        expected = case.logits(case.whole)
        got = case.logits(case.base, *case.loras)
        case.check(expected, got, "merged in f64 and by --lora")
        effect = divergence(expected, case.logits(case.base))
        check(effect > 1e-3, f"{name}: adapters change nothing, {effect:.1e}")
        check_bytes(case)
        if not any("lm_head" in adapter.modules for adapter in case.adapters):
            drawn = case.draw(f"--random-weights={SEED}", *case.loras)
            check(np.array_equal(drawn, got), f"{name}: other logits when drawn")
            check_unmerged(case, expected)


if __name__ == "__main__":
    main()
