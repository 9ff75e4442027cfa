"""wings.py SOURCE: which folder may include which.

Each table lists folders, the lowest first. A folder may include itself and what its line
names, which must stand above it, so that includes have one direction. Of the files that
lie directly in the table's root, folders may include those of LOW and those that their
line names. In turn, DOORS says which headers of folders such files may include, and of
what file: an option of the product is composed in one place.
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
        device: base artifact weights
        ranks: base artifact device
        cpu: base artifact weights device
        cuda: base artifact weights device ranks
        session: base artifact weights device ranks cpu cuda
        batch: base artifact device session
        api: base artifact weights device ranks session batch
    """,
    "runtime/weights": """
        gguf:
        packed:
        lora:
        random:
        cache: Binding.h
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
    "lowering/import": """
        gguf:
        families: Family.h
        forward: Config.h Import.h Layers.h Rope.h
        keys: Ledger.h Quantization.h
    """,
    "lowering/gpu": """
        build:
        schedules: build
        host: build
        cuda: build schedules
    """,
}
LOW = {"runtime/Abi.h", "runtime/Ranks.h", "runtime/cria.h", "runtime/cria_text.h",
       "lowering/Passes.h", "lowering/Passes.h.inc",
       *(f"runtime/weights/{name}.h" for name in (
           "Blocks Checkpoint Elements Floats Safetensors Source TensorFile").split())}
DOORS = {
    "runtime/weights": """
        Binding.cpp: packed/Packed.h random/RandomWeights.h
        Binding.h: lora/Lora.h
        Checkpoint.cpp: gguf/Tensors.h
        WeightLoader.cpp: cache/WeightCache.h
    """,
    "lowering/import": """
        Family.cpp: families/Families.h
        Gguf.cpp: gguf/Config.h
        Import.cpp: forward/Forward.h
        Ledger.cpp: keys/Keys.h
    """,
}
ENDINGS = {".c", ".cpp", ".h", ".hpp", ".td"}


def allowed(root, text):
    """{folder: the folders that it may include}"""
    table = {}
    for line in text.split("\n"):
        if line.strip():
            folder, _, names = line.strip().partition(":")
            names = names.split()
            wrong = [name for name in names if name not in table and "." not in name]
            if wrong:
                sys.exit(f"wings.py: {root}/{folder}: not above it: {' '.join(wrong)}")
            table[folder] = {folder, *names}
    return table


def doors(root):
    """{file: what it may include of the folders beside it}"""
    lines = DOORS.get(root, "").strip().split("\n")
    pairs = (line.strip().partition(":") for line in lines)
    return {file: {f"{root}/{name}" for name in names.split()} for file, _, names in pairs}


def wrong_doors(source, root, table):
    """Includes of folders, by files beside them, that no line of DOORS names."""
    if root not in DOORS:
        return
    known = doors(root)
    for path in sorted(each for each in (source / root).glob("*.*")):
        text = path.read_text() if path.suffix in ENDINGS else ""
        for header, folder in re.findall(rf'#include "({root}/([^/"]+)/[^"]*)"', text):
            if folder in table and header not in known.get(path.name, ()):
                yield f"{path.relative_to(source)}: includes {header}, no door for it"


def problems(source, root, table):
    yield from wrong_doors(source, root, table)
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
