#!/usr/bin/env bash
# Builds everything and runs every test. The last line counts them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  cat <<'TEXT'
usage: scripts/test.sh [--whole|--sanitize[=thread]] [LIT-OPTION...]
Sets up and builds as scripts/setup.sh does, then runs every test; options go
to lit, such as --filter=passes or -v. Fails when a test fails or none ran.
Tests that try many cases of a kind try some, the same in every run; with --whole
they try all, for hours. Without options for lit, the runtime's unit tests run once
more under AddressSanitizer and UBSan, with the fuzz targets for seconds each; with
--whole, also under ThreadSanitizer. With --sanitize every test runs under the former
and nothing else; with --sanitize=thread the runtime's under the latter, those for
CUDA included.
TEXT
  exit
fi
[[ ${1:-} != --version ]] || exec "$root/scripts/version.sh" test.sh

cat <<'TEXT'
What happens: missing packages are installed (some are for arm64, if a mirror has
them: dpkg --add-architecture arm64), everything is built into build/
(8 to 22 minutes on two cores, [steps done/all, seconds]), every test runs (12 to
30 minutes), and then the runtime's unit tests once more under sanitizers, for
which the runtime is built once more (3 to 8 minutes).
TEXT
results=() whole=
if [[ ${1:-} == --whole ]]; then
  whole=yes
  export CRIA_TEST_WHOLE=1
  shift
fi
# runTests FOLDER SETUP-OPTION|"" "TARGET..." [LIT-OPTION...]: builds the targets
# in FOLDER and runs the tests there. Adds the file of their results.
runTests() {
  local build=$root/$1 option=$2 targets
  read -ra targets <<<"$3"
  shift 3
  "$root/scripts/setup.sh" ${option:+"$option"} "${targets[@]}"
  echo '{"tests": []}' >"$build/test/results.json"
  "$build/venv/bin/python" "$build/venv/bin/lit" -sv "$@" \
    -o "$build/test/results.json" "$build/test" "$build/test/unit" </dev/null ||
    true
  results+=("$build/test/results.json")
}

case ${1:-} in
--sanitize)
  runTests build-sanitize "$1" "all cria-test-depends cria-fuzz" "${@:2}"
  ;;
--sanitize=thread) # which cannot follow the emulator's own stacks
  runTests build-thread "$1" "RuntimeTests CudaTests cria-test-python" \
    --filter='RuntimeTests|CudaTests' "${@:2}"
  ;;
*)
  runTests build "" "all cria-test-depends" "$@"
  if [[ $# -eq 0 ]]; then
    runTests build-sanitize --sanitize \
      "RuntimeTests cria-fuzz-runtime cria-test-python" \
      --filter='RuntimeTests|cria :: fuzz/'
    [[ -z $whole ]] ||
      runTests build-thread --sanitize=thread "RuntimeTests cria-test-python" \
        --filter='RuntimeTests'
  fi
  ;;
esac
exec python3 - "${results[@]}" <<'PYTHON'
import collections, json, sys
codes = collections.Counter()
times = []
for path in sys.argv[1:]:
    with open(path) as file:
        for test in json.load(file)["tests"]:
            codes[test["code"]] += 1
            times.append((test.get("elapsed") or 0, test["name"]))
print("the ten tests that took longest, in seconds:")
for seconds, name in sorted(times, reverse=True)[:10]:
    print(f"{seconds:7.1f}  {name}")
passed = codes["PASS"] + codes["XFAIL"] + codes["FLAKYPASS"]
skipped = codes["UNSUPPORTED"] + codes["SKIPPED"]
failed = codes.total() - passed - skipped - codes["EXCLUDED"]
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0 or passed == 0)
PYTHON
