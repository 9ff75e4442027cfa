"""``python -m cria OUT.cria --weights=DIR``: generates text, as ``cria-run`` does.

stdout receives the text and nothing else, in whole characters as they are generated, or
instead one result such as the ids of --print-ids. Everything else goes to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import warnings
from typing import Any, Callable, Iterator, Literal, NoReturn

import numpy as np

import cria
from cria._session import Pooling
from cria._text import ids_array

DESCRIPTION = "Generates text with a compiled model."
EPILOG = (
    "Sampling defaults come from generation_config.json; without that file, sampling is "
    "greedy. stdout receives the text, or instead the ids of --print-ids or a file called "
    "-. Everything else goes to stderr."
)


class Parser(argparse.ArgumentParser):
    """Errors as the tools of Cria say them."""

    def error(self, message: str) -> NoReturn:
        print(f"cria: error: {message}", file=sys.stderr)
        sys.exit(2)


class Keys(argparse.Action):
    """Prints the keys of generation_config.json, and ends."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        print(cria.Generation.keys(), end="")
        sys.exit(0)


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number from `least` to `most` in plain decimal."""

    def parse(text: str) -> int:
        if re.fullmatch(r"0|[1-9][0-9]*", text) and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a whole number from {least} to {most}'
        )

    return parse


def ids_of(text: str) -> list[int]:
    """The ids of 1,2,3."""
    number = whole(0, 2**31 - 1)
    return [number(part) for part in text.split(",")]


def lora(text: str) -> cria.Lora:
    """An adapter: DIR, or DIR=SCALE."""
    folder, equals, scale = text.rpartition("=")
    try:
        return cria.Lora(folder, float(scale)) if equals else cria.Lora(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{scale}" is no scale') from None


class ListDevices(argparse.Action):
    """Prints the devices, as cria-run does, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        kinds: list[Literal["cpu", "cuda", "emulated"]] = ["cpu", "cuda", "emulated"]
        for kind in kinds:
            try:
                for info in cria.devices(kind):
                    chip = info.compute_capability
                    parts = [info.name, *([f"sm_{chip}"] if chip else [])]
                    parts.append(f"{info.memory_bytes >> 20} MiB")
                    parts.append(f"{info.free_bytes >> 20} MiB free")
                    print(f"{info.device}: {', '.join(parts)}")
            except cria.Error as problem:
                if kind == "cuda":
                    print(f"cria: no cuda: {problem}", file=sys.stderr)
        parser.exit()


