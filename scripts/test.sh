#!/usr/bin/env bash
# Builds everything and runs every test. The last line counts them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
python=$build/venv/bin/python

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  cat <<'TEXT'
usage: scripts/test.sh [LIT-OPTION...]
Sets up and builds as scripts/setup.sh does, then runs every test; options go
to lit, such as --filter=passes or -v. Fails when a test fails or none ran.
TEXT
  exit
fi

"$root/scripts/setup.sh" all cria-test-depends
results=$build/test/results.json
echo '{"tests": []}' >"$results"
"$python" "$build/venv/bin/lit" -sv "$@" -o "$results" \
  "$build/test" "$build/test/unit" </dev/null || true
exec "$python" - "$results" <<'PYTHON'
import collections, json, sys
with open(sys.argv[1]) as file:
    codes = collections.Counter(test["code"] for test in json.load(file)["tests"])
passed = codes["PASS"] + codes["XFAIL"] + codes["FLAKYPASS"]
skipped = codes["UNSUPPORTED"] + codes["SKIPPED"] + codes["EXCLUDED"]
failed = codes.total() - passed - skipped
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0 or passed == 0)
PYTHON
