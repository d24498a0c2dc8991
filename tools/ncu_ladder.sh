#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ncu_ladder.sh OUT [SIZE] [RUNG...]: one launch of each rung of the ladder (or of those named: v3 v7) under Nsight Compute, on a
# machine with a GPU. SIZE is M = N = K, 4096 unless given. Writes to OUT: RUNG.csv (ncu's raw page), RUNG.run.json (the
# program's own account of the same run), RUNG.txt (what was printed), metrics.txt and ncu.txt (the metrics asked for and ncu's
# version), and, where python3 is there, ladder_ncu.json (tools/ncu_ladder.py). Few metrics, no clock control, a time limit
# each: about two minutes in all. The exit code is 1 if a rung gave no numbers. BUILD_DIR names another build directory than
# build/.
set -uo pipefail

if [ $# -lt 1 ]; then
    echo "usage: tools/ncu_ladder.sh OUT [SIZE] [RUNG...] (OUT: a directory for the results)" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
carat=${BUILD_DIR:-$root/build}/cli/carat
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
size=${2:-4096}
shift $(($# < 2 ? $# : 2))
wanted=" $* "
limit=45     # seconds a rung
deadline=230 # seconds in all
export CARAT_CACHE_DIR=${CARAT_CACHE_DIR:-$out/cache}
mkdir -p "$CARAT_CACHE_DIR" && chmod 700 "$CARAT_CACHE_DIR"

ncu=$(command -v ncu || ls /usr/local/cuda/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -n 1)
if [ -z "$ncu" ]; then
    echo "ncu_ladder: ncu is not on the PATH and not in /usr/local/cuda/bin; install Nsight Compute (package nsight-compute)" >&2
    exit 1
fi
if [ ! -x "$carat" ]; then
    echo "ncu_ladder: there is no $carat; build it first (ninja -C build carat), or set BUILD_DIR" >&2
    exit 1
fi
"$ncu" --version >"$out/ncu.txt" 2>&1

pct=avg.pct_of_peak_sustained
metrics="gpu__time_duration.sum sm__cycles_elapsed.max sm__cycles_elapsed.avg.per_second sm__throughput.${pct}_elapsed
sm__inst_executed_pipe_fma.${pct}_active sm__pipe_fma_cycles_active.${pct}_active sm__inst_executed_pipe_tensor.${pct}_active
sm__pipe_tensor_cycles_active.${pct}_active sm__pipe_tensor_op_hmma_cycles_active.${pct}_active
sm__inst_executed_pipe_tensor_op_hmma.${pct}_active sm__inst_executed_pipe_tensor_op_gmma.${pct}_active
l1tex__data_pipe_lsu_wavefronts_mem_shared.sum l1tex__data_pipe_lsu_wavefronts_mem_shared.${pct}_elapsed
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum
l1tex__m_xbar2l1tex_read_bytes.avg lts__t_bytes.sum lts__throughput.${pct}_elapsed lts__t_sector_hit_rate.pct
dram__bytes_read.sum dram__bytes_write.sum dram__throughput.${pct}_elapsed smsp__inst_executed.sum
smsp__issue_active.${pct}_active sm__warps_active.${pct}_active launch__registers_per_thread launch__block_size
launch__grid_size launch__shared_mem_per_block"
for reason in barrier branch_resolving dispatch_stall drain gmma lg_throttle long_scoreboard math_pipe_throttle membar \
    mio_throttle no_instruction not_selected short_scoreboard sleeping tex_throttle wait; do
    metrics+=" smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio"
done

# The metrics that this ncu knows on this chip; it refuses a whole run for one that it does not. What a launch says of
# itself (launch__) is in no list of the chip's metrics.
known_metrics() {
    local known metric
    known=$(timeout 60 "$ncu" --query-metrics 2>/dev/null | awk '{print $1}')
    [ "$(wc -l <<<"$known")" -gt 50 ] || known=$(timeout 60 "$ncu" --query-metrics --chip gh100 2>/dev/null | awk '{print $1}')
    for metric in $metrics; do
        if [[ $metric == launch__* ]] || [ "$(wc -l <<<"$known")" -le 50 ] || grep -qxF "${metric%%.*}" <<<"$known"; then
            echo "$metric"
        fi
    done
}

# profile RUNG ROW METRICS FLAG...
profile() {
    local rung=$1 row=$2 list=$3
    shift 3
    rm -f "$out/$rung.csv" "$out/$rung.run.json"
    timeout --kill-after=5 "$limit" "$ncu" --csv --page raw --print-units base --log-file "$out/$rung.csv" --clock-control none \
        --kernel-name carat_kernel --launch-count 1 --metrics "$list" \
        "$carat" run --backend cuda --kernel "$row" --m "$size" --n "$size" --k "$size" "$@" --output "$out/$rung.run.json" \
        >"$out/$rung.txt" 2>&1
    grep -q '^"ID"' "$out/$rung.csv" 2>/dev/null
}

failures=0 start=$SECONDS
known_metrics >"$out/metrics.txt"
list=$(paste -sd, "$out/metrics.txt")
rows=$("$carat" list --json | grep -oE '"name": *"v[0-9]+_[a-z0-9_]+"' | sed 's/.*"\(v.*\)"/\1/' | sort -uV)
for row in $rows; do
    rung=${row%%_*}
    [[ $wanted == "  " || $wanted == *" $rung "* ]] || continue
    if [ $((SECONDS - start)) -gt "$deadline" ]; then
        echo "$row: not run, $deadline seconds are over" && failures=$((failures + 1))
        continue
    fi
    flags=(--dtype bf16 --layout nt)
    [[ $rung == v[0-3] ]] && flags=(--dtype f32 --layout nn)
    if profile "$rung" "$row" "$list" "${flags[@]}" ||
        profile "$rung" "$row" "gpu__time_duration.sum,sm__cycles_elapsed.avg.per_second,launch__registers_per_thread" "${flags[@]}"; then
        echo "$row: profiled"
    else
        failures=$((failures + 1))
        echo "$row: no numbers; ncu and the program said:"
        cat "$out/$rung.csv" "$out/$rung.txt" 2>/dev/null | tail -n 8 | sed 's/^/    /'
    fi
done
if command -v python3 >/dev/null; then
    python3 "$root/tools/ncu_ladder.py" "$out" "$out/ladder_ncu.json" || failures=$((failures + 1))
fi
[ "$failures" -eq 0 ]
