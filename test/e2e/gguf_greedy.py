"""gguf_greedy.py BIN SCRATCH MODEL_FOLDER NAME...: from a GGUF file Cria draws the same
greedy ids as llama.cpp.

Compared are 64 ids after a prompt, and the logarithms of their probabilities. NAME is one
of CASES: files of random weights, or of the trained model in the folder. The goldens are
llama.cpp's (make_gguf_goldens.py).
"""

import dataclasses
import json
import pathlib
import sys

import numpy as np

import families
import gguf_files
import gguf_models
import gguf_text
import weights
from gguf_files import TYPES
from harness import HERE, Tools, check, log_softmax, some

GOLDENS = HERE / "goldens" / "gguf.json"
COUNT = 64
SCALE = 5  # of random matrices: each layer then says as much as the embedding
FIRST = 300  # of the second ids of prompts for trained models


@dataclasses.dataclass
class Case:
    """A file, and the requirements on its ids."""

    kind: str = ""  # of gguf_models.MODELS; none: the model of a folder
    type: TYPES = TYPES.F32
    prompt: int = 40  # its ids
    lead: float = 2e-3  # of every id's logit before the next one's
    close: float = 2e-5  # most that logarithms may be apart


SQUARE = {"linear_key_head_dim": 16, "linear_value_head_dim": 16}
# llama.cpp leaves out the window of phi3, knows no biases of lfm2 and ERNIE, no group of
# experts by its best, no bounds of YaRN, no window of small EXAONEs, no size of heads of
# EXAONE and dots, no layers without experts in some families, and no states whose keys and
# values differ in size. It rounds the bounds of YaRN: gpt-oss has a base that makes whole
# ones. gemma2's caps are as large as the logits.
gguf_models.MODELS |= {
    "phi3-whole": gguf_models.family("phi3", sliding_window=None),
    "phi3-longrope": gguf_models.rope("longrope")
    | {"model_type": "phi3", "bos_token_id": None},
    "deepseek_v2-yarn": gguf_models.MODELS["deepseek_v2"]
    | {"q_lora_rank": 40, "topk_method": "greedy", "n_group": 1, "topk_group": 1}
    | {"rope_scaling": families.rope("yarn", mscale=0.707, mscale_all_dim=0.707)},
    "qwen3_5-square": gguf_models.MODELS["qwen3_5_text"] | SQUARE,
    "qwen3_5_moe-square": gguf_models.MODELS["qwen3_5_moe_text"] | SQUARE,
    "qwen3_next-square": gguf_models.MODELS["qwen3_next"]
    | SQUARE
    | {"mlp_only_layers": []},
    "lfm2-bare": gguf_models.family("lfm2", conv_bias=False),
    "ernie4_5-bare": gguf_models.family("ernie4_5", use_bias=False),
    "exaone4-square": gguf_models.family("exaone4", head_dim=16, sliding_window=None),
    "olmo3-windows": gguf_models.family("olmo3"),
    "mixtral-used": gguf_models.MODELS["mixtral"] | {"num_experts_per_tok": 2},
    "granitemoe-used": gguf_models.family(
        "granitemoe", num_local_experts=8, num_experts_per_tok=2, attention_bias=False
    ),
    "qwen2_moe-all": gguf_models.MODELS["qwen2_moe"]
    | {"num_experts_per_tok": 3, "mlp_only_layers": []},
    "qwen3_moe-all": gguf_models.MODELS["qwen3_moe"] | {"mlp_only_layers": []},
    "glm4_moe-group": gguf_models.MODELS["glm4_moe"]
    | {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "ernie4_5_moe-all": gguf_models.MODELS["ernie4_5_moe"]
    | {"moe_layer_interval": 1, "moe_layer_end_index": 4},
    "dots1-all": gguf_models.family(
        "dots1", num_key_value_heads=4, sliding_window=None, head_dim=16
    ),
    "gpt_oss-base": gguf_models.MODELS["gpt_oss"] | {"rope_theta": 10764.673828125},
    "gemma2-caps": gguf_models.family(
        "gemma2",
        query_pre_attn_scalar=24,
        attn_logit_softcapping=10.0,
        final_logit_softcapping=15.0,
    ),
}
KINDS = ["llama", "llama-tied", "llama-biases", "llama3", "linear", "yarn", "qwen2"]
KINDS += ["qwen3", "phi3-whole", "smollm3", "granite", "olmo2"]
KINDS += ["lfm2-bare", "lfm2_moe", "deepseek_v2-yarn", "deepseek_v3"]
KINDS += ["arcee", "seed_oss", "cohere", "cohere2", "ernie4_5-bare", "exaone4-square"]
KINDS += ["glm", "glm4", "hunyuan_v1_dense", "jais2", "minicpm3", "ministral3"]
KINDS += ["nemotron", "olmo", "olmo3-windows", "qwen3_vl_text", "stablelm"]
KINDS += ["mixtral-used", "qwen2_moe-all", "qwen3_moe-all", "granitemoe-used", "dots1-all"]
KINDS += ["glm4_moe-group", "ernie4_5_moe-all", "hunyuan_v1_moe", "gpt_oss-base"]
KINDS += ["gpt_oss-unscaled"]
CASES = {kind: Case(kind) for kind in KINDS}
# Files have -exp(A_log).
STATES = ["qwen3_5-square", "qwen3_5_moe-square", "qwen3_next-square"]
STATES += ["granitemoehybrid-mamba", "granitemoehybrid-experts"]
STATES += ["falcon_h1", "falcon_h1-norm", "nemotron_h", "nemotron_h-experts"]
CASES |= {kind: Case(kind, close=1e-4) for kind in STATES}
CASES |= {
    # Longer than what longrope calls short: llama.cpp asks the context's length.
    "phi3-longrope": Case("phi3-longrope", prompt=80),
}
# llama.cpp's GELU is a table of f16.
GELU = ["gemma", "gemma2-caps", "gpt2", "gpt_bigcode", "gpt_neox", "phi", "starcoder2"]
CASES |= {kind: Case(kind, close=5e-3) for kind in GELU}
CASES |= {"gemma3": Case("gemma3", close=1e-2)}
# If one number of an activation rounds to another integer, all later results change.
BLOCKS = {"lead": 5e-2, "close": 1e-1}
for model in ("tiny", "tiny-moe", "stories260K"):
    CASES[model] = Case()
    CASES[f"{model}-q8_0"] = Case(type=TYPES.Q8_0, **BLOCKS)
    CASES[f"{model}-q4_0"] = Case(type=TYPES.Q4_0, **BLOCKS)


class File:
    """A file of a case, of any seed."""

    def __init__(self, tools, name, folder):
        self.case, self.folder = CASES[name], pathlib.Path(folder)
        self.path = tools.scratch / f"{name}.gguf"
        if self.case.kind:
            self.model = gguf_models.Model(tools, self.case.kind, name)

    def write(self, seed):
        """Writes the file; returns the prompt. Of a trained model, the seed changes
        the prompt alone."""
        if not self.case.kind:
            gguf_text.write(self.path, self.folder, self.case.type)
            config = json.loads((self.folder / "config.json").read_text())
            return [config["bos_token_id"], FIRST + seed]
        arrays = {}
        for name, array in self.model.arrays.items():
            values = weights.values(seed, name, array.shape)
            values *= SCALE if array.ndim == 2 else 1
            arrays[name] = weights.rounded(values, "f32")
        gguf_files.write(
            self.path, self.model.config, arrays, self.case.type, no_vocabulary
        )
        return [(7 * i * i + 3 * i) % 317 + 3 for i in range(self.case.prompt)]


def no_vocabulary(writer):
    """Says that there is no tokenizer."""
    writer.add_tokenizer_model("no_vocab")


def check_case(tools, name, folder):
    case = CASES[name]
    golden = json.loads(GOLDENS.read_text())[name]
    file = File(tools, name, folder)
    prompt = file.write(golden["seed"])
    flags = ["--dtype=f32", "--max-seq=160"]
    artifact = tools.compile(file.path, *flags, out=f"{name}.cria")
    source = f"--weights={file.path}"
    ids = tools.greedy(artifact, prompt, COUNT, source)
    expected = golden["greedy"]
    logits = tools.logits(artifact, prompt + expected[:-1], source)
    rows = log_softmax(logits[len(prompt) - 1 :])
    apart = np.abs(rows[np.arange(COUNT), expected] - golden["logarithms"]).max()
    print(f"{name}: logarithms {apart:.1e} apart", flush=True)
    check(ids == expected, f"{name}: got {ids}, llama.cpp {expected}")
    check(apart <= case.close, f"{name}: expected at most {case.close}")


def main():
    tools = Tools(*sys.argv[1:3])
    for name in some(sys.argv[4:], 12):
        check_case(tools, name, sys.argv[3])


if __name__ == "__main__":
    main()
