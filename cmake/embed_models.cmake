# SPDX-License-Identifier: Apache-2.0
# models/*.json becomes a table of strings in the library, so that a binary knows its models wherever it is copied to.
file(GLOB CARAT_MODEL_FILES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/models ${CMAKE_SOURCE_DIR}/models/*.json)
set(CARAT_EMBEDDED_MODELS ${CMAKE_BINARY_DIR}/embedded_models.cpp)
set_property(GLOBAL PROPERTY CARAT_EMBEDDED_MODELS ${CARAT_EMBEDDED_MODELS})
list(TRANSFORM CARAT_MODEL_FILES PREPEND ${CMAKE_SOURCE_DIR}/models/ OUTPUT_VARIABLE CARAT_MODEL_PATHS)
add_custom_command(
  OUTPUT ${CARAT_EMBEDDED_MODELS}
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/embed.py --table limits/models.hpp carat ModelFile model_files
          ${CMAKE_SOURCE_DIR}/models ${CARAT_EMBEDDED_MODELS} ${CARAT_MODEL_FILES}
  DEPENDS ${CARAT_MODEL_PATHS} ${CMAKE_SOURCE_DIR}/tools/embed.py
  COMMENT "Embedding model configurations" VERBATIM)
