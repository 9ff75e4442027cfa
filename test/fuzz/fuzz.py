"""fuzz.py BIN SCRATCH SEEDS: every fuzz target of BIN for a few seconds.

CRIA_FUZZ_SECONDS is the number of seconds for each target (5). Inputs that fail stay in
SCRATCH.
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
from harness import Tools, check, execute  # noqa: E402

SECONDS = os.environ.get("CRIA_FUZZ_SECONDS", "5")

# docs/robustness.md says what a file may take: about a second, and 256 MiB beside
# the file. Sanitizers make that some five times as slow, and half as large again;
# the rest is libFuzzer's own, and MLIR's where it is in the target.
TIMEOUT = 10
MEGABYTES = {"Config": 1536, "Image": 1536, "Ir": 1536}


def main():
    tools = Tools(*sys.argv[1:3])
    targets = sorted(tools.bin.glob("fuzz-*"))
    check(len(targets) >= 8, f"fuzz targets: {targets}")
    for target in targets:
        corpus = tools.scratch / target.name
        corpus.mkdir()
        name = target.name.removeprefix("fuzz-")
        seeds = pathlib.Path(sys.argv[3]) / name
        check(any(seeds.iterdir()), f"no seeds in {seeds}")
        execute(
            [
                target,
                f"-max_total_time={SECONDS}",
                f"-timeout={TIMEOUT}",
                f"-rss_limit_mb={MEGABYTES.get(name, 512)}",
                f"-artifact_prefix={tools.scratch}/",
                corpus,
                seeds,
            ],
            # What ASan keeps of freed memory is none of the target's.
            env={**os.environ, "ASAN_OPTIONS": "quarantine_size_mb=16"},
        ).ok()


main()
