# SPDX-License-Identifier: Apache-2.0
# data/devices/*.json, what was fitted to measurements of each GPU, become a table of strings in the library.
file(GLOB CARAT_DEVICE_FILES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/data/devices ${CMAKE_SOURCE_DIR}/data/devices/*.json)
set(CARAT_EMBEDDED_DEVICES ${CMAKE_BINARY_DIR}/embedded_devices.cpp)
list(TRANSFORM CARAT_DEVICE_FILES PREPEND ${CMAKE_SOURCE_DIR}/data/devices/ OUTPUT_VARIABLE CARAT_DEVICE_PATHS)
add_custom_command(
  OUTPUT ${CARAT_EMBEDDED_DEVICES}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed.py --table limits/calibration.hpp carat DeviceFile shipped_device_files
          ${CMAKE_SOURCE_DIR}/data/devices ${CARAT_EMBEDDED_DEVICES} ${CARAT_DEVICE_FILES}
  DEPENDS ${CARAT_DEVICE_PATHS} ${CMAKE_SOURCE_DIR}/tools/embed.py
  COMMENT "Embedding device files" VERBATIM)
