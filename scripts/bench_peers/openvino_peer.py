"""openvino_peer.py JSON: times OpenVINO GenAI, and prints {row: tokens/s}. The model is
exported once: bf16 is stored as f16, q8_0 and q4_0 are its own int8 and int4 in groups
of 32. It computes as it likes."""

import json
import os
import pathlib
import statistics
import sys


def export(source, kind, to):
    import nncf
    import openvino
    import torch
    from optimum.exporters.openvino import main_export
    from optimum.intel import OVConfig

    import shape

    if not source:
        source = to.parent / "openvino-source"
        if not source.exists():
            shape.model("bf16", "").save_pretrained(source)
            torch.set_default_dtype(torch.float32)
    partial = pathlib.Path(f"{to}.part")
    main_export(
        str(source), output=partial, task="text-generation-with-past",
        ov_config=OVConfig(dtype="fp16"), convert_tokenizer=False,
    )  # fmt: skip
    if kind != "bf16":
        modes = nncf.CompressWeightsMode
        how = (
            {"mode": modes.INT8_SYM}
            if kind == "q8_0"
            else {"mode": modes.INT4_SYM, "group_size": 32, "ratio": 1.0}
        )
        read = openvino.Core().read_model(partial / "openvino_model.xml")
        openvino.save_model(nncf.compress_weights(read, **how), partial / "small.xml")
        del read
        for end in ("xml", "bin"):
            os.replace(partial / f"small.{end}", partial / f"openvino_model.{end}")
    partial.rename(to)


def main():
    asked = json.loads(sys.argv[1])
    model = pathlib.Path(asked["model"] or asked["type"]).name
    folder = pathlib.Path(asked["folder"]) / f"openvino-{model}"
    if not folder.exists():
        # In a process of its own: the peak of memory is then that of running.
        if child := os.fork():
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                sys.exit("the export fails")
        else:
            export(asked["model"], asked["type"], folder)
            os._exit(0)
    import numpy
    import openvino
    import openvino_genai

    pipeline = openvino_genai.LLMPipeline(
        str(folder), "CPU", INFERENCE_NUM_THREADS=asked["threads"], ATTENTION_BACKEND="SDPA"
    )
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = config.min_new_tokens = asked["tokens"]
    config.ignore_eos, config.do_sample, config.apply_chat_template = True, False, False

    def run(texts, count):
        """Seconds to the first token, and for each step after it. (The metrics' time of a
        token is a step's over the number of texts.)"""
        ids = numpy.random.default_rng(count).integers(3, 100000, (texts, count))
        tensors = (openvino.Tensor(t) for t in (ids, numpy.ones_like(ids)))
        metrics = pipeline.generate(openvino_genai.TokenizedInputs(*tensors), config).perf_metrics
        first = metrics.get_ttft().mean / 1e3
        all = metrics.get_generate_duration().mean / 1e3
        return first, (all - first) / (asked["tokens"] - 1)

    found = {}
    for count in sorted({*asked["prompts"], *(d or 1 for d in asked["depths"])}):
        runs = [run(1, count) for _ in range(3)][1:]
        if count in asked["prompts"]:
            found[f"prompt of {count}"] = count / statistics.median(first for first, _ in runs)
        if count in (d or 1 for d in asked["depths"]):
            depth = count if count > 1 else 0
            found[f"decode at {depth}"] = 1 / statistics.median(each for _, each in runs)
    for texts in asked["texts"]:
        found[f"{texts} texts"] = texts / run(texts, 16)[1]
    print(json.dumps(found))


main()
