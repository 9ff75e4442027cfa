"""graphs.py BIN SCRATCH DEVICE: the programs of examples/graphs against
transformers.

Each checkpoint is bound by name. Logits of the text meet the bar of f32: of the whole
text, of the text in pieces, and of the last tokens only. Programs that generate continue
greedily as transformers does, and the encoder reads its text once.
"""

import json
import pathlib
import sys

import numpy as np

from capi import Model
from harness import HERE, Tools, check, check_close, some

GRAPHS = HERE.parent.parent / "examples" / "graphs"
VOCAB = 96


class Graph:
    def __init__(self, tools, name, device):
        self.tools, self.name = tools, name
        self.folder = GRAPHS / name
        with np.load(self.folder / "expected.npz") as arrays:
            data = dict(arrays)
        self.ids = data["ids"].tolist()
        self.logits = data["logits"]
        self.hidden = data.get("hidden")
        self.greedy = data["greedy"].tolist() if "greedy" in data else []
        self.source = data["source"].tolist() if "source" in data else []
        self.target = "cpu" if device == "cpu" else "cuda"
        self.artifact = self.compile(out=f"{name}.cria")
        self.flags = [f"--weights={self.folder}", f"--device={device}"]
        if self.source:
            source = ",".join(map(str, self.source))
            self.flags.append(f"--source-ids={source}")
        model = Model(tools, self.artifact, 0, VOCAB, device, self.folder)
        self.session = model.session()
        if self.source:
            self.session.encode(self.source)


    def compile(self, *flags, out):
        program, target = GRAPHS / f"{self.name}.mlir", f"--target={self.target}"
        return self.tools.compile(program, target, *flags, out=out)


def refused(run, problem):
    check(run.status == 1 and problem in run.errors, run)


def check_tools(graph):
    """cria-run: logits, and text where there is any."""
    ids = ",".join(map(str, graph.ids))
    file = graph.tools.scratch / "logits.npy"
    run = graph.tools.run
    flags = [f"--ids={ids}", *graph.flags]
    run(graph.artifact, *flags, f"--logits={file}", "--max-tokens=0").ok()
    check_close(graph.logits, np.load(file), f"{graph.name}, cria-run")
    check_hidden(graph, flags, file)
    if graph.greedy:
        wanted = [f"--max-tokens={len(graph.greedy)}", "--print-ids"]
        got = run(graph.artifact, *flags, *wanted).ok().ids()
        check(got == graph.greedy, f"{graph.name}: {got} != {graph.greedy}")


def check_hidden(graph, flags, file):
    """Hidden states and embeddings of a program that returns them, or why not."""
    run = graph.tools.run
    states = run(graph.artifact, *flags, f"--hidden={file}", "--max-tokens=0")
    if graph.hidden is None:
        return refused(states, "the artifact's program returns no hidden states")
    states.ok()
    check_close(graph.hidden, np.load(file), f"{graph.name}, hidden states")
    for kind, want in [("mean", graph.hidden.mean(0)), ("first", graph.hidden[0])]:
        done = run(graph.artifact, *flags, "--embedding", f"--pooling={kind}").ok()
        got = np.array(json.loads(done.out), np.float32)
        check_close(want, got, f"{graph.name}, pooled: {kind}")


def check_pieces(graph):
    """A text in pieces, where tokens see only those before them."""
    for pieces in [[1] * len(graph.ids), [len(graph.ids) - 2, 2]]:
        graph.session.rewind(0)
        ends = np.cumsum(pieces)
        rows = [
            graph.session.feed(graph.ids[end - n : end])
            for end, n in zip(ends, pieces)
        ]
        what = f"{graph.name}, in pieces of {pieces[:2]}"
        check_close(graph.logits, np.concatenate(rows), what)


def check_whole(graph):
    """A model whose tokens see later tokens takes a text whole."""
    run = graph.tools.run(graph.artifact, "--ids=1", "--max-tokens=1", *graph.flags)
    refused(run, "--max-tokens: tokens of this model see later tokens")
    short = graph.compile("--chunk=16", out="short.cria")
    ids = ",".join(map(str, graph.ids))
    file = graph.tools.scratch / "short.npy"
    run = graph.tools.run(short, f"--ids={ids}", f"--logits={file}", *graph.flags)
    refused(run, "a text is one call from position 0, of at most 16 ids")
    check(not file.exists(), f"{file} is left")


def check_source(graph):
    """Another source text, then the first again: nothing of the other remains."""
    graph.session.rewind(0)
    before = graph.session.feed(graph.ids)
    for source in [graph.source[:1], graph.source[::-1]]:
        graph.session.encode(source)
        other = graph.session.feed(graph.ids)
        check(np.abs(before - other).max() > 0.1, f"{graph.name}: {source} is idle")
    graph.session.encode(graph.source)
    check(np.array_equal(before, graph.session.feed(graph.ids)), graph.name)
    flags = [flag for flag in graph.flags if "source" not in flag]
    for source, problem in [
        ([], "attends to a source text, and none was encoded"),
        (["--source-ids="], "--source-ids is empty"),
        (["--source-ids=96"], "--source-ids: id 96 at index 0, expected 0 to 95"),
        (["--source-ids=" + "1," * 64 + "1"], "65 ids to encode, the artifact takes 64"),
    ]:
        refused(graph.tools.run(graph.artifact, "--ids=1", *flags, *source), problem)


def main():
    tools = Tools(*sys.argv[1:3])
    device = sys.argv[3]
    names = ["opt", "bert", "bart", "mixtral"]
    names += ["granitemoe"] * (device == "cpu")
    for name in some(names, 2, device == "cpu"):
        graph = Graph(tools, name, device)
        check_tools(graph)
        check_whole(graph) if name == "bert" else check_pieces(graph)
        if graph.source:
            check_source(graph)
        elif name == "opt":
            run = tools.run(graph.artifact, *graph.flags, "--ids=1", "--source-ids=1")
            refused(run, "--source-ids: the model has no encoder")


if __name__ == "__main__":
    main()
