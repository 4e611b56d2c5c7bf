# Cross-compiles with Zig, which has the headers and the stubs of the libraries of other systems:
#
#     pip install ziglang
#     cmake -S . -B build/macos -DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake -DKEEL_ZIG_TARGET=aarch64-macos
#
# Targets: aarch64-macos, x86_64-macos, x86_64-freebsd, x86_64-netbsd, x86_64-openbsd, ...
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KEEL_ZIG_TARGET)
string(REGEX MATCH "^([^-]*)-([^-.]*)" target "${KEEL_ZIG_TARGET}")
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(names macos Darwin freebsd FreeBSD netbsd NetBSD openbsd OpenBSD)
list(FIND names "${CMAKE_MATCH_2}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "KEEL_ZIG_TARGET=${KEEL_ZIG_TARGET}: use one such as aarch64-macos or x86_64-freebsd.")
endif()
math(EXPR found "${found} + 1")
list(GET names ${found} CMAKE_SYSTEM_NAME)
execute_process(COMMAND python3 -c "import ziglang, os; print(os.path.dirname(ziglang.__file__))"
  OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_program(KEEL_ZIG zig PATHS "${folder}" REQUIRED)
set(CMAKE_C_COMPILER ${KEEL_ZIG} cc)
set(CMAKE_C_COMPILER_TARGET ${KEEL_ZIG_TARGET})
set(CMAKE_C_ARCHIVE_CREATE "${KEEL_ZIG} ar qc <TARGET> <OBJECTS>")
set(CMAKE_C_ARCHIVE_FINISH "${KEEL_ZIG} ranlib <TARGET>")
# It has no other use here, and CMake stops without it.
set(CMAKE_INSTALL_NAME_TOOL true)
