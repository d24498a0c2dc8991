#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_test_packs.sh OUT [FILTER]: compiles the kernels of the GPU tests ahead, on a machine that needs no GPU, into packs in OUT, one
# for each core. The tests run on the fake driver, where no kernel runs: they fail on the first value, and what they say beyond that
# (a kernel that does not compile, one that spills) is printed. On the GPU machine CARAT_PACK=OUT spares the tests those minutes:
# the same build and the same NVRTC. BUILD_DIR names another build directory than build/ (relative to the root).
set -uo pipefail

[ $# -ge 1 ] || { echo "usage: tools/gpu_test_packs.sh OUT [GTEST_FILTER]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
tests=$root/${BUILD_DIR:-build}/tests
mkdir -p "$1" && out=$(cd "$1" && pwd) || exit 2
filter=${2:-Gpu*:Gpu/*:-GpuSanitizer*}

export CARAT_CUDA_PATH=$tests/libfake_cuda.so FAKE_CUDA_ANY_CODE=1
GTEST_TOTAL_SHARDS=$(nproc)
export GTEST_TOTAL_SHARDS
for ((i = 0; i < GTEST_TOTAL_SHARDS; ++i)); do
    GTEST_SHARD_INDEX=$i GPU_TEST_PACK=$out/tests.$i.pack "$tests/kernels_tests" --gtest_filter="$filter" >"$out/tests.$i.txt" 2>&1 &
done
wait
grep -hE 'does not compile|spill|refused|NVRTC|ptxas|watchdog|no row takes' "$out"/tests.*.txt | cut -c1-300 | sort | uniq -c
ls -l "$out"/*.pack
