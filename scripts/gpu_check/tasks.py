"""tasks.py OPTIONS TASK ...: tasks that need only Cria and NumPy. Prints a row of
JSON for each measurement."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import types

FOLDER = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = json.loads(sys.argv[1])
DEVICE, OUT = OPTIONS["device"], pathlib.Path(OPTIONS["out"])
GPU = DEVICE == "cuda"
# Squared error of logits over the squared reference.
# In q8_0 the CPU rounds inputs to 8 bits, too: its logits of Llama-3.2-1B are 4e-3 from those
# in bf16.
BARS = {"bf16": 2e-3, "f32": 1e-8, "q8_0": 4e-3}
LONG = 300  # tokens of a prompt that products of many rows compute
# What is timed: positions before a token, tokens of a prompt, tokens decoded.
DEPTHS, LENGTHS, DECODED = ([512, 0, 4096], [512, 16, 128, 2048], 64) if GPU else ([8, 0], [16], 1)
DRAWN = 65 if GPU else 4  # ids of each text with drafts
CUDA = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"])


def plan():
    return json.loads((FOLDER / "plan.json").read_text())


def model_named(name):
    return plan()["models"][name]


def artifact_of(name):
    return FOLDER / "artifacts" / model_named(name)["artifact"]


def config_of(name):
    return json.loads((FOLDER / model_named(name)["config"] / "config.json").read_text())


def row(kind, ok=None, **cells):
    cells = {key.replace("_", " "): value for key, value in cells.items()}
    print(json.dumps({"kind": kind, "ok": ok, "cells": cells}), flush=True)


def tool(*command, **others):
    """A tool that was run; what it says on stderr is kept in the task's log, too."""
    done = subprocess.run(
        [FOLDER / "bin" / command[0], *map(str, command[1:])],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", **others,
    )
    sys.stderr.write(done.stderr)
    return done


def output(*command):
    """The output of a tool, or None if it fails."""
    done = tool(*command)
    return None if done.returncode else done.stdout


def ids_and_logits(artifact, device, ids, count, *weights):
    """Greedy ids after `ids`, and the logits of these."""
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "logits.npy")
        text = output(
            "cria-run", artifact, f"--device={device}",
            "--ids=" + ",".join(map(str, ids)), f"--max-tokens={count}",
            "--temperature=0", "--print-ids", f"--logits={path}", *weights,
        )
        if text is None:
            sys.exit(1)
        return [int(word) for word in text.split(",")], numpy.load(path)


def prompt(vocab, length):
    import numpy

    return numpy.random.default_rng(1).integers(3, vocab, length).tolist()


def different_prompts(vocab, count, length):
    ids = prompt(vocab, count + length)
    return [ids[index : index + length] for index in range(count)]


def nmse(wanted, got):
    wanted, got = wanted.astype("float64"), got.astype("float64")
    return float(((got - wanted) ** 2).sum() / (wanted**2).sum())


def environment():
    """What the machine is, in a file of its own."""
    commands = {
        "gpu": ["nvidia-smi", "-q"],
        "clocks": ["nvidia-smi", "-q", "-d", "CLOCK,POWER"],
        "ptxas": ["ptxas", "--version"],
        "ncu": ["ncu", "--version"],
        "cpu": ["lscpu"],
        "memory": ["free", "-g"],
    }
    said = {}
    for name, command in commands.items():
        if path := shutil.which(command[0], path=CUDA):
            done = subprocess.run([path, *command[1:]], capture_output=True, text=True, timeout=15)
            said[name] = done.stdout or done.stderr
    (OUT / "environment.json").write_text(json.dumps(said, indent=1))
    row("environment", cores=os.cpu_count(), found=", ".join(said))


def greedy_tiny():
    """(whether the shipped model's greedy ids are transformers', how many are)."""
    case = json.loads((FOLDER / "tiny" / "expected.json").read_text())["prompts"][0]
    count = len(case["greedy"]) if GPU else 4
    weights = f"--weights={FOLDER / 'tiny'}"
    got, _ = ids_and_logits(FOLDER / "artifacts/tiny.cria", DEVICE, case["ids"], count, weights)
    return got == case["greedy"][:count], f"{sum(map(int.__eq__, got, case['greedy']))} of {count}"


def beside_cpu(artifact, vocab, length, count, *weights):
    """(NMSE of the device's logits against the CPU's, how many greedy ids are equal)."""
    ids = prompt(vocab, length)
    wanted_ids, wanted = ids_and_logits(artifact, "cpu", ids, count, *weights)
    got_ids, got = ids_and_logits(artifact, DEVICE, ids, count, *weights)
    return nmse(wanted, got), f"{sum(map(int.__eq__, got_ids, wanted_ids))} of {count}"


