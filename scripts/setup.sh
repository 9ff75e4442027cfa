#!/usr/bin/env bash
# Installs the packages that the build needs, configures build/ and builds it.
# Things that are already there are not changed.
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

packages=(
  clang-22 cmake g++ lld-22 ninja-build python3
  libmlir-22-dev llvm-22-dev mlir-22-tools liblld-22-dev zlib1g-dev libzstd-dev
  nlohmann-json3-dev libpcre2-dev libutf8proc-dev libcli11-dev libjpeg-dev libpng-dev
)
# For the other targets:
further=(
  binutils ccache git libboost-dev
  # The tests alone:
  clang-format-14 gdb haproxy libgmock-dev libgtest-dev llvm-22-tools pkgconf
  python3-venv
  # Tests of ranks, under two implementations of MPI:
  libmpich-dev libopenmpi-dev mpich openmpi-bin
  # Debian packages alone:
  dpkg-dev file
)
# For the runtime on 64-bit Arm:
arm=(g++-aarch64-linux-gnu libpcre2-dev:arm64 libutf8proc-dev:arm64)

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--sanitize[=thread]|--static|--aarch64] [TARGET...]
Installs missing Debian packages, configures build/ and builds the TARGETs
(default: the compiler, the runtime and the tools) into build/bin. If the TARGETs
are among cria-compile, cria-run and cria-inspect, only the packages that these need
are installed. With --sanitize, into build-sanitize/: by clang, with AddressSanitizer,
UBSan and the fuzz targets; with --sanitize=thread into build-thread/, with
ThreadSanitizer; with --static into build-static/, for systems that have the C and C++
libraries alone, and without cria-opt, cria-reduce and cria-lsp-server; with --aarch64
into build-aarch64/, the runtime for 64-bit Arm, cross-compiled (default: the libraries,
cria-run and cria-inspect).
TEXT
}

die() {
  echo "setup.sh: error: $*" >&2
  exit 1
}

# Prints which PACKAGEs are not installed.
missingPackages() {
  dpkg-query -W -f='${db:Status-Status} ${Package}:${Architecture}\n' "$@" \
    2>/dev/null | sed -n 's/^installed //p' |
    sed -E "s/:(all|$(dpkg --print-architecture))\$//" | sort -u |
    comm -13 - <(printf '%s\n' "$@" | sort)
}

# Installs which PACKAGEs are missing; fails if apt-get cannot.
installPackages() {
  local missing asRoot=()
  mapfile -t missing < <(missingPackages "$@")
  [[ ${#missing[@]} -gt 0 ]] || return 0
  installed=yes # CMake looks for them again
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null ||
      die "not root, and no sudo; as root: apt-get install ${missing[*]}"
    asRoot=(sudo)
  fi
  echo "setup.sh: installing ${missing[*]}" >&2
  if [[ " ${missing[*]} " == *:arm64" "* ]]; then
    "${asRoot[@]}" dpkg --add-architecture arm64 </dev/null >&2
  fi
  asRoot+=(env DEBIAN_FRONTEND=noninteractive)
  "${asRoot[@]}" apt-get update -q </dev/null >&2 &&
    "${asRoot[@]}" apt-get install -q -y --no-install-recommends \
      "${missing[@]}" </dev/null >&2 && return
  echo "setup.sh: apt-get cannot install ${missing[*]}" >&2
  return 1
}

# What tests on 64-bit Arm need. A mirror may have no packages of its architecture: then
# these tests are skipped.
installArm() {
  local before
  before=$(dpkg --print-foreign-architectures)
  installPackages "${arm[@]}" qemu-user && return
  echo "setup.sh: without them tests on 64-bit Arm are skipped" >&2
  if [[ $before != *arm64* ]]; then
    dpkg --remove-architecture arm64 >&2 || true
  fi
}

# On systems other than Debian nothing is installed; prints what is needed.
checkCommands() {
  local missing=()
  for tool in cmake ninja c++ git python3 mlir-opt-22 FileCheck-22; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [[ ${#missing[@]} -eq 0 ]] ||
    die "this system has no apt-get, and these are missing: ${missing[*]}." \
      "Install what Debian 12 calls: ${packages[*]}"
}

# One job a core, and 2 GiB of free memory for each: MLIR's headers are heavy.
jobs() {
  awk -v cores="$(nproc)" '/^MemAvailable/ {
    fit = int($2 / 2097152)
    print fit < 1 ? 1 : fit < cores ? fit : cores
  }' /proc/meminfo
}

# The project's own compiler, which reads MLIR's headers in a third of GCC's time. Another
# one may warn about other things, which then is no error.
compiler=()
if command -v clang++-22 >/dev/null || command -v apt-get >/dev/null; then
  compiler=(-DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 -DCRIA_WERROR=ON)
fi
source=$root options=() installed=""
case ${1:-} in
-h | --help)
  usage
  exit
  ;;
--version) exec "$root/scripts/version.sh" setup.sh ;;
--sanitize | --sanitize=thread)
  flags="-O1 -fno-omit-frame-pointer"
  if [[ $1 == --sanitize ]]; then
    build=$root/build-sanitize
    flags+=" -fsanitize=address,undefined,fuzzer-no-link"
    flags+=" -fno-sanitize-recover=undefined"
  else
    build=$root/build-thread
    flags+=" -fsanitize=thread"
  fi
  shift
  packages+=(libclang-rt-22-dev)
  options=(-DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags"
    -DCRIA_WERROR=OFF)
  ;;
--static)
  build=$root/build-static
  shift
  options=(-DCRIA_STATIC=ON)
  ;;
--aarch64)
  source=$root/runtime build=$root/build-aarch64
  shift
  packages=(cmake ninja-build nlohmann-json3-dev libcli11-dev "${arm[@]}") further=() compiler=()
  options=(-DCMAKE_TOOLCHAIN_FILE="$root/runtime/aarch64.cmake" -DCRIA_STATIC=ON)
  [[ $# -gt 0 ]] || set -- cria cria-text cria-run cria-inspect
  ;;
-*) die "unknown option '$1'; see --help" ;;
esac

if [[ $# == 0 || -n $(printf '%s\n' "$@" | grep -vxE 'cria-(compile|run|inspect)') ]]; then
  packages+=("${further[@]}")
fi
isTested=""
[[ " $* " != *" cria-test-depends "* ]] || isTested=yes
# The browser is large, and only tests need it.
[[ -z $isTested ]] || packages+=(chromium-headless-shell)

if ! command -v apt-get >/dev/null; then
  checkCommands
else
  installPackages "${packages[@]}" ||
    die "LLVM 22 comes with Debian 12's bookworm-security, elsewhere from" \
      "https://apt.llvm.org"
  [[ -z $isTested ]] || installArm
fi
[[ -f $build/build.ninja && -z $installed ]] ||
  cmake -S "$source" -B "$build" -G Ninja "${compiler[@]}" "${options[@]}" >&2
# Progress: steps done of all, and the seconds since the start.
export NINJA_STATUS="[%f/%t, %es] "
cmake --build "$build" -j "$(jobs)" --target "${@:-all}" >&2
