"""bench.py: what scripts/bench_peers.sh says, when everything is installed."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

TYPES = ("bf16", "f32", "f16", "q8_0", "q4_0")
TEXTS = (1, 4, 8)
TOKENS = 16  # that are decoded
MEMORY = "peak memory, MiB"
FLOOR = ", of the floor"  # of cria-bench: Cria's figures alone have it


class Peer:
    """A program that is timed: {row: tokens/s, or what the row says}."""

    def __init__(self, args):
        self.args = args

    def run(self, command, **environment):
        """Standard output; `peak` is then the process's, in MiB."""
        out, errors = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        process = subprocess.Popen(
            list(map(str, command)), stdout=out, stderr=errors, env=os.environ | environment
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.peak = usage.ru_maxrss / 1024
        out.seek(0), errors.seek(0)
        if process.returncode:
            raise RuntimeError(f"{command[0]} fails: {errors.read().strip()[-300:]}")
        return out.read()

    def weights(self, kind):
        """A GGUF file, or a folder of the config, read once, so that it is in memory."""
        path = self.model(kind) if self.args.config else self.args.folder / f"{kind}.gguf"
        if not path.exists():
            print(f"writing {path}", file=sys.stderr)
            # In a process of its own: the peak of this one is that of its children.
            self.run([sys.executable, HERE.parent / "random_gguf.py", kind, path])
        for part in path.glob("*.safetensors") if path.is_dir() else (path,):
            with open(part, "rb") as file:
                while file.read(1 << 24):
                    pass
        return path

    def model(self, kind):
        """The folder of the config's model, which transformers makes."""
        if not self.args.config:
            return ""
        path = self.args.folder / f"{self.args.config.stem}-{kind}"
        if not path.exists():
            print(f"writing {path}", file=sys.stderr)
            python = self.args.folder / "pytorch" / "bin" / "python"
            self.run([python, HERE / "shape.py", self.args.config, kind, path])
        return path


class Cria(Peer):
    """The compiler's default artifact, and one for batches."""

    def artifact(self, weights, *flags):
        path = self.args.folder / f"{weights.name}{''.join(flags)}.cria"
        most = f"--max-seq={max(self.args.prompts + self.args.depths) + 4 * TOKENS}"
        self.run([self.args.bin / "cria-compile", weights, "-o", path, most, *flags])
        return path

    def bench(self, artifact, weights, *flags):
        bench = self.args.bin / "cria-bench"
        threads = f"--threads={self.args.threads}"
        command = [bench, artifact, f"--weights={weights}", threads, f"--gen-len={TOKENS}"]
        return json.loads(self.run([*command, "--device=cpu", "--json", *flags]))

    def figures(self, kind):
        weights = self.weights(kind)
        found = {}
        if texts := self.args.texts:
            batch = self.bench(
                self.artifact(weights, f"--batch={max(texts)}"),
                weights, "--prompt-len=16", f"--batch={','.join(map(str, texts))}",
            )
            for run in batch["batch"]:
                found[f"{run['sequences']} texts"] = run["tokens_per_second"]
        one = self.bench(
            self.artifact(weights), weights,
            f"--prompt-len={','.join(map(str, self.args.prompts))}",
            f"--depth={','.join(map(str, self.args.depths))}",
        )
        runs = {f"prompt of {run['tokens']}": run for run in one["prefill"]}
        runs |= {f"decode at {run['depth']}": run for run in one["decode"]}
        for row, run in runs.items():
            found[row], found[row + FLOOR] = run["tokens_per_second"], run["fraction"]
        return found | {MEMORY: self.peak}


class LlamaCpp(Peer):
    def weights(self, kind):
        if not self.args.config:
            return super().weights(kind)
        model = self.model(kind)
        path = pathlib.Path(f"{model}.gguf")
        if not path.exists():
            print(f"writing {path}", file=sys.stderr)
            python = self.args.folder / "pytorch" / "bin" / "python"
            self.run([python, HERE / "convert.py", self.args.llama_source, model, kind, path])
        return path

    def figures(self, kind):
        weights, threads = self.weights(kind), self.args.threads
        common = ["-m", weights, "-t", threads, "-fa", "1"]
        found = {}
        if self.args.texts:
            batch = self.run([
                self.args.llama_bin / "llama-batched-bench", *common, "-npp", "16",
                "-ntg", TOKENS, "-npl", ",".join(map(str, self.args.texts)), "-c", "1024",
                "--output-format", "jsonl",
            ])  # fmt: skip
            lines = [json.loads(line) for line in batch.splitlines() if line.startswith("{")]
            found = {f"{line['pl']} texts": line["speed_tg"] for line in lines}
        bench = [self.args.llama_bin / "llama-bench", *common, "-r", "2", "-o", "json"]
        prompts = self.run([*bench, "-p", ",".join(map(str, self.args.prompts)), "-n", "0"])
        for run in json.loads(prompts):
            found[f"prompt of {run['n_prompt']}"] = run["avg_ts"]
        depths = ",".join(map(str, self.args.depths))
        for run in json.loads(self.run([*bench, "-p", "0", "-n", TOKENS, "-d", depths])):
            found[f"decode at {run['n_depth']}"] = run["avg_ts"]
        return found | {MEMORY: self.peak}


class OfPython(Peer):
    """A program beside this one, in an environment of its own."""

    def figures(self, kind):
        if kind not in self.KINDS:
            return {}
        command = [self.args.folder / self.NAME / "bin" / "python", HERE / f"{self.NAME}_peer.py"]
        asked = {"type": kind, "folder": str(self.args.folder), "threads": self.args.threads}
        asked |= {"model": str(self.model(kind)), "texts": self.args.texts, "tokens": TOKENS}
        asked |= {"prompts": self.args.prompts, "depths": self.args.depths}
        threads = str(self.args.threads)
        out = self.run([*command, json.dumps(asked)], OMP_NUM_THREADS=threads)
        return json.loads(out.splitlines()[-1]) | {MEMORY: self.peak}


class PyTorch(OfPython):
    NAME, KINDS = "pytorch", ("bf16", "f32", "f16")


class OpenVino(OfPython):
    NAME, KINDS = "openvino", ("bf16", "q8_0", "q4_0")


PEERS = {"cria": Cria, "llama.cpp": LlamaCpp, "pytorch": PyTorch, "openvino": OpenVino}


def counts(text):
    return [int(count) for count in text.split(",")]


def parse():
    parser = argparse.ArgumentParser(prog="bench_peers.sh")
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--llama-bin", type=pathlib.Path, required=True)
    parser.add_argument("--llama-source", type=pathlib.Path, required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--config", type=pathlib.Path)
    parser.add_argument("--types")
    parser.add_argument("--prompts", type=counts, default=[16, 512, 2048])
    parser.add_argument("--depths", type=counts, default=[0, 2048])
    parser.add_argument("--seconds", type=float, default=1080)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    types = TYPES[:3] if args.config else TYPES
    args.texts = () if args.config else TEXTS
    args.out = args.out or args.folder / f"{args.config.stem if args.config else 'table'}.md"
    args.peers = args.peers.split(",")
    args.types = args.types.split(",") if args.types else types
    for option, names, known in (("peers", args.peers, PEERS), ("types", args.types, types)):
        for name in names:
            if name not in known:
                parser.error(f"--{option}: expected some of {', '.join(known)}, got {name}")
    return args


def measure(args):
    """[{type, peer, round, row: figure}]; each is also a line of a file."""
    begin, figures = time.monotonic(), []
    peers = {name: PEERS[name](args) for name in args.peers}
    with open(f"{args.out}.jsonl", "w") as file:
        number = 0
        while number == 0 or time.monotonic() - begin < args.seconds:
            for kind in args.types:
                for name, peer in peers.items():
                    if number and time.monotonic() - begin > args.seconds:
                        break
                    line = {"round": number, "type": kind, "peer": name}
                    try:
                        line |= peer.figures(kind)
                    except (OSError, RuntimeError) as error:
                        line["failed"] = str(error)
                    figures.append(line)
                    print(json.dumps(line), file=file, flush=True)
                    print(f"{time.monotonic() - begin:5.0f} s {line}", file=sys.stderr)
            number += 1
    return figures


def table(args, figures):
    """Cria's figures, and their ratios to those of each peer."""
    others = [name for name in args.peers if name != "cria"]
    head = ["", *args.peers, *(f"Cria over {name}" for name in others)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    rates = [f"prompt of {count}" for count in args.prompts]
    rates += [f"decode at {depth}" for depth in args.depths]
    texts = [f"{count} texts" for count in args.texts]
    rows = [*rates, *texts, *(rate + FLOOR for rate in rates), MEMORY]
    for kind in args.types:
        for row in rows:
            medians = {}
            for name in args.peers:
                values = [
                    line[row]
                    for line in figures
                    if (line["type"], line["peer"]) == (kind, name) and row in line
                ]
                if values:
                    medians[name] = statistics.median(values)
            if not medians:
                continue
            cells = [f"{medians[name]:.4g}" if name in medians else "" for name in args.peers]
            for name in others:
                both = "cria" in medians and name in medians
                cells.append(f"{medians['cria'] / medians[name]:.2f}" if both else "")
            lines.append(f"| {kind}, {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    args = parse()
    figures = measure(args)
    failed = [line for line in figures if "failed" in line]
    args.out.write_text(table(args, figures))
    print(args.out.read_text(), end="")
    for line in failed:
        print(f"bench_peers.sh: {line['peer']}, {line['type']}: {line['failed']}", file=sys.stderr)
    sys.exit(bool(failed))


main()
