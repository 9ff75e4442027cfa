"""The plan of an artifact as HTML tables for notebooks."""

from __future__ import annotations

import html
from typing import Any, Iterable, Iterator, Sequence

#: Bytes of a number. In a type of blocks: a block's bytes divided by its numbers.
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "q8_0": 34 / 32, "q4_0": 18 / 32, "fp8": 34 / 32}


def size_text(size: float) -> str:
    """A number of bytes with the fitting unit, for example "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table, with its text escaped."""

    def row(cells: Sequence[Any], tag: str) -> str:
        made = "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
        return f"<tr>{made}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return (
        f"<details open><summary>{html.escape(title)}</summary>"
        f"<table><thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table></details>"
    )


def _weights(manifest: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for weight in manifest["weights"]:
        if "tied" in weight:
            continue
        count = max(1, weight["count"])
        numbers = 1
        for extent in weight["shape"]:
            numbers *= extent
        yield (
            weight["name"],
            weight["dtype"],
            "x".join(map(str, weight["shape"])),
            count,
            size_text(BYTES[weight["dtype"]] * numbers * count),
        )


def _dimension(extent: Any) -> str:
    """A dimension of a grid: a number, or the count that it is computed from."""
    if isinstance(extent, int):
        return str(extent)
    (counted,) = {"tokens", "logits", "hidden"} & set(extent)
    text = counted if extent[counted] == 1 else f"{counted}/{extent[counted]}"
    bounds = [f"{word} {extent[word]}" for word in ("from", "to") if word in extent]
    return f"{text} ({', '.join(bounds)})" if bounds else text


def _launches(steps: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for step in steps:
        for launch in step.get("body", [step]):
            yield (
                launch["launch"],
                step.get("loop", 1),
                " x ".join(map(_dimension, launch["grid"])),
                " x ".join(map(str, launch["block"])),
                size_text(launch["shared"]),
            )


def _summary(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    model, plan = manifest["model"], manifest.get("plan", {})
    yield "target", manifest["target"]["kind"]
    yield "parameters", f"{model.get('parameters', 0):,}"
    yield "vocabulary, positions", f"{model['vocab_size']:,}, {model['max_seq']:,}"
    yield "KV caches", size_text(sum(cache["bytes"] for cache in manifest["caches"]))
    if decode := plan.get("decode"):
        read = size_text(decode["weight_bytes"])
        yield "a decoded id", f"{decode['flops']:,} operations, {read} of weights"
    for code in manifest.get("cpu", []):
        yield "CPU code", f"{code['name']}, {size_text(code['arena'])} of scratch"
    if cuda := manifest.get("cuda"):
        chips = ", ".join(f"{i['chip']} ({i['format']})" for i in cuda["images"])
        yield "GPU code", f"{chips}, {size_text(cuda['arena'])} of scratch"


def plan_html(manifest: dict[str, Any]) -> str:
    """The plan of a manifest: sizes, kernels by entry, weights."""
    parts = [_table("Artifact", ("", ""), _summary(manifest))]
    entries = manifest.get("cuda", {}).get("entries", {})
    for name, steps in entries.items():
        head = ("kernel", "runs", "grid", "threads", "shared memory")
        parts.append(_table(f"Entry {name} on a GPU", head, _launches(steps)))
    if not entries:
        rows = [(kernel,) for kernel in manifest.get("kernels", [])]
        parts.append(_table("Kernels", ("kernel",), rows))
    head = ("tensor", "type", "shape", "layers", "size")
    parts.append(_table("Weights", head, _weights(manifest)))
    return "<div>" + "".join(parts) + "</div>"
