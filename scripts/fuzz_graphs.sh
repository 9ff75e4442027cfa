#!/usr/bin/env bash
# For some minutes, random programs are computed in several ways and by NumPy.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case ${1:-} in
  -h | --help)
    cat <<'TEXT'
usage: scripts/fuzz_graphs.sh [SECONDS] [--first=SEED] [--chip=CHIP] [--without=FORM,...]
       scripts/fuzz_graphs.sh --seed=SEED [--ops=N] [--print] [OPTION...]
Makes random programs in the llama dialect for SECONDS (default: 600). Each is
compiled for the CPU, for a GPU that the emulated driver runs (default: sm_80), with
its ops fused and not, and by MLIR's own passes; logits and caches must be those of
NumPy in f64. A program that fails prints the command that runs it again. That
command also takes --ops, to try a program of fewer ops, and --print, to print the
program; docs/bisect.md says how to make a program smaller. Needs what
scripts/setup.sh and scripts/test.sh build.
TEXT
    exit
    ;;
  --version) exec "$root/scripts/version.sh" fuzz_graphs.sh ;;
esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
OPENBLAS_NUM_THREADS=1 "$root/build/venv/bin/python" \
  "$root/test/execution/fuzz_graphs.py" "$root/build/bin" "$scratch" "$@"
