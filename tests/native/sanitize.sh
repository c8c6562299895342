#!/usr/bin/env bash
# Builds the C++ parts with a compiler's sanitizers in a tree of their own, and runs their tests.
#
# usage: tests/native/sanitize.sh PYTHON PART [SANITIZERS [PYTEST ARGUMENTS...]]
#
# PART is twin (the simulations), kernel (the loaders and what they load), emulator (both together
# in a running network) or generator (flows and HTTP servers).
set -eu -o pipefail

python=$(realpath -s "$1")
part=$2
sanitizers=${3:-address,undefined}
shift $(($# < 3 ? $# : 3))
shared=(-n 2 --dist worksteal -m "not timing")
case $part in
twin)
    # Without the long runs of what the others run too.
    tests=("${shared[@]}" --ignore tests/backends/simulation/test_balancing_shapes.py
        tests/backends/simulation tests/envs/test_load_balancing.py)
    ;;
kernel) tests=("${shared[@]}" tests/native tests/monitors) ;;
emulator) tests=("${shared[@]}" tests/backends/emulation/test_{emulator,telemetry,paths}.py) ;;
generator)
    # Other people's programs inherit what is preloaded below, and do not live with it.
    tests=(-m "not timing" -k "not curl and not wrk and not nginx"
        tests/traffic/generators/test_generator.py tests/traffic/http/test_servers.py)
    ;;
*)
    echo "sanitize.sh: part $part: must be twin, kernel, emulator or generator" >&2
    exit 2
    ;;
esac
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
