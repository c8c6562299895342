#!/usr/bin/env bash
# Builds the C++ parts with a compiler's sanitizers in a tree of their own, and runs their tests.
#
# usage: tests/native/sanitize.sh PYTHON [SANITIZERS [PYTEST ARGUMENTS...]]
set -eu -o pipefail

python=$(realpath -s "$1")
sanitizers=${2:-address,undefined}
shift $(($# < 2 ? $# : 2))
tests=(
    tests/backends/simulation tests/native tests/monitors tests/envs/test_load_balancing.py
    tests/backends/emulation/test_emulator.py tests/traffic/generators/test_generator.py
    tests/traffic/http/test_servers.py
)
tree=build/sanitize/${sanitizers//,/-}
mkdir -p "$tree"
# By what the sources are, not by their times: a checkout of another commit has times of its own.
sources=$(find setup.py dcgym/native -regex '.*\.\([ch]\|[ch]pp\|py\)' -exec sha256sum {} + |
    sort | sha256sum)
if [ "$sources" != "$(cat "$tree/.sources" 2>/dev/null || true)" ]; then
    rm -rf "$tree/build" "$tree/dcgym"
fi
# Modules of an ordinary build stay where they are.
tar c --exclude='*.so' --exclude=__pycache__ --exclude=dcgym/native/bin --exclude=dcgym/native/obj \
    dcgym experiments monitors policies topologies traffic tests setup.py pyproject.toml README.md |
    tar x -C "$tree"
cd "$tree"
DCGYM_SANITIZE=$sanitizers DCGYM_STRICT_BUILD=1 \
    "$python" setup.py -q build_ext --inplace --parallel "$(nproc)" >build.log 2>&1 ||
    { tail -n 30 build.log; exit 1; }
echo "$sources" >.sources

# Python itself is not instrumented: the library must be there before it, and with it the C++
# library, whose exceptions the sanitizer follows.
case $sanitizers in
*thread*) library=libtsan.so ;;
*) library=libasan.so ;;
esac
preload="$(g++ -print-file-name=$library) $(g++ -print-file-name=libstdc++.so)"
# Python leaves much to the end of the process, which is no leak of ours.
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0
export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1
export PYTHONPATH=$PWD
LD_PRELOAD=$preload exec "$python" -m pytest -q -p no:cacheprovider "${@:-${tests[@]}}"
