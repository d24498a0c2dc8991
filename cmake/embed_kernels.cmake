# SPDX-License-Identifier: Apache-2.0
# kernels/** becomes a table of strings in the library; rebuilt when a kernel file changes.
file(GLOB_RECURSE CARAT_KERNEL_FILES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/kernels ${CMAKE_SOURCE_DIR}/kernels/*.cuh ${CMAKE_SOURCE_DIR}/kernels/*.h)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(CARAT_EMBEDDED_SOURCE ${CMAKE_BINARY_DIR}/embedded_kernels.cpp)
list(TRANSFORM CARAT_KERNEL_FILES PREPEND ${CMAKE_SOURCE_DIR}/kernels/ OUTPUT_VARIABLE CARAT_KERNEL_PATHS)
add_custom_command(
  OUTPUT ${CARAT_EMBEDDED_SOURCE}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed.py ${CMAKE_SOURCE_DIR}/kernels ${CARAT_EMBEDDED_SOURCE} ${CARAT_KERNEL_FILES}
  DEPENDS ${CARAT_KERNEL_PATHS} ${CMAKE_SOURCE_DIR}/tools/embed.py
  COMMENT "Embedding kernel sources" VERBATIM)
