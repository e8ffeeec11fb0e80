#!/bin/bash
# Installs what is missing, builds with warnings as errors, runs every test.
#
#   bash tests/run.sh                 unit, golden, fault, fuzz replay and lint tests, through ctest
#   bash tests/run.sh --interop       and the tests against real torch, transformers and safetensors,
#                                     in the virtual environment build/venv, or SW_VENV if it is set
#   bash tests/run.sh --no-install    never calls apt
#
# Environment: SW_BUILD (build folder, default build), SW_JOBS (default: all processors), SW_VENV.
set -euo pipefail

interop=no
install=yes
for argument in "$@"; do
    case $argument in
        --interop) interop=yes ;;
        --no-install) install=no ;;
        -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        *) echo "run.sh: unknown argument: $argument" >&2; exit 2 ;;
    esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${SW_BUILD:-build}
jobs=${SW_JOBS:-$(nproc)}

packages=(gcc libc6-dev cmake ninja-build pkg-config python3 libzstd-dev libssl-dev libyaml-dev
 libisal-dev zlib1g-dev libcmocka-dev)
if [ "$interop" = yes ] && [ -z "${SW_VENV:-}" ] && [ ! -x "$build/venv/bin/python" ]; then
    packages+=(python3-venv)
fi
if [ "$install" = yes ]; then
    bash cli/packaging/install.sh "${packages[@]}"
fi

cmake -S . -B "$build" -G Ninja -DSW_WERROR=ON -DSW_TESTS=ON
cmake --build "$build" -j "$jobs"
result=0
(cd "$build" && ctest --output-on-failure -j "$jobs") || result=1

if [ "$interop" = no ]; then
    echo "interop tests: not run (bash tests/run.sh --interop runs them)"
    exit "$result"
fi

venv=${SW_VENV:-$build/venv}
if [ -z "${SW_VENV:-}" ]; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --requirement tests/interop/requirements.txt
fi
"$venv/bin/python" tests/interop/run.py --shardwright "$build/shardwright" \
    --work "$build/interop" || result=1
exit "$result"
