# Builds for Windows on x86-64 with the packages clang and mingw-w64 of Debian, and runs what it
# built under Wine:
#
#     cmake -S . -B build/windows -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/x86_64-w64-mingw32.cmake
#
# Clang for C: GCC emulates thread-local variables for Windows, by functions that call malloc. GCC
# for C++, whose library Debian has for GCC only.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(triple x86_64-w64-mingw32)
set(CMAKE_C_COMPILER clang)
set(CMAKE_C_COMPILER_TARGET ${triple})
set(CMAKE_CXX_COMPILER ${triple}-g++-posix)
set(CMAKE_LINKER ${triple}-ld CACHE STRING "")
set(CMAKE_OBJCOPY ${triple}-objcopy CACHE STRING "")
set(CMAKE_AR ${triple}-ar CACHE STRING "")
set(CMAKE_RANLIB ${triple}-ranlib CACHE STRING "")
set(CMAKE_RC_COMPILER ${triple}-windres)
set(CMAKE_FIND_ROOT_PATH /usr/${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR wine)

# Clang does not find GCC's library of this variant.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-libgcc-file-name
  OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE)
get_filename_component(libgcc_folder "${libgcc}" DIRECTORY)
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-L${libgcc_folder} -static-libgcc")
endforeach()
