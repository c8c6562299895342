#!/usr/bin/env bash
# Builds the packet twin at several levels of optimisation, and compares what it computes bit by bit.
#
# usage: tests/native/levels.sh PYTHON [LEVELS...]
set -eu -o pipefail

python=$(realpath -s "$1")
shift
levels=("${@:--O0 -O1 -O2 -O3 -O3,-march=native}")
read -ra levels <<<"${levels[*]}"
tree=$PWD/build/levels
include=$("$python" -c 'import pybind11, sysconfig
print("-I" + pybind11.get_include(), "-I" + sysconfig.get_path("include"))')
# As setup.py has them; sources are compiled one after another, a level on each processor.
build() {
    local level=$1 folder=$tree/$1 source object
    mkdir -p "$folder"
    for source in $(find dcgym/native/twin/packets -name '*.cpp') \
        dcgym/native/twin/core/random.cpp $(find build -path "*/native/header_control_*.cpp"); do
        object=$folder/$(basename "$source").o
        "${CXX:-g++}" -std=c++20 ${level//,/ } -ffp-contract=off -fvisibility=hidden -fPIC -DNDEBUG \
            -Idcgym/native/include -Idcgym/native/twin/packets -Idcgym/native/twin $include \
            -c "$source" -o "$object"
    done
    "${CXX:-g++}" -shared "$folder"/*.o -o "$folder/_packets.so" -pthread
}
export -f build
export tree include
printf '%s\n' "${levels[@]}" | xargs -P "$(nproc)" -I{} bash -eu -c 'build {}'
first=
for level in "${levels[@]}"; do
    digest=$("$python" -m tests.native.levels_digest "$tree/$level/_packets.so")
    echo "$level $digest"
    if [ "${first:=$digest}" != "$digest" ]; then
        echo "levels.sh: $level computes other bits than ${levels[0]}" >&2
        exit 1
    fi
done
