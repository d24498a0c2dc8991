# SPDX-License-Identifier: Apache-2.0
# data/tuning/*.json, the tuning databases that are shipped, become a table of strings in the library.
file(GLOB CARAT_TUNING_FILES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/data/tuning ${CMAKE_SOURCE_DIR}/data/tuning/*.json)
set(CARAT_EMBEDDED_TUNING ${CMAKE_BINARY_DIR}/embedded_tuning.cpp)
list(TRANSFORM CARAT_TUNING_FILES PREPEND ${CMAKE_SOURCE_DIR}/data/tuning/ OUTPUT_VARIABLE CARAT_TUNING_PATHS)
add_custom_command(
  OUTPUT ${CARAT_EMBEDDED_TUNING}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed.py --table dispatch/tuning_file.hpp carat TuningText shipped_tuning
          ${CMAKE_SOURCE_DIR}/data/tuning ${CARAT_EMBEDDED_TUNING} ${CARAT_TUNING_FILES}
  DEPENDS ${CARAT_TUNING_PATHS} ${CMAKE_SOURCE_DIR}/tools/embed.py
  COMMENT "Embedding tuning databases" VERBATIM)
