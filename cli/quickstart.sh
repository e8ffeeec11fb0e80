#!/bin/bash
# From a fresh clone to a converted checkpoint, on a bare Debian 12: `bash cli/quickstart.sh [DIR]`.
# Installs what is missing (as root or with sudo), builds into build/, writes a small sharded sample
# checkpoint into DIR (default: a new temporary folder), inspects, verifies and converts it, and
# verifies the result.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

bash cli/packaging/install.sh gcc libc6-dev cmake ninja-build pkg-config libzstd-dev \
 libisal-dev libssl-dev libyaml-dev zlib1g-dev

printf '\n== build\n'
mkdir -p build
build() {
    cmake -S . -B build -G Ninja && cmake --build build --target shardwright shardwright_shared -j "$(nproc)"
}
build >build/quickstart.log 2>&1 || { tail -40 build/quickstart.log; exit 2; }
echo "build/shardwright is ready"

if [ "$#" -gt 0 ]; then
    work=$1
    mkdir -p "$work"
else
    work=$(mktemp -d "${TMPDIR:-/tmp}/shardwright-demo.XXXXXX")
fi

# The commands below are shown as they can be typed.
PATH="$PWD/build:$PATH"

printf '\n== a sharded checkpoint as torch.distributed.checkpoint writes it\n'
run shardwright demo "$work/checkpoint"
printf '\n== what is it?\n'
run shardwright inspect "$work/checkpoint"
printf '\n== is it whole?\n'
run shardwright verify "$work/checkpoint"
printf '\n== ordinary weights for inference\n'
run shardwright convert "$work/checkpoint" "$work/weights" --to hf
run shardwright verify "$work/weights"

cat <<END

Done. The sample lies in $work. Now with a checkpoint of your own:

    export PATH=$PWD/build:\$PATH
    shardwright inspect YOUR/CHECKPOINT
    shardwright verify YOUR/CHECKPOINT
    shardwright convert YOUR/CHECKPOINT NEW/FOLDER --to hf --assets FOLDER/WITH/CONFIG/AND/TOKENIZER

shardwright --help shows the rest; sudo cmake --install build installs the command and the library.
END
