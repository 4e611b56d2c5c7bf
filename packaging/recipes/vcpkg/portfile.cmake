# An overlay port: vcpkg install keel --overlay-ports=FOLDER-OF-THIS-FILE
vcpkg_download_distfile(ARCHIVE
  URLS "@URL@/keel-@VERSION@.tar.xz"
  FILENAME "keel-@VERSION@.tar.xz"
  SHA512 @SHA512_SOURCE@)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DKEEL_TESTS=OFF)
vcpkg_cmake_build(TARGET libraries)
foreach(type dbg rel)
  set(prefix "${CURRENT_PACKAGES_DIR}")
  if(type STREQUAL "dbg")
    string(APPEND prefix "/debug")
  endif()
  vcpkg_execute_required_process(LOGNAME install-${type}
    WORKING_DIRECTORY "${CURRENT_BUILDTREES_DIR}/${TARGET_TRIPLET}-${type}"
    COMMAND "${CMAKE_COMMAND}" --install . --prefix "${prefix}" --component libraries)
endforeach()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/keel)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
