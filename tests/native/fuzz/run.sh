#!/usr/bin/env bash
# Builds the fuzzers and lets each run for a while; what one finds lies in build/fuzz.
#
# usage: tests/native/fuzz/run.sh [SECONDS [NAME...]]
#
# With 0 SECONDS each is only linked, which needs no fuzzer's library.
set -eu -o pipefail

seconds=${1:-20}
shift $(($# < 1 ? 0 : 1))
names=("$@")
[ $# -gt 0 ] || names=(fabric l4lb plan http control delay)
here=tests/native/fuzz
out=$PWD/build/fuzz
mkdir -p "$out"

common=(-Wall -Idcgym/native/include -I$here)
if [ "$seconds" = 0 ]; then
    common+=(-O0 -shared -fPIC -Wl,--no-undefined)
else
    # Packets lie at odd addresses, which BPF programs may read.
    common+=(-g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize=alignment
        -fno-sanitize-recover=undefined)
fi

build() {
    case $1 in
    fabric | l4lb)
        clang "${common[@]}" -D__TARGET_ARCH_x86 -I$here/shim -Idcgym/native/bpf \
            -Wno-unknown-attributes -Wno-ignored-attributes $here/fuzz_$1.c -o "$out/$1"
        ;;
    plan | http | control)
        local parts=dcgym/native/generator
        local sources=($parts/flows/plan.cpp $parts/core/hosts.cpp)
        [ "$1" != http ] || sources=($parts/http/{message,query}.cpp)
        [ "$1" != control ] || mapfile -t sources < <(find $parts -name '*.cpp' ! -name main.cpp)
        clang++ -std=c++20 -pthread "${common[@]}" -I$parts \
            -DASIO_DISABLE_STD_ALIGNED_ALLOC "${sources[@]}" $here/fuzz_$1.cpp -o "$out/$1"
        ;;
    delay)
        clang++ -std=c++20 "${common[@]}" -Idcgym/native/relay \
            dcgym/native/relay/frame.cpp $here/fuzz_delay.cpp -o "$out/delay"
        ;;
    *)
        echo "fuzz: no fuzzer $1: fabric, l4lb, plan, http, control, delay" >&2
        exit 2
        ;;
    esac
}

run() {
    local options=(-max_total_time="$seconds" -timeout=10 -max_len=2048 -use_value_profile=1
        -print_final_stats=1 -artifact_prefix="$out/$1-")
    [ ! -e $here/$1.dict ] || options+=("-dict=$here/$1.dict")
    mkdir -p "$out/corpus-$1"
    # Plans that the generator takes send traffic: in a network of their own.
    local alone=()
    [ "$1" != control ] || alone=(unshare --net --map-root-user)
    if ! "${alone[@]}" "$out/$1" "${options[@]}" "$out/corpus-$1" >"$out/$1.log" 2>&1; then
        grep -aE 'ERROR|does not hold|runtime error|^    #|Test unit' "$out/$1.log" || true
        echo "fuzz: $1 failed, see $out/$1.log" >&2
        exit 1
    fi
    echo "fuzz: $1: $(sed -nE 's/^stat::number_of_executed_units: *//p' "$out/$1.log") inputs"
}

for name in "${names[@]}"; do
    build "$name"
    [ "$seconds" = 0 ] || run "$name"
done
