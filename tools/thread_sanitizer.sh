#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# thread_sanitizer.sh [BUILD]: builds the tests of what threads share with -DCARAT_SANITIZE=thread into BUILD (build-tsan) and runs them:
# the stress of one context, the kept plans, the JIT and its cache, the thread pool, devices and launches on the fake driver.
# Exits with 1 if a test fails or a race is found. NVRTC is not instrumented, so what happens within it is ignored.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build-tsan}
cmake -S "$root" -B "$build" -G Ninja -DCARAT_SANITIZE=thread -DCMAKE_CXX_FLAGS_RELEASE="-O1" -DCARAT_BENCH=OFF \
    ${CMAKE_CXX_COMPILER_LAUNCHER:+-DCMAKE_CXX_COMPILER_LAUNCHER="$CMAKE_CXX_COMPILER_LAUNCHER"}
ninja -C "$build" api_tests jit_tests cpu_tests cuda_tests

export TSAN_OPTIONS="halt_on_error=1 ignore_noninstrumented_modules=1 die_after_fork=0"
"$build/tests/api_tests" --gtest_filter='Stress.*:PlanCache.*'
"$build/tests/jit_tests"
"$build/tests/cpu_tests" --gtest_filter='*Thread*'
"$build/tests/cuda_tests" --gtest_filter='DeviceTest.*:CaptureTest.*:ExecutableTest.*'
