"""fuzz.py BIN SCRATCH SEEDS: every fuzz target of BIN for a few seconds.

CRIA_FUZZ_SECONDS is how many for each (5). What is found stays in SCRATCH.
"""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
from harness import Tools, check, execute  # noqa: E402

SECONDS = os.environ.get("CRIA_FUZZ_SECONDS", "5")


def main():
    tools = Tools(*sys.argv[1:3])
    targets = sorted(tools.bin.glob("fuzz-*"))
    check(len(targets) >= 8, f"fuzz targets: {targets}")
    for target in targets:
        corpus = tools.scratch / target.name
        corpus.mkdir()
        seeds = pathlib.Path(sys.argv[3]) / target.name.removeprefix("fuzz-")
        check(any(seeds.iterdir()), f"no seeds in {seeds}")
        execute(
            [
                target,
                f"-max_total_time={SECONDS}",
                "-timeout=10",
                "-rss_limit_mb=2048",
                f"-artifact_prefix={tools.scratch}/",
                corpus,
                seeds,
            ]
        ).ok()


main()
