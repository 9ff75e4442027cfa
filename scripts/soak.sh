#!/usr/bin/env bash
# For some minutes, sequences join and leave a batch at random, compared with sessions, and
# clients ask a server.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case ${1:-} in
  -h | --help)
    cat <<'TEXT'
usage: scripts/soak.sh [SECONDS]
Runs batches for SECONDS (default: 600): sequences join, are fed, fork, are refused,
fail, leave and give their pages back at random, and each must draw what a session
draws alone, to the last bit of its logits. A third of the time a small fake model runs, on
a device that fails at random; a third of the time examples/tiny. For the rest,
clients ask cria-serve at random, for streams and whole texts, with adapters,
grammars and stops; they read slowly and leave. Each text must be as alone, and
the server must end with the memory, descriptors and pages that it had. Needs
what scripts/setup.sh and scripts/test.sh build.
TEXT
    exit
    ;;
  --version) exec "$root/scripts/version.sh" soak.sh ;;
esac
seconds=${1:-600}
if [[ ! $seconds =~ ^[1-9][0-9]*$ || $# -gt 1 ]]; then
  echo "soak.sh: error: expected seconds, got '$*'" >&2
  exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
third=$(((seconds + 2) / 3))
CRIA_SOAK_SECONDS=$third "$root/build/test/unit/RuntimeTests" \
  --gtest_filter='BatchRandomTest.*'
for test in e2e/batch serve/soak; do
  "$root/build/venv/bin/python" "$root/test/$test.py" "$root/build/bin" \
    "$scratch/soak" "$third"
done
