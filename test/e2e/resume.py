"""resume.py BIN SCRATCH: IR edited by hand runs as edited.

In the linalg text of a model, SiLU becomes ReLU in all MLP kernels. The artifact of the
edited text gives the logits of a config that asks for ReLU.
"""

import json
import re
import sys

import numpy as np

from harness import Golden, Tools, check, execute

FLAGS = ["--random-weights=1"]


def with_relu(text):
    """The text with max(x, 0) for x / (e^-x + 1) in every MLP kernel."""

    def edited(match):
        kernel = match[0]
        zero = re.search(r"(%\w+) = arith\.constant 0\.0+e\+00 : f32", kernel)[1]
        exps = re.findall(r"(%\w+) = math\.exp", kernel)
        check(len(exps) == 1, f"expected one exp in a kernel, got {len(exps)}")
        below = re.search(rf"(%\w+) = arith\.addf {exps[0]}, ", kernel)[1]
        return re.sub(
            rf"arith\.divf (%\w+), {below} :", rf"arith.maximumf \1, {zero} :", kernel
        )

    kernel = r"func\.func private @layers_mlp_gate_up_\w+\(.*?\n  }\n"
    text, count = re.subn(kernel, edited, text, flags=re.DOTALL)
    check(count == 2 and text.count("maximumf") == 2, f"{count} kernels edited")
    return text


def main():
    tools = Tools(*sys.argv[1:])
    golden = Golden("f32-grouped-tied")
    config = json.loads(golden.config.read_text())
    check(config["hidden_act"] == "silu", config["hidden_act"])
    relu = tools.scratch / "relu.json"
    relu.write_text(json.dumps(config | {"hidden_act": "relu"}))
    emit = [tools.bin / "cria-compile", golden.config, "--emit=linalg"]
    program = tools.scratch / "edited.mlir"
    program.write_text(with_relu(execute(emit).ok().text))

    def logits(path, out):
        return tools.logits(tools.compile(path, out=out), golden.ids, *FLAGS)

    got = logits(program, "edited.cria")
    check(np.array_equal(got, logits(relu, "relu.cria")), "not what a config gives")
    plain = logits(golden.config, "plain.cria")
    check(np.abs(got - plain).max() > 1e-3, "the edit changed nothing")


main()
