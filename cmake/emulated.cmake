# Builds for Linux on another architecture, and runs what it built under user-mode emulation:
#
#     cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/emulated.cmake \
#         -DKEEL_MACHINE=aarch64
#
# KEEL_MACHINE is aarch64, riscv64, s390x or ppc64le. Debian's packages for the first:
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static, and for the tests of C++
# g++-aarch64-linux-gnu. The static emulator, because what a test preloads is for the program under
# test, and a dynamic one would try to load it too.
set(KEEL_MACHINE aarch64 CACHE STRING "the architecture to build for")
set(KEEL_EMULATOR "" CACHE STRING "a command that starts the emulator")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KEEL_MACHINE KEEL_EMULATOR)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${KEEL_MACHINE})
string(REPLACE ppc64le powerpc64le triple ${KEEL_MACHINE}-linux-gnu)
set(CMAKE_C_COMPILER ${triple}-gcc)
find_program(KEEL_CXX ${triple}-g++)
if(KEEL_CXX)
  set(CMAKE_CXX_COMPILER ${KEEL_CXX})
else()
  set(CMAKE_CXX_COMPILER "")
endif()
set(CMAKE_FIND_ROOT_PATH /usr/${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR ${KEEL_EMULATOR} qemu-${KEEL_MACHINE}-static -L /usr/${triple})
