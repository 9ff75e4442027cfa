#!/usr/bin/env bash
# Packs a folder of programs and tests that check and time a GPU. The GPU's machine
# needs a driver, PyTorch for some of the tests, and none of the build's tools.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: scripts/gpu_check.sh pack [FOLDER] [--build=DIR] [--rehearse]
Packs the built tools, their two small libraries, artifacts compiled here and
Python programs into FOLDER (default: build/gpu-check), at most 60 MiB. Move the
folder to a machine with a GPU, of the same kind of processor, and there:

  FOLDER/run [--device=cuda|emulated] [--parts=1,2,...] [--out=DIR] [--seconds=N]

(1) checks logits and ids against the CPU's and transformers', (2) measures what
memory and cuBLAS reach, (3) times decode and prefill beside their floors, kernel
by kernel too, (4) times PyTorch, eager and compiled, and (5) runs a small model
under compute-sanitizer. Each row is printed and added to DIR/rows.jsonl when it
is measured; DIR/table.md has all of them at the end. --rehearse packs small
models alone, for the emulated device.
TEXT
}

case ${1:-} in
-h | --help) usage ;;
--version) exec "$root/scripts/version.sh" gpu_check.sh ;;
pack) exec python3 "$root/scripts/gpu_check/pack.py" "$root" "${@:2}" ;;
*)
  usage >&2
  exit 1
  ;;
esac
