# SPDX-License-Identifier: Apache-2.0
# Each instruction set of the fast CPU backend is one file, compiled with that set's flags and called only where the CPU
# has it.
set(CARAT_ISA_FLAGS_portable "")
set(CARAT_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(CARAT_ISA_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c)
set(CARAT_ISA_FLAGS_avx512_bf16 ${CARAT_ISA_FLAGS_avx512} -mavx512bf16)
foreach(isa portable avx2 avx512 avx512_bf16)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/cpu/isa_${isa}.cpp)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/cpu/isa_${isa}.cpp PROPERTIES COMPILE_OPTIONS "${CARAT_ISA_FLAGS_${isa}}")
  endif()
endforeach()
