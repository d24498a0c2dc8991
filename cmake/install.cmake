# SPDX-License-Identifier: Apache-2.0
# Install rules, CMake package and pkg-config file. The prefix can be moved after the installation: the command line
# finds the library beside it, the CMake package and the .pc file find the prefix from where they lie.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CARAT_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/carat)
file(RELATIVE_PATH CARAT_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(RELATIVE_PATH CARAT_BIN_TO_LIB /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})

install(TARGETS carat EXPORT caratTargets)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/carat DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h*")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(TARGET carat_cli)
  install(TARGETS carat_cli)
  set_target_properties(carat_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${CARAT_BIN_TO_LIB}" BUILD_RPATH_USE_ORIGIN ON)
endif()

install(EXPORT caratTargets NAMESPACE carat:: DESTINATION ${CARAT_PACKAGE_DIR})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/caratConfig.cmake.in ${CMAKE_BINARY_DIR}/caratConfig.cmake
                              INSTALL_DESTINATION ${CARAT_PACKAGE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/caratConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/caratConfig.cmake ${CMAKE_BINARY_DIR}/caratConfigVersion.cmake
        DESTINATION ${CARAT_PACKAGE_DIR})

configure_file(${CMAKE_SOURCE_DIR}/cmake/carat.pc.in ${CMAKE_BINARY_DIR}/carat.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/carat.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
