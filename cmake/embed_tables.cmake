# SPDX-License-Identifier: Apache-2.0
# The JSON files of a folder of data/ become a table of strings in the library.
function(carat_embed_table folder header type function result)
  set(place ${CMAKE_SOURCE_DIR}/data/${folder})
  set(source ${CMAKE_BINARY_DIR}/embedded_${folder}.cpp)
  file(GLOB names CONFIGURE_DEPENDS RELATIVE ${place} ${place}/*.json)
  list(TRANSFORM names PREPEND ${place}/ OUTPUT_VARIABLE paths)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed.py --table ${header} carat ${type} ${function} ${place} ${source} ${names}
    DEPENDS ${paths} ${CMAKE_SOURCE_DIR}/tools/embed.py
    COMMENT "Embedding data/${folder}" VERBATIM)
  set(${result} ${source} PARENT_SCOPE)
endfunction()

# What was measured to be the fastest, and what was fitted to measurements, of each GPU.
carat_embed_table(tuning dispatch/tuning_file.hpp TuningText shipped_tuning CARAT_EMBEDDED_TUNING)
carat_embed_table(devices limits/calibration.hpp DeviceFile shipped_device_files CARAT_EMBEDDED_DEVICES)