def variant(name):
    """Whether an image of the artifact is right: ids of the shipped model, logits of a
    prompt long enough for products of many rows, and what the driver made of its code."""
    right, equal = greedy_tiny()
    golden = plan()["goldens"][0]
    config = FOLDER / "python" / "goldens" / golden / "config.json"
    vocab = json.loads(config.read_text())["vocab_size"]
    artifact = FOLDER / "artifacts" / f"{golden}.cria"
    length = LONG if GPU else 6
    error, _ = beside_cpu(artifact, vocab, length, 1, "--random-weights=1")
    code = code_of(artifact)
    others = list(unlike_ptxas(code))
    print(*others, sep="\n", file=sys.stderr)
    row("variants", right and error <= BARS["bf16"], variant=name, ids=equal, NMSE=error,
        load_s=code.get("load_seconds"), other_code=f"{len(others)} kernels" if others else "",
        slowed=", ".join(sorted(set(re.findall(r"C75\d\d", str(code.get("compiler_log")))))))


def code_of(artifact):
    """What cria-bench says of the code that the device runs."""
    text = output("cria-bench", artifact, "--random-weights=1", f"--device={DEVICE}", "--json",
                  "--gen-len=1", "--prompt-len=1")
    return json.loads(text).get("code", {}) if text else {}


def unlike_ptxas(code):
    """Kernels whose registers or local memory are not what ptxas said of them."""
    wanted = plan()["ptxas"].get(code.get("chip"), {}) if GPU else {}
    for kernel in code.get("kernels", []):
        registers, local = wanted.get(kernel["kernel"], [kernel["registers"], 0])
        if [registers, local] != [kernel["registers"], kernel["local_bytes"]]:
            yield (f"{kernel['kernel']}: {kernel['registers']} registers, "
                   f"{kernel['local_bytes']} bytes, ptxas {registers}, {local}")


def golden(name):
    """The checks of test/e2e/emulated.py, which end the process where one fails."""
    import emulated
    from harness import Golden, Tools

    with tempfile.TemporaryDirectory() as scratch:
        tools = Tools(FOLDER / "bin", scratch)
        emulated.check_golden(tools, Golden(name), FOLDER / "artifacts" / f"{name}.cria", DEVICE)
    image = os.environ.get("CRIA_CUDA_IMAGE", "")
    row("goldens", True, golden=name, image=image, logits="as transformers and the CPU, twice")


def beside(name):
    """Compares the logits of a prompt and the ids after it with the CPU's."""
    length, count = (LONG, 16) if GPU else (6, 2)
    vocab = config_of(name)["vocab_size"]
    error, equal = beside_cpu(artifact_of(name), vocab, length, count, "--random-weights=1")
    bar = BARS["q8_0" if name.endswith("q8_0") else "bf16"]
    # Random weights make near ties: ids are counted, logits decide.
    row("beside the CPU", error <= bar, model=name, NMSE=error, at_most=bar, equal_ids=equal)


def bench(name, *flags, depths=(0,), lengths=(16,), decoded=DECODED):
    text = output(
        "cria-bench", artifact_of(name), "--random-weights=1", f"--device={DEVICE}", "--json",
        f"--gen-len={decoded}", "--depth=" + ",".join(map(str, depths)),
        "--prompt-len=" + ",".join(map(str, lengths)), *flags,
    )
    return json.loads(text) if text else sys.exit(1)


def rates(name):
    report = bench(name)
    what, rate = f"reads, {report['read_loop']}", report["read_bytes_per_second"]
    row("rates", what=what, rate=rate / 1e12 if rate else None, unit="TB/s")
    for unit, rate in report["operations_per_second"].items():
        row("rates", what=unit, rate=rate / 1e12 if rate else None, unit="TFLOP/s")


def predicted(name, call):
    """{kernel: us of all its launches} of a call, as scripts/predict_cuda.py predicts it
    for this GPU; "all" is their sum. {} if it was not predicted."""
    table = json.loads((FOLDER / "python" / "predicted.json").read_text())
    said = smi("name")
    gpu = next((gpu for gpu in table if said and gpu in said[0]), None)
    return table.get(gpu, {}).get(name, {}).get(call, {})


def smi(*fields):
    """The first line of what nvidia-smi says of fields; [] without it."""
    if not GPU or not shutil.which("nvidia-smi"):
        return []
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=15)
    return [cell.strip() for cell in done.stdout.split("\n")[0].split(",")]


