#!/usr/bin/env bash
# Speed and memory beside yardsticks: bash tests/bench/run.sh [bench.py's options and cases].
# Wants a quiet machine, about 4 times --size of free disk, and SW_VENV: a virtual environment with
# tests/interop/requirements.txt (tests/run.sh --interop makes one at build/venv). Asserts nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
venv=${SW_VENV:-$PWD/build/venv}
if [ ! -x "$venv/bin/python" ]; then
    echo "no virtual environment at $venv: run bash tests/run.sh --interop once, or set SW_VENV" >&2
    exit 2
fi
cmake -S . -B build/bench -G Ninja -DSW_TESTS=ON >/dev/null
cmake --build build/bench --target shardwright codec_bench native_bench -j "$(nproc)" >/dev/null
export SW_CODEC_BENCH=$PWD/build/bench/bench/codec_bench SW_NATIVE_BENCH=$PWD/build/bench/bench/native_bench
exec "$venv/bin/python" tests/bench/bench.py --shardwright build/bench/shardwright \
    --work "${SW_BENCH_WORK:-build/bench/data}" --python "$venv/bin/python" "$@"
