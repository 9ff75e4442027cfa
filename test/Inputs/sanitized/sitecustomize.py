"""Python under sanitizers: what it starts has a sanitizer of its own."""

import os

for name in ("ASAN_OPTIONS", "LD_PRELOAD"):
    os.environ.pop(name, None)
