# Compiles for Android without its NDK, with clang 19 and the headers of its C library, bionic:
# `make test-android`. With the NDK, use the NDK's own toolchain file instead:
#
#     cmake -S . -B build/android --toolchain $NDK/build/cmake/android.toolchain.cmake \
#         -DANDROID_ABI=arm64-v8a -DANDROID_PLATFORM=android-29
#
# KEEL_BIONIC is a checkout of bionic, KEEL_STUBS a folder with a libc.so and a libdl.so to link
# with. From API level 29 on, the loader knows thread-local variables.
set(KEEL_BIONIC "" CACHE PATH "a checkout of bionic")
set(KEEL_STUBS "" CACHE PATH "libraries to link with")
set(KEEL_MACHINE aarch64 CACHE STRING "aarch64 or x86_64")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KEEL_BIONIC KEEL_STUBS KEEL_MACHINE)
set(CMAKE_SYSTEM_NAME Android)
set(CMAKE_SYSTEM_VERSION 1) # CMake looks for no NDK
set(CMAKE_SYSTEM_PROCESSOR ${KEEL_MACHINE})
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_C_COMPILER_TARGET ${KEEL_MACHINE}-linux-android29)
set(CMAKE_CXX_COMPILER "")
string(REPLACE aarch64 arm64 headers asm-${KEEL_MACHINE})
string(REPLACE x86_64 x86 headers ${headers})
set(CMAKE_C_FLAGS_INIT "-nostdlibinc")
foreach(folder include kernel/uapi kernel/uapi/${headers} kernel/android/uapi)
  string(APPEND CMAKE_C_FLAGS_INIT " -isystem ${KEEL_BIONIC}/libc/${folder}")
endforeach()
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-fuse-ld=lld-19 -nostdlib -L${KEEL_STUBS} -lc -Wl,--no-undefined")
endforeach()
string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -Wl,--entry=main")
find_program(CMAKE_LINKER ld.lld-19 REQUIRED)
find_program(CMAKE_OBJCOPY llvm-objcopy-19 REQUIRED)
