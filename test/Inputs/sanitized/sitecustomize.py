"""Python under sanitizers: the programs that it starts have their own sanitizer."""

import os

for name in ("ASAN_OPTIONS", "LD_PRELOAD"):
    os.environ.pop(name, None)
