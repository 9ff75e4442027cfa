#!/bin/sh
# Whether a file of IR shows a bug, for cria-reduce: exit code 1 if it does.
#
# usage: COMMAND='...' MESSAGE='...' scripts/interesting.sh FILE.mlir
#
# The shell runs COMMAND; in it $FILE is the file, and $DIR a folder that is removed
# afterwards. The bug is there if a line of the command's output matches MESSAGE, a
# regular expression (grep -E).
if [ $# != 1 ] || [ -z "$COMMAND" ] || [ -z "$MESSAGE" ]; then
  sed -n 's/^# usage: /usage: /p' "$0" >&2
  exit 2
fi
FILE=$1 DIR=$(mktemp -d) || exit 2
export FILE DIR
trap 'rm -rf "$DIR"' EXIT
if sh -c "$COMMAND" 2>&1 | grep -Eq -e "$MESSAGE"; then
  exit 1
fi
