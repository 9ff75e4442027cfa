"""wings.py SOURCE: which folder may include which.

Each table lists folders, the lowest first. A folder may include itself and what its line
names, which must stand above it, so that includes have one direction. Of the files that
lie directly in the table's root, folders may include those of LOW.
"""

import pathlib
import re
import sys

TABLES = {
    "runtime": """
        base:
        gguf: base
        artifact: base
        weights: base artifact gguf
        text: base gguf
        ranks: base artifact
        device: base artifact weights ranks
        cpu: base artifact weights ranks device
        cuda: base artifact weights ranks device
        session: base artifact weights ranks device cpu cuda
        batch: base artifact weights ranks device session
        api: base artifact weights ranks device session batch
    """,
    "lowering": """
        support:
        kernel:
        entry:
        memory: entry kernel
        math: kernel
        import: entry support
        linalg: entry import kernel memory
        cpu: entry import kernel support
        gpu: entry kernel memory support
        artifact: cpu entry gpu import support
    """,
    "lowering/gpu": """
        build:
        schedules: build
        host: build
        cuda: build schedules
    """,
}
LOW = {"runtime/Abi.h", "runtime/Ranks.h", "runtime/cria.h", "runtime/cria_text.h",
       "lowering/Passes.h", "lowering/Passes.h.inc"}
ENDINGS = {".c", ".cpp", ".h", ".hpp", ".td"}


def allowed(root, text):
    """{folder: the folders that it may include}"""
    table = {}
    for line in text.split("\n"):
        if line.strip():
            folder, _, names = line.strip().partition(":")
            names = names.split()
            wrong = [name for name in names if name not in table]
            if wrong:
                sys.exit(f"wings.py: {root}/{folder}: not above it: {' '.join(wrong)}")
            table[folder] = {folder, *names}
    return table


def problems(source, root, table):
    for path in sorted((source / root).rglob("*")):
        parts = path.relative_to(source / root).parts
        if path.suffix not in ENDINGS or len(parts) < 2:
            continue
        where = path.relative_to(source)
        if parts[0] not in table:
            yield f"{where}: {root}/{parts[0]} is not in the table"
            continue
        for number, line in enumerate(path.read_text().split("\n"), 1):
            found = re.match(rf'\s*#include "({root}/([^/"]+)[^"]*)"', line)
            if found and found[1] not in LOW and found[2] not in table[parts[0]]:
                yield f"{where}:{number}: {root}/{parts[0]} includes {found[1]}"


source = pathlib.Path(sys.argv[1])
bad = []
for root, text in TABLES.items():
    bad += problems(source, root, allowed(root, text))
print("\n".join(bad), file=sys.stderr, end="\n" if bad else "")
sys.exit(1 if bad else 0)
