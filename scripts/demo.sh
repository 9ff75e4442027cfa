#!/usr/bin/env bash
# All steps with the shipped models: config.json, IR, artifact, text.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/build/bin
tiny=$root/examples/tiny
experts=$root/examples/tiny-moe

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  cat <<'TEXT'
usage: scripts/demo.sh [PROMPT]
Installs the packages that three tools need, builds these tools, compiles examples/tiny
for this CPU, prints the artifact's manifest and one layer's IR before and after fusion,
and lets the model continue PROMPT. Then it does the same, more briefly, with a mixture of
experts, examples/tiny-moe. Says before how much processor time it takes.
TEXT
  exit
fi
[[ ${1:-} != --version ]] || exec "$root/scripts/version.sh" demo.sh
prompt=${1:-"Once upon a time"}

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n# %s\n' "$*"; }

# Prints the loop over the layers of a function of the module on stdin.
layer() {
  awk -v entry="@$1(" '
    index($0, "func.func") && index($0, entry) { inside = 1 }
    inside && !indent && !done && /scf\.for/ { match($0, /^ */); indent = RLENGTH }
    indent { print substr($0, indent + 1) }
    indent && match($0, /^ *}/) && RLENGTH == indent + 1 {
      indent = 0
      done = 1
    }'
}

cat <<'TEXT'
What happens: missing Debian packages are installed (260 MB to download, 2 GB on the
disk), the compiler and the runtime are built into build/ (8 to 26 minutes of processor
time, so half of that on two idle cores, and seconds when they have been built before;
[steps done/all, seconds]), and then two small models are compiled, shown and run (3
seconds).
TEXT
"$root/scripts/setup.sh" cria-compile cria-run cria-inspect
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
cd "$scratch"

say "cria-compile examples/tiny/config.json -o tiny.cria"
"$bin/cria-compile" "$tiny/config.json" -o tiny.cria
ls -l tiny.cria | awk '{ print $5 " bytes" }'

say "cria-inspect tiny.cria"
"$bin/cria-inspect" tiny.cria

say "One layer as imported: cria-compile examples/tiny/config.json --emit=import --no-locations"
"$bin/cria-compile" "$tiny/config.json" --emit=import --no-locations | layer forward

say "The same layer of the decode entry, fused into kernels: --emit=fuse"
"$bin/cria-compile" "$tiny/config.json" --emit=fuse | layer decode

say "cria-run tiny.cria --weights=examples/tiny --prompt='$prompt'"
"$bin/cria-run" tiny.cria --weights="$tiny" --prompt="$prompt"

say "A mixture of experts: cria-compile examples/tiny-moe/config.json -o tiny-moe.cria"
"$bin/cria-compile" "$experts/config.json" -o tiny-moe.cria
"$bin/cria-compile" "$experts/config.json" --report=plan | grep -E '^(parameters|experts)'

say "cria-run tiny-moe.cria --weights=examples/tiny-moe --prompt='$prompt'"
"$bin/cria-run" tiny-moe.cria --weights="$experts" --prompt="$prompt"
