#!/usr/bin/env bash
# For some minutes, sequences join and leave a batch at random, compared with sessions.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case ${1:-} in
  -h | --help)
    cat <<'TEXT'
usage: scripts/soak.sh [SECONDS]
Runs batches for SECONDS (default: 600): sequences join, are fed, fork, are refused,
fail, leave and give their pages back at random, and each must draw what a session
draws alone, to the last bit of its logits. Half of the time a small fake model runs, on
a device that fails at random; half of the time examples/tiny. Needs what
scripts/setup.sh and scripts/test.sh build.
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
CRIA_SOAK_SECONDS=$((seconds / 2)) "$root/build/test/unit/RuntimeTests" \
  --gtest_filter='BatchRandomTest.*'
"$root/build/venv/bin/python" "$root/test/e2e/batch.py" "$root/build/bin" \
  "$scratch/soak" "$(((seconds + 1) / 2))"
