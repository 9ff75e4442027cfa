#!/usr/bin/env bash
# Packs a folder of programs and tests that check and time a GPU. The GPU's machine
# needs a driver, PyTorch for some of the tests, and none of the build's tools.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'TEXT'
usage: scripts/gpu_check.sh pack [FOLDER] [--build=DIR]
Packs the built tools, their two small libraries, artifacts compiled here and
Python programs into two files of FOLDER (default: build/gpu-check), run and
check.tar.gz, at most 45 MiB. Move the folder to a machine with a GPU, of the same
kind of processor, and there:

  FOLDER/run [--device=cuda|emulated] [--driver=FILE] [--parts=NAME,...]
             [--out=DIR] [--seconds=N]

The parts run in this order: environment, variants (every image of an artifact, with
and without graphs and overlap: the first that is right is used from there on), speed,
kernels (by Nsight Compute, where it is), batches, goldens, pytorch, rates, sanitizer,
transformers, sampling. Each row is printed and added to DIR/rows.jsonl when it is
measured; DIR/table.md has all of them at the end. All parts together take at most
N seconds (570), and each task has a limit of its own.

--device=emulated rehearses with small models, in the emulated driver, which is not
packed: --driver=build/lib/libcria-emulator.so.
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