def parser() -> argparse.ArgumentParser:
    """The options: those of cria-run that the library has."""
    made = Parser(
        prog="python -m cria",
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
    )
    add = made.add_argument
    count, seed = whole(0, 2**63 - 1), whole(0, 2**64 - 1)
    add("artifact", metavar="OUT.cria", help="the artifact")
    weights = made.add_mutually_exclusive_group(required=True)
    weights.add_argument(
        "--weights",
        metavar="DIR",
        help="folder of *.safetensors, tokenizer.json, generation_config.json; or one "
        "file.gguf",
    )
    weights.add_argument(
        "--random-weights", metavar="SEED", type=seed, help="draw weights from this seed instead"
    )
    prompt = made.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", metavar="TEXT", help="text to continue")
    prompt.add_argument("--ids", type=ids_of, help="token ids to continue: 1,2,3")
    prompt.add_argument(
        "--chat",
        action="store_true",
        help="chat by the chat template of --weights: each line on stdin is a message; "
        "/reset forgets, /exit ends, Ctrl-C stops a reply",
    )
    add("--system", metavar="TEXT", help="system message of the chat")
    add(
        "--prefix-embeddings",
        metavar="FILE",
        help="NumPy file of embeddings (positions, hidden) that precede the prompt",
    )
    source = made.add_mutually_exclusive_group()
    source.add_argument("--source", metavar="TEXT", help="text for the model's encoder")
    source.add_argument("--source-ids", type=ids_of, help="ids for the model's encoder")
    add(
        "--max-tokens",
        type=count,
        help="most tokens to generate (default: the limit of generation_config.json, or "
        "the end of the context)",
    )
    add("--temperature", type=float, help="divides logits; 0: greedy")
    add("--top-k", type=count, help="sample from the K likeliest; 0: all")
    add("--top-p", type=float, help="sample from the likeliest whose probabilities add up to P")
    add("--min-p", type=float, help="sample from ids with at least P times the best probability")
    add("--seed", type=seed, default=0, help="seed of sampling (default 0)")
    add(
        "--device",
        default="auto",
        metavar="auto|cpu|cuda|emulated",
        help="device to run on; auto: the GPU if possible; cuda:1: the second of "
        "several GPUs",
    )
    add(
        "--list-devices",
        action=ListDevices,
        nargs=0,
        help="print the devices of this machine and their memory",
    )
    add("--no-cache", action="store_true", help="do not keep compiled GPU code on disk")
    add(
        "--threads",
        type=whole(0, 1024),
        default=0,
        help="number of threads; 0, the default: one for each core",
    )
    add(
        "--print-ids",
        action="store_true",
        help="print the generated ids on one line instead of text",
    )
    add(
        "--logits",
        metavar="FILE",
        help="NumPy file for the prompt's logits, float32 (tokens, vocab)",
    )
    add(
        "--hidden",
        metavar="FILE",
        help="NumPy file for the prompt's hidden states, after the last norm, float32 "
        "(tokens, hidden)",
    )
    add(
        "--embedding",
        metavar="FILE",
        nargs="?",
        const="",
        help="NumPy file for the prompt's embedding, float32 (hidden): its hidden states, "
        "pooled; without FILE it is printed, as JSON. Nothing is generated unless "
        "--max-tokens says so",
    )
    add(
        "--pooling",
        choices=["mean", "last", "first"],
        help="how --embedding pools (default mean)",
    )
    add(
        "--normalize",
        action="store_true",
        help="divide --embedding by its Euclidean length",
    )
    add(
        "--lora",
        action="append",
        type=lora,
        default=[],
        metavar="DIR[=SCALE]",
        help="folder of a LoRA adapter, and a factor of its scale; repeatable",
    )
    add(
        "--lora-unmerged",
        action="store_true",
        help="do not merge adapters into the weights; needs an artifact with room",
    )
    add(
        "--allow-unused",
        action="store_true",
        help="accept a checkpoint with more layers than the artifact has",
    )
    add("--cache", metavar="DIR", help="folder that keeps quantized weights for the next start")
    add(
        "--allow-unknown",
        action="append",
        default=[],
        metavar="KEY",
        help="ignore this key of generation_config.json; repeatable",
    )
    add(
        "--generation-keys",
        action=Keys,
        nargs=0,
        help="print every known key of generation_config.json, as Markdown",
    )
    add("--version", action="version", version=f"cria {cria.__version__}")
    return made


def write(text: str) -> None:
    """Prints text at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def sampling_of(options: argparse.Namespace) -> dict[str, Any]:
    names = ("temperature", "top_k", "top_p", "min_p", "seed")
    return {name: getattr(options, name) for name in names}


def load(options: argparse.Namespace) -> cria.Model:
    return cria.load(
        options.artifact,
        options.weights,
        random_weights=options.random_weights,
        device=options.device,
        loras=options.lora,
        lora_unmerged=options.lora_unmerged,
        allow_unused=options.allow_unused,
        gpu_cache=not options.no_cache,
        weight_cache=options.cache,
        threads=options.threads,
        allow_unknown=options.allow_unknown,
    )


def prompt_of(model: cria.Model, options: argparse.Namespace) -> list[int]:
    """The prompt's ids; of an empty one, the id that begins a text."""
    if options.ids is not None:
        prompt = options.ids
    elif model.tokenizer is not None or options.prompt is not None:
        prompt = model.encode(options.prompt or "")
    else:
        prompt = []
    ids = ids_array(prompt).tolist()
    begin = model.generation.begin if model.generation else None
    if begin is None:
        begin = (model.artifact.manifest["config"] or {}).get("bos_token_id")
    return ids or ([begin] if isinstance(begin, int) else [])


def write_array(array: Any, path: str) -> None:
    """Writes a NumPy file; ``-`` is standard output."""
    if path == "-":
        data = io.BytesIO()
        np.save(data, array)
        sys.stdout.buffer.write(data.getvalue())
        return
    with open(path, "wb") as file:
        np.save(file, array)


