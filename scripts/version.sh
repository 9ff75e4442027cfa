#!/usr/bin/env bash
# usage: scripts/version.sh NAME: prints NAME and the version that runtime/cria.h has.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
numbers=$(sed -n 's/^#define CRIA_VERSION_[A-Z]* //p' "$root/runtime/cria.h" | paste -sd.)
echo "$1 $numbers"
