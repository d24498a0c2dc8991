# SPDX-License-Identifier: Apache-2.0
# The kernel pack for Hopper (docs/pack.md), made by the command line that was just built: the target `pack`, part of the
# default build where NVRTC is found. Kernels that did not change come from a cache in the build tree.
option(CARAT_BUILD_PACK "Make the kernel pack in the default build, if NVRTC is found" ON)

# Where the library looks, too (src/jit/nvrtc.hpp).
file(GLOB CARAT_NVRTC_HINTS ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/*/lib
     $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/*/lib)
if(EXISTS "$ENV{CARAT_NVRTC_PATH}")
  set(CARAT_NVRTC $ENV{CARAT_NVRTC_PATH})
else()
  find_file(CARAT_NVRTC NAMES libnvrtc.so.13 libnvrtc.so.12 HINTS ${CARAT_NVRTC_HINTS} NO_CACHE
            PATHS $ENV{CUDA_HOME}/lib64 $ENV{CUDA_PATH}/lib64 /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu)
endif()

set(CARAT_PACK ${CMAKE_BINARY_DIR}/lib/carat/sm_90a.pack)
set(CARAT_PACK_MODELS Llama-3.1-8B Llama-3.1-70B Qwen3-8B DeepSeek-V3)
list(TRANSFORM CARAT_PACK_MODELS PREPEND --model= OUTPUT_VARIABLE CARAT_PACK_WORKLOAD)
add_custom_command(
  OUTPUT ${CARAT_PACK}
  COMMAND ${CMAKE_COMMAND} -E env --unset=CARAT_JIT "CARAT_NVRTC_PATH=$<IF:$<BOOL:${CARAT_NVRTC}>,${CARAT_NVRTC},>"
          $<TARGET_FILE:carat_cli> pack build --out ${CARAT_PACK} --target h200 --dtype bf16,f16
          --shapes ${CMAKE_SOURCE_DIR}/bench/suites/llm.txt ${CARAT_PACK_WORKLOAD} --cache-dir ${CMAKE_BINARY_DIR}/pack-cache
  DEPENDS carat_cli ${CMAKE_SOURCE_DIR}/bench/suites/llm.txt
  COMMENT "Compiling the kernel pack ${CARAT_PACK}" USES_TERMINAL VERBATIM)

if(CARAT_BUILD_PACK AND CARAT_NVRTC AND NOT CARAT_SANITIZE)
  message(STATUS "Kernel pack: made by ${CARAT_NVRTC}; -DCARAT_BUILD_PACK=OFF leaves it out")
  add_custom_target(pack ALL DEPENDS ${CARAT_PACK})
else()
  message(STATUS "Kernel pack: not in the default build, since CARAT_BUILD_PACK is OFF, this is a sanitizer build, or no NVRTC was "
                 "found (pip install nvidia-cuda-nvrtc, or set CARAT_NVRTC_PATH); the target `pack` makes it")
  add_custom_target(pack DEPENDS ${CARAT_PACK})
endif()
install(FILES ${CARAT_PACK} DESTINATION ${CMAKE_INSTALL_LIBDIR}/carat OPTIONAL)