def write_outputs(
    session: cria.Session, ids: list[int], options: argparse.Namespace
) -> None:
    """Writes what is wanted of the prompt's ids, which the session then forgets."""
    held = session.position
    if options.logits or options.hidden:
        made = session.forward(
            ids,
            logits="all" if options.logits else "none",
            hidden="all" if options.hidden else "none",
        )
        session.rewind(held)
        for array, path in ((made.logits, options.logits), (made.hidden, options.hidden)):
            if path:
                write_array(array, path)
    if options.embedding is not None:
        pooling: Pooling = options.pooling or "mean"
        row = session.embed(ids, pooling=pooling, normalize=options.normalize)
        session.rewind(held)
        if options.embedding:
            write_array(row, options.embedding)
        else:
            write("[" + ", ".join(f"{number:.9g}" for number in row) + "]\n")


def run_prompt(model: cria.Model, options: argparse.Namespace) -> None:
    ids = prompt_of(model, options)
    with model.session() as session:
        if options.source is not None or options.source_ids is not None:
            chosen = options.source if options.source_ids is None else options.source_ids
            session.encode(model.encode(chosen))
        if options.prefix_embeddings:
            prefix = np.load(options.prefix_embeddings, allow_pickle=False)
            session.expect_prompt(len(prefix) + len(ids))
            session.feed_embeddings(prefix)
        write_outputs(session, ids, options)
        most = options.max_tokens
        if options.embedding is not None and most is None:
            most = 0
        tokens = session.generate(
            ids, stream=True, max_tokens=most, **sampling_of(options)
        )
        if options.print_ids:
            print(",".join(str(token.id) for token in tokens))
        elif not results_on_stdout(options):
            write_text(model, ids, tokens)
        else:
            for _ in tokens:
                pass
        summary(session)


def write_text(
    model: cria.Model, ids: list[int], tokens: Iterator[cria.Token]
) -> None:
    """Prints the prompt and what follows, as it comes."""
    text = model.tokenizer.stream() if model.tokenizer else None
    before = "".join(map(text.push, ids)) if text else ""
    for token in tokens:
        write(before + token.text)
        before = ""
    write(before)


def summary(session: cria.Session) -> None:
    """Says to stderr where the time went."""
    times = session.timings
    parts = [
        f"{name} {tokens} tokens in {seconds:.3f} s"
        for name, tokens, seconds in (
            ("prefill", times.prefill_tokens, times.prefill_seconds),
            ("decode", times.decode_tokens, times.decode_seconds),
        )
    ]
    print(", ".join(parts), file=sys.stderr)


def run_chat(model: cria.Model, options: argparse.Namespace) -> None:
    talk = model.conversation(options.system, **sampling_of(options))
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    while True:
        if terminal:
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        message = line.rstrip("\n")
        if not line or message == "/exit":
            return
        if message == "/reset":
            talk.reset()
        elif message:
            reply = talk.say(message, stream=True, max_tokens=options.max_tokens)
            with contextlib.suppress(KeyboardInterrupt), contextlib.closing(reply):
                for token in reply:
                    write(token.text)
            write("\n")


def results_on_stdout(options: argparse.Namespace) -> int:
    """How many results other than the text of a prompt go to stdout."""
    binary = [options.logits == "-", options.hidden == "-"]
    return sum([options.print_ids, options.chat, *binary, options.embedding in ("", "-")])


def check(options: argparse.Namespace) -> None:
    """Raises where options exclude one another."""
    if results_on_stdout(options) > 1:
        raise cria.InvalidArgument(
            "standard output takes one of --print-ids, --logits=-, --hidden=-, "
            "--embedding and --chat's replies, got several"
        )
    outputs = [options.logits, options.hidden, options.prefix_embeddings]
    if options.chat and (any(outputs) or options.embedding is not None):
        raise cria.InvalidArgument(
            "--chat excludes --logits, --hidden, --embedding and --prefix-embeddings"
        )
    if options.embedding is None and (options.pooling or options.normalize):
        raise cria.InvalidArgument("--pooling and --normalize need --embedding")
    if options.system is not None and not options.chat:
        raise cria.InvalidArgument("--system needs --chat")


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"cria: warning: {message}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    warnings.showwarning = show_warning
    try:
        check(options)
        model = load(options)
        (run_chat if options.chat else run_prompt)(model, options)
        return 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Nobody reads on: what is left to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        problem = "standard output: cannot write: Broken pipe"
    except (cria.Error, OSError, ValueError) as failure:
        problem = str(failure)
    print(f"cria: error: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
