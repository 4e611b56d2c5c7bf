# `cmake --install`: the component `libraries` is what programs link and load, `lab` the tools that
# `make build` has put beside them. Everything finds its parts relative to itself, so a prefix may
# be moved.
set(CMAKE_INSTALL_LIBDIR lib CACHE STRING "the libraries' folder under the prefix (the lab looks for them in lib)")
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/keel)

target_include_directories(keel_mimalloc INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/keel/mimalloc>) # finds <mimalloc.h>
# Each flavour has its own libraries and exported targets. What does not depend on the flavour is in
# the plain one; two flavours may be installed into one prefix.
install(TARGETS ${KEEL_LINKABLE} EXPORT keel${KEEL_FLAVOUR} COMPONENT libraries LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET keel_recorder AND NOT KEEL_FLAVOUR)
  install(TARGETS keel_recorder COMPONENT libraries LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES ${KEEL_OUTPUT_DIR}/lib/keel${KEEL_FLAVOUR}.o COMPONENT libraries DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/in_process/include/keel COMPONENT libraries
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT keel${KEEL_FLAVOUR} NAMESPACE keel:: FILE keel${KEEL_FLAVOUR}-targets.cmake COMPONENT libraries
  DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/keel-config.cmake.in ${PROJECT_BINARY_DIR}/keel-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR)
# Below 1.0 a new minor version may break what was built for the one before.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/keel-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/keel-config.cmake ${PROJECT_BINARY_DIR}/keel-config-version.cmake
  COMPONENT libraries DESTINATION ${package_dir})

# A folder that replaces an installation of mimalloc, found only by projects that name it.
if(NOT KEEL_FLAVOUR)
  set(mimalloc_dir ${package_dir}/mimalloc)
  configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mimalloc-config.cmake.in
    ${PROJECT_BINARY_DIR}/mimalloc-config.cmake INSTALL_DESTINATION ${mimalloc_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
  install(FILES ${PROJECT_BINARY_DIR}/mimalloc-config.cmake ${CMAKE_CURRENT_LIST_DIR}/mimalloc-config-version.cmake
    COMPONENT libraries DESTINATION ${mimalloc_dir})
endif()

# keel.pc finds its prefix from where it lies itself.
file(RELATIVE_PATH KEEL_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" KEEL_PC_PREFIX ${KEEL_PC_PREFIX})
foreach(name keel keel-static keel-api)
  string(REGEX REPLACE "^(keel(-api)?)" "\\1${KEEL_FLAVOUR}" file ${name}) # keel-secure-static, keel-api-secure
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${name}.pc.in ${PROJECT_BINARY_DIR}/${file}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${file}.pc COMPONENT libraries DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

if(KEEL_FLAVOUR)
  return()
endif()
install(PROGRAMS ${KEEL_OUTPUT_DIR}/bin/keel COMPONENT lab DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
foreach(program keel-player keel-workload keel-synthetic keel-patterns keel-overseer libkeel_bridge.so)
  install(PROGRAMS ${KEEL_OUTPUT_DIR}/lib/keel/${program} COMPONENT lab DESTINATION lib/keel OPTIONAL)
endforeach()
install(DIRECTORY ${KEEL_OUTPUT_DIR}/lib/keel/programs COMPONENT lab DESTINATION lib/keel OPTIONAL
  USE_SOURCE_PERMISSIONS)
install(DIRECTORY ${KEEL_OUTPUT_DIR}/lib/keel/peers COMPONENT lab DESTINATION lib/keel OPTIONAL USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN *.so PATTERN .* EXCLUDE)
