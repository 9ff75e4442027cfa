#!/usr/bin/env bash
# Builds everything and runs every test. The last line counts them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
sanitize=()

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  cat <<'TEXT'
usage: scripts/test.sh [--sanitize] [LIT-OPTION...]
Sets up and builds as scripts/setup.sh does, then runs every test; options go
to lit, such as --filter=passes or -v. Fails when a test fails or none ran.
Without options, the runtime's unit tests and, for seconds each, its fuzz targets
run once more under sanitizers; with --sanitize every test does, and nothing else.
TEXT
  exit
fi
if [[ ${1:-} == --sanitize ]]; then
  shift
  sanitize=(--sanitize)
  build=$root/build-sanitize
  targets=(all cria-test-depends cria-fuzz)
else
  targets=(all cria-test-depends)
fi

# Builds $targets in $build and runs the tests there; writes $build/test/results.json.
runTests() {
  "$root/scripts/setup.sh" "${sanitize[@]}" "${targets[@]}"
  echo '{"tests": []}' >"$build/test/results.json"
  "$build/venv/bin/python" "$build/venv/bin/lit" -sv "$@" \
    -o "$build/test/results.json" "$build/test" "$build/test/unit" </dev/null ||
    true
}

runTests "$@"
results=("$build/test/results.json")
if [[ $# -eq 0 && ${#sanitize[@]} -eq 0 ]]; then
  sanitize=(--sanitize)
  build=$root/build-sanitize
  targets=(RuntimeTests cria-fuzz-runtime cria-test-python)
  runTests --filter='RuntimeTests|cria :: fuzz/'
  results+=("$build/test/results.json")
fi
exec "$build/venv/bin/python" - "${results[@]}" <<'PYTHON'
import collections, json, sys
codes = collections.Counter()
for path in sys.argv[1:]:
    with open(path) as file:
        codes.update(test["code"] for test in json.load(file)["tests"])
passed = codes["PASS"] + codes["XFAIL"] + codes["FLAKYPASS"]
skipped = codes["UNSUPPORTED"] + codes["SKIPPED"]
failed = codes.total() - passed - skipped - codes["EXCLUDED"]
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0 or passed == 0)
PYTHON