@contextlib.contextmanager
def clocks(what):
    """A row of the clocks and the power meanwhile."""
    if not GPU or not shutil.which("nvidia-smi"):
        yield
        return
    query = "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", "--loop-ms=200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield
        finally:
            process.terminate()
            lines = [line.split(",") for line in process.stdout.read().splitlines()]
            seen = [[float(cell) for cell in line] for line in lines if len(line) == 4]
            if seen:
                middle = [sorted(column)[len(column) // 2] for column in zip(*seen)]
                row("clocks", what=what, MHz=middle[0], memory_MHz=middle[1], W=middle[2],
                    degrees=middle[3])


def speed_row(name, call, system, measured):
    ms = 1e-3 * predicted(name, call).get("all", 0) or None
    floor = measured["floor_seconds"]
    row("speed", model=name, call=call, system=system, clock_ms=measured["seconds"] * 1e3,
        tokens_a_second=measured["tokens_per_second"], predicted_ms=ms,
        floor_ms=floor * 1e3 if floor else None,
        of_the_floor=f"{measured['fraction']:.0%}" if measured["fraction"] else None)


def speed(name, without=""):
    system, few = "Cria", slice(None)
    if without:
        chosen = os.environ.get("CRIA_CUDA_WITHOUT", "")
        os.environ["CRIA_CUDA_WITHOUT"] = f"{chosen},{without}".strip(",")
        system, few = f"Cria without {without}", slice(1)
    with clocks(f"{name}, {system}"):
        report = bench(name, depths=DEPTHS[few], lengths=LENGTHS[few])
    for measured in report["decode"]:
        speed_row(name, f"decode at {measured['depth']}", system, measured)
    for measured in report["prefill"]:
        speed_row(name, f"prefill of {measured['tokens']}", system, measured)


def base_of(kernel):
    """The name that a kernel has on every chip."""
    return re.sub("_(wgmma|bulk|cluster)$", "", kernel)


def kernels(name):
    """Each kernel by events before and after it, so without overlap."""
    report = bench(name, "--kernels", depths=DEPTHS[:1], lengths=LENGTHS[:3])
    for table in report["kernels"]:
        decodes = table["tokens"] == 1
        call = f"decode at {table['depth']}" if decodes else f"prefill of {table['tokens']}"
        guess = predicted(name, call)
        for kernel in table["kernels"]:
            floor, taken = kernel["floor_seconds"], kernel["seconds"]
            row("kernels", model=name, call=call, kernel=kernel["kernel"],
                launches=kernel["launches"], predicted_us=guess.get(base_of(kernel["kernel"])),
                us=taken * 1e6, floor_us=floor * 1e6 if floor else None,
                MB=kernel["bytes"] / 1e6,
                of_the_floor=f"{floor / taken:.0%}" if floor and taken else None)
        row("kernels", model=name, call=call, kernel="all", predicted_us=guess.get("all"),
            us=table["seconds"] * 1e6)


def profile(name):
    """Each kernel by Nsight Compute: its time alone, and what it uses of the chip."""
    import ncu

    path = shutil.which("ncu", path=CUDA)
    if not GPU or not path:
        return row("skipped", skipped="no ncu" if GPU else "the device is emulated")
    report = OUT / "ncu.csv"
    ids = ",".join(map(str, prompt(config_of(name)["vocab_size"], LENGTHS[0])))
    command = [path, *ncu.FLAGS, f"--log-file={report}", FOLDER / "bin" / "cria-run",
               artifact_of(name), "--random-weights=1", "--device=cuda", f"--ids={ids}",
               "--max-tokens=2", "--temperature=0", "--print-ids"]
    subprocess.run(command, stdout=sys.stderr)
    for cells in ncu.rows(report.read_text(errors="replace")):
        row("ncu", **cells)


def batches(name):
    """A step of many sequences at once."""
    sizes, depth = ("1,8,32,64", 512) if GPU else ("1,4", 8)
    with clocks(name):
        report = bench(name, f"--batch={sizes}", depths=[depth])
    for measured in report["batch"]:
        call = f"{measured['sequences']} sequences at {measured['depth']}"
        speed_row(name, call, "Cria", measured)


class Texts:
    """Sequences of a batch that draw their likeliest ids; `known[i]` are those of the ith."""

    def __init__(self, batch, prompts, known):
        self.batch, self.known = batch, known
        self.numbers = [self.batch.join(logits=0) for _ in prompts]
        self.drawn = {number: [] for number in self.numbers}
        for number, ids in zip(self.numbers, prompts):
            if problem := self.batch.feed(number, ids, DRAWN):
                sys.exit(problem)

    def step(self, change, most):
        """Proposes `most` of the known ids, each changed by `change`, and takes a step."""
        vocab = self.batch.model.vocab
        for number, known in zip(self.numbers, self.known):
            at = len(self.drawn[number])
            if most and at and (ids := known[at : at + most]):
                self.batch.propose(number, [(id + change) % vocab for id in ids])
        for number, id, _, message, *_ in self.batch.step():
            if id < 0:
                sys.exit(message)
            self.drawn[number].append(id)

    def run(self, change=0, most=0):
        """What all drew, seconds until each had an id, and ids a second from then until
        one has all."""
        began = time.perf_counter()
        while not all(self.drawn.values()):
            self.step(change, most)
        first = time.perf_counter() - began
        before, began = sum(map(len, self.drawn.values())), time.perf_counter()
        while max(map(len, self.drawn.values())) < DRAWN:
            self.step(change, most)
        seconds = time.perf_counter() - began
        count = sum(map(len, self.drawn.values())) - before
        while min(map(len, self.drawn.values())) < DRAWN:
            self.step(change, most)
        for number in self.numbers:
            self.batch.leave(number)
        return list(self.drawn.values()), first, count / seconds


def drafts(name):
    """Drafts that are all right, and all wrong, beside the same texts without. Then
    prompts that arrive together: when the last one has an id."""
    import capi

    vocab = config_of(name)["vocab_size"]
    tools = types.SimpleNamespace(bin=FOLDER / "bin")
    model = capi.Model(tools, artifact_of(name), 1, vocab, DEVICE)
    for count in (1, 8) if GPU else (1, 2):
        prompts = different_prompts(vocab, count, 32 if GPU else 2)
        batch = capi.Batch(model)
        known, _, without = Texts(batch, prompts, [[]] * count).run()
        batch.free()
        for change, what in ((0, "right"), (1, "wrong")):
            for most in (1, 3, 7) if GPU else (1,):
                batch = capi.Batch(model, draft_rows=count * (1 + most))
                drawn, _, rate = Texts(batch, prompts, known).run(change, most)
                batch.free()
                row("drafts", drawn == known, model=name, sequences=count, drafts=most, all=what,
                    tokens_a_second=rate, times_the_rate_without=rate / without)
    batch, count = capi.Batch(model), 8 if GPU else 2
    nothing = [[]] * count
    for length in (8, 16, 64) if GPU else (2,):
        prompts = different_prompts(vocab, 2 * count, length)
        Texts(batch, prompts[:count], nothing).run()  # the first steps of a batch are slower
        _, first, rate = Texts(batch, prompts[count:], nothing).run()
        row("prompts at once", model=name, prompts=count, ids=length, ms_to_the_last=first * 1e3,
            decode_steps=first * rate / count)
    batch.free()
    model.free()


def sampling(name):
    """Ids drawn with a temperature, by the clock of the whole generation."""
    count = 128 if GPU else 2
    ids = ",".join(map(str, prompt(config_of(name)["vocab_size"], 16)))
    for what, flags in {
        "greedy": ["--temperature=0"],
        "temperature": ["--temperature=0.8"],
        "top-k and top-p": ["--temperature=0.8", "--top-k=50", "--top-p=0.95"],
    }.items():
        done = tool("cria-run", artifact_of(name), "--random-weights=1", f"--device={DEVICE}",
                    f"--ids={ids}", f"--max-tokens={count}", "--seed=1", "--print-ids", *flags)
        found = re.search(r"decode (\d+) tokens in ([\d.]+) s \(([\d.]+) tokens/s", done.stderr)
        if done.returncode or not found:
            sys.exit(1)
        row("sampling", model=name, draws=what, tokens=int(found[1]),
            tokens_a_second=float(found[3]))


def sanitizer(which):
    """Small models under a tool of compute-sanitizer."""
    path = shutil.which("compute-sanitizer", path=CUDA)
    if not GPU or not path:
        why = "the device is emulated" if not GPU else "no compute-sanitizer"
        return row("skipped", skipped=why)
    golden = plan()["goldens"][0]
    length, artifact = (LONG, golden) if which == "memcheck" else (16, "tiny")
    ids = ",".join(str(3 + i % 100) for i in range(length))
    command = [
        path, f"--tool={which}", "--error-exitcode=9", FOLDER / "bin" / "cria-run",
        FOLDER / "artifacts" / f"{artifact}.cria", "--random-weights=1", "--device=cuda",
        f"--ids={ids}", "--max-tokens=4", "--temperature=0", "--print-ids",
    ]
    done = subprocess.run(
        command, env=os.environ | {"CRIA_CUDA_TIMEOUT": "300"}, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    sys.stderr.write(done.stdout)
    said = [line for line in done.stdout.split("\n") if "SUMMARY" in line]
    if done.returncode not in (0, 9) and not said:
        return row("sanitizer", tool=which, said="does not run here")
    # racecheck and initcheck know copies by TMA only in part: what they say is read.
    ok = done.returncode == 0 if which == "memcheck" else None
    row("sanitizer", ok, tool=which, model=artifact, said=said[-1].strip("= ") if said else "")


TASKS = (environment, variant, golden, beside, rates, speed, kernels, profile, batches,
         drafts, sampling, sanitizer)

if __name__ == "__main__":
    next(task for task in TASKS if task.__name__ == sys.argv[2])(*sys.argv[3:])
