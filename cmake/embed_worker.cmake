# SPDX-License-Identifier: Apache-2.0
# The Python program that times DeepGEMM becomes a string in the command line, so that the program stays one file.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(CARAT_EMBEDDED_WORKER ${CMAKE_BINARY_DIR}/embedded_worker.cpp)
add_custom_command(
  OUTPUT ${CARAT_EMBEDDED_WORKER}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed.py --table peers/deepgemm.hpp carat::cli WorkerFile worker_files
          ${CMAKE_SOURCE_DIR}/bench/peers ${CARAT_EMBEDDED_WORKER} deepgemm_worker.py
  DEPENDS ${CMAKE_SOURCE_DIR}/bench/peers/deepgemm_worker.py ${CMAKE_SOURCE_DIR}/tools/embed.py
  COMMENT "Embedding the worker of DeepGEMM" VERBATIM)
