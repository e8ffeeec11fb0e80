#!/bin/bash
# Runs a command in an empty temporary directory of its own and removes it: in_tmp.sh COMMAND...
set -u
dir=$(mktemp -d "${TMPDIR:-/tmp}/shardwright-test.XXXXXX") || exit 99
trap 'chmod -R u+rwx "$dir" 2>/dev/null; rm -rf "$dir"' EXIT
mkdir "$dir/tmp" "$dir/cwd"
cd "$dir/cwd" || exit 99
TMPDIR="$dir/tmp" "$@"
