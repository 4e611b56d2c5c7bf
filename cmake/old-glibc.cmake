# keel_for_old_glibc(TARGETS...): the libraries load on glibc 2.17 and later, whichever version they
# are built on. glibc 2.34 moved the functions of libpthread and libdl to libc, under new versions. The
# linker gets stand-ins for the two libraries instead, which have these functions under the first
# versions, and which later systems still have. tests/linking/symbols.py checks the result.
include(CheckCSourceCompiles)
check_c_source_compiles("#include <features.h>
#if !defined(__GLIBC__)
#error
#endif
int main(void) { return 0; }" KEEL_IS_GLIBC)
check_c_source_compiles("#include <features.h>
#if defined(__GLIBC__) || defined(__BIONIC__)
#error
#endif
int main(void) { return 0; }" KEEL_IS_MUSL)

set(first_version GLIBC_2.2.5)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(first_version GLIBC_2.17)
endif()
# For os/linux_optional.h: nothing where glibc has libraries of its own for these functions, nor for
# the debug flavour, because the unwinder of libgcc in it refers to others of them.
set(KEEL_OF_FIRST_GLIBC)
check_c_source_compiles("#include <features.h>
#if !__GLIBC_PREREQ(2, 34)
#error
#endif
int main(void) { return 0; }" KEEL_HAS_ONE_LIBC)
set(KEEL_IS_MAIN OFF) # one of the platforms on which all of Keel is tested
if(KEEL_IS_GLIBC AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64|aarch64|arm64)$")
  set(KEEL_IS_MAIN ON)
endif()
if(KEEL_IS_MAIN AND NOT KEEL_SANITIZE)
  if(KEEL_HAS_ONE_LIBC AND NOT KEEL_DEBUG)
    set(KEEL_OF_FIRST_GLIBC KEEL_FIRST_GLIBC="${first_version}")
  endif()
  foreach(name pthread dl)
    add_library(old_lib${name} SHARED ${CMAKE_CURRENT_LIST_DIR}/old-glibc/lib${name}.c)
    set(soname lib${name}.so.0)
    if(name STREQUAL "dl")
      set(soname libdl.so.2)
    endif()
    file(WRITE ${PROJECT_BINARY_DIR}/old-glibc/lib${name}.map "${first_version} { global: *; };\n")
    target_compile_options(old_lib${name} PRIVATE -fvisibility=default -fno-builtin -w)
    target_link_options(old_lib${name} PRIVATE -nostdlib -Wl,-soname,${soname}
      -Wl,--version-script=${PROJECT_BINARY_DIR}/old-glibc/lib${name}.map)
    set_target_properties(old_lib${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY
      ${PROJECT_BINARY_DIR}/old-glibc OUTPUT_NAME old_${name} NO_SONAME ON)
  endforeach()
endif()

function(keel_for_old_glibc)
  if(NOT TARGET old_libdl)
    return()
  endif()
  foreach(target ${ARGN})
    add_dependencies(${target} old_libpthread old_libdl)
    target_link_options(${target} PRIVATE -Wl,--no-as-needed $<TARGET_FILE:old_libpthread>
      $<TARGET_FILE:old_libdl>)
  endforeach()
endfunction()
