#!/usr/bin/env bash
# What the compiler writes for many configs, as files that diff -r compares.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case ${1:-} in
  -h | --help)
    cat <<'TEXT'
usage: scripts/dump_phases.sh FOLDER [BIN]
Compiles the configs of the repository for CPUs and NVIDIA GPUs, also quantized, in
ranks, with a batch, with adapters and with taps, and writes every phase to FOLDER.
BIN is the folder of the tools (default: build/bin). A change that moves code is
right if two folders, written by the tools before and after it, are equal:

    scripts/dump_phases.sh /tmp/after
    scripts/dump_phases.sh /tmp/before ../before/build/bin
    diff -r /tmp/before /tmp/after
TEXT
    exit
    ;;
  --version) exec "$root/scripts/version.sh" dump_phases.sh ;;
  "") echo "dump_phases.sh: error: expected a folder" >&2 && exit 2 ;;
esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
bin=$(cd "${2:-$root/build/bin}" && pwd)
cd "$root"

# dump NAME CONFIG OPTION...: skips what is refused, whose message is kept.
dump() {
  local to=$folder/$1
  mkdir -p "$to"
  if ! "$bin/cria-compile" "${@:2}" --dump-phases="$to" -o "$to/artifact" 2>"$to/stderr"; then
    return
  fi
  sha256sum <"$to/artifact" >"$to/artifact.sha256"
  rm -f "$to/artifact" "$to"/*/*-obj.o "$to"/*-obj.o
}
cpus=x86-64-v3,x86-64-v4,sapphirerapids,znver4
chips=sm_80,sm_90,sm_90a,sm_100
for config in test/e2e/goldens/*/config.json; do
  name=$(basename "$(dirname "$config")")
  dump "$name" "$config" --target=cpu,cuda --cpu="$cpus" --chip="$chips"
done
for config in examples/tiny/config.json test/lowering/Inputs/llama3.json; do
  name=$(basename "${config%/config.json}" .json)
  options=(--target=cpu,cuda --cpu="$cpus" --chip="$chips")
  for option in --quantize=q8_0 --quantize=q4_0 --kv=q8_0 --batch=8 --shards=2 \
    --lora-rank=8 --chunk=64; do
    dump "$name$option" "$config" "${options[@]}" "$option"
  done
  dump "$name--taps" "$config" --target=cpu --cpu=x86-64-v3 --taps
  dump "$name--plain" "$config" --target=cpu --cpu=x86-64-v3 --plain
done
