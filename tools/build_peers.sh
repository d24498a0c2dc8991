#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# build_peers.sh [OUT]: builds libcarat_cutlass.so, the plugin of `carat bench --peer cutlass`, into OUT (default:
# build/cli, beside the program, where it is looked for). Wants nvcc 12.4 or newer and CUTLASS 4's headers: those in CUTLASS_INCLUDE
# (a folder with cutlass/cutlass.h), else those of the wheel nvidia-cutlass, fetched by pip. Ten minutes on two cores;
# what is built already is kept, until a source here changes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/cli}
work=build/peers/cutlass
sources=bench/peers/cutlass
wheel=nvidia-cutlass==4.2.0.0

nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ -x "$nvcc" ] || { echo "build_peers.sh: there is no nvcc at $nvcc: install the CUDA toolkit, or set NVCC" >&2; exit 1; }
mkdir -p "$out" "$work"

include=${CUTLASS_INCLUDE:-$work/wheel/cutlass_library/source/include}
if [ -z "${CUTLASS_INCLUDE:-}" ] && [ ! -f "$include/cutlass/cutlass.h" ]; then
    python3 -m pip download --quiet --no-deps --dest "$work" "$wheel"
    python3 -m zipfile -e "$work"/nvidia_cutlass-*.whl "$work/wheel"
fi
[ -f "$include/cutlass/cutlass.h" ] || { echo "build_peers.sh: CUTLASS_INCLUDE=$include has no cutlass/cutlass.h" >&2; exit 1; }

# One object a kernel. No fast math: CUTLASS's own build has none either.
flags=(-std=c++17 -O3 -DNDEBUG -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr
       -Xcompiler -fPIC,-fvisibility=hidden "-I$include")
kernels=$(grep -c '^KERNEL(' $sources/kernels.def)
objects=() stale=()
for ((id = 0; id < kernels; ++id)); do
    object=$work/kernel_$id.o
    objects+=("$object")
    if [ ! -f "$object" ] || [ -n "$(find $sources -newer "$object" ! -name plugin.cpp -type f)" ]; then stale+=("$id"); fi
done
echo "build_peers.sh: ${#stale[@]} of $kernels kernels to compile"
printf '%s\n' "${stale[@]}" | xargs -r -P "$(nproc)" -I ID \
    "$nvcc" "${flags[@]}" -DCARAT_CUTLASS_KERNEL=ID -c $sources/part.cu -o $work/kernel_ID.o
"$nvcc" "${flags[@]}" -c $sources/plugin.cpp -o $work/plugin.o

"$nvcc" -shared -cudart static -Xlinker --no-undefined -Xlinker --exclude-libs,ALL -o "$out/libcarat_cutlass.so" \
    $work/plugin.o "${objects[@]}"
echo "$out/libcarat_cutlass.so: $kernels kernels"
